"""Area under the ROC curve: binned as the vendors count it, and exact."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from heterps.metrics.metric import Floats, State, flat

__all__ = ["AUC", "ExactAUC", "area"]

BINS = 4095


def area(positive: npt.NDArray[Any], negative: npt.NDArray[Any]) -> float:
    """Return the chance that a positive ranks above a negative, from weights by ascending score; ties count half."""
    above = np.concatenate([np.cumsum(positive[::-1])[::-1][1:], np.zeros(1, positive.dtype)])
    pairs = float(positive.sum()) * float(negative.sum())
    return float((negative * (above + positive / 2)).sum()) / pairs if pairs > 0 else float("nan")


@njit(nogil=True, cache=True)
def _count(prediction: Any, label: Any, weight: Any, bins: Any, counts: Any) -> None:
    for i in range(len(prediction)):
        # not (p > 0) also catches NaN
        p = prediction[i] if prediction[i] > 0.0 else 0.0
        at = min(int(min(p, 1.0) * bins), bins - 1)
        counts[1 if label[i] > 0.5 else 0, at] += weight[i] if len(weight) else 1.0


@dataclass(frozen=True)
class AUC:
    """AUC over ``bins`` equal bins of the prediction in [0, 1].

    The state is two histograms of counts: they merge exactly. The result is within one bin's ties of the exact AUC.
    A ``weight`` column weighs rows.
    """

    bins: int = BINS
    name: str = "auc"

    def init(self) -> State:
        """Return empty histograms."""
        return {"counts": np.zeros((2, self.bins))}

    def update(self, state: State, prediction: Floats, label: Floats, **columns: Floats) -> State:
        """Count a batch."""
        counts = state["counts"].copy()
        weight = flat(columns["weight"]) if columns.get("weight") is not None else np.empty(0)
        _count(flat(prediction), flat(label), weight, self.bins, counts)
        return {"counts": counts}

    def merge(self, a: State, b: State) -> State:
        """Add the histograms."""
        return {"counts": a["counts"] + b["counts"]}

    def result(self, state: State) -> float:
        """Return the area."""
        return area(state["counts"][1], state["counts"][0])


@dataclass(frozen=True)
class ExactAUC:
    """AUC of all rows, equal to scikit-learn's; the state holds every prediction once (8 bytes a distinct value)."""

    name: str = "exact_auc"

    def init(self) -> State:
        """Return no predictions."""
        return {"scores": np.empty(0), "counts": np.empty((2, 0))}

    def update(self, state: State, prediction: Floats, label: Floats, **columns: Floats) -> State:
        """Add a batch."""
        scores, inverse = np.unique(flat(prediction), return_inverse=True)
        y = flat(label) > 0.5
        weight = flat(columns["weight"]) if columns.get("weight") is not None else np.ones(len(y))
        counts = np.stack([np.bincount(inverse, weight * side, len(scores)) for side in (~y, y)])
        return self.merge(state, {"scores": scores, "counts": counts})

    def merge(self, a: State, b: State) -> State:
        """Join the sorted predictions, adding the counts of equal ones."""
        both = np.concatenate([a["scores"], b["scores"]])
        scores, inverse = np.unique(both, return_inverse=True)
        counts = np.zeros((2, len(scores)))
        for side in (0, 1):
            np.add.at(counts[side], inverse, np.concatenate([a["counts"][side], b["counts"][side]]))
        return {"scores": scores, "counts": counts}

    def result(self, state: State) -> float:
        """Return the area."""
        return area(state["counts"][1], state["counts"][0])
