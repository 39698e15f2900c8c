"""Limits of columns that follow from the rows of a program, one row at a time.

What all other columns of a row take at the least leaves so much for one of them. Whole numbers are rounded to what they
can be, and that is repeated while it helps. A row that its columns exceed even at their least is kept by nothing.
Limits that were so found hold for every point of the program, up to a slack that is far more than what is rounded on
the way.
"""

from __future__ import annotations

import numpy as np

from heterps.planner.solve.placement import Bools, Floats
from heterps.planner.solve.row_prices import Ends, LinearRows

__all__ = ["Narrowing"]

_ROUNDS = 100
_SLACK = 1e-9  # of what a row adds up, by which rows and limits may be exceeded
_WHOLE = 1e-6  # by which a whole number may be missed
_MUCH = 1e-3  # of the distance of two limits: less is not worth another round


class Narrowing:
    """The rows of a program as ``matrix @ x <= most``, each entry by its row; the last is what it costs."""

    def __init__(self, rows: LinearRows, cost: Floats, whole: Bools) -> None:
        from scipy.sparse import csr_matrix, vstack

        above, below = np.isfinite(rows.high), np.isfinite(rows.low)
        entries = vstack([rows.matrix[above], -rows.matrix[below], csr_matrix(cost[None])]).tocoo()
        kept = entries.data != 0
        self._row, self._column, self._value = entries.row[kept], entries.col[kept], entries.data[kept]
        self._most, self._whole = np.concatenate([rows.high[above], -rows.low[below], [np.inf]]), whole
        self._up = self._value > 0

    def within(self, limits: Ends, dearest: float) -> Ends | None:
        """Return narrower limits of all that costs at most so much; None if nothing does within all rows."""
        least, most = limits[0].copy(), limits[1].copy()
        self._most[-1] = dearest
        for _ in range(_ROUNDS):
            before = least.copy(), most.copy()
            if not self._narrow(least, most) or (least > most + _SLACK * (1 + abs(most))).any():
                return None
            np.minimum(least, most, out=least)
            wide = before[1] - before[0]
            much = _MUCH * np.maximum(np.where(np.isfinite(wide), wide, 0.0), _SLACK)
            if not ((least > before[0] + much) | (most < before[1] - much)).any():
                break
        return least, most

    def _narrow(self, least: Floats, most: Floats) -> bool:
        """Narrow limits by each row once; False if one cannot be kept."""
        count = len(self._most)
        taken = self._value * np.where(self._up, least[self._column], most[self._column])
        endless = np.isinf(taken)
        finite = np.where(endless, 0.0, taken)
        total = np.bincount(self._row, finite, count)
        slack = _SLACK * (np.bincount(self._row, abs(finite), count) + abs(self._most))
        without_end = np.bincount(self._row, endless, count)
        if ((without_end == 0) & (total > self._most + slack)).any():
            return False
        known = without_end[self._row] - endless == 0
        room = (self._most + slack - total)[self._row] + finite
        ends = np.where(known, room / self._value, np.where(self._up, np.inf, -np.inf))
        whole = self._whole[self._column]
        up, down = self._up, ~self._up
        np.minimum.at(most, self._column[up], np.where(whole, np.floor(ends + _WHOLE), ends)[up])
        np.maximum.at(least, self._column[down], np.where(whole, np.ceil(ends - _WHOLE), ends)[down])
        return True
