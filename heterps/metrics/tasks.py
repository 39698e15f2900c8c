"""A metric of one of several tasks: predictions and labels have a column for each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from heterps.metrics.metric import Floats, Metric, State

__all__ = ["OfTask"]


@dataclass(frozen=True)
class OfTask:
    """A metric of the predictions and labels in one column, under a name of its own: ``auc_1``.

    Parameters
    ----------
    of
        The metric.
    task
        The column, from 0.
    """

    of: Metric
    task: int

    @property
    def name(self) -> str:
        """The metric's name and the number of the task."""
        return f"{self.of.name}_{self.task}"

    def init(self) -> State:
        """Return the state of no rows."""
        return self.of.init()

    def update(self, state: State, prediction: Floats, label: Floats, **columns: Floats) -> State:
        """Return the state after a batch."""
        return self.of.update(state, self._own(prediction), self._own(label), **columns)

    def _own(self, values: Floats) -> Floats:
        return np.asarray(values).reshape(len(values), -1)[:, self.task]

    def merge(self, a: State, b: State) -> State:
        """Return the state of both sets of rows."""
        return self.of.merge(a, b)

    def result(self, state: State) -> Any:
        """Return the metric of all rows seen."""
        return self.of.result(state)
