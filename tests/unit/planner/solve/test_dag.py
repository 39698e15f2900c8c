"""Branching graphs: downsets, contraction, minimum cut, the integer program over slots."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st

from heterps.errors import PlanError
from heterps.planner.solve.dag import alike_edges, blocks, downsets, edges_of, over_downsets
from heterps.planner.solve.making import make_problem
from heterps.planner.solve.mincut import cut_value, min_cut
from heterps.planner.solve.placement import Flow
from heterps.planner.solve.search import best_throughput
from heterps.planner.solve.slot_program import slot_placement
from heterps.planner.solve.solvers import brute_force, exact
from tests.unit.planner.instances import instance, problem_of


def random_dag(seed, layers, types=2, *, serial=False, cap=np.inf, data=True, pins=True):
    rng = np.random.default_rng(seed)
    pairs = [p for p in itertools.combinations(range(layers), 2) if rng.random() < 0.5]
    allowed = rng.random((layers, types)) < (0.8 if pins else 2)
    allowed[np.arange(layers), rng.integers(types, size=layers)] = True
    return make_problem(
        rng.uniform(0.1, 1, (2, layers, types)) * np.array([1.0, 0.5 if data else 0.0])[:, None, None],
        rng.uniform(0.9, 1, (2, layers, types)) if serial else 1.0,
        rng.uniform(1, 5, types),
        cap=cap,
        allowed=allowed,
        flows=[Flow(a, b, f"out{a}", 1.0 + a % 3, 0.5 * (a % 4)) for a, b in pairs],
        receive_s=rng.uniform(0.01, 0.2, types) * data,
        send_s=rng.uniform(0.01, 0.2, types) * data,
    )


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 7))
def test_downsets_are_all_closed_sets(seed, layers):
    edges = edges_of(random_dag(seed, layers))
    found = {tuple(row) for row in downsets(layers, edges).tolist()}
    closed = {s for s in itertools.product([False, True], repeat=layers) if all(s[a] >= s[b] for a, b in edges)}
    assert found == closed
    assert downsets(layers, edges, most=len(closed) - 1) is None
    sizes = downsets(layers, edges).sum(axis=1).tolist()
    assert sizes == sorted(sizes)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 4), st.booleans(), st.sampled_from([np.inf, 5]), st.floats(0.2, 4))
def test_exact_over_downsets_equals_enumeration_and_never_costs_more_than_the_given_order(seed, n, serial, cap, x):
    chain = random_dag(seed, n, serial=serial, cap=cap)
    full = replace(chain, members=downsets(n, edges_of(chain)))
    contracted, complete = over_downsets(chain)
    assert complete
    expected, found, ordered = brute_force(full, x), exact(contracted, x), exact(chain, x)
    assert (found is None) == (expected is None)
    if found is not None:
        assert found.price == pytest.approx(expected.price)
    if ordered is not None:
        assert found.price <= ordered.price * (1 + 1e-9)


def test_contraction_joins_neighbours_in_line_that_are_pinned_alike_and_scale():
    allowed = [[True, False], [True, False], [True, True], [False, True], [False, True]]
    flows = [Flow(i, i + 1, str(i), 1.0) for i in range(4)]
    problem = make_problem(np.ones((5, 2)), 1.0, allowed=allowed, flows=flows)
    assert blocks(problem) == [0, 0, 1, 2, 2]
    assert over_downsets(problem)[0].states == 4
    serial = make_problem(np.ones((5, 2)), 0.9, allowed=allowed, flows=flows)
    assert blocks(serial) == [0, 1, 2, 3, 4]
    small = make_problem(np.ones((5, 2)), 1.0, allowed=allowed, flows=flows, memory=1.0, memory_cap=[2.5, 3])
    assert blocks(small) == [0, 1, 2, 3, 3]  # three Layers may run on the first type, and do not fit it together


def around():
    """a -> u -> v -> b and a -> w -> b: w on the second type only, all else on the first, half a second each."""
    a, u, v, w, b = range(5)
    flows = [Flow(x, y, str(x), 1.0) for x, y in ((a, u), (u, v), (v, b), (a, w), (w, b))]
    return make_problem(np.full((5, 2), 0.5), allowed=[[x != w, x == w] for x in range(5)], flows=flows)


def test_a_stage_between_two_layers_of_one_type_is_seen():
    problem, complete = over_downsets(around())
    assert complete
    assert exact(problem, 1.0).price == 3  # {a, u}, {w}, {v, b}
    assert best_throughput(problem, exact, budget=3).rows_per_second == pytest.approx(1.0)


def test_a_chain_that_does_not_fit_one_worker_is_cut():
    flows = [Flow(i, i + 1, str(i), 1.0) for i in range(6)]
    problem = make_problem(np.ones((7, 1)), 1.0, 1.0, flows=flows, memory=1.0, memory_cap=3.0)
    assert [len(problem.stage_layers(s)) for s in exact(over_downsets(problem)[0], 0.1).segments] == [1, 3, 3]


def branches(count, length, *, odd=False):
    """A first Layer, so many chains beside one another, a last Layer; the last chain is slower if odd."""
    layers, last = 2 + count * length, 1 + count * length
    flows = []
    for head in range(1, last, length):
        flows.append(Flow(0, head, f"in{head}", 2.0))
        flows += [Flow(head + k, head + k + 1, f"out{head + k}", 1.0) for k in range(length - 1)]
        flows.append(Flow(head + length - 1, last, f"out{head + length - 1}", 1.0))
    seconds = np.ones((layers, 2)) * [1.0, 0.7]
    seconds[last - 1, 0] += odd
    return make_problem(seconds, 1.0, [1, 2], cap=30, flows=flows, receive_s=0.05, send_s=0.05)


def test_branches_that_are_alike_are_counted_not_listed():
    assert over_downsets(branches(26, 1))[0].states == 29
    assert over_downsets(branches(12, 2))[0].states == 2 + 13 * 14 // 2
    assert over_downsets(branches(4, 1, odd=True))[0].states == 2 + 4 * 2
    assert not alike_edges(branches(2, 2, odd=True))


@pytest.mark.parametrize(
    "other",
    [Flow(0, 2, "in2", 5.0), Flow(0, 2, "in1", 1.0)],
    ids=["a larger tensor", "a tensor that the other reads too"],
)
def test_branches_that_read_other_tensors_are_not_alike(other):
    out = [Flow(1, 3, "out1", 1.0), Flow(2, 3, "out2", 1.0)]
    first = Flow(0, 1, "in1", 1.0)
    assert alike_edges(make_problem(np.ones((4, 1)), flows=[first, Flow(0, 2, "in2", 1.0), *out])) == {(1, 2)}
    more = [Flow(0, 3, other.tensor, 1.0)] if other.tensor == "in1" else []
    found = alike_edges(make_problem(np.ones((4, 1)), flows=[first, other, *more, *out]))
    assert found == ({(1, 2)} if more else set())


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**31), st.integers(0, 3), st.floats(0.2, 3))
def test_neither_theorem_loses_a_plan(seed, more, x):
    figures = instance(seed, 3 + more)
    problem = problem_of(figures)
    every = replace(problem, members=downsets(problem.layers, edges_of(problem)))
    fewer = over_downsets(problem)[0]
    best, found = exact(every, x), exact(fewer, x)
    assert fewer.states <= every.states
    assert (found and found.price) == (best and pytest.approx(best.price))


def test_too_many_downsets_fall_back_to_the_given_order():
    problem = make_problem(np.linspace(1, 2, 12)[:, None])
    ordered, complete = over_downsets(problem, most=1000)
    assert not complete
    assert ordered.states == 13
    assert len(exact(over_downsets(problem, most=5000)[0], 0.5).segments) >= 1


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 6), st.floats(0, 1))
@example(seed=38937312, layers=2, weight=1e-9)  # rounding left a little of an edge that is cut
def test_minimum_cut_equals_enumeration(seed, layers, weight):
    problem = random_dag(seed, layers)
    types, value = min_cut(problem, weight)
    own = (weight * problem.layer_parallel[0] + (1 - weight) * problem.layer_parallel[1]) * problem.price
    receive, send = (
        (weight * each[0] + (1 - weight) * each[1]) * problem.price for each in (problem.receive_s, problem.send_s)
    )

    def cost(side):
        crossing = {f.tensor: (f, side[f.source]) for f in problem.flows if side[f.source] != side[f.target]}
        moved = [
            f.bytes * (send[a] + receive[1 - a]) + f.back * (receive[a] + send[1 - a]) for f, a in crossing.values()
        ]
        return sum(own[v, t] for v, t in enumerate(side)) + sum(moved)

    legal = [
        side
        for side in itertools.product([0, 1], repeat=layers)
        if all(problem.allowed[v, t] for v, t in enumerate(side))
    ]
    assert value == pytest.approx(min(map(cost, legal)))
    assert cost(types) == pytest.approx(value)
    assert value * (1 - 1e-6) <= cut_value(problem, weight) <= value * (1 + 1e-12)  # a bound must not be above it


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 5), st.floats(0, 1), st.floats(0.5, 20))
def test_minimum_cut_bounds_every_placement(seed, layers, weight, x):
    problem, _ = over_downsets(random_dag(seed, layers))
    best = exact(problem, x)
    assert best.price / x >= min_cut(problem, weight)[1] * (1 - 1e-9)


def test_minimum_cut_takes_two_types():
    with pytest.raises(PlanError, match="separates two types, the problem has 3"):
        min_cut(random_dag(0, 3, types=3))


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**31), st.integers(2, 4), st.sampled_from([np.inf, 6]), st.floats(0.5, 4))
def test_slots_reach_the_optimum_where_everything_scales(seed, layers, cap, x):
    problem, _ = over_downsets(random_dag(seed, layers, cap=cap))
    best, found = exact(problem, x), slot_placement(problem, x, slots=layers)
    assert (best is None) == (found is None)
    if best is not None:
        states, placement = found
        assert placement.price == pytest.approx(best.price)
        assert placement.bound == pytest.approx(best.price)
        assert states[-1].all()


def test_slots_report_a_gap_where_something_does_not_scale():
    problem, _ = over_downsets(random_dag(5, 4, serial=True))
    best = exact(problem, 2.0)
    _, placement = slot_placement(problem, 2.0)
    assert placement.bound <= best.price <= placement.price
