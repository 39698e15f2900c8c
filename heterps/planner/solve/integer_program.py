"""A linear program in integers, built column by column and row by row, and solved with a proof of its own."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from heterps.planner.solve.branching import Branching
from heterps.planner.solve.effort import Deadline, UndecidedError
from heterps.planner.solve.placement import Floats
from heterps.planner.solve.row_prices import LinearRows

__all__ = ["IntegerProgram", "ProgramSolution"]


@dataclass(frozen=True)
class ProgramSolution:
    """Values of the columns, what they cost, and what no solution undercuts."""

    values: Floats
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
        """Add a column of whole numbers; so is its limit."""
        return self._column(cost, float(np.floor(upper * (1 + 1e-9))), 1)

    def continuous(self, cost: float = 0.0, upper: float = np.inf) -> int:
        """Add a column of any non-negative numbers."""
        return self._column(cost, upper, 0)

    def part(self) -> int:
        """Add a column of any part of a whole, from 0 to 1: without a limit prices prove nothing."""
        return self._column(0.0, 1.0, 0)

    def row(self, entries: Iterable[tuple[int, float]], low: float, high: float) -> None:
        """Add a row; columns that occur twice are added up."""
        at = len(self.low)
        self.entries += [(at, column, value) for column, value in entries]
        self.low.append(low)
        self.high.append(high)

    def within(self, cost: float, scale: float, but: int) -> None:
        """Add the row that no solution costs more, in units of ``scale``, what one column costs left out."""
        entries = [(column, each / scale) for column, each in enumerate(self.cost) if each and column != but]
        self.row(entries, -np.inf, cost / scale)

    def solve(self, seconds: float, dearest: float = np.inf, close: float = 0.0) -> ProgramSolution | None:
        """Return the best solution found within the time that costs at most so much; None: it is proved that none does.

        Of solutions that are so ``close`` to one another any will do.

        Raises
        ------
        UndecidedError
            If neither was found in time.
        """
        from scipy.sparse import coo_matrix  # a third of a second to import

        rows, columns, values = map(np.array, zip(*self.entries, strict=True))
        matrix = coo_matrix((values, (rows, columns)), shape=(len(self.low), len(self.cost))).tocsr()
        program = LinearRows(matrix, np.array(self.low, float), np.array(self.high, float))
        most = np.array(self.upper, float)
        branching = Branching(np.array(self.cost), program, np.array(self.whole, np.bool_), dearest, close)
        found = branching.least((np.zeros_like(most), most), Deadline(seconds))
        if found.values is None and found.bound < np.inf:
            raise UndecidedError(f"no solution within {seconds:.3g} s, nor the proof that there is none", found.bound)
        return None if found.values is None else ProgramSolution(found.values, found.value, found.bound)
