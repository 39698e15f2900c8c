"""Means of per-row errors: logloss, MAE, RMSE, accuracy. Sums are exact: any order of merging gives the same bits."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.metrics.exact import add_exact, merge_exact, round_exact, zero_exact
from heterps.metrics.metric import Floats, State, flat

__all__ = ["MAE", "RMSE", "Accuracy", "LogLoss", "Mean"]

_EPS = 1e-7


@dataclass(frozen=True)
class Mean:
    """The (weighted) mean of ``of(prediction, label)``; ``finally_`` is applied to the mean."""

    name: str
    of: Callable[[npt.NDArray[Any], npt.NDArray[Any]], npt.NDArray[Any]]
    finally_: Callable[[float], float] = float

    def init(self) -> State:
        """Return empty sums."""
        return {"sum": zero_exact(), "weight": zero_exact()}

    def update(self, state: State, prediction: Floats, label: Floats, **columns: Floats) -> State:
        """Add a batch."""
        values = self.of(flat(prediction), flat(label))
        given = columns.get("weight")
        weight = np.ones(len(values)) if given is None else flat(given)
        return {"sum": add_exact(state["sum"], values * weight), "weight": add_exact(state["weight"], weight)}

    def merge(self, a: State, b: State) -> State:
        """Add the sums."""
        return {name: merge_exact(a[name], b[name]) for name in ("sum", "weight")}

    def result(self, state: State) -> float:
        """Return the mean; NaN without rows."""
        weight = round_exact(state["weight"])
        return self.finally_(round_exact(state["sum"]) / weight) if weight > 0 else float("nan")


def _logloss(prediction: npt.NDArray[Any], label: npt.NDArray[Any]) -> npt.NDArray[Any]:
    p = np.clip(prediction, _EPS, 1 - _EPS)
    return np.asarray(-(label * np.log(p) + (1 - label) * np.log1p(-p)))


def _absolute(prediction: npt.NDArray[Any], label: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.asarray(np.abs(prediction - label))


def _squared(prediction: npt.NDArray[Any], label: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.asarray(np.square(prediction - label))


def _correct(prediction: npt.NDArray[Any], label: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.asarray((prediction > 0.5) == (label > 0.5), np.float64)


def LogLoss() -> Mean:  # noqa: N802 - a metric, named like the others
    """Mean of -log of the probability given to the label; predictions are clipped to [1e-7, 1 - 1e-7]."""
    return Mean("logloss", _logloss)


def MAE() -> Mean:  # noqa: N802 - a metric, named like the others
    """Mean absolute error."""
    return Mean("mae", _absolute)


def RMSE() -> Mean:  # noqa: N802 - a metric, named like the others
    """Square root of the mean squared error."""
    return Mean("rmse", _squared, math.sqrt)


def Accuracy() -> Mean:  # noqa: N802 - a metric, named like the others
    """Share of rows whose prediction is on the label's side of one half."""
    return Mean("accuracy", _correct)
