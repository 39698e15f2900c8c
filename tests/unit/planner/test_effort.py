"""Limits of time and size: what is not known is said to be not known, and bounds hold all the same."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import heterps as hps
from graphs.ctrdnn import ctrdnn
from graphs.resnet import resnet
from heterps import ops
from heterps.errors import PlanError
from heterps.planner import FixedRate, MaxThroughput, MinCost, plan, planner, play
from heterps.planner.comparing import compare
from heterps.planner.planner import Request
from heterps.planner.solve import choose, large, milp, rivals
from heterps.planner.solve.effort import Deadline, UndecidedError
from heterps.planner.solve.large import planned
from heterps.planner.solve.making import make_problem
from heterps.planner.solve.milp import milp_placement
from heterps.planner.solve.multipliers import multiplier_placement
from heterps.planner.solve.search import best_at, best_price_per_row, best_throughput
from heterps.planner.solve.solvers import exact
from heterps.testing.solver_contract import random_chain
from tests.unit.planner.solve.test_large import with_tables
from tests.unit.planner.test_known_answers import RATIO


def test_out_of_time_is_not_infeasible():
    problem = random_chain(1, 5, 2, cap=9)
    assert milp_placement(problem, 1.0) is not None
    with pytest.raises(UndecidedError, match="nor the proof"):
        milp_placement(problem, 1.0, seconds=0.0)


def test_a_program_too_large_for_memory_is_not_built(monkeypatch):
    monkeypatch.setattr(milp, "MOST_COLUMNS", 10)
    with pytest.raises(UndecidedError, match="too many for an integer program"):
        milp_placement(random_chain(1, 5, 2, cap=9), 1.0)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 5), st.sampled_from([1, 3, 8]), st.floats(0.1, 3))
def test_raised_prices_bound_every_placement_within_the_caps(seed, layers, cap, x):
    problem = random_chain(seed, layers, 2, cap=cap, hosts=bool(seed % 2))
    best = exact(problem, x)
    try:
        found = multiplier_placement(problem, x)
    except UndecidedError:
        return
    assert (found is None) <= (best is None)
    if found is not None:
        assert found.bound <= best.price * (1 + 1e-9) <= found.price * (1 + 2e-9)


def forgetful(every):
    """The exact solver, which does not know at every so many throughputs."""
    calls = itertools.count()

    def solve(problem, x):
        if next(calls) % every == 1:
            raise UndecidedError("not today")
        return exact(problem, x)

    return solve


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 4), st.integers(2, 4), st.floats(0.1, 2))
def test_bounds_hold_where_some_throughputs_are_not_decided(seed, layers, every, x):
    problem = random_chain(seed, layers, 2, cap=6)
    for search, rises in (
        (lambda s: best_price_per_row(problem, x, s, at_most=2 * x), False),
        (lambda s: best_throughput(problem, s), True),
    ):
        best = search(exact)
        try:
            found = search(forgetful(every))
        except UndecidedError:
            continue
        assert (found is None) == (best is None)
        if found is not None and rises:
            assert found.value <= best.value * (1 + 1e-6) <= found.bound * (1 + 2e-6)
        elif found is not None:
            assert found.bound <= best.value * (1 + 1e-6) <= found.value * (1 + 2e-6)


def test_what_is_not_decided_may_be_better():
    problem = make_problem(RATIO, 1.0, [1, 60], cap=[40, 8])

    def solve(problem, x):
        if x > 101:
            raise UndecidedError("too fast for me")
        return exact(problem, x)

    found = best_price_per_row(problem, 100.0, solve, at_most=200.0)
    assert found.value > 0.9
    assert found.bound <= 0.78 * (1 + 1e-9)  # ten and two units at 166.7 rows a second


def test_layers_of_one_place_are_taken_together(monkeypatch):
    monkeypatch.setattr(large, "_SLOT_COLUMNS", 0)
    allowed = [[t == v % 3 for t in range(3)] for v in range(12)]
    problem = make_problem(np.linspace(0.1, 0.2, 12)[:, None] * np.ones(3), allowed=allowed, cap=1)
    outcome = planned(problem, FixedRate(0.1), exact, most=1)
    assert not outcome.complete
    assert len(outcome.found.placement.segments) == 3


def test_what_is_never_decided_is_not_infeasible():
    def solve(problem, x):
        raise UndecidedError("never")

    problem = random_chain(1, 3, 2, cap=6)
    for search in (
        lambda: best_at(problem, 1.0, solve),
        lambda: best_price_per_row(problem, 1.0, solve, at_most=2.0),
        lambda: best_throughput(problem, solve),
    ):
        with pytest.raises(UndecidedError):
            search()


@pytest.mark.parametrize("goal", [MinCost(0.5), MaxThroughput()], ids=["cost", "most"])
def test_the_time_limit_leaves_the_incumbent_and_an_honest_gap(goal):
    problem = random_chain(7, 5, 3, cap=9)
    best, found = goal.search(problem, exact), goal.search(problem, exact, Deadline(0.0))
    assert "time limit" in found.proof
    low, high = (found.value, found.bound) if goal.rises else (found.bound, found.value)
    assert low <= best.value * (1 + 1e-9) <= high * (1 + 2e-9)


def test_the_search_for_a_first_plan_ends_too(rented, monkeypatch):
    """A batch size at which nothing is decided takes its time, whatever the limit: not all of them are looked at."""
    looked = []

    def undecided(choosing, costs, *rest):
        looked.append(costs.batch_size)
        choosing.undecided.append(f"batches of {costs.batch_size}: never")

    monkeypatch.setattr(choose.Choosing, "_plan", undecided)
    monkeypatch.setattr(choose, "_PATIENCE_SECONDS", 0.0)
    with pytest.raises(UndecidedError, match="batches of 256: not looked at for lack of time"):
        choose.choose(Request(ctrdnn(), rented, FixedRate(1e5), (256, 512, 1024)), Deadline(1e-9))
    assert looked == []
    monkeypatch.setattr(choose, "_PATIENCE_SECONDS", 60.0)
    with pytest.raises(UndecidedError, match="batches of 256: never"):
        choose.choose(Request(ctrdnn(), rented, FixedRate(1e5), (256, 512, 1024)), Deadline(1e-9))
    assert list(dict.fromkeys(looked)) == [1024, 512, 256]


@pytest.mark.parametrize("goal", [MinCost(1e6), FixedRate(1e6)])
def test_what_not_even_fractions_reach_is_not_searched_for(goal):
    """An infeasible chain of 5,000 ops took half a minute: its cuts were listed and searched for every batch size."""

    def never(problem, x):
        raise AssertionError(f"searched at {x:g}")

    outcome = planned(random_chain(3, 60, 2, cap=10), goal, never)
    assert outcome.found is None
    assert outcome.complete
    assert not outcome.beaten


def test_layers_are_made_once_for_a_batch_size(rented):
    request = Request(ctrdnn(), rented, FixedRate(1e5), (256, 512))
    other = replace(request, hardware=rented.with_caps(cpu=7), goal=MaxThroughput())
    assert request.costs(256).layers is other.costs(256).layers
    assert request.costs(256).layers is not request.costs(512).layers
    assert other.costs(256).hardware.pool("cpu").cap == 7


def test_a_chain_of_many_layers_is_not_cut_everywhere(monkeypatch):
    monkeypatch.setattr(large, "_MOST_CELLS", 100)
    outcome = planned(random_chain(3, 20, 2), FixedRate(0.1), exact)
    assert not outcome.complete
    assert "of more than 5 legal cuts" in outcome.found.proof


def test_rivals_that_there_is_no_time_for_are_left_out(rented, monkeypatch):
    request = Request(ctrdnn(), rented, FixedRate(1e5), (1024,))
    draft = request.best().draft
    assert len(list(rivals.rivals(request, draft))) > 1
    monkeypatch.setattr(rivals, "Deadline", lambda seconds: Deadline(0.0))
    assert list(rivals.rivals(request, draft)) == []


def test_no_plan_in_time_is_said_to_be_that(rented, monkeypatch):
    def lost(request, deadline):
        raise UndecidedError("all was dark")

    monkeypatch.setattr(planner, "chosen", lost)
    with pytest.raises(
        PlanError, match=r"within 30 s, and it is not proved that there is none: all was dark\. Give more"
    ):
        plan(with_tables([8]), rented, goal=MinCost(1e5))


def alternating(tables):
    """Tables whose gathers are pinned to cpu and gpu in turn."""
    y = ops.input("y")
    parts = []
    for i in range(tables):
        rows = ops.lookup(ops.input(f"c{i}", shape=(1,), dtype="uint64"), table=f"t{i}", dim=8 + i)
        parts.append(ops.relu(ops.dense(rows, 64 + i, name=f"d{i}")))
    return hps.Graph(loss=ops.logloss(ops.dense(ops.concat(*parts, name="features"), 1), y, name="loss"))


@pytest.mark.parametrize("most", [20_000, 10], ids=["all cuts", "good cuts"])
def test_layers_pinned_in_turns_have_a_plan(rented, most, monkeypatch):
    graph = alternating(6)
    pins = {f"d{i}": ("cpu", "gpu")[i % 2] for i in range(6)}
    monkeypatch.setattr("heterps.planner.solve.choose.planned", lambda *a, **k: planned(*a, **k, most=most))
    made = plan(graph, rented.with_caps(cpu=4, gpu=4), batch_size=4096, pins=pins)
    assert made.forecast.rows_per_second > 1e5
    assert made.certificate.bound >= made.certificate.value


def test_a_plan_fits_the_memory_at_its_own_depth(rented):
    made = plan(resnet(), rented, goal=MinCost(1e4))
    for pool in made.pools:
        assert made.memory_bytes[pool.name] <= pool.device.memory_bytes


def test_small_batches_are_played_as_fast_as_they_are_forecast(rented):
    made = plan(resnet(), rented, goal=MinCost(1e4), batch_size=64)
    played = play(made, rented, splits=(4 * made.depth,) * made.lanes)
    assert played.rows_per_second >= 0.9 * made.forecast.rows_per_second


def test_a_contradiction_stops(rented, monkeypatch):
    monkeypatch.setattr("heterps.planner.solve.choose.at_depth", lambda draft: replace(draft, depths=(1,)))
    monkeypatch.setattr("heterps.planner.costs.on_the_way.DEPTH", 1)
    monkeypatch.setattr("heterps.planner.solve.deepening._TURNS", 0)
    with pytest.raises(PlanError, match=r"contradicts itself \(batches in flight, at the least: .* planned"):
        plan(resnet(), rented, goal=MinCost(1e4), batch_size=64)
    monkeypatch.setattr("heterps.planner.solve.choose.check_counted", lambda draft: None)
    with pytest.raises(PlanError, match=r"contradicts itself \(rows per second: .* planned, .* when it was checked"):
        plan(resnet(), rented, goal=MinCost(1e4), batch_size=64)


def test_the_batch_size_is_in_the_certificate(rented):
    graph = with_tables([8, 9])
    made = plan(graph, rented, goal=MinCost(1e6))
    assert "batches of 256 to 32,768 rows" in made.certificate.proof
    for batch_size in (512, 8192, 32768):
        other = plan(graph, rented, goal=MinCost(1e6), batch_size=batch_size)
        assert made.certificate.bound <= other.certificate.value * (1 + 1e-9)
        assert made.certificate.value <= other.certificate.value * (1 + 1.1e-3)


def test_solvers_are_compared_over_the_same_batch_sizes(rented):
    request = Request(with_tables([8]), rented, MaxThroughput(40.0), (1024, 8192))
    rows = {name: made for name, made, _ in compare(request) if made is not None}
    assert rows["exact"].certificate.value == pytest.approx(
        plan(with_tables([8]), rented, goal=MaxThroughput(40.0), batch_size=8192).certificate.value, rel=1e-3
    )
    assert all(made.certificate.value <= rows["exact"].certificate.value * (1 + 1e-6) for made in rows.values())
    assert {made.batch_size for made in rows.values()} <= {1024, 8192}
    assert rows["exact"].batch_size == 8192


@pytest.mark.parametrize("goal", [MaxThroughput(40.0), MinCost(1e6), FixedRate(1e6)], ids=["most", "cost", "rate"])
def test_no_rival_beats_the_plan_at_its_goal(rented, goal):
    made = plan(with_tables([8, 16, 32]), rented, goal=goal)
    for rival in made.rivals:
        if rival.rows_per_second is not None and goal.rises:
            assert rival.rows_per_second <= made.forecast.rows_per_second * (1 + 1e-6)
            cheaper = rival.price_per_million_rows < made.forecast.price_per_million_rows * (1 - 1e-9)
            assert ("not the goal" in rival.why) == cheaper
        elif rival.price_per_million_rows is not None:
            assert rival.price_per_million_rows >= made.forecast.price_per_million_rows * (1 - 1e-3)


def test_a_rival_that_is_cheaper_per_row_is_said_to_miss_the_goal(rented):
    made = plan(ctrdnn(), rented.with_caps(gpu=4), goal=MaxThroughput(20.0), batch_size=4096)
    cheaper = [r for r in made.rivals if r.price_per_million_rows < made.forecast.price_per_million_rows * (1 - 1e-9)]
    assert cheaper
    assert all("cheaper per row, which is not the goal" in rival.why for rival in cheaper)


def test_a_deadline_counts_down():
    now = iter([0.0, 1.0, 5.0, 5.0])
    deadline = Deadline(3.0, lambda: next(now))
    assert deadline.left == 2.0
    assert deadline.over
    assert np.isinf(Deadline().left)
