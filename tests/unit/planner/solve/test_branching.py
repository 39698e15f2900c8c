"""Programs in whole numbers against all their solutions; and that nothing a solver says makes a bound false."""

import itertools
import os
import time

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from heterps.planner.solve import branching
from heterps.planner.solve.branching import Branching
from heterps.planner.solve.effort import NEVER, Deadline
from heterps.planner.solve.narrowing import Narrowing
from heterps.planner.solve.row_prices import LinearRows
from heterps.planner.solve.simplex import Simplex, Vertex

_MOST = 3


@pytest.fixture(autouse=True, params=[200, 0], ids=["plain", "tried"])
def dividing(request, monkeypatch):
    """Numbers at which is divided are tried first only where there are many parts."""
    monkeypatch.setattr(branching, "_PLAIN", request.param)


def drawn(rng):
    """A program in a few whole numbers up to three, of which some rows may be too much."""
    m, n = int(rng.integers(1, 5)), int(rng.integers(1, 6))
    matrix = np.where(rng.random((m, n)) < 0.7, rng.integers(-4, 5, (m, n)), 0).astype(float)
    near = matrix @ rng.integers(0, _MOST + 1, n) + rng.integers(-1, 2, m)
    low = np.where(rng.random(m) < 0.5, near, -np.inf)
    high = np.where(rng.random(m) < 0.5, near + rng.integers(0, 3, m), np.inf)
    return rng.integers(-3, 6, n).astype(float), LinearRows(csr_matrix(matrix), low, high)


def least_of_all(cost, rows):
    """Every solution is looked at; inf: there is none."""
    points = np.array(list(itertools.product(range(_MOST + 1), repeat=len(cost))), float)
    sums = points @ rows.matrix.toarray().T
    kept = ((sums >= rows.low - 1e-9) & (sums <= rows.high + 1e-9)).all(axis=1)
    return float((points @ cost)[kept].min(initial=np.inf)), points[kept]


def solved(cost, rows, dearest=np.inf, deadline=NEVER):
    whole = np.ones(len(cost), np.bool_)
    limits = np.zeros(len(cost)), np.full(len(cost), float(_MOST))
    return Branching(cost, rows, whole, dearest).least(limits, deadline)


def test_the_least_is_that_of_all_solutions():
    rng, none = np.random.default_rng(0), 0
    for _ in range(400):
        cost, rows = drawn(rng)
        best, _ = least_of_all(cost, rows)
        found = solved(cost, rows)
        assert (found.values is None) == np.isinf(best)
        assert found.bound == pytest.approx(best) == (np.inf if found.values is None else pytest.approx(found.value))
        none += np.isinf(best)
    assert 40 < none < 360


@pytest.mark.parametrize("more", [-0.5, 0.0, 0.5])
def test_what_costs_just_as_much_as_is_allowed_is_found(more):
    rng = np.random.default_rng(1)
    for _ in range(150):
        cost, rows = drawn(rng)
        cost *= rng.integers(0, 2)  # or it is of no matter: what is not whole is as cheap
        best, _ = least_of_all(cost, rows)
        if np.isfinite(best):
            found = solved(cost, rows, best + more)
            assert (found.values is None, found.bound) == ((True, np.inf) if more < 0 else (False, pytest.approx(best)))


def test_out_of_time_nothing_is_said_that_is_not_so():
    cost, rows = drawn(np.random.default_rng(2))
    found = solved(cost, rows, deadline=Deadline(0.0))
    assert (found.values, found.bound) == (None, -np.inf)


def test_parts_of_numbers_that_need_not_be_whole():
    """Least 2x + y with 2x + y at least 2.5, x whole, y at most 1: y takes what a whole x leaves."""
    rows = LinearRows(csr_matrix([[2.0, 1.0]]), np.array([2.5]), np.array([np.inf]))
    limits = np.zeros(2), np.array([5.0, 1.0])
    found = Branching(np.array([2.0, 1.0]), rows, np.array([True, False])).least(limits, NEVER)
    assert (found.value, found.bound) == (pytest.approx(2.5), pytest.approx(2.5))
    assert found.values == pytest.approx([1.0, 0.5])


