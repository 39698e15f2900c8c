"""Area under the ROC curve: binned as the vendors count it, and exact."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.compiled import njit
from heterps.metrics.metric import Floats, State, flat

__all__ = ["AUC", "UNIT", "BucketError", "ExactAUC", "area", "weights"]

BINS = 4095
# Weights are counted in steps of 2**-20, as integers: histograms then merge exactly, in any order.
UNIT = 1 << 20


def weights(rows: int, columns: dict[str, Floats]) -> npt.NDArray[np.int64]:
    """Return the rows' weights in units; 1 each without a ``weight`` column."""
    given = columns.get("weight")
    if given is None:
        return np.full(rows, UNIT, np.int64)
    return np.asarray(np.rint(flat(given) * UNIT), np.int64)


def area(positive: npt.NDArray[np.int64], negative: npt.NDArray[np.int64]) -> float:
    """Return the chance that a positive ranks above a negative, from weights by ascending score; ties count half."""
    above = positive.sum() - np.cumsum(positive)
    pairs = float(positive.sum()) * float(negative.sum())
    return float((negative * (above + positive / 2)).sum()) / pairs if pairs > 0 else float("nan")


@njit(nogil=True, cache=True)
def _count(prediction: Any, label: Any, weight: Any, bins: Any, counts: Any) -> None:
    for i in range(len(prediction)):
        # not (p > 0) also catches NaN
        p = prediction[i] if prediction[i] > 0.0 else 0.0
        at = min(int(min(p, 1.0) * bins), bins - 1)
        counts[1 if label[i] > 0.5 else 0, at] += weight[i]


@dataclass(frozen=True)
class AUC:
    """AUC over ``bins`` equal bins of the prediction in [0, 1].

    The state is two histograms of counts: they merge exactly. The result differs from the exact AUC by the ties that a
    bin makes. A ``weight`` column weighs rows.
    """

    bins: int = BINS
    name: str = "auc"

    def init(self) -> State:
        """Return empty histograms."""
        return {"counts": np.zeros((2, self.bins), np.int64)}

    def update(self, state: State, prediction: Floats, label: Floats, **columns: Floats) -> State:
        """Count a batch."""
        counts = state["counts"].copy()
        scores = flat(prediction)
        _count(scores, flat(label), weights(len(scores), columns), self.bins, counts)
        return {"counts": counts}

    def merge(self, a: State, b: State) -> State:
        """Add the histograms."""
        return {"counts": a["counts"] + b["counts"]}

    def result(self, state: State) -> float:
        """Return the area."""
        return area(state["counts"][1], state["counts"][0])


@dataclass(frozen=True)
class BucketError(AUC):
    """How far actual click rates are from predicted ones, bucket by bucket.

    Neighbouring bins (not more than ``span`` apart) are joined until a bucket's predicted rate is known to within
    ``bound`` (relative deviation of a binomial); the error is the mean of abs(actual / predicted - 1) over such
    buckets, weighted by rows.
    """

    name: str = "bucket_error"
    span: float = 0.01
    bound: float = 0.05

    def result(self, state: State) -> float:
        """Return the weighted error; NaN if no bucket has enough rows."""
        counts = state["counts"].astype(np.float64) / UNIT
        return float(_bucket_error(counts[1], counts.sum(0), self.span, self.bound))


@njit(nogil=True, cache=True)
def _bucket_error(clicks: Any, shows: Any, span: Any, bound: Any) -> Any:
    first = -1.0
    show_sum = click_sum = expected = 0.0
    error_sum = weight_sum = 0.0
    for i in range(len(shows)):
        rate = i / len(shows)
        if first < 0 or rate - first > span:
            first, show_sum, click_sum, expected = rate, 0.0, 0.0, 0.0
        show_sum += shows[i]
        click_sum += clicks[i]
        expected += rate * shows[i]
        if expected <= 0.0:
            continue
        predicted = expected / show_sum
        if np.sqrt((1.0 - predicted) / (predicted * show_sum)) < bound:
            error_sum += abs(click_sum / show_sum / predicted - 1.0) * show_sum
            weight_sum += show_sum
            first = -1.0
    return error_sum / weight_sum if weight_sum > 0 else np.nan


@dataclass(frozen=True)
class ExactAUC:
    """AUC of all rows, equal to scikit-learn's; the state holds each distinct prediction once (24 bytes)."""

    name: str = "exact_auc"

    def init(self) -> State:
        """Return no predictions."""
        return {"scores": np.empty(0), "counts": np.empty((2, 0), np.int64)}

    def update(self, state: State, prediction: Floats, label: Floats, **columns: Floats) -> State:
        """Add a batch."""
        scores, y = flat(prediction), flat(label) > 0.5
        weight = weights(len(scores), columns)
        return self.merge(state, {"scores": scores, "counts": np.stack([weight * ~y, weight * y])})

    def merge(self, a: State, b: State) -> State:
        """Join the predictions, adding the counts of equal ones."""
        scores, inverse = np.unique(np.concatenate([a["scores"], b["scores"]]), return_inverse=True)
        counts = np.zeros((2, len(scores)), np.int64)
        for side in (0, 1):
            np.add.at(counts[side], inverse, np.concatenate([a["counts"][side], b["counts"][side]]))
        return {"scores": scores, "counts": counts}

    def result(self, state: State) -> float:
        """Return the area; NaN if a prediction was NaN."""
        if np.isnan(state["scores"]).any():
            return float("nan")
        return area(state["counts"][1], state["counts"][0])
