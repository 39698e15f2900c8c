"""The dynamic program over states, against the recursion as it is written at the head of its file."""

import numpy as np
import pytest

from heterps.planner.solve.chain import _forward, is_inside, units_needed
from heterps.planner.solve.dag import over_downsets
from heterps.planner.solve.making import make_problem
from heterps.planner.solve.search import best_throughput
from heterps.planner.solve.solvers import exact
from tests.unit.planner.instances import instance, problem_of


def written(problem, x, whole):
    """Least price of reaching each state, from which one, on which type: the first of those that cost the same."""
    best, before = [0.0], [(-1, -1)]
    for j in range(1, problem.states):
        ways = [
            (best[i] + problem.price[t] * units, i, t)
            for i in range(j)
            if is_inside(problem.words, i, j)
            for t in range(problem.types)
            if (units := units_needed(x, i, j, t, problem.stage_figures, whole)) < np.inf
        ]
        price, i, t = min(ways, default=(np.inf, -1, -1))
        best.append(price)
        before.append((i, t))
    return best, before


def test_the_program_finds_the_first_of_the_cheapest_stages_into_every_state():
    looked = 0
    for seed in range(150):
        problem, _ = over_downsets(problem_of(instance(seed)))
        for x in (0.3, 1.0, 2.2):
            for whole in (True, False):
                best, stage = np.empty(problem.states), np.empty((problem.states, 3))
                _forward(x, problem.words, problem.stage_figures, problem.price, whole, best, stage)
                wanted, before = written(problem, x, whole)
                np.testing.assert_array_equal(best, wanted, f"seed {seed}")
                for j in np.flatnonzero(np.isfinite(best))[1:]:
                    i, t = before[j]
                    assert stage[j, :2].tolist() == [i, t], f"seed {seed}"
                    assert stage[j, 2] == units_needed(x, i, j, t, problem.stage_figures, whole)
                    looked += 1
    assert looked > 1_000


@pytest.mark.parametrize("units", [1, 3])
def test_work_that_is_not_divided_is_carried_up_to_the_last_row_that_there_is_time_for(units):
    """What is said to be the most is no less at a fixed rate, and more is not."""
    problem = make_problem([[[0.25], [0.3]], [[0.5], [0.0]]], [[[1.0], [1.0]], [[0.0], [1.0]]], cap=units)
    assert best_throughput(problem, exact).value == pytest.approx(2.0 if units > 1 else 1 / 0.55)
    assert (exact(problem, 2.0) is not None) == (units > 1)
    assert exact(problem, 2.0 * (1 + 1e-8)) is None
