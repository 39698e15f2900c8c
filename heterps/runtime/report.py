"""From counts and metric states to Progress."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Any

from heterps.metrics import Metric, State
from heterps.runtime.host import Counts
from heterps.runtime.phases import Phases
from heterps.runtime.progress import Progress
from heterps.runtime.work import merge_states

__all__ = ["Reporter"]


class Reporter:
    """Makes Progress values; knows what the last one said.

    Parameters
    ----------
    epochs
        Passes of this run.
    metrics
        What is measured while training.
    before
        Counts at the start of the run: hosts may have trained before.
    """

    def __init__(self, epochs: int, metrics: Sequence[Metric], before: Counts) -> None:
        self.epochs = epochs
        self.metrics = {metric.name: metric for metric in metrics}
        self.phases = Phases()
        self.bad_rows = 0
        self._states: dict[str, State] = {}
        self._before = self._last = before
        self._began = self._then = perf_counter()

    def add(self, states: Mapping[str, State], phases: Mapping[str, float] | None = None, bad_rows: int = 0) -> None:
        """Take what a worker measured since it was last asked."""
        self._states = merge_states(self.metrics, self._states, states) if states else self._states
        self.phases.merge(phases or {})
        self.bad_rows += bad_rows

    def next_epoch(self) -> None:
        """Metrics start anew with every pass."""
        self._states = {}

    def due(self, every_s: float) -> bool:
        """Say whether the last report is that old."""
        return perf_counter() - self._then >= every_s

    def progress(
        self, counts: Counts, epoch: int, busy: Mapping[str, float] | None = None, done: bool = False
    ) -> Progress:
        """Return how far the run is."""
        now = perf_counter()
        since, all_ = counts.since(self._last), counts.since(self._before)
        basis = since if since.samples else all_
        elapsed = now - (self._then if since.samples else self._began)
        self._last, self._then = counts, now
        return Progress(
            epoch=epoch,
            epochs=self.epochs,
            batches=all_.batches,
            samples=all_.samples,
            seconds=now - self._began,
            samples_per_s=basis.samples / elapsed if elapsed else 0.0,
            loss=basis.loss / basis.samples if basis.samples else float("nan"),
            metrics=self.results(),
            staleness=all_.staleness / all_.batches if all_.batches else 0.0,
            skipped=all_.skipped,
            bad_rows=self.bad_rows,
            busy=dict(busy or {}),
            phases=dict(self.phases.seconds),
            done=done,
        )

    def results(self) -> dict[str, Any]:
        """Return the metrics of the pass so far."""
        return {name: self.metrics[name].result(state) for name, state in self._states.items()}
