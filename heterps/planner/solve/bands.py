"""Bounds by bands: plans with few batches in flight, and plans with many, are bounded apart.

How many batches a plan has in flight for each row a second, when it is played, follows from the whole of it, and all
its stages need room for them; a search that goes from stage to stage knows only what a stage knows. So plans are
divided by that number. In a band from a to b every plan has at least a, for which all stages must have room; and plans
of which more than b are counted, by anything that never counts more than there are (``Problem.way_of``, sums over
types), do not lie in it. The worst of all bands is what no plan beats. A band in which a plan might still be better
than the best that is known is divided in two: where its own plan is, or in the middle.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from heterps.planner.goals import Goal
from heterps.planner.solve.dag import over_downsets
from heterps.planner.solve.effort import Deadline, UndecidedError
from heterps.planner.solve.large import FEW_STATES, LargeOutcome, planned
from heterps.planner.solve.problem import Problem
from heterps.planner.solve.search import Solve
from heterps.planner.solve.type_program import TypeProgram

__all__ = ["Bands"]

_MOST_BANDS = 48
_NARROW = 1.02  # ends of a band, of each other, at which it is not divided
_BELOW = 1 - 1e-7  # "just below": so that a plan is not in both parts of a band that is divided at it
_CLOSE = 1e-2  # relative distance from the best plan at which a bound is close enough


@dataclass(order=True)
class _Band:
    """Plans with so many batches in flight; ``rank`` is lowest for the one that decides the bound."""

    rank: float
    bound: float = field(compare=False)
    low: float = field(compare=False)
    high: float = field(compare=False)
    divides_at: float | None = field(compare=False)  # None: that would not help


class Bands:
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
        every, complete = over_downsets(problem, FEW_STATES)
        self._is_listed = complete and every.states <= FEW_STATES
        self._floor = goal.bound(problem)

    def closer(self, bound: float) -> float:
        """A value that no plan beats, given one: the band that decides it is divided until it is close to the best."""
        bands = [self._band(bound, self._problem.least_way, np.inf, None)]
        for _ in range(_MOST_BANDS):
            worst = bands[0]
            if self._is_close(worst.bound) or worst.divides_at is None or self._deadline.over:
                break
            heapq.heappop(bands)
            for low, high in ((worst.low, worst.divides_at * _BELOW), (worst.divides_at * _BELOW, worst.high)):
                heapq.heappush(bands, self._bounded(worst.bound, low, high))
        return bands[0].bound

    def _is_close(self, bound: float) -> bool:
        value = self._best()
        return bound <= value * (1 + _CLOSE) if self._goal.rises else bound >= value * (1 - _CLOSE)

    def _band(self, bound: float, low: float, high: float, way: float | None) -> _Band:
        """A band, to be divided where its plan is, or in the middle."""
        middle = float(np.sqrt(low * high)) if np.isfinite(high) else 2 * low
        at = middle if way is None else min(max(way, low * _NARROW), high)
        divides = at if low * _NARROW <= at and high >= low * _NARROW**2 else None
        return _Band(-bound if self._goal.rises else bound, bound, low, high, divides)

    def _bounded(self, known: float, low: float, high: float) -> _Band:
        """A band with its bound, which is no worse than that of what it is a part of."""
        problem = replace(self._problem, way_from=low, way_to=high)
        try:
            bound, way = self._searched(problem) if self._is_listed else (self._by_types(problem), None)
        except UndecidedError:
            bound, way = known, None
        bound = min(bound, known) if self._goal.rises else max(bound, known)
        return self._band(bound, low, high, way)

    def _searched(self, problem: Problem) -> tuple[float, float | None]:
        """The best over all cuts, and how many batches it has in flight."""
        outcome = planned(problem, self._goal, self._solve, self._deadline, beat=self._best())
        if outcome.found is None:
            return self._best(), None
        self._tried(outcome)
        found = outcome.found
        return found.bound, outcome.problem.way_of(found.placement.segments, found.rows_per_second)

    def _by_types(self, problem: Problem) -> float:
        """A bound from the program over types, if need be with one stage of each type as it is."""
        program = TypeProgram(problem)
        if not program.applies:
            return self._floor
        bound = self._goal.closer(program, self._best(), self._floor, self._deadline)
        if self._is_close(bound) or not program.can_be_anchored:
            return bound
        return self._goal.closer(TypeProgram(problem, anchored=True), self._best(), bound, self._deadline)
