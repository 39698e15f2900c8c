"""Evaluations of assignments, counted."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from heterps.planner.solve.effort import UndecidedError
from heterps.planner.solve.placement import Placement
from heterps.planner.solve.problem import Problem
from heterps.planner.solve.sizing import runs, sized

__all__ = ["Search", "SpentError", "Trials", "searched"]


class SpentError(Exception):
    """All evaluations are used up: the search ends here."""


class Trials:
    """The price of assignments at one throughput, until the budget is spent; the best is kept."""

    def __init__(self, problem: Problem, rows_per_second: float, budget: int) -> None:
        self.problem, self._x, self.left = problem, rows_per_second, budget
        self.best: Placement | None = None  # the cheapest that was feasible
        self.best_types: npt.NDArray[np.int64] | None = None  # the assignment behind it
        steps = list(itertools.pairwise(problem.order))
        may = np.array([problem.forbidden[i] == problem.forbidden[j] for i, j in steps])
        self.choices = [np.flatnonzero(row) for row in may]  # types that each Layer may run on
        self.may = may

    @property
    def layers(self) -> int:
        """Entries of an assignment."""
        return len(self.choices)

    def price(self, types: Sequence[int] | npt.NDArray[np.int64]) -> float:
        """Evaluate an assignment; inf where nothing carries it.

        Raises
        ------
        SpentError
            If no evaluation is left.
        """
        if self.left <= 0:
            raise SpentError
        self.left -= 1
        placement = sized(self.problem, runs(self.problem.order, [int(t) for t in types]), self._x)
        if placement is None:
            return np.inf
        if self.best is None or placement.price < self.best.price:
            self.best, self.best_types = placement, np.array(types, np.int64)
        return placement.price

    def drawn(self, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        """A random assignment of types that are allowed."""
        return np.array([rng.choice(types) for types in self.choices])


Search = Callable[[Trials, np.random.Generator], None]


def searched(search: Search, budget: int, seed: int) -> Callable[[Problem, float], Placement | None]:
    """Make a solver of a search that runs until its evaluations are spent."""

    def solve(problem: Problem, rows_per_second: float) -> Placement | None:
        trials = Trials(problem, rows_per_second, budget)
        with contextlib.suppress(SpentError):
            search(trials, np.random.default_rng(seed))
        if trials.best is None:  # a search that finds nothing has proved nothing
            raise UndecidedError(f"no feasible assignment among {budget - trials.left:,}")
        return trials.best

    return solve
