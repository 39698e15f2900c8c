"""The checks with known answers: small cases that can be worked out by hand."""

import numpy as np
import pytest

from heterps.planner.solve.chain import chain_placement, relaxed_price
from heterps.planner.solve.making import make_problem
from heterps.planner.solve.milp import milp_placement
from heterps.planner.solve.pareto import label_placement
from heterps.planner.solve.placement import Segment
from heterps.planner.solve.search import best_at, best_price_per_row, best_throughput
from heterps.planner.solve.solvers import exact, solver

EMBED_AND_TWO_DENSE = [[0.01, 0.01], [1, 0.01], [1, 0.01]]
RATIO = [[0.06, 0.6], [2.4, 0.012]]


def test_amdahl():
    problem = make_problem([[[1.0]], [[0.5]]], [[[0.9]], [[0.8]]])
    serial, parallel = problem.times(0, 1, 0)
    np.testing.assert_allclose(serial + parallel / 4, [0.325, 0.2])
    assert problem.speed(Segment(0, 1, 0, 4)) == pytest.approx(1 / 0.325)


def test_one_stage_has_a_ceiling():
    problem = make_problem([[2.0]], 0.9)
    assert exact(problem, 4.0).segments == (Segment(0, 1, 0, 36),)
    assert exact(problem, 5.0) is None
    assert relaxed_price(problem, 5.0) == np.inf


def test_splitting_a_type_helps_against_amdahl():
    problem = make_problem([[1.0], [1.0]], 0.9)
    merged = make_problem([[2.0]], 0.9)
    assert exact(merged, 4.0).price == 36
    assert [s.units for s in exact(problem, 4.0).segments] == [6, 6]


def test_embedding_on_cpu_dense_on_gpu():
    problem = make_problem(EMBED_AND_TWO_DENSE, 1.0, [1, 60], kinds=("cpu", "gpu"))
    assert solver("cpu-only").solve(problem, 100.0).price == 201
    assert solver("gpu-only").solve(problem, 100.0).price == 180
    best = exact(problem, 100.0)
    assert best.price == 121
    assert best.segments == (Segment(0, 1, 0, 1), Segment(1, 3, 1, 2))


@pytest.mark.parametrize("solve", [exact, label_placement, milp_placement], ids=lambda f: f.__name__)
@pytest.mark.parametrize(
    ("cap", "price"), [([np.inf, 2], 121), ([np.inf, 1], 161), ([np.inf, 0], 201), ([100, 1], None)], ids=str
)
def test_caps(solve, cap, price):
    problem = make_problem(EMBED_AND_TWO_DENSE, 1.0, [1, 60], cap=cap)
    found = solve(problem, 100.0)
    assert (found and found.price) == price


def test_the_optimum_lies_above_the_wanted_throughput():
    problem = make_problem(RATIO, 1.0, [1, 60], cap=[40, 8])
    assert best_at(problem, 100.0, exact).value / 100 == pytest.approx(1.26)
    found = best_price_per_row(problem, 100.0, exact)
    assert found.rows_per_second == pytest.approx(500 / 3)
    assert found.placement.used(2).tolist() == [10, 2]
    assert found.value == pytest.approx(0.78)
    assert found.bound == pytest.approx(relaxed_price(problem, 100.0) / 100)
    assert found.gap == pytest.approx(0, abs=1e-9)


def test_most_throughput_of_an_inventory():
    problem = make_problem(RATIO, 1.0, [1, 60], cap=[40, 8])
    found = best_throughput(problem, exact)
    assert found.rows_per_second == pytest.approx(666.667, rel=1e-5)  # 40 CPUs for E; eight GPUs for F
    assert found.placement.used(2).tolist() == [40, 8]
    assert found.gap == 0
    assert found.proof == "nothing just above is feasible"
    limited = best_throughput(problem, exact, budget=130)
    assert limited.rows_per_second == pytest.approx(500 / 3)


def test_cpu_gpu_cpu_is_five_blocks_and_three_stages():
    seconds = [[0.01, 5], [5, 0.01], [0.01, 5]]
    problem = make_problem(seconds, 1.0, [1, 1])
    stages = chain_placement(problem, 1.0).segments
    assert [s.type for s in stages] == [0, 1, 0]
    # Forward of every stage but the last is paired with its backward; the last runs both at once.
    assert 2 * len(stages) - 1 == 5
