"""How many rows each class has."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from heterps.metrics.metric import Floats, State

__all__ = ["LabelCounts"]


@dataclass(frozen=True)
class LabelCounts:
    """Rows of each of the labels 0 to ``classes - 1``; predictions do not matter.

    Examples
    --------
    >>> counts = LabelCounts(2)
    >>> counts.result(counts.update(counts.init(), np.zeros(3), np.array([0.0, 1.0, 1.0])))
    [1, 2]
    """

    classes: int
    name: str = "label_counts"

    def init(self) -> State:
        """Return no rows."""
        return {"rows": np.zeros(self.classes, np.int64)}

    def update(self, state: State, prediction: Floats, label: Floats, **columns: Floats) -> State:
        """Count a batch; what is no class is not counted."""
        flat = np.asarray(label).ravel()
        whole = flat[(flat == np.round(flat)) & (flat >= 0) & (flat < self.classes)].astype(np.int64)
        return self.merge(state, {"rows": np.bincount(whole, minlength=self.classes)})

    def merge(self, a: State, b: State) -> State:
        """Add both."""
        return {"rows": a["rows"] + b["rows"]}

    def result(self, state: State) -> list[int]:
        """Return the rows of each class."""
        return [int(rows) for rows in state["rows"]]
