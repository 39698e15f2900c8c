"""Prices of rows prove what they say: in exact arithmetic, whatever the prices are and wherever they are from."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from heterps.planner.solve.row_prices import LinearRows


def drawn(rng):
    """Rows that a point keeps, within limits that it keeps, and prices; numbers of many sizes."""
    m, n = (int(rng.integers(1, 7)) for _ in range(2))
    size = lambda *shape: 10.0 ** rng.integers(-6, 7, shape)  # noqa: E731
    matrix = np.where(rng.random((m, n)) < 0.7, rng.normal(size=(m, n)) * size(m, n), 0.0)
    x = np.where(rng.random(n) < 0.3, 0.0, rng.random(n) * size(n))
    least, most = x * (rng.random(n) < 0.3), np.where(rng.random(n) < 0.2, np.inf, x * (1 + rng.integers(0, 2, n)))
    exactly = [sum(Fraction(a) * Fraction(v) for a, v in zip(row, x, strict=True)) for row in matrix]
    low = np.array([-np.inf if rng.random() < 0.4 else _below(each) for each in exactly])
    high = np.array([np.inf if rng.random() < 0.4 else -_below(-each) for each in exactly])
    prices = np.where(rng.random(m) < 0.2, 0.0, rng.normal(size=m) * size(m))
    cost = rng.normal(size=n) * size(n)
    return LinearRows(csr_matrix(matrix), low, high), x, prices, cost, (least, most)


def _below(exact):
    """The largest float that is no more."""
    near = float(exact)
    return near if Fraction(near) <= exact else float(np.nextafter(near, -np.inf))


def test_no_point_costs_less_than_any_prices_say():
    rng, told = np.random.default_rng(0), 0
    for _ in range(3_000):
        rows, x, prices, cost, limits = drawn(rng)
        least = rows.least(cost, prices, limits)
        costs = sum(Fraction(c) * Fraction(v) for c, v in zip(cost, x, strict=True))
        assert np.isinf(least) or Fraction(least) <= costs
        told += np.isfinite(least)
        assert not rows.excludes(prices, limits)
        assert rows.holds(x)
    assert told > 1_000


def test_what_is_taken_off_is_more_than_what_is_rounded():
    """The same sums in exact arithmetic; rows and prices of one size, so that nothing hides what is rounded."""
    rng = np.random.default_rng(1)
    for _ in range(400):
        m, n = (int(rng.integers(1, 40)) for _ in range(2))
        matrix, prices, cost = rng.normal(size=(m, n)), rng.normal(size=m), rng.normal(size=n)
        if rng.random() < 0.5:
            cost = prices @ matrix  # of which next to nothing is left
        low, most = rng.normal(size=m) * rng.integers(0, 2), rng.random(n) * (rng.random(n) < 0.5)
        least = LinearRows(csr_matrix(matrix), low, low).least(cost, prices, (0 * most, most))
        exact = sum(Fraction(y) * Fraction(end) for y, end in zip(prices, low, strict=True))
        for v in range(n):
            left = Fraction(cost[v]) - sum(Fraction(y) * Fraction(a) for y, a in zip(prices, matrix[:, v], strict=True))
            exact += min(left * Fraction(most[v]), Fraction(0))
        assert float(exact) - 1e-9 < least
        assert Fraction(least) <= exact


def test_the_best_prices_prove_the_least():
    """Least x + 2y with x + y at least 3, x at most 1: 1 + 2 * 2, by a price of 2 for the row."""
    rows = LinearRows(csr_matrix([[1.0, 1.0]]), np.array([3.0]), np.array([np.inf]))
    limits = np.zeros(2), np.array([1.0, 5.0])
    assert rows.least(np.array([1.0, 2.0]), np.array([2.0]), limits) == pytest.approx(5.0)
    assert rows.least(np.array([1.0, 2.0]), np.array([-1.0]), limits) <= 0.0  # the row has no high end: worth nothing


@pytest.mark.parametrize(("most", "out"), [(1.4, True), (1.6, False)])
def test_what_two_columns_cannot_reach_is_out(most, out):
    rows = LinearRows(csr_matrix([[1.0, 1.0]]), np.array([3.0]), np.array([np.inf]))
    limits = np.zeros(2), np.full(2, most)
    assert rows.excludes(np.array([1.0]), limits) == rows.excludes(np.array([-1.0]), limits) == out


def test_rows_that_are_missed_do_not_hold():
    rows = LinearRows(csr_matrix([[1.0, 1.0]]), np.array([3.0]), np.array([4.0]))
    assert [rows.holds(np.array([1.0, y])) for y in (1.9, 2.0, 3.0, 3.1)] == [False, True, True, False]
