"""What a batch takes, by part."""

import pytest

from heterps.runtime.measure.parts import _create_s


def test_new_rows_are_what_pulls_took_longer_the_first_time():
    pulls, made = [9.0, 0.6, 0.4, 0.2], [1000, 40, 20, 0]  # the first batch loads the loops
    assert _create_s(pulls, made, 0.2) == pytest.approx((0.4 + 0.2) / 60)


def test_without_new_rows_none_takes_anything():
    assert _create_s([1.0, 0.2], [5, 0], 0.1) == 0.0
