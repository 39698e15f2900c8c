"""Metric states of the batches that one thread has seen."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from heterps.data import Batch
from heterps.errors import DataError
from heterps.metrics import Metric, State
from heterps.ragged import Ragged
from heterps.runtime.batch.feeds import other_columns

__all__ = ["KeptMetrics", "merge_states"]


class KeptMetrics:
    """Metrics and their states; ``label`` is the column they compare predictions with, None where there is none."""

    def __init__(self, metrics: Sequence[Metric], label: str | None) -> None:
        self._metrics = {metric.name: metric for metric in metrics} if label is not None else {}
        self._label = label
        self._lock = threading.Lock()  # the driver collects states from another thread
        self._states = self._fresh()  # one for each metric, of the batches since they were last taken

    def __bool__(self) -> bool:
        return bool(self._metrics)

    def _fresh(self) -> dict[str, State]:
        return {name: metric.init() for name, metric in self._metrics.items()}

    def update(self, prediction: Any, batch: Batch) -> None:
        """Take the predictions of a batch."""
        assert self._label is not None
        label = batch[self._label]
        if isinstance(label, Ragged):
            return
        columns = other_columns(batch, self._label)
        with self._lock:
            for name, metric in self._metrics.items():
                try:
                    self._states[name] = metric.update(self._states[name], prediction, label, **columns)
                except KeyError as error:
                    raise DataError(f"metric {name!r}: {error.args[0]}") from error

    def take(self) -> dict[str, State]:
        """Return the states since the last call."""
        with self._lock:
            states, self._states = self._states, self._fresh()
        return states


def merge_states(metrics: Mapping[str, Metric], a: dict[str, State], b: Mapping[str, State]) -> dict[str, State]:
    """Merge metric states of two workers."""
    return {name: metrics[name].merge(a[name], b[name]) if name in a else b[name] for name in b}
