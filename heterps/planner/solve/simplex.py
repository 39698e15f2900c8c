"""A linear program whose limits change: HiGHS' simplex method, begun where it ended before.

What it says is not taken for true: its prices of rows are proof by themselves
(:mod:`heterps.planner.solve.row_prices`). It does not simplify first, which it would do anew each time, and during
which it was seen not to end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from heterps.planner.solve.placement import Floats
from heterps.planner.solve.row_prices import Ends, LinearRows

__all__ = ["ANY", "Simplex", "Vertex"]

_OPTIONS = {"output_flag": False, "presolve": "off", "solver": "simplex", "parallel": "off", "threads": 1}
ANY = 2**31 - 1  # steps


@dataclass(frozen=True)
class Vertex:
    """Values of the columns, prices of the rows, and where to begin next time.

    ``is_best``: whether nothing is said to cost less. ``ray``: prices by which there is said to be no point at all.
    """

    values: Floats
    prices: Floats
    start: Any
    is_best: bool
    ray: Floats | None


class Simplex:
    """Minimise ``cost @ x`` within rows, and limits that are given anew each time."""

    def __init__(self, cost: Floats, rows: LinearRows) -> None:
        import highspy  # a tenth of a second to import

        self._said, self._columns = highspy.HighsModelStatus, np.arange(len(cost), dtype=np.int32)
        self._highs, self._rows = highspy.Highs(), len(rows.low)
        for name, value in _OPTIONS.items():
            self._highs.setOptionValue(name, value)
        program, matrix = highspy.HighsLp(), rows.matrix
        program.num_col_, program.num_row_ = len(cost), len(rows.low)
        program.col_cost_, program.col_lower_, program.col_upper_ = cost, 0 * cost, np.full_like(cost, np.inf)
        program.row_lower_, program.row_upper_ = rows.low, rows.high
        program.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        program.a_matrix_.start_, program.a_matrix_.index_ = matrix.indptr, matrix.indices
        program.a_matrix_.value_ = matrix.data
        self._highs.passModel(program)

    def best(self, limits: Ends, start: Any, seconds: float, steps: int = ANY) -> Vertex:
        """Return what was reached within so many seconds and steps, begun at an earlier point's ``start`` if given."""
        highs = self._highs
        highs.changeColsBounds(len(self._columns), self._columns, *limits)
        if start is not None:
            highs.setBasis(start)
        highs.setOptionValue("simplex_iteration_limit", steps)
        highs.setOptionValue("time_limit", highs.getRunTime() + seconds)
        highs.run()
        said, found = highs.getModelStatus(), highs.getSolution()
        ray = None
        if said == self._said.kInfeasible:
            _, has_ray, given = highs.getDualRay()
            ray = np.array(given) if has_ray else None
        values, prices = _sized(found.col_value, len(self._columns)), _sized(found.row_dual, self._rows)
        return Vertex(values, prices, highs.getBasis(), said == self._said.kOptimal, ray)


def _sized(given: list[float], count: int) -> Floats:
    """Numbers that were given; nothing where there are none."""
    return np.array(given) if len(given) == count else np.zeros(count)
