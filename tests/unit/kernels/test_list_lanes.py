"""Sums of lists and their gradients give the bits of adding one row after another, whatever the width."""

from __future__ import annotations

import numpy as np
import pytest

from heterps.compiled import entry_loop
from heterps.kernels.ops.list_lanes import give_rows, sum_rows

total = entry_loop(lambda f, rows, w, low, a, b, pad, y, at, n: sum_rows(f, rows, w, low, a, b, pad, y, at, n))
give = entry_loop(lambda f, rows, w, low, a, b, pad, y, at, n: give_rows(f, rows, w, low, a, b, pad, y, at, n))
LOW, WIDTH, AT, PAD, FIRST, LAST = 3, 120, 5, 4, 2, 21


def made(dim: int, dtype: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows with odd numbers in them, a list that has rows twice, padding and none, and a vector."""
    rng = np.random.default_rng(dim)
    rows = rng.normal(size=(9, WIDTH)).astype(dtype)
    rows[1, LOW : LOW + 4], rows[2, LOW : LOW + 2] = [np.inf, np.nan, 1e-45, -0.0], [-np.inf, 3e38]
    return rows, rng.integers(-1, 9, 25).astype(np.int32), rng.normal(size=AT + dim + 7).astype(dtype)


def chosen(numbers: np.ndarray) -> list[int]:
    return [row for row in numbers[FIRST:LAST].tolist() if row not in (-1, PAD)]


def call(loop: object, rows: np.ndarray, numbers: np.ndarray, vector: np.ndarray, dim: int) -> None:
    places = [np.uint64(x) for x in (WIDTH, LOW, FIRST, LAST)]
    loop(rows.reshape(-1), numbers, *places, np.int64(PAD), vector, np.uint64(AT), np.uint64(dim))  # type: ignore[operator]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("dim", [0, 1, 7, 8, 16, 24, 31, 32, 33, 63, 64, 100])
def test_rows_are_added_up_and_given_a_gradient_by_the_same_bits(dim: int, dtype: str) -> None:
    rows, numbers, vector = made(dim, dtype)
    columns, place = slice(LOW, LOW + dim), slice(AT, AT + dim)
    summed, given = vector.copy(), rows.copy()
    with np.errstate(all="ignore"):
        summed[place] = 0
        for row in chosen(numbers):
            summed[place] += rows[row, columns]
            given[row, columns] += vector[place]
    found = vector.copy()
    call(total, rows, numbers, found, dim)
    np.testing.assert_array_equal(found, summed)
    changed = rows.copy()
    call(give, changed, numbers, vector, dim)
    np.testing.assert_array_equal(changed, given)


def test_numbers_of_rows_may_lie_apart() -> None:
    rows, numbers, vector = made(32, "float32")
    found, wanted = vector.copy(), vector.copy()
    call(total, rows, np.repeat(numbers, 2)[::2], found, 32)
    call(total, rows, numbers, wanted, 32)
    np.testing.assert_array_equal(found, wanted)


def test_an_empty_list_is_zero_and_gives_nothing() -> None:
    rows, _, vector = made(32, "float32")
    numbers = np.full(25, -1, np.int32)
    before = rows.copy()
    call(give, rows, numbers, vector, 32)
    call(total, rows, numbers, vector, 32)
    assert not vector[AT : AT + 32].any()
    assert vector[AT - 1] != 0
    np.testing.assert_array_equal(rows, before)
