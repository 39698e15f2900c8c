"""Prices that are raised where there is too little: a case by hand."""

import pytest

from heterps.planner.solve.making import make_problem
from heterps.planner.solve.multipliers import multiplier_placement


def test_all_there_is_is_used_where_it_just_suffices():
    """Two Layers need 5 units each, and there are 5 of each type: raised prices refute nothing."""
    problem = make_problem([[1.0, 1.0], [1.2, 1.0]], price=[1.0, 2.0], cap=[5.0, 5.0])
    found = multiplier_placement(problem, 5.0)
    assert found.price == pytest.approx(15.0)
    assert found.bound <= 15.0
