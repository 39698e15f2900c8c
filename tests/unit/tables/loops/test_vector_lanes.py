"""Eight lanes at a time give the bits of one value at a time, whatever the width and where rows begin."""

from __future__ import annotations

import numpy as np
import pytest

from heterps.compiled import entry_loop
from heterps.lanes import add_row, copy_row
from heterps.tables.loops.vector_lanes import all_finite, step_row

copy, add, step, finite = (
    entry_loop(lambda a, i, b, j, n: copy_row(a, i, b, j, n)),
    entry_loop(lambda a, i, b, j, n: add_row(a, i, b, j, n)),
    entry_loop(lambda a, i, b, j, n, rate, low, high: step_row(a, i, b, j, n, rate, low, high)),
    entry_loop(lambda bits, i, n: all_finite(bits, i, n)),
)
WIDTHS = (0, 1, 7, 8, 9, 15, 16, 17, 24, 31, 64)


@pytest.mark.parametrize("width", WIDTHS)
def test_rows_change_by_the_same_bits_and_nothing_beside_them_does(width: int) -> None:
    rng = np.random.default_rng(width)
    source, target = (rng.normal(size=80).astype(np.float32) for _ in range(2))
    source[3:8], target[5:9] = [np.nan, np.inf, -np.inf, 1e-45, 0], [np.inf, np.nan, -0.0, 3e38]
    at, to, n = np.uint64(3), np.uint64(5), np.uint64(width)
    taken, row = source[3 : 3 + width], slice(5, 5 + width)
    rate, low, high = np.float32(0.3), np.float32(-0.5), np.float32(0.7)
    with np.errstate(all="ignore"):
        moved = target[row] - rate * taken
        bounded = np.where(moved < low, low, np.where(moved > high, high, moved))
        wanted = {copy: taken, add: target[row] + taken, step: bounded}
    for loop, values in wanted.items():
        expected, found = target.copy(), target.copy()
        expected[row] = values
        loop(source, at, found, to, n, *((rate, low, high) if loop is step else ()))
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("width", [7, 8, 19])
def test_numbers_of_double_width_are_copied_and_added_alike(width: int) -> None:
    source, target = np.random.default_rng(width).normal(size=(2, 80))
    at, to, n, row = np.uint64(3), np.uint64(5), np.uint64(width), slice(5, 5 + width)
    for loop, values in ((copy, source[3 : 3 + width]), (add, target[row] + source[3 : 3 + width])):
        expected, found = target.copy(), target.copy()
        expected[row] = values
        loop(source, at, found, to, n)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("width", WIDTHS)
def test_one_value_that_is_not_finite_is_seen_wherever_it_stands(width: int) -> None:
    values = np.full(80, np.nan, np.float32)
    values[3 : 3 + width] = 3e38
    at, n = np.uint64(3), np.uint64(width)
    assert finite(values.view(np.uint32), at, n)
    for place in range(width):
        for bad in (np.nan, np.inf, -np.inf):
            one = values.copy()
            one[3 + place] = bad
            assert not finite(one.view(np.uint32), at, n)
