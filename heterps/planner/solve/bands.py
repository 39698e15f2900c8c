"""Bounds by bands: plans with few batches in flight, and plans with many, are bounded apart.

How many batches a plan has in flight, when it is played, follows from the whole of it, and all its stages need room for
them; a search that goes from stage to stage knows only what a stage knows. So plans are divided by that number M. In a
band from a to b every plan has at least a, for which all stages must have room; and plans of which more than b are
counted, by anything that never counts more than there are (``Problem.way_of``, sums over types), do not lie in it. The
worst of all bands is what no plan beats. A band in which a plan might still be better than the best that is known is
divided in two: where its own plan is, or in the middle.

Where all cuts are listed (:class:`WholeBands`), M itself is divided. Lanes of one type have whole batches, all as many,
so L of them are in a band from a to b only if a multiple of L is; the least price at X in a band never falls with X,
since what a plan is at some X it is at every lower one. Fractions of units have room for ``a/X`` at the highest X there
is, for each row a second. Where cuts are not listed, plans are divided by what is bought, too
(:mod:`heterps.planner.solve.type_bands`).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

import numpy as np

from heterps.planner.goals import Goal
from heterps.planner.solve.effort import Deadline, UndecidedError
from heterps.planner.solve.fair_prices import fairly_priced
from heterps.planner.solve.large import LargeOutcome
from heterps.planner.solve.placement import TOLERANCE
from heterps.planner.solve.problem import Problem
from heterps.planner.solve.search import SearchResult, Solve

__all__ = ["Bands", "WholeBands"]

_MOST_BANDS = 4096
_CLOSE = 1.9e-2  # relative distance from the best plan at which a bound is close enough

Box = TypeVar("Box")  # what plans of a band lie between


@dataclass(order=True)
class _Band(Generic[Box]):
    """Plans within a box; ``rank`` is lowest for the one that decides the bound."""

    rank: float
    bound: float = field(compare=False)
    parts: tuple[Box, ...] = field(compare=False)  # into which it is divided; none: that would not help


class Bands(Generic[Box]):
    """Plans of a problem, divided by how many batches they have in flight.

    ``best()`` is the value of the best plan so far, of which ``tried`` may find a better one in what bands have.
    """

    def __init__(
        self,
        problem: Problem,
        goal: Goal,
        solve: Solve,
        best: Callable[[], float],
        tried: Callable[[LargeOutcome], object],
        deadline: Deadline,
    ) -> None:
        self._problem, self._goal, self._solve, self._deadline = problem, goal, solve, deadline
        self._best, self._tried = best, tried
        self._floor = goal.bound(problem)

    def closer(self, bound: float) -> float:
        """A value that no plan beats, given one: the band that decides it is divided until it is close to the best."""
        bands = [self._band(bound, self._first())]
        for _ in range(_MOST_BANDS):
            worst = bands[0]
            if self._is_close(worst.bound) or not worst.parts or self._deadline.over:
                break
            heapq.heappop(bands)
            for box in worst.parts:
                heapq.heappush(bands, self._bounded(worst.bound, box))
        return bands[0].bound

    def _is_close(self, bound: float) -> bool:
        value = self._best()
        return bound <= value * (1 + _CLOSE) if self._goal.rises else bound >= value * (1 - _CLOSE)

    def _bounded(self, known: float, box: Box) -> _Band[Box]:
        """A band with its bound, which is no worse than that of what it is a part of."""
        try:
            bound, parts = self._look(known, box)
        except UndecidedError:
            bound, parts = known, ()
        return self._band(min(bound, known) if self._goal.rises else max(bound, known), parts)

    def _band(self, bound: float, parts: tuple[Box, ...]) -> _Band[Box]:
        return _Band(-bound if self._goal.rises else bound, bound, parts)

    def _first(self) -> tuple[Box, ...]:
        """The parts into which all plans are divided first."""
        raise NotImplementedError

    def _look(self, known: float, box: Box) -> tuple[float, tuple[Box, ...]]:
        """The bound of a band, given that of what it is a part of, and its parts (none: dividing it does not help)."""
        raise NotImplementedError


class WholeBands(Bands[tuple[float, float]]):
    """Plans over the cuts that a problem has, divided by the number of batches that are in flight."""

    def _first(self) -> tuple[tuple[float, float], ...]:
        least, most = self._goal.rates(self._best(), self._floor)
        self._fastest = most
        low = max(1.0, float(np.ceil(self._problem.least_way * least * (1 - TOLERANCE))))
        return (low, 2 * low - 1), (2 * low, np.inf)

    def _look(self, known: float, box: tuple[float, float]) -> tuple[float, tuple[tuple[float, float], ...]]:
        """The best over all cuts, unless there is none that is better than the best so far."""
        low, high = box
        way = max(self._problem.way_from, low / self._fastest)
        problem = replace(self._problem, way_from=way, flight_from=low, flight_to=high)
        problem = fairly_priced(problem, self._goal.target)
        found = self._goal.search(problem, self._solve, self._deadline, self._best())
        if found is None:
            return self._best(), ()
        counted = self._counted(problem, found)
        if problem.has_room(found.placement.segments, counted):
            self._tried(LargeOutcome(problem, found, True))
        return found.bound, self._divided(low, high, counted, _whole(problem, found, low))

    def _counted(self, problem: Problem, found: SearchResult) -> float:
        """Batches that a plan has in flight, at the least, in lanes of whole ones."""
        way = problem.way_of(found.placement.segments)
        return _whole(problem, found, way * found.rows_per_second)

    def _divided(self, low: float, high: float, counted: float, whole: float) -> tuple[tuple[float, float], ...]:
        """The parts of a band, divided so that its plan, which has so many in flight, is not in the lower one.

        ``whole`` is what its lanes have, if the band is sure of no more than its fewest.
        """
        at = min(counted, high) if counted > low else whole
        middle = np.ceil(np.sqrt(low * high)) if np.isfinite(high) else 2 * low
        at = float(min(at, max(middle, low + 1)))
        return ((low, at - 1), (at, high)) if at > low else ()


def _whole(problem: Problem, found: SearchResult, flight: float) -> float:
    """Batches that the lanes of a plan have, whole ones, if so many must be in flight."""
    first = found.placement.segments[0]
    lanes = first.units + first.other_units
    if first.other >= 0:  # lanes of two types need not have as many
        return float(max(lanes * problem.held, np.ceil(flight * (1 - TOLERANCE))))
    return float(lanes * max(problem.held, np.ceil(flight / lanes * (1 - TOLERANCE))))
