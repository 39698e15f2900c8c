"""A linear program in integers, built column by column and row by row, solved by HiGHS through SciPy."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import numpy.typing as npt

from heterps.planner.solve.aside import answered
from heterps.planner.solve.effort import UndecidedError
from heterps.planner.solve.own_words import own_words_only

__all__ = ["IntegerProgram", "ProgramSolution"]

_PATIENCE = 1.5  # times its time limit, after which HiGHS is not waited for
_INFEASIBLE = 2  # scipy.optimize.milp: proved, unlike 1 (time) and 4 (memory and all else)


@dataclass(frozen=True)
class ProgramSolution:
    """Values of the columns, what they cost, and what no solution undercuts."""

    values: npt.NDArray[np.float64]
    value: float
    bound: float


@dataclass
class IntegerProgram:
    """Minimise ``cost @ x`` with ``low <= A x <= high``, ``0 <= x <= upper``."""

    cost: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    whole: list[int] = field(default_factory=list)
    low: list[float] = field(default_factory=list)
    high: list[float] = field(default_factory=list)
    entries: list[tuple[int, int, float]] = field(default_factory=list)
    turns: dict[int, list[tuple[int, float]]] = field(default_factory=dict)

    def _column(self, cost: float, upper: float, whole: int) -> int:
        self.cost.append(float(cost))
        self.upper.append(upper)
        self.whole.append(whole)
        return len(self.cost) - 1

    def binary(self, cost: float = 0.0) -> int:
        """Add a column that is 0 or 1."""
        return self._column(cost, 1.0, 1)

    def integer(self, cost: float = 0.0, upper: float = np.inf) -> int:
        """Add a column of whole numbers.

        So is its limit: with limits of 1.000000001 HiGHS 1.12 was seen to prove that nothing solves a program of which
        it knew a solution.
        """
        return self._column(cost, float(np.floor(upper * (1 + 1e-9))), 1)

    def continuous(self, cost: float = 0.0, upper: float = np.inf) -> int:
        """Add a column of any non-negative numbers."""
        return self._column(cost, upper, 0)

    def part(self) -> int:
        """Add a column of any part of a whole, from 0 to 1.

        Rows say so too; but of programs with columns without a limit, which it was not to simplify, HiGHS 1.12 was
        seen to prove what is not so.
        """
        return self._column(0.0, 1.0, 0)

    def row(self, entries: Iterable[tuple[int, float]], low: float, high: float) -> None:
        """Add a row; columns that occur twice are added up."""
        at = len(self.low)
        self.entries += [(at, column, value) for column, value in entries]
        self.low.append(low)
        self.high.append(high)

    def dearest(self, cost: float, scale: float, but: int = -1) -> None:
        """Add the row that no solution costs more, in units of ``scale``: so much is pruned before one is found.

        What one column costs may be left out.
        """
        entries = [(column, each / scale) for column, each in enumerate(self.cost) if each and column != but]
        self.row(entries, -np.inf, cost / scale)

    def solve(self, seconds: float) -> ProgramSolution | None:
        """Return the best solution found within the time; None if HiGHS has proved, twice, that there is none.

        Of a program that it was not to simplify first, HiGHS 1.12 was seen to prove that nothing solves it where
        something does. So it may simplify, and what it says then of having no solution must hold without, too.

        Raises
        ------
        UndecidedError
            If it ended for another reason (time, memory) without a solution.
        """
        return self._solved(seconds, presolve=True) or self._solved(seconds, presolve=False)

    def _solved(self, seconds: float, presolve: bool) -> ProgramSolution | None:
        from scipy.optimize import Bounds, LinearConstraint, milp  # a third of a second to import
        from scipy.sparse import coo_matrix

        rows, columns, values = map(np.array, zip(*self.entries, strict=True))
        matrix = coo_matrix((values, (rows, columns)), shape=(len(self.low), len(self.cost))).tocsr()
        limits, bounds = LinearConstraint(matrix, self.low, self.high), Bounds(0, self.upper)
        options = {"time_limit": seconds, "mip_rel_gap": 0.0, "presolve": presolve}
        call = partial(
            milp, self.cost, constraints=limits, bounds=bounds, integrality=np.array(self.whole), options=options
        )
        with own_words_only:
            result = answered(call, _PATIENCE * seconds + 1.0)
        if result.x is None and result.status == _INFEASIBLE:
            return None
        if result.x is None:
            raise UndecidedError(f"HiGHS ended without an answer: {result.message}")
        proved = -np.inf if result.mip_dual_bound is None else float(result.mip_dual_bound)
        return ProgramSolution(np.asarray(result.x), float(result.fun), proved)
