"""Means and sums over rows. Sums are exact: any order of merging gives the same bits."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.metrics.exact import add_exact, merge_exact, round_exact, zero_exact
from heterps.metrics.metric import Floats, State, flat

__all__ = ["MAE", "MSE", "RMSE", "Accuracy", "Bundle", "CrossEntropy", "LogLoss", "Mean", "Ratio", "TopAccuracy"]
__all__ += ["actual_ctr", "copc", "ctr_bundle", "predicted_ctr"]

_EPS = 1e-7
Array = npt.NDArray[Any]
PerRow = Callable[[Array, Array], Array]


@dataclass(frozen=True)
class Bundle:
    """Several exact (weighted) sums over rows; ``finish`` makes the result of them."""

    name: str
    sums: tuple[tuple[str, PerRow], ...]
    finish: Callable[[dict[str, float]], Any]

    def init(self) -> State:
        """Return empty sums."""
        return {name: zero_exact() for name, _ in self.sums} | {"bad": np.zeros(1, np.int64)}

    def update(self, state: State, prediction: Floats, label: Floats, **columns: Floats) -> State:
        """Add a batch; rows whose value is not finite are remembered, and make the result NaN."""
        p, y = self._arrays(prediction, label)
        weight = 1.0 if columns.get("weight") is None else flat(columns["weight"])
        added = dict(state)
        bad = np.zeros(len(y), bool)
        for name, of in self.sums:
            values = np.broadcast_to(of(p, y) * weight, len(y))
            fine = np.isfinite(values)
            bad |= ~fine
            added[name] = add_exact(state[name], values[fine])
        return added | {"bad": state["bad"] + bad.sum()}

    def _arrays(self, prediction: Floats, label: Floats) -> tuple[Array, Array]:
        return flat(prediction), flat(label)

    def merge(self, a: State, b: State) -> State:
        """Add the sums."""
        return {name: merge_exact(a[name], b[name]) for name, _ in self.sums} | {"bad": a["bad"] + b["bad"]}

    def result(self, state: State) -> Any:
        """Return what ``finish`` makes of the sums."""
        if state["bad"][0]:
            return self.finish(dict.fromkeys((name for name, _ in self.sums), math.nan))
        return self.finish({name: round_exact(state[name]) for name, _ in self.sums})


def _ones(prediction: Array, label: Array) -> Array:
    return np.ones(len(label))


def _prediction(prediction: Array, label: Array) -> Array:
    return prediction


def _label(prediction: Array, label: Array) -> Array:
    return label


def _quotient(sums: dict[str, float]) -> float:
    return sums["sum"] / sums["weight"] if sums["weight"] else math.nan


def _root(sums: dict[str, float]) -> float:
    return math.sqrt(_quotient(sums))


def Mean(name: str, of: PerRow, finish: Callable[[dict[str, float]], Any] = _quotient) -> Bundle:  # noqa: N802
    """Return the (weighted) mean over rows of ``of(prediction, label)``."""
    return Bundle(name, (("sum", of), ("weight", _ones)), finish)


def Ratio(name: str, above: PerRow, below: PerRow) -> Bundle:  # noqa: N802
    """Return the quotient of two sums over rows."""
    return Bundle(name, (("sum", above), ("weight", below)), _quotient)


def _logloss(prediction: Array, label: Array) -> Array:
    p = np.clip(prediction, _EPS, 1 - _EPS)
    return np.asarray(-(label * np.log(p) + (1 - label) * np.log1p(-p)))


def _absolute(prediction: Array, label: Array) -> Array:
    return np.asarray(np.abs(prediction - label))


def _squared(prediction: Array, label: Array) -> Array:
    return np.asarray(np.square(prediction - label))


def _correct(prediction: Array, label: Array) -> Array:
    return np.asarray((prediction > 0.5) == (label > 0.5), np.float64)


def _sigmoid(prediction: Array, label: Array) -> Array:
    return np.asarray(1.0 / (1.0 + np.exp(-prediction)))


def LogLoss() -> Bundle:  # noqa: N802
    """Mean of -log of the probability given to the label; predictions are clipped to [1e-7, 1 - 1e-7]."""
    return Mean("logloss", _logloss)


def MAE() -> Bundle:  # noqa: N802
    """Mean absolute error."""
    return Mean("mae", _absolute)


def MSE() -> Bundle:  # noqa: N802
    """Mean squared error."""
    return Mean("mse", _squared)


def RMSE() -> Bundle:  # noqa: N802
    """Square root of the mean squared error."""
    return Mean("rmse", _squared, _root)


def Accuracy() -> Bundle:  # noqa: N802
    """Share of rows whose prediction is on the label's side of one half."""
    return Mean("accuracy", _correct)


def actual_ctr() -> Bundle:
    """Mean of the labels."""
    return Mean("actual_ctr", _label)


def predicted_ctr() -> Bundle:
    """Mean of the predictions."""
    return Mean("predicted_ctr", _prediction)


def copc() -> Bundle:
    """Clicks over predicted clicks: 1 for a calibrated model."""
    return Ratio("copc", _label, _prediction)


def ctr_bundle() -> Bundle:
    """Six sums at once: squared and absolute error, predictions, their sigmoids (q), positives, rows."""
    sums = (
        ("sqrerr", _squared), ("abserr", _absolute), ("prob", _prediction), ("q", _sigmoid), ("pos", _label),
        ("total", _ones),
    )  # fmt: skip
    return Bundle("ctr_bundle", sums, dict)


def TopAccuracy(k: int = 1) -> Bundle:  # noqa: N802
    """Share of rows whose class is among the ``k`` highest of the predictions ``[n, classes]``: acc1, acc5."""
    return _OfClasses(f"acc{k}", (("sum", _Among(k)), ("weight", _ones)), _quotient)


def CrossEntropy() -> Bundle:  # noqa: N802
    """Mean of minus the log of the probability that the predictions ``[n, classes]`` give to a row's class."""
    return _OfClasses("cross_entropy", (("sum", _own_logloss), ("weight", _ones)), _quotient)


def _own_logloss(prediction: Array, label: Array) -> Array:
    own = np.take_along_axis(prediction, label.astype(np.int64)[:, None], 1)[:, 0]
    return np.asarray(-np.log(np.clip(own, _EPS, 1)))


class _OfClasses(Bundle):
    """Sums over predictions with a score a class."""

    def _arrays(self, prediction: Floats, label: Floats) -> tuple[Array, Array]:
        return np.asarray(prediction, np.float64), flat(label)


@dataclass(frozen=True)
class _Among:
    """1 where fewer than k classes score higher than the row's own; an equal score is lower if it comes later."""

    k: int

    def __call__(self, prediction: Array, label: Array) -> Array:
        own = label.astype(np.int64)
        mine = np.take_along_axis(prediction, own[:, None], 1)
        before = np.arange(prediction.shape[1]) < own[:, None]
        higher = (prediction > mine) | ((prediction == mine) & before)
        return np.where(np.isfinite(prediction).all(1), higher.sum(1) < self.k, np.nan)
