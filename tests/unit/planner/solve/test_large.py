"""Graphs with more legal cuts than are listed: good plans all the same, and a bound that holds for every plan."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import heterps as hps
from heterps import ops
from heterps.planner import FixedRate, MaxThroughput, MinCost, plan
from heterps.planner.solve import large
from heterps.planner.solve.bounds import least_price, most_rows
from heterps.planner.solve.dag import edges_of, over_downsets
from heterps.planner.solve.effort import UndecidedError
from heterps.planner.solve.large import planned
from heterps.planner.solve.making import make_problem
from heterps.planner.solve.solvers import exact
from tests.unit.planner.solve.test_dag import random_dag

GOALS = st.sampled_from([MinCost(1.0), FixedRate(1.5), MaxThroughput()])


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**31), st.integers(2, 5), st.integers(2, 3), st.booleans(), GOALS)
def test_the_bound_holds_and_the_plan_is_one(seed, layers, types, serial, goal):
    dag = random_dag(seed, layers, types, serial=serial, cap=30)
    best = goal.search(over_downsets(dag)[0], exact)
    try:
        outcome = planned(dag, goal, exact, most=1)
    except UndecidedError:
        return  # over good cuts there need not be a plan where there is one over others
    problem, found = outcome.problem, outcome.found
    if found is None:
        assert best is None
        return
    assert not outcome.complete
    better, worse = (found.value, best.value) if goal.rises else (best.value, found.value)
    assert better <= worse * (1 + 1e-3)
    low, high = (best.value, found.bound) if goal.rises else (found.bound, best.value)
    assert low <= high * (1 + 1e-3)
    assert "legal cuts" in found.proof
    for state in problem.members:
        assert all(state[a] or not state[b] for a, b in edges_of(problem))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 5), st.integers(1, 3), st.sampled_from([np.inf, 6]), st.floats(0.2, 4))
def test_no_placement_costs_less_than_fractions_of_units(seed, layers, types, cap, x):
    problem, _ = over_downsets(random_dag(seed, layers, types, cap=cap))
    found = exact(problem, x)
    assert found is None or least_price(problem, x) <= found.price * (1 + 1e-9)
    if np.isfinite(cap):
        assert found is None or most_rows(problem) >= x * (1 - 1e-9)
        assert np.isinf(least_price(problem, most_rows(problem) * 1.01))


def test_layers_that_may_run_nowhere_have_no_plan_over_good_cuts_either():
    nowhere = make_problem([[0.5, 0.5], [0.5, 0.5]], cap=9, allowed=[[True, True], [False, False]])
    assert planned(nowhere, FixedRate(1.0), exact, most=1).found is None


def test_a_budget_bounds_the_throughput():
    problem, _ = over_downsets(random_dag(3, 4, 2, cap=50))
    assert most_rows(problem, budget=10) <= most_rows(problem)
    found = MaxThroughput(40.0).search(problem, exact)
    assert found.value <= most_rows(problem, budget=40.0) * (1 + 1e-9)


def with_tables(dims):
    y = ops.input("y")
    fields = [ops.input(f"c{i}", shape=(1,), dtype="uint64") for i in range(len(dims))]
    tables = [ops.lookup(ids, table=f"t{i}", dim=dims[i]) for i, ids in enumerate(fields)]
    h = ops.concat(*tables, name="features")
    return hps.Graph(loss=ops.logloss(ops.dense(ops.relu(ops.dense(h, 256)), 1), y, name="loss"))


def test_a_model_of_many_tables_says_what_is_proved(rented, monkeypatch):
    monkeypatch.setattr(large, "_SLOT_SECONDS", 0.5)
    monkeypatch.setattr(large, "_BOUND_SECONDS", 0.5)
    made = plan(with_tables(range(8, 24)), rented, goal=MinCost(5e6), batch_size=8192)
    assert "of more than 20,000 legal cuts" in made.certificate.proof
    assert 0 < made.certificate.bound <= made.certificate.value
    assert made.certificate.gap == pytest.approx(1 - made.certificate.bound / made.certificate.value)


def test_a_model_of_many_tables_of_one_kind_is_planned_exactly(rented):
    made = plan(with_tables([8] * 26), rented, goal=MinCost(5e6), batch_size=8192)
    assert "more than" not in made.certificate.proof
    assert made.certificate.gap < 1.1e-3
