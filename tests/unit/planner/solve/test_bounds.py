"""Bounds over fractions of work, worked out by hand; and that what a solver does not say is not taken for a proof."""

import math
from dataclasses import replace

import numpy as np
import pytest

from heterps.planner import MinCost
from heterps.planner.solve import branching, large
from heterps.planner.solve.bounds import least_price, most_rows
from heterps.planner.solve.effort import UndecidedError
from heterps.planner.solve.fair_prices import most_by_parts, worth_of
from heterps.planner.solve.making import make_problem
from heterps.planner.solve.mincut import cut_bound
from heterps.planner.solve.placement import Shards
from heterps.planner.solve.simplex import ANY, Simplex
from heterps.planner.solve.solvers import exact
from heterps.planner.solve.type_program import TypeProgram

# A host serves 10 rows a second for 5 an hour, a unit one row for 1: the more rows up to 10, the less each costs.
SERVED = make_problem([[1.0, 3.0]], price=[1.0, 1.0], shards=Shards(0.1, 1, 5.0))


def test_prices_per_row_count_shard_hosts_in_parts():
    best = MinCost(10.0).search(SERVED, exact).value
    assert best == pytest.approx((10 + 5) / 10)
    slow = MinCost(1.0)
    assert slow.bound(SERVED) == pytest.approx(best)
    assert slow.floor(SERVED) <= best * (1 + 1e-9)
    assert least_price(SERVED, 1.0) == pytest.approx(6.0)


def test_plans_within_a_price_are_compared_as_fast_as_that_lets_them_be():
    goal = MinCost(1.0, price_per_hour=15.0)
    found = goal.search(SERVED, exact)
    assert found.value == pytest.approx(1.5)
    assert found.rows_per_second == pytest.approx(10.0)
    program = TypeProgram(SERVED)
    assert program.applies
    assert goal.closer(program, 1.6, goal.bound(SERVED), large.NEVER) <= 1.5 * (1 + 1e-6)
    assert not goal.rules_out(program, 1.6, large.NEVER)


def test_layers_that_take_unlike_parts_of_a_host_are_not_alike():
    usage = [[[1.0], [0.0]]]  # of its cores, for a row, by the first Layer only
    assert most_rows(make_problem([[1.0], [1.0]], cap=100.0, usage=usage, capacity=(1.0,))) == pytest.approx(1.0)


def test_layers_that_may_run_elsewhere_are_not_alike():
    only = {"price": [1.0, 9.0, 9.0], "allowed": [[False, True, False], [True, False, False]]}
    assert least_price(make_problem([[1.0] * 3] * 2, **only), 1.0) == pytest.approx(10.0)


def test_what_is_taken_in_any_case_is_taken_once():
    taken = {"usage": [[[1.0]]], "fixed_usage": [1.0], "capacity": (4.0,)}
    assert most_rows(make_problem([[1.0]], cap=100.0, **taken)) == pytest.approx(2.0)


def test_most_rows_count_shard_hosts_in_parts():
    """Of 11 units 10 compute and one serves all of them."""
    assert most_rows(make_problem([[1.0]], cap=11.0, shards=Shards(0.1, 1, 0.0, type=0))) == pytest.approx(10.0)


def test_shard_hosts_that_are_apart_are_paid_beside_all_there_is():
    problem = make_problem([[1.0]], cap=10.0, shards=Shards(0.1, 1, 5.0))
    assert exact(problem, 10.0) is not None
    assert most_by_parts(problem, math.inf, 0.0, 20.0) >= 10.0 * (1 - 1e-9)


def test_what_is_sent_and_received_at_once_is_not_added_up():
    """A minimum cut takes parts of the times that add up to one."""
    problem = make_problem([[[0.0, 0.0]], [[1.0, 1.0]], [[1.0, 1.0]]], price=[1.0, 1.0])
    assert cut_bound(problem) == pytest.approx(1.0, rel=1e-5)


def test_shard_hosts_are_paid_by_the_prices_that_bound():
    """Two machines have units for the stage, and one for the host: they cost 20, however that is divided."""
    machine = {"price": [5.0, 5.0], "product": [0, 0], "allowed": [[False, True]]}
    problem = make_problem([[1.0, 1.0]], **machine, shards=Shards(0.1, 1, 0.0, type=0))
    assert exact(problem, 2.0).price == pytest.approx(20.0)
    assert worth_of(problem, 2.0).least == pytest.approx(20.0, rel=1e-4)


class _Silent(Simplex):
    """Ends without a point, or prices."""

    def best(self, limits, start, seconds, steps=ANY):
        return replace(super().best(limits, start, seconds, 0), prices=np.full(self._rows, np.nan), ray=None)


def test_what_the_library_does_not_say_is_no_proof(monkeypatch):
    monkeypatch.setattr(branching, "Simplex", _Silent)
    with pytest.raises(UndecidedError, match="without an answer"):
        least_price(SERVED, 1.0)
    assert not large._is_out(SERVED, MinCost(1.0), 1.0)
