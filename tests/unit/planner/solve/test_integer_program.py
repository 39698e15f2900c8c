"""Programs in integers as they are written down."""

import numpy as np

from heterps.planner.solve.integer_program import IntegerProgram


def test_limits_of_whole_numbers_are_whole():
    """With 1.000000001 a solver was seen to prove that a program has no solution which has one."""
    program = IntegerProgram()
    for limit in (1.000000001, 2.9999999999, 0.08, 5.0, np.inf):
        program.integer(0.0, limit)
    assert program.upper == [1.0, 3.0, 0.0, 5.0, np.inf]
