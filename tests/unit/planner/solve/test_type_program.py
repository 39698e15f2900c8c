"""The program over places of Layers: no plan of small instances is better, and on graphs of many tables it is close."""

import math
from dataclasses import replace

import numpy as np
import pytest

from heterps.planner import FixedRate, MaxThroughput, MinCost, plan
from heterps.planner.solve.bounds import least_price
from heterps.planner.solve.dag import in_groups
from heterps.planner.solve.effort import NEVER, Deadline
from heterps.planner.solve.integer_program import IntegerProgram, ProgramSolution
from heterps.planner.solve.large import planned
from heterps.planner.solve.making import make_problem
from heterps.planner.solve.placement import Flow
from heterps.planner.solve.solvers import exact
from heterps.planner.solve.type_program import TypeProgram, least_per_row, most_within
from tests.unit.planner.brute import BrutePlans
from tests.unit.planner.instances import goal_of, instance, problem_of
from tests.unit.planner.odd_instances import drawn
from tests.unit.planner.solve.test_large import with_tables
from tests.unit.planner.test_against_brute_force import best_by_brute_force

FEW, MANY = range(5_000, 5_020), range(5_020, 5_300)


@pytest.mark.parametrize("seeds", [FEW, pytest.param(MANY, marks=pytest.mark.full)], ids=["few", "many"])
def test_no_plan_is_better_than_the_program_says(seeds):
    decided = looked = 0
    for seed in seeds:
        made = drawn(seed, most_layers=4)
        problem, goal = problem_of(made), goal_of(made)
        best = best_by_brute_force(problem, goal)
        if not best:
            continue
        bound = goal.closer(TypeProgram(problem), best, math.inf if goal.rises else 0.0, NEVER)
        looked += 1
        decided += bound not in (0.0, math.inf)
        low, high = (best, bound) if goal.rises else (bound, best)
        assert low <= high * (1 + 1e-6), f"seed {seed}: {best}, bound {bound}"
        assert not goal.rules_out(TypeProgram(problem), best, NEVER), f"seed {seed}"
    assert decided > looked / 2


def check_within_a_price(seeds):
    """As the planner asks: many times the rows a second that are wanted, at twice the price an hour."""
    closer = 0
    for seed in seeds:
        made = instance(seed, most_layers=4)
        problem, goal = problem_of(made), goal_of(made)
        if not isinstance(goal, MinCost) or (least := BrutePlans(problem).least_price(goal.rows_per_second)) is None:
            continue
        limited, fast = MinCost(goal.rows_per_second, price_per_hour=2 * least or 1.0), 6 * goal.rows_per_second
        limited, free = replace(limited, up_to=fast), replace(goal, up_to=fast)
        best = BrutePlans(problem).least_per_row(goal.rows_per_second, fast, limited.price_per_hour)
        bounds = [each.closer(TypeProgram(problem), best, 0.0, NEVER) for each in (limited, free)]
        assert bounds[0] <= best * (1 + 1e-6), f"seed {seed}: {best}, bound {bounds[0]}"
        assert not limited.rules_out(TypeProgram(problem), best, NEVER), f"seed {seed}"
        closer += bounds[0] > bounds[1] * (1 + 1e-3)
    assert closer


def test_no_plan_within_a_price_is_better_than_the_program_says():
    check_within_a_price(range(5_000, 5_150))


@pytest.mark.full
def test_no_plan_within_a_price_is_better_than_the_program_says_of_many():
    check_within_a_price(range(5_150, 6_000))


def branches(count):
    """Tables side by side on a cpu, each with a layer that may be on a gpu; then one layer that may be anywhere."""
    layers = 2 + 2 * count
    seconds = [[0.02, 1.0], *[[0.01, 1.0], [0.05, 0.01]] * count, [1.0, 0.2]]
    allowed = [[True, False], *[[True, False], [True, True]] * count, [True, True]]
    flows = []
    for i in range(count):
        pull, layer = 1 + 2 * i, 2 + 2 * i
        flows += [Flow(0, pull, f"ids{i}", 1.0), Flow(pull, layer, f"rows{i}", 2.0)]
        flows.append(Flow(layer, layers - 1, f"out{i}", 3.0))
    wire = {"receive_s": 0.02, "send_s": 0.02}
    return make_problem(seconds, price=[1.0, 3.0], cap=[200, 90], allowed=allowed, flows=flows, **wire)


@pytest.mark.parametrize("goal", [MinCost(3.0), FixedRate(3.0), MaxThroughput(40.0)], ids=["cost", "rate", "most"])
def test_branches_that_are_alike_are_bounded_closely(goal):
    found = planned(branches(40), goal, exact, most=50).found
    assert "the bound is for all" in found.proof
    assert found.gap <= 0.02


@pytest.mark.parametrize(
    ("goal", "value"),
    [(MinCost(3.0), 0.5), (FixedRate(3.0), 0.5), (MaxThroughput(), 2.0)],
    ids=["cost", "rate", "most"],
)
def test_what_no_plan_reaches_is_not_searched_for(goal, value):
    best = planned(branches(40), goal, exact, most=50).found.value
    outcome = planned(branches(40), goal, exact, most=50, beat=value * best)
    assert outcome.beaten
    easy = best * (0.99 if goal.rises else 1.01)
    assert not planned(branches(40), goal, exact, most=50, beat=easy).beaten


def test_the_linear_bound_alone_is_far():
    problem = branches(40)
    price = exact(problem_with_groups(problem), 3.0).price
    program = TypeProgram(problem).least_price(3.0, NEVER)
    assert least_price(problem, 3.0) < 0.97 * program <= price


def problem_with_groups(problem):
    return replace(problem, members=in_groups(problem, 8))


@pytest.mark.parametrize(
    ("seconds", "room", "x"), [((1.0, 1.0), {}, 1.8), ((0.1, 1.0), {"layer_held": [(1.0, 0.01)], "way": 1.0}, 10.5)]
)
def test_pools_that_share_a_stage_have_parts_of_a_layer_and_room_for_one_another(seconds, room, x):
    """One unit of each carries what neither does alone; or one has the speed and the other the room."""
    problem = make_problem([seconds], cap=1, mixes=[(0, 1)], memory_cap=1.0, **room)
    assert exact(problem, x).price == 2.0
    assert TypeProgram(problem).least_price(x, NEVER) == pytest.approx(2.0, rel=1e-4)


def test_a_bound_is_what_is_proved_not_what_is_found(monkeypatch):
    solution = lambda program, *_, **__: ProgramSolution(np.ones(len(program.cost)), 7.0, 3.0)  # noqa: E731
    monkeypatch.setattr(IntegerProgram, "solve", solution)
    assert TypeProgram(branches(4)).least_price(1.0, NEVER) == pytest.approx(3.0, rel=1e-4)


def test_without_time_the_bound_is_what_it_was():
    program = TypeProgram(branches(4))
    assert least_per_row(program, 1.0, 2.0, 9.0, 5.0, Deadline(0.0)) == 5.0
    assert most_within(program, 1.0, 7.0, math.inf, Deadline(0.0)) == 7.0


def test_a_program_that_is_too_large_is_not_built():
    assert TypeProgram(branches(100)).applies  # alike: four layers
    assert not TypeProgram(make_problem([[1.0, 2.0 + i] for i in range(4000)])).applies


@pytest.mark.full
def test_tables_of_many_kinds_are_bounded_within_a_few_per_cent(rented):
    made = plan(with_tables(range(8, 60, 2)), rented, goal=MinCost(5e6), batch_size=8192)
    assert made.certificate.gap < 0.03
