"""Limits of columns that follow from the rows of a program, one row at a time.

What all other columns of a row take at the least leaves so much for one of them. Whole numbers are rounded to what they
can be, and that is repeated while it helps. A row that its columns exceed even at their least is kept by nothing.
Limits that were so found hold for every point of the program, up to a slack that is far more than what is rounded on
the way.
"""

from __future__ import annotations

import numpy as np

from heterps.compiled import njit
from heterps.planner.solve.placement import Bools, Floats
from heterps.planner.solve.row_prices import Ends, LinearRows

__all__ = ["Narrowing"]

_ROUNDS = 20
_SLACK = 1e-9  # of what a row adds up, by which rows and limits may be exceeded
_WHOLE = 1e-6  # by which a whole number may be missed
_MUCH = 1e-3  # of the distance of two limits: less is not worth another round


class Narrowing:
    """The rows of a program as ``matrix @ x <= most``, entry by entry; the last is what it costs."""

    def __init__(self, rows: LinearRows, cost: Floats, whole: Bools) -> None:
        from scipy.sparse import csr_matrix, vstack

        above, below = np.isfinite(rows.high), np.isfinite(rows.low)
        entries = vstack([rows.matrix[above], -rows.matrix[below], csr_matrix(cost[None])]).tocsr()
        entries.eliminate_zeros()
        self._entries = entries.indptr.astype(np.int64), entries.indices.astype(np.int64), entries.data.astype(float)
        self._most, self._whole = np.concatenate([rows.high[above], -rows.low[below], [np.inf]]), whole

    def within(self, limits: Ends, dearest: float) -> Ends | None:
        """Return narrower limits of all that costs at most so much; None if nothing does within all rows."""
        least, most = limits[0].copy(), limits[1].copy()
        self._most[-1] = dearest
        return (least, most) if _narrow(*self._entries, self._most, self._whole, least, most) else None


@njit(nogil=True, cache=True, error_model="numpy")
def _narrow(first, columns, values, most, whole, least, upper):  # type: ignore[no-untyped-def]
    """Narrow limits by each row in turn, as long as that helps much; False if a row cannot be kept."""
    for _ in range(_ROUNDS):
        helped = False
        for row in range(len(most)):
            if np.isinf(most[row]):
                continue
            total, size, endless = 0.0, abs(most[row]), 0
            for n in range(first[row], first[row + 1]):
                taken = values[n] * (least[columns[n]] if values[n] > 0 else upper[columns[n]])
                if np.isinf(taken):
                    endless += 1
                else:
                    total += taken
                    size += abs(taken)
            room = most[row] + _SLACK * size - total
            if endless == 0 and room < 0:
                return False
            if endless > 1:
                continue
            for n in range(first[row], first[row + 1]):
                v, value = columns[n], values[n]
                taken = value * (least[v] if value > 0 else upper[v])
                if endless == 1 and not np.isinf(taken):
                    continue
                end = (room + (0.0 if endless == 1 else taken)) / value
                much = _MUCH * (upper[v] - least[v]) if upper[v] < np.inf else 0.0
                if value > 0:
                    end = np.floor(end + _WHOLE) if whole[v] else end
                    if end < upper[v]:
                        helped |= end < upper[v] - much
                        upper[v] = end
                else:
                    end = np.ceil(end - _WHOLE) if whole[v] else end
                    if end > least[v]:
                        helped |= end > least[v] + much
                        least[v] = end
                if least[v] > upper[v]:
                    if least[v] > upper[v] + _SLACK * (1 + abs(upper[v])):
                        return False
                    least[v] = upper[v]
        if not helped:
            break
    return True
