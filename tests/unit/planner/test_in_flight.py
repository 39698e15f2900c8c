"""Batches in flight take memory of those who hold them: what a search counts, and what finished plans have."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from heterps.hardware import Hardware
from heterps.models import ctrdnn, wide_deep
from heterps.planner import MinCost
from heterps.planner.costs.planning_model import build_problem
from heterps.planner.planner import Request
from heterps.planner.solve.assemble import Draft, depth_of, in_flight
from heterps.planner.solve.chain import _units_into, units_needed
from heterps.planner.solve.dag import over_downsets
from heterps.planner.solve.making import make_problem
from heterps.planner.solve.placement import Segment
from heterps.planner.solve.search import best_at
from heterps.planner.solve.small import suited
from heterps.planner.solve.solvers import exact, greedy, only

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


@pytest.mark.parametrize("model", [wide_deep, ctrdnn])
@pytest.mark.parametrize("batch_size", [512, 16384])
def test_finished_plans_have_at_least_as_many_in_flight_as_the_search_counts(model, batch_size):
    """The bound for all depths rests on this: played, no batch is on its way for less than the problem says."""
    request = Request(model(), Hardware.from_toml(RENTED), MinCost(2e5), (batch_size,))
    costs = request.costs(batch_size)
    server = request.hardware.pool("cpu")
    problem, _ = over_downsets(build_problem(costs, server))
    assert problem.has_flight
    free = replace(problem, layer_way=0 * problem.layer_way, cut_way=0 * problem.cut_way)
    for solve in (exact, greedy, only("cpu"), only("gpu")):
        found = best_at(free, 2e5, solve)
        draft = Draft(costs, free, server, found, {})
        played = in_flight(replace(draft, depth=depth_of(draft))) / found.rows_per_second
        for s in found.placement.segments:
            assert played >= (problem.flight[0, s.stop, s.type] - problem.flight[1, s.start, s.type]) * (1 - 1e-9)
