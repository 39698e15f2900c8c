"""What no point within a linear program's rows and limits undercuts, from prices of its rows: nobody's word is taken.

For any prices y of the rows, ``cost @ x = y @ (A x) + (cost - y @ A) @ x``. A row with a positive price is worth at
least its price times its low end, one with a negative price at least that times its high end, and what is left of the
cost of a column at least that times its least or its most. So every y bounds the cost from below, wherever y comes
from; and if nothing is to be paid and that is more than nothing, there is no point at all. A solver's prices bound
best, but that they do is not needed.

**Rounding.** A sum of n products in floating point is off by less than n + 1 units of rounding times the sum of their
sizes. So much is taken off the cost that is left of each column, of which no point has less than nothing, and of each
sum that follows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from heterps.planner.solve.placement import Floats

__all__ = ["Ends", "LinearRows"]

_UNIT = 2.0**-53  # of rounding
_KEPT = 1e-6  # of what a row adds up, by which it may be missed
Ends = tuple[Floats, Floats]  # the least, never below 0, and the most of each column


@dataclass(frozen=True)
class LinearRows:
    """``low <= matrix @ x <= high``, the matrix as one of SciPy's in rows."""

    matrix: Any
    low: Floats
    high: Floats

    @cached_property
    def _sizes(self) -> Any:
        return abs(self.matrix)

    @cached_property
    def _longest(self) -> int:
        """Entries of the column that has most."""
        return int(np.bincount(self.matrix.indices, minlength=1).max())

    def least(self, cost: Floats, prices: Floats, limits: Ends) -> float:
        """What ``cost @ x`` is at least, of points within the limits, by these prices."""
        ends = np.where(prices > 0, self.low, self.high)
        prices = np.where(np.isfinite(ends), prices, 0.0)
        worth = prices * np.where(np.isfinite(ends), ends, 0.0)
        off = (self._longest + 4) * _UNIT * (abs(cost) + abs(prices) @ self._sizes)
        left = cost - prices @ self.matrix - off
        columns = left * np.where(left < 0, limits[1], limits[0])
        sizes = float(abs(worth).sum() + abs(columns).sum())
        return float(worth.sum() + columns.sum()) - (len(worth) + len(columns) + 4) * _UNIT * sizes

    def holds(self, values: Floats) -> bool:
        """Whether values keep all rows, as far as a solver is asked to keep them."""
        rows, slack = self.matrix @ values, _KEPT * (1 + self._sizes @ abs(values))
        return bool(((rows >= self.low - slack) & (rows <= self.high + slack)).all())

    def excludes(self, prices: Floats, limits: Ends) -> bool:
        """Whether prices, or their opposites, prove that no point is within rows and limits."""
        nothing = np.zeros(self.matrix.shape[1])
        return any(self.least(nothing, sign * prices, limits) > 0 for sign in (1.0, -1.0))
