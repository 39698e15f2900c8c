"""The dynamic program over states, against the recursion as it is written at the head of its file."""

import math

import numpy as np
import pytest

from heterps.planner.solve.chain import _forward, _lanes, is_inside, units_needed
from heterps.planner.solve.dag import over_downsets
from heterps.planner.solve.making import make_problem
from heterps.planner.solve.placement import TOLERANCE
from heterps.planner.solve.search import best_throughput
from heterps.planner.solve.solvers import exact
from tests.unit.planner.instances import instance, problem_of


def written(problem, x, whole, beside):
    """The least price of reaching every state, and the state and the type before: the first of those that cost it."""
    best, before = [0.0], [(-1, -1)]
    for j in range(1, problem.states):
        ways = [
            (best[i] - beside[1, t, i] + problem.price[t] * units + beside[0, t, j], i, t)
            for i in range(j)
            if is_inside(problem.words, i, j)
            for t in range(problem.types)
            if (units := units_needed(x, i, j, t, problem.stage_figures, whole[t])) < np.inf
        ]
        price, i, t = min(ways, default=(np.inf, -1, -1))
        best.append(price)
        before.append((i, t))
    return best, before


def test_the_program_finds_the_first_of_the_cheapest_stages_into_every_state():
    looked = 0
    rng = np.random.default_rng(7)
    for seed in range(150):
        problem, _ = over_downsets(problem_of(instance(seed)))
        shape = 2, problem.types, problem.states
        for x in (0.3, 1.0, 2.2):
            some, more = rng.random(problem.types) < 0.5, np.cumsum(rng.random(shape), axis=2)
            for each, beside in ((True, np.zeros(shape)), (False, np.zeros(shape)), (some, more)):
                whole = np.broadcast_to(each, problem.types).copy()
                best, stage = np.empty(problem.states), np.empty((problem.states, 3))
                _forward(x, problem.words, problem.stage_figures, problem.price, whole, beside, best, stage)
                wanted, before = written(problem, x, whole, beside)
                np.testing.assert_array_equal(best, wanted, f"seed {seed}")
                for j in np.flatnonzero(np.isfinite(best))[1:]:
                    i, t = before[j]
                    assert stage[j, :2].tolist() == [i, t], f"seed {seed}"
                    assert stage[j, 2] == units_needed(x, i, j, t, problem.stage_figures, whole[t])
                    looked += 1
    assert looked > 1_000


def one_by_one(units, least, most, held):
    """The lanes that :func:`_lanes` finds, each number of them tried."""
    while units * held <= most * (1 + TOLERANCE):
        if units * max(held, math.ceil(least / units * (1 - TOLERANCE))) <= most * (1 + TOLERANCE):
            return units
        units += 1.0
    return math.inf


def test_lanes_are_the_fewest_that_have_whole_batches_in_a_range():
    rng = np.random.default_rng(0)
    none = 0
    for _ in range(3000):
        units, held = float(rng.integers(1, 40)), float(rng.integers(1, 4))
        least = float(rng.integers(1, 400)) * rng.choice([1.0, 0.37])
        most = least + float(rng.integers(0, 9))
        wanted = one_by_one(units, least, most, held)
        none += wanted == math.inf
        assert _lanes.py_func(units, least, most, held) == wanted, (units, least, most, held)
    assert 200 < none < 2800


def test_lanes_of_a_rate_without_measure_are_found_at_once():
    """One after another they took minutes: ``heterps plan --rows-per-second 1e15`` did not end."""
    nearly = math.floor(1e15 / 33 * (1 - TOLERANCE))  # of 34 batches each, 3e13 lanes have too many
    assert _lanes.py_func(3e13, 1e15, 1e15 + 1, 2.0) == one_by_one(float(nearly), 1e15, 1e15 + 1, 2.0)


@pytest.mark.parametrize("units", [1, 3])
def test_work_that_is_not_divided_is_carried_up_to_the_last_row_that_there_is_time_for(units):
    """What is said to be the most is no less at a fixed rate, and more is not."""
    problem = make_problem([[[0.25], [0.3]], [[0.5], [0.0]]], [[[1.0], [1.0]], [[0.0], [1.0]]], cap=units)
    assert best_throughput(problem, exact).value == pytest.approx(2.0 if units > 1 else 1 / 0.55)
    assert (exact(problem, 2.0) is not None) == (units > 1)
    assert exact(problem, 2.0 * (1 + 1e-8)) is None