def test_numbers_without_a_limit_are_bounded_by_what_was_found():
    rows = LinearRows(csr_matrix([[1.0, 3.0]]), np.array([4.0]), np.array([np.inf]))
    whole = np.ones(2, np.bool_)
    found = Branching(np.array([1.0, 2.5]), rows, whole).least((np.zeros(2), np.full(2, np.inf)), NEVER)
    assert (found.value, found.bound) == (pytest.approx(3.5), pytest.approx(3.5))


def test_a_process_that_was_forked_solves_anew():
    cost, rows = drawn(np.random.default_rng(0))
    bound = solved(cost, rows).bound
    child = os.fork()
    if not child:
        os._exit(7 if solved(cost, rows).bound == bound else 1)
    deadline = time.monotonic() + 60
    while not (done := os.waitpid(child, os.WNOHANG))[0] and time.monotonic() < deadline:
        time.sleep(0.01)
    assert os.waitstatus_to_exitcode(done[1]) == 7


class Liar:
    """Says anything: prices, points, that they are best, that there is none."""

    def __init__(self, cost, rows):
        self._honest, self._rows = Simplex(cost, rows), len(rows.low)
        self._rng = np.random.default_rng(len(cost))

    def best(self, limits, start, seconds, steps=2**31 - 1):
        honest, rng = self._honest.best(limits, None, seconds, steps), self._rng
        values = rng.integers(0, _MOST + 1, len(limits[0])).astype(float)
        prices = honest.prices if rng.random() < 0.5 else rng.normal(size=self._rows)
        ray = rng.normal(size=self._rows) if rng.random() < 0.3 else honest.ray
        values = honest.values if rng.random() < 0.5 else values
        return Vertex(values, prices, None, bool(rng.random() < 0.7), ray)


def test_a_solver_that_lies_proves_nothing_that_is_not_so(monkeypatch):
    monkeypatch.setattr(branching, "Simplex", Liar)
    rng, told = np.random.default_rng(3), 0
    for _ in range(300):
        cost, rows = drawn(rng)
        best, _ = least_of_all(cost, rows)
        found = solved(cost, rows)
        assert found.bound <= best + 1e-9
        if found.values is not None:
            assert found.value == pytest.approx(float(cost @ found.values))
            assert found.value >= best - 1e-9
        told += found.bound == best
    assert told > 100  # what is proved does not need an honest answer each time


def test_what_is_close_enough_to_what_costs_least_will_do():
    rng, fewer = np.random.default_rng(5), 0
    for _ in range(150):
        cost, rows = drawn(rng)
        best, _ = least_of_all(cost, rows)
        whole = np.ones(len(cost), np.bool_)
        program = Branching(cost, rows, whole, close=2.5)
        found = program.least((0 * cost, np.full(len(cost), float(_MOST))), NEVER)
        if np.isfinite(best):
            assert best - 2.5 - 1e-6 <= found.bound <= best + 1e-9
            assert best - 1e-9 <= found.value <= best + 2.5 + 1e-6
            fewer += found.value > best + 0.5
        else:
            assert found.values is None
            assert found.bound == np.inf
    assert fewer


def test_narrower_limits_hold_every_solution_that_is_cheap_enough():
    rng, narrowed, out = np.random.default_rng(4), 0, 0
    for _ in range(500):
        cost, rows = drawn(rng)
        _, points = least_of_all(cost, rows)
        dearest = float(rng.integers(-4, 12)) if rng.random() < 0.6 else np.inf
        points = points[points @ cost <= dearest]
        whole = rng.random(len(cost)) < 0.6
        limits = Narrowing(rows, cost, whole).within((0 * cost, np.full(len(cost), float(_MOST))), dearest)
        if limits is None:
            assert not len(points)
            out += 1
        else:
            assert ((points >= limits[0] - 1e-9) & (points <= limits[1] + 1e-9)).all()
            narrowed += bool((limits[0] > 0).any() or (limits[1] < _MOST).any())
    assert narrowed > 100
    assert out > 30
