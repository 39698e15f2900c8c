"""Properties that hold for every chain: exactness against enumeration, monotone bounds, what caps can do."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from heterps.planner.solve.chain import chain_placement, relaxed_price
from heterps.planner.solve.effort import UndecidedError
from heterps.planner.solve.making import make_problem
from heterps.planner.solve.milp import milp_placement
from heterps.planner.solve.multipliers import multiplier_placement
from heterps.planner.solve.pareto import label_placement
from heterps.planner.solve.placement import Flow, Segment, Shards
from heterps.planner.solve.search import best_at, best_price_per_row, best_throughput, frontier
from heterps.planner.solve.shared_use import carried_by_first
from heterps.planner.solve.solvers import brute_force, exact, solver
from heterps.testing.solver_contract import RATES, chains, random_chain


@settings(max_examples=150, deadline=None)
@given(chains, RATES)
def test_exact_equals_brute_force_at_every_throughput(problem, x):
    found, expected = exact(problem, x), brute_force(problem, x)
    assert (found is None) == (expected is None)
    if found is not None:
        assert found.price == pytest.approx(expected.price)
        assert problem.sustained(found) >= x * (1 - 1e-6)


@settings(max_examples=4, deadline=None)
@given(st.integers(0, 2**31), st.integers(6, 8), st.sampled_from([np.inf, 4, 9]), st.booleans(), st.floats(0.05, 3.0))
def test_exact_equals_brute_force_on_long_chains(seed, layers, cap, serial, x):
    problem = random_chain(seed, layers, 2, cap=cap, serial=serial)
    found, expected = exact(problem, x), brute_force(problem, x)
    assert (found and found.price) == (expected and pytest.approx(expected.price))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 4), st.floats(0.1, 3.0), st.sampled_from([0.01, 0.1, 0.3]))
def test_what_is_skipped_is_not_forgotten_in_the_bound(seed, layers, x, skip):
    problem = random_chain(seed, layers, 2, cap=30)
    best = best_price_per_row(problem, x, exact, at_most=2 * x)
    found = best_price_per_row(problem, x, exact, at_most=2 * x, skip=skip)
    assert (found is None) == (best is None)
    if found is not None:
        assert found.bound <= best.value * (1 + 1e-9) <= found.value * (1 + 2e-9)
        assert found.value <= best.value / (1 - skip) * (1 + 2e-3)


@settings(max_examples=40, deadline=None)
@given(chains, RATES)
def test_labels_and_highs_agree(problem, x):
    labels, highs = label_placement(problem, x), milp_placement(problem, x)
    assert (labels is None) == (highs is None)
    if labels is not None:
        assert labels.price == pytest.approx(highs.price)
        assert highs.bound == pytest.approx(highs.price)


BETWEEN = {"at_most": 40.0, "tolerance": 0}  # rows a second from 20, for which many units are needed


@pytest.mark.parametrize("hosts", [False, True])
def test_what_costs_less_than_a_value_is_found_beyond_what_costs_more(hosts):
    """What costs more per row than is to be beaten is jumped over, and not a row a second farther."""
    for seed in range(30):
        problem = random_chain(seed, 3, 2, serial=False, hosts=hosts)
        best = best_price_per_row(problem, 20.0, exact, **BETWEEN)
        found = best_price_per_row(problem, 20.0, exact, **BETWEEN, beat=best.value * (1 + 1e-6))
        assert found.value == pytest.approx(best.value, rel=1e-6), seed


def test_what_was_found_too_dear_may_be_had_for_less():
    def dear(problem, x):
        found = exact(problem, x)
        return found and replace(found, price=1.02 * found.price)

    for seed in range(40):
        problem = random_chain(seed, 3, 2, serial=False)
        best = best_price_per_row(problem, 20.0, exact, **BETWEEN)
        with pytest.raises(UndecidedError):
            best_price_per_row(problem, 20.0, dear, **BETWEEN, beat=best.value * (1 + 1e-4))


def least_per_row_by_listing(problem, at_least):
    """Every sequence of stages, every breakpoint of every stage within the caps: an independent oracle."""
    best = np.inf
    for segments in _all_segments(problem):
        speeds = set()
        for s in segments:
            for k in range(1, int(problem.cap[s.type]) + 1):
                speeds.add(problem.speed(Segment(s.start, s.stop, s.type, k)))
        for x in [at_least, *(v for v in speeds if v >= at_least)]:
            units = [_least_units(problem, s, x) for s in segments]
            if None not in units:
                sized = tuple(Segment(s.start, s.stop, s.type, k) for s, k in zip(segments, units, strict=True))
                used = np.zeros(problem.types)
                for s in sized:
                    used[s.type] += s.units
                if (used <= problem.cap).all():
                    sustained = min(problem.speed(s) for s in sized)
                    best = min(best, float(used @ problem.price) / sustained)
    return best


def _all_segments(problem):
    layers = problem.layers
    for cuts in itertools.product([False, True], repeat=layers - 1):
        ends = [0, *(i + 1 for i, cut in enumerate(cuts) if cut), layers]
        for types in itertools.product(range(problem.types), repeat=len(ends) - 1):
            yield [Segment(i, j, t, 1) for (i, j), t in zip(itertools.pairwise(ends), types, strict=True)]


def _least_units(problem, s, x):
    for k in range(1, int(problem.cap[s.type]) + 1):
        if problem.speed(Segment(s.start, s.stop, s.type, k)) >= x * (1 - 1e-9):
            return k
    return None


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 4), st.integers(1, 2), st.booleans(), st.floats(0.1, 3.0))
def test_jumps_find_the_least_price_per_row(seed, layers, types, serial, at_least):
    problem = random_chain(seed, layers, types, cap=5, serial=serial)
    expected = least_per_row_by_listing(problem, at_least)
    found = best_price_per_row(problem, at_least, exact, tolerance=0)
    assert (found is None) == np.isinf(expected)
    if found is not None:
        assert found.value == pytest.approx(expected, rel=1e-6)
        assert found.bound == pytest.approx(expected, rel=1e-6)


@settings(max_examples=60, deadline=None)
@given(chains, RATES)
def test_exact_never_costs_more_than_a_baseline(problem, x):
    best = exact(problem, x)
    for name in ("greedy", "cpu-only", "gpu-only", "brute"):
        rival = solver(name).solve(problem, x)
        if rival is not None:
            assert best is not None
            assert best.price <= rival.price * (1 + 1e-9)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 8), st.integers(1, 3), st.booleans(), st.floats(0.01, 5), st.floats(1, 2))
def test_relaxed_price_per_row_never_falls_and_bounds_the_integer_one(seed, layers, types, serial, x, factor):
    problem = random_chain(seed, layers, types, serial=serial)
    low, high = relaxed_price(problem, x) / x, relaxed_price(problem, x * factor) / (x * factor)
    assert high >= low * (1 - 1e-9)
    placement = chain_placement(problem, x)
    assert placement is None or placement.price / x >= low * (1 - 1e-9)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 4), st.integers(1, 3), RATES)
def test_raising_a_cap_never_raises_the_price(seed, layers, types, x):
    prices = []
    for cap in (1, 3, 8, np.inf):
        found = exact(random_chain(seed, layers, types, cap=cap), x)
        prices.append(np.inf if found is None else found.price)
    assert prices == sorted(prices, reverse=True)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 4), st.integers(1, 3), st.sampled_from([2, 5, 9]), st.booleans())
def test_nothing_above_the_most_throughput_is_feasible(seed, layers, types, cap, shared):
    problem = random_chain(seed, layers, types, cap=cap, shared=shared)
    found = best_throughput(problem, exact)
    if found is None:
        assert exact(problem, 1e-6) is None
    else:
        assert found.gap == 0
        assert brute_force(problem, found.rows_per_second * (1 - 1e-6)) is not None
        assert brute_force(problem, found.rows_per_second * (1 + 1e-6)) is None


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 3), RATES, st.sampled_from([1, 2, 4]))
def test_mixing_pools_never_costs_more_and_is_sized_rightly(seed, layers, x, cap):
    pure = random_chain(seed, layers, 3, cap=[np.inf, cap, cap])
    mixed = random_chain(seed, layers, 3, cap=[np.inf, cap, cap], mixes=[(1, 2), (2, 1)])
    alone, together = exact(pure, x), exact(mixed, x)
    if alone is not None:
        assert together.price <= alone.price * (1 + 1e-9)
    if together is not None:
        assert mixed.sustained(together) >= x * (1 - 1e-6)
        assert (together.used(3) <= mixed.cap).all()
        assert together.price >= relaxed_price(mixed, x) * (1 - 1e-9)
        for segment in together.segments:
            assert 0 < carried_by_first(mixed, segment, x) <= x * (1 + 1e-9)


def test_mixing_two_pools_reaches_what_neither_can():
    problem = make_problem([[0.1, 0.2]], 1.0, [1, 1], cap=[3, 4], mixes=[(0, 1)])
    assert best_throughput(problem, exact).rows_per_second == pytest.approx(3 / 0.1 + 4 / 0.2)


def test_what_a_solver_proves_at_a_rate_is_no_more_in_the_answer():
    def half_proved(problem, x):
        found = exact(problem, x)
        return replace(found, bound=found.price / 2)

    found = best_at(random_chain(1, 4, 2), 1.0, half_proved)
    assert found.bound == found.value / 2
    assert found.proof == "the solver's bound at this rate"


def test_a_plan_that_takes_nearly_all_of_a_budget_is_one():
    problem = make_problem([[1.0]], price=10.0, cap=9.0)
    assert best_price_per_row(problem, 1.0, exact, budget=10.5).value == pytest.approx(10.0)
    assert best_price_per_row(problem, 1.0, exact, budget=9.5) is None


def test_within_the_tolerance_fractions_are_the_bound():
    """500.5 for 500 rows, 1,000.5 for 1,000: the search ends with the first, as fractions are so near."""
    problem = make_problem([[1.0]], shards=Shards(0.001, 1, 0.5))
    found = best_price_per_row(problem, 500.0, exact)
    assert found.proof == "price with fractional units"
    assert found.bound <= best_price_per_row(problem, 1_000.0, exact).value == pytest.approx(1.0005)


def test_frontier_rises_and_ends_at_the_caps():
    problem = random_chain(3, 4, 2, cap=20)
    most = best_throughput(problem, exact).rows_per_second
    points = frontier(problem, exact, most / 100, most * 2)
    speeds, prices = [x for x, _ in points], [p.price for _, p in points]
    assert speeds == sorted(speeds)
    assert prices == sorted(prices)
    assert speeds[-1] <= most * (1 + 1e-6)


def test_fixed_rate_is_not_raised():
    problem = random_chain(1, 3, 2)
    found = best_at(problem, 2.0, exact)
    assert found.value == exact(problem, 2.0).price
    assert found.proof == "exact at this rate"
    assert best_at(random_chain(1, 3, 2, cap=0), 2.0, exact) is None


def test_links_limit_what_may_be_cut():
    free = make_problem([[0.01, 5], [5, 0.01]], 1.0, [1, 1], flows=[Flow(0, 1, "h", 100.0)])
    assert len(exact(free, 1.0).segments) == 2
    narrow = make_problem([[0.01, 5], [5, 0.01]], 1.0, [1, 1], flows=[Flow(0, 1, "h", 100.0)], link=[[99.0] * 2] * 2)
    assert len(exact(narrow, 1.0).segments) == 1
    assert milp_placement(narrow, 1.0).price == exact(narrow, 1.0).price


def test_shard_hosts_take_units_of_their_pool():
    shards = Shards(seconds=0.5, minimum=1, type=0)
    problem = make_problem([[0.1]], 1.0, [3.0], cap=6, shards=shards)
    found = best_throughput(problem, exact)
    assert found.placement.hosts + found.placement.used(1)[0] <= 6
    assert found.rows_per_second == pytest.approx(10.0)  # 5 hosts carry 10 rows a second, one unit carries 10
    assert found.placement.price == 18.0


def test_negative_times_are_refused():
    with pytest.raises(ValueError, match="must not be negative"):
        make_problem([[-1.0]])


def test_free_units_without_end_are_not_counted_one_by_one():
    """Only the shard host costs something, and any number of free units makes it serve more rows."""
    problem = make_problem([[1.0]], 0.97, [0.0], shards=Shards(0.01, 1, 2.0))
    found = best_price_per_row(problem, 1.0, exact, at_most=20.0)
    assert found.value == pytest.approx(2.0 / 20.0)
    assert (found.gap, found.solves) == (0.0, 1)
    ends = best_price_per_row(problem, 1.0, exact, at_most=50.0)  # units without end do 1 / 0.03
    assert ends.value == pytest.approx(2.0 * 0.03, rel=1e-6)
    assert ends.gap < 1e-6
    assert ends.solves < 20


def test_what_a_solver_leaves_open_stays_open():
    """Prices of which it proves nine tenths; throughputs of which it says nothing."""
    problem = make_problem([[0.6], [0.4]], cap=4, shards=Shards(0.0, 1, 3.0, -1))

    def loose(problem, x):
        placement = exact(problem, x)
        return placement and replace(placement, bound=0.9 * placement.price)

    def silent(problem, x):
        if x > 1.0:
            raise UndecidedError("no time")
        return exact(problem, x)

    found = best_price_per_row(problem, 1.0, loose, at_most=2.0)
    assert found.bound <= 0.9 * found.value * (1 + 1e-9)
    found = best_price_per_row(problem, 1.0, silent, at_most=2.0)
    assert found.value == 4.0
    assert found.bound <= 1.0 + 1e-6
    assert best_throughput(problem, silent).bound > 3.9
    with pytest.raises(UndecidedError):
        best_price_per_row(problem, 1.0, silent, at_most=2.0, beat=3.0)


@pytest.mark.parametrize("budget", [18.2, 40.0])
def test_a_plan_that_costs_more_than_may_be_paid_is_none_whatever_is_proved_of_others(budget):
    """Raised prices find plans that are dearer than what they prove."""
    problem = make_problem(
        [[0.62, 0.8], [0.8, 0.35]], price=[6.05, 1.29], sold_in=[3, 2], shards=Shards(0.18, 1, 1.0, 0)
    )
    within = {"at_most": 6.0, "budget": budget}
    best = best_price_per_row(problem, 1.2, exact, **within)
    try:
        found = best_price_per_row(problem, 1.2, multiplier_placement, **within)
    except UndecidedError:
        return
    assert found.placement.price <= budget * (1 + 1e-9)
    assert found.bound <= best.value <= found.value * (1 + 1e-9)
