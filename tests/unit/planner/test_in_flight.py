"""Batches in flight take memory of those who hold them: what a search counts, and what finished plans have."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st

from heterps.errors import PlanError
from heterps.hardware import Hardware
from heterps.models import ctrdnn, wide_deep
from heterps.planner import MinCost
from heterps.planner.costs.planning_model import build_problem, server_pools
from heterps.planner.planner import Request, solve
from heterps.planner.solve.assemble import Draft, at_depth, in_flight
from heterps.planner.solve.chain import _units_into, relaxed_price, units_needed
from heterps.planner.solve.checks import check_counted
from heterps.planner.solve.dag import over_downsets
from heterps.planner.solve.making import make_problem
from heterps.planner.solve.placement import Placement, Segment
from heterps.planner.solve.search import SearchResult
from heterps.planner.solve.small import suited
from heterps.planner.solve.solvers import exact

RENTED = """
[[pool]]
name = "cpu"
device = "c6i-8xlarge"

[[pool]]
name = "gpu"
device = "l4"
serves = false
"""


def held(each=1.0, way=0.0, held=1, **more):
    """Two Layers of a second each on one type with memory for four batches of both, eight of one."""
    return make_problem(np.ones((2, 1)), 1.0, 1.0, layer_held=each, memory_cap=8.0, held=held, way=way, **more)


def test_a_stage_that_reads_has_room_for_its_lanes():
    assert exact(held(way=10.0), 1.0).segments == (Segment(0, 2, 0, 3),)  # 10 batches, 4 each


def test_later_stages_are_handed_one_more_than_their_part():
    placement = exact(held(way=10.0, allowed=True, each=1.5), 1.0)
    assert [(s.start, s.stop, s.units) for s in placement.segments] in ([(0, 1, 2), (1, 2, 3)], [(0, 2, 5)])
    assert held(way=10.0).most_in_flight(Segment(1, 2, 0, 1)) == 8  # each has room for all of them
    assert held(way=10.0).most_in_flight(Segment(1, 2, 0, 3)) == 21


def test_without_room_for_the_least_there_is_no_plan():
    assert exact(held(each=9.0), 1.0) is None
    assert exact(held(each=5.0, held=2), 1.0) is None


def test_a_placement_sustains_what_it_has_room_for():
    problem = held(way=10.0)
    placement = exact(problem, 1.0)
    assert problem.limits(placement)["room 0"] == pytest.approx(1.2)
    assert problem.sustained(placement) == pytest.approx(1.2)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**31), st.floats(0.05, 3), st.booleans(), st.booleans())
def test_units_of_all_stages_at_once_are_those_of_each(seed, x, whole, serial):
    rng = np.random.default_rng(seed)
    layers, types = 6, 2
    problem = make_problem(
        rng.uniform(0.1, 1, (3, layers, types)),
        rng.uniform(0.9, 1, (3, layers, types)) if serial else 1.0,
        allowed=rng.random((layers, types)) < 0.9,
        memory=rng.uniform(0, 1, (layers, types)),
        layer_held=rng.uniform(0, 1, (layers, types)),
        memory_cap=rng.uniform(2, 20, types),
        held=2,
        layer_way=rng.uniform(0, 2, (layers, types)),
        way=1.0,
    )
    for j in range(1, problem.states):
        for t in range(types):
            row = np.empty(problem.states)
            suited(_units_into, replace(problem, members=problem.members[:2]))(
                x, j, t, problem.stage_figures, whole, row
            )
            each = [units_needed(x, i, j, t, problem.stage_figures, whole) for i in range(j)]
            np.testing.assert_array_equal(row[:j], each)
            fewer = [units_needed(x, i, j, t, problem.stage_figures, False) for i in range(j)]
            assert (np.array(fewer) <= row[:j] * (1 + 1e-9)).all()


def test_who_reads_has_at_most_so_many_in_flight():
    problem = held(each=0.0, way=10.0, deepest=3.0)
    assert exact(problem, 1.0).segments == (Segment(0, 2, 0, 4),)
    assert problem.limits(exact(problem, 1.0))["depth 0"] == pytest.approx(1.2)
    assert relaxed_price(problem, 1.0) == pytest.approx(10 / 3)
    assert problem.most_in_flight(Segment(1, 2, 0, 1)) == np.inf


SHARED = """
[[host]]
name = "rack"
cores = 64
memory_bytes = 512e9
memory_bytes_per_s = 2e11

[[pool]]
name = "cpu"
device = "c6i-8xlarge"
host = "rack"
cap = 8

