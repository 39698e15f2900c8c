"""Several metrics together: what a worker updates, ships and resets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from heterps.metrics.metric import Floats, Metric, State, metric

__all__ = ["MetricSet", "Running"]

States = Mapping[str, State]


@dataclass(frozen=True)
class MetricSet:
    """Metrics by name, with the same four functions over all their states."""

    metrics: tuple[Metric, ...]

    @classmethod
    def of(cls, metrics: Iterable[str | Metric] = ("auc", "logloss")) -> MetricSet:
        """Build from names and metrics; two of one name are refused."""
        chosen = tuple(metric(which) for which in metrics)
        names = [which.name for which in chosen]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"two metrics are called {twice[0]!r}: give one of them another name")
        return cls(chosen)

    def init(self) -> States:
        """Return the states of no rows."""
        return {which.name: which.init() for which in self.metrics}

    def update(self, states: States, prediction: Floats, label: Floats, **columns: Floats) -> States:
        """Return the states after a batch."""
        return {m.name: m.update(states[m.name], prediction, label, **columns) for m in self.metrics}

    def merge(self, a: States, b: States) -> States:
        """Return the states of both sets of rows."""
        return {m.name: m.merge(a[m.name], b[m.name]) for m in self.metrics}

    def results(self, states: States) -> dict[str, Any]:
        """Return the result of each metric."""
        return {m.name: m.result(states[m.name]) for m in self.metrics}


class Running:
    """A metric set with its states: updated batch by batch, read at any time, reset at each pass."""

    def __init__(self, metrics: Iterable[str | Metric] = ("auc", "logloss")) -> None:
        self.set = MetricSet.of(metrics)
        self.states = self.set.init()
        self.rows = 0

    def update(self, prediction: Floats, label: Floats, **columns: Floats) -> None:
        """Take a batch."""
        self.states = self.set.update(self.states, prediction, label, **columns)
        self.rows += len(label)

    def absorb(self, states: States, rows: int = 0) -> None:
        """Take the states of another worker."""
        self.states = self.set.merge(self.states, states)
        self.rows += rows

    def results(self) -> dict[str, Any]:
        """Return the results so far."""
        return self.set.results(self.states)

    def reset(self) -> None:
        """Begin a new pass."""
        self.states, self.rows = self.set.init(), 0
