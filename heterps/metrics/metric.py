"""What a metric is: a state that starts empty, takes batches, merges with others, and gives a number."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from heterps.errors import UnknownKindError

__all__ = ["METRICS", "Custom", "Floats", "Metric", "State", "merge_all", "metric", "register_metric"]

Floats = npt.NDArray[Any]
# Named arrays: they travel between workers as they are, and are saved without pickle.
State = Mapping[str, npt.NDArray[Any]]


@runtime_checkable
class Metric(Protocol):
    """Four pure functions and a name.

    ``merge`` is associative and commutative up to the result, so workers' states may meet in any order; where sums are
    involved they are exact (see :mod:`heterps.metrics.exact`), so that the result has the same bits too.
    """

    @property
    def name(self) -> str:
        """The name in reports."""

    def init(self) -> State:
        """Return the state of no rows."""

    def update(self, state: State, prediction: Floats, label: Floats, **columns: Floats) -> State:
        """Return the state after a batch; ``columns`` are further columns by name (weight, group)."""

    def merge(self, a: State, b: State) -> State:
        """Return the state of both sets of rows."""

    def result(self, state: State) -> Any:
        """Return the metric of all rows seen; NaN if it is not defined for them."""


@dataclass(frozen=True)
class Custom:
    """A metric from four functions; they must be picklable to run on a cluster."""

    name: str
    init: Callable[[], State]
    update: Callable[..., State]
    merge: Callable[[State, State], State]
    result: Callable[[State], Any]


METRICS: dict[str, Callable[[], Metric]] = {}


def register_metric(name: str, make: Callable[[], Metric]) -> None:
    """Make a metric known by name (``metrics=["auc", "mine"]``)."""
    METRICS[name] = make


def metric(which: str | Metric) -> Metric:
    """Return a metric by name, or the one given."""
    if not isinstance(which, str):
        return which
    if which not in METRICS:
        raise UnknownKindError(f"no metric is called {which!r}; there are {', '.join(sorted(METRICS))}")
    return METRICS[which]()


def merge_all(which: Metric, states: Iterable[State]) -> State:
    """Merge any number of states."""
    total = which.init()
    for state in states:
        total = which.merge(total, state)
    return total


def flat(values: Any, dtype: npt.DTypeLike = np.float64) -> npt.NDArray[Any]:
    """Return a column ``[n]`` or ``[n, 1]`` as one dimension."""
    return np.asarray(values, dtype).reshape(-1)