[[pool]]
name = "gpu"
device = "l4"
host = "rack"
cap = 2
serves = false
"""
MIXED = """
[[pool]]
name = "cpu"
device = "c6i-8xlarge"
cap = 20

[[pool]]
name = "gpu"
device = "l4"
cap = 3
serves = false

[[pool]]
name = "slow"
device = "t4"
cap = 9
serves = false
"""
LINKED = RENTED + '\n[[link]]\nsource = "cpu"\ntarget = "gpu"\nbytes_per_s = 1e9\n'
PRODUCTS = """
[[pool]]
name = "cpu"
device = "c6i-8xlarge"

[[product]]
name = "g6-xlarge"
"""
HARDWARE = {"rented": RENTED, "shared": SHARED, "mixed": MIXED, "linked": LINKED, "products": PRODUCTS}


def any_placement(problem, rng):
    """Any chain of cuts, each stage on any type on which its Layers may run, or on two; None if it comes to none."""
    at, segments = 0, []
    while at < problem.states - 1:
        inside = [j for j in range(at + 1, problem.states) if not (problem.members[at] & ~problem.members[j]).any()]
        to = int(rng.choice(inside))
        types = np.flatnonzero(problem.forbidden[at] == problem.forbidden[to])
        if not len(types):
            return None
        t, units, other = int(rng.choice(types)), int(rng.integers(1, 9)), -1
        pairs = [int(b) for a, b in problem.mixes if a == t and b in types]
        if pairs and rng.random() < 0.7:
            other = int(rng.choice(pairs))
        segments.append(Segment(at, to, t, units, other, int(rng.integers(1, 9)) if other >= 0 else 0))
        at = to
    return Placement(tuple(segments), 2, 1.0, 1.0)


def any_draft(hardware, model, batch_size, replicas, seed):
    """A draft of any plan there is, good or bad, at any throughput; None if none comes of it."""
    request = Request(model(), Hardware.from_toml(HARDWARE[hardware]), MinCost(1e4), (batch_size,), replicas=replicas)
    costs = request.costs(batch_size)
    server = server_pools(costs)[0]
    problem = over_downsets(build_problem(costs, server))[0]
    rng = np.random.default_rng(seed)
    if (placement := any_placement(problem, rng)) is None:
        return None
    found = SearchResult(placement, float(10 ** rng.uniform(3, 6)), 1.0, 1.0, "", 1)
    draft = Draft(costs, problem, server, found, {})
    return at_depth(draft)


@settings(max_examples=80, deadline=None)
@given(
    st.sampled_from(sorted(HARDWARE)),
    st.sampled_from([wide_deep, ctrdnn]),
    st.sampled_from([64, 512, 4096, 32768]),
    st.sampled_from([1, 2]),
    st.integers(0, 2**31),
)
def test_no_plan_has_fewer_in_flight_than_the_search_counts(hardware, model, batch_size, replicas, seed):
    """The bound for all depths rests on this: played, no batch is on its way for less than the problem says."""
    draft = any_draft(hardware, model, batch_size, replicas, seed)
    assume(draft is not None)
    check_counted(draft)
    segments, rate = draft.found.placement.segments, draft.found.rows_per_second
    for s in segments:
        assert in_flight(draft) >= draft.problem.in_flight(s) * rate * (1 - 1e-9)
    assert in_flight(draft) >= draft.problem.way_of(segments) * rate * (1 - 1e-9)


def test_a_plan_with_fewer_in_flight_than_counted_stops():
    draft = any_draft("rented", ctrdnn, 512, 1, 0)
    check_counted(draft)
    with pytest.raises(PlanError, match=r"contradicts itself \(batches in flight, at the least"):
        check_counted(replace(draft, depths=(draft.depths[0] // 3,)))


def test_plans_have_lanes_for_what_is_in_flight(monkeypatch):
    """Fewer workers could read all that the GPUs compute, but not have all of it in flight."""
    asked = Request(ctrdnn(), Hardware.from_toml(RENTED), MinCost(5e6), (4096,), pins={"fc*": "gpu"})
    free = solve(asked)
    monkeypatch.setattr("heterps.planner.costs.on_the_way.DEEPEST", 3)
    bounded = solve(asked)
    assert free.depth > bounded.depth == 3
    assert free.lanes < bounded.lanes
    words = "of them in flight for each worker that reads"
    assert words not in free.certificate.proof
    assert f"at most 3 {words}" in bounded.certificate.proof
    assert free.certificate.value <= bounded.certificate.bound < bounded.certificate.value
