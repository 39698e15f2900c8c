"""Metrics over all passes of a stream.

States of fixed size (histograms, sums) merge exactly. Some metrics hold the rows themselves (GAUC, exact AUC): over a
stream without end they would hold all of it. Of those the total is the mean of the passes' results, weighted by rows:
what is compared within a pass was scored by one model.
"""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from heterps.errors import CheckpointError
from heterps.metrics import Metric, State
from heterps.writing import write_whole

__all__ = ["Totals"]

_SUM, _WEIGHT = "weighted sum", "weight"


class Totals:
    """States by metric; a value that grows, with the file it lies in between runs."""

    def __init__(self, metrics: Sequence[Metric], states: Mapping[str, State] | None = None) -> None:
        self._metrics = {each.name: each for each in metrics}
        self.states = dict(states or {})

    def add(self, states: Mapping[str, State], results: Mapping[str, Any], rows: int) -> None:
        """Take what was measured of a pass."""
        for name, metric in self._metrics.items():
            if _grows(metric, states[name]) or _is_mean(self.states.get(name)):
                self._add_mean(name, results[name], rows)
            else:
                before = self.states.get(name)
                self.states[name] = states[name] if before is None else metric.merge(before, states[name])

    def _add_mean(self, name: str, result: Any, rows: int) -> None:
        if isinstance(result, float) and math.isfinite(result):
            before = self.states.get(name, {_SUM: np.zeros(1), _WEIGHT: np.zeros(1)})
            self.states[name] = {_SUM: before[_SUM] + result * rows, _WEIGHT: before[_WEIGHT] + rows}

    def results(self) -> dict[str, Any]:
        """Return the metrics over everything so far; those of which there is no total are left out."""
        return {name: self._result(name, state) for name, state in self.states.items() if name in self._metrics}

    def _result(self, name: str, state: State) -> Any:
        if _is_mean(state):
            return float(state[_SUM][0] / state[_WEIGHT][0])
        return self._metrics[name].result(state)

    def write(self, path: Path) -> None:
        """Write all states to a file."""
        data = io.BytesIO()
        flat = {f"{name}\n{key}": array for name, state in self.states.items() for key, array in state.items()}
        np.savez_compressed(data, **flat)  # type: ignore[arg-type]
        write_whole(path, data.getvalue())

    @classmethod
    def read(cls, path: Path, metrics: Sequence[Metric]) -> Totals:
        """Read what :meth:`write` wrote; a metric that is new begins with nothing."""
        states: dict[str, dict[str, Any]] = {}
        try:
            with np.load(path, allow_pickle=False) as found:
                for key in found.files:
                    name, _, part = key.partition("\n")
                    states.setdefault(name, {})[part] = found[key]
        except (OSError, ValueError, EOFError) as error:
            raise CheckpointError(f"cannot read the metrics so far from {path}: {error}") from error
        return cls(metrics, states)


def _is_mean(state: State | None) -> bool:
    return state is not None and _WEIGHT in state and _SUM in state


def _grows(metric: Metric, state: State) -> bool:
    empty = metric.init()
    return any(array.shape != empty[key].shape for key, array in state.items())
