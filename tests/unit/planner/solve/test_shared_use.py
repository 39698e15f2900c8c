"""What two types take of a shared capacity, piece by piece."""

import math

import pytest

from heterps.planner.solve.shared_use import _last


@pytest.mark.parametrize(
    ("taken", "last"),
    [
        ([0.0, 1.005, 2.0], 1 / 1.005),
        ([0.0, 0.5, 2.0], 1 + 0.5 / 1.5),
        ([0.0, 0.5, 0.9], math.inf),
        ([1.5, 2.0, 3.0], 0.0),
        ([0.0, 1.5, 0.5], math.inf),
    ],
)
def test_no_more_is_taken_than_there_is(taken, last):
    assert _last([0.0, 1.0, 2.0], taken, 1.0) == pytest.approx(last)
