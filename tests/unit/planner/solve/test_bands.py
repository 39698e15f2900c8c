"""Bounds by bands: no plan whose stages have room for all that it has in flight is better."""

import itertools
import math
from dataclasses import replace

import pytest

from heterps.hardware import Hardware
from heterps.models import resnet
from heterps.planner import FixedRate, MinCost
from heterps.planner.planner import Request, solve
from heterps.planner.solve import bands, type_bands
from heterps.planner.solve.bands import WholeBands
from heterps.planner.solve.effort import NEVER, UndecidedError
from heterps.planner.solve.large import planned
from heterps.planner.solve.making import make_problem
from heterps.planner.solve.solvers import exact
from heterps.planner.solve.type_bands import bands_over
from heterps.planner.solve.type_program import TypeProgram
from tests.unit.planner.instances import goal_of, instance, problem_of
from tests.unit.planner.lane_plans import LanePlans
from tests.unit.planner.stage_instances import placed
from tests.unit.planner.test_in_flight import RENTED

FEW, MANY = range(7_000, 7_080), range(7_080, 8_000)
SAID_TO_BE_IMPOSSIBLE = 7_434  # by a solver's own proof, of a program that has solutions


def roomy_instances(seeds, most_layers=4):
    """Instances in which room for batches in flight matters, each with its best plan in lanes of whole batches."""
    for seed in seeds:
        made = instance(seed, most_layers=most_layers)
        if "layer_held" in made and "layer_way" in made:
            problem, goal = problem_of(made), goal_of(made)
            best = LanePlans(problem).best(goal)
            if best:
                yield seed, problem, goal, best


def reading_instances(seeds):
    """Such instances in which all Layers come after the first, which is on one type only: its stage has lanes."""
    for seed in seeds:
        made = instance(seed, most_layers=4)
        layers, types = len(made["allowed"]), len(made["price"])
        if types > 1 and layers > 2 and {"layer_held", "layer_way"} <= {*made}:
            inner = [flow for flow in made["flows"] if flow[0] > 0]
            heads = set(range(1, layers)) - {flow[1] for flow in inner}
            made["flows"] = [*((0, v, "read", 1.5) for v in sorted(heads)), *inner]
            made["allowed"] = [[t == 0 for t in range(types)], *made["allowed"][1:]]
            made.pop("mixes", None)
            yield seed, problem_of(made), goal_of(made)


def worse_than(goal, best):
    """No bound is better than what is known: that must not be the best."""
    return best * (0.8 if goal.rises else 1.25)


def is_beaten(goal, bound, best):
    return bound < best * (1 - 1e-6) if goal.rises else bound > best * (1 + 1e-6)


@pytest.mark.parametrize("seeds", [FEW, pytest.param(MANY, marks=pytest.mark.full)], ids=["few", "many"])
@pytest.mark.parametrize("listed", [True, False], ids=["all cuts", "types"])
def test_no_plan_is_better_than_bands_say(seeds, listed, monkeypatch):
    if not listed:
        monkeypatch.setattr(type_bands, "FEW_STATES", 0)
        monkeypatch.setattr(bands, "_MOST_BANDS", 8)
    looked = closer = 0
    for seed, problem, goal, best in roomy_instances(seeds):
        known = planned(problem, goal, exact).found.bound if listed else goal.bound(problem)
        worse = worse_than(goal, best)
        bound = bands_over(problem)(goal, exact, lambda value=worse: value, lambda outcome: None, NEVER).closer(known)
        assert not is_beaten(goal, bound, best), f"seed {seed}: {bound}, best {best}, known {known}"
        assert not is_beaten(goal, known, best), f"seed {seed}"
        looked += 1
        closer += abs(bound - best) < abs(known - best) * 0.999
    assert looked > 10
    assert closer


def bands_with(goal, solver, value):
    """Bands of a chain of which 2.5 batches are in flight at one row a second."""
    problem = make_problem([[0.5], [0.6]], memory_cap=4.0, layer_held=1.0, way=2.5)
    return WholeBands(problem, goal, solver, lambda: value, lambda outcome: None, NEVER)


def test_no_plan_lies_between_two_bands():
    """Bands, and parts of a band, have all whole numbers from the fewest there are."""
    whole = bands_with(FixedRate(1.0), exact, 9.0)
    (low, high), (above, most) = whole._first()
    assert (low, above, most) == (3.0, high + 1, math.inf)
    for counted, batches in itertools.product((4.0, 5.0, 9.0, 30.0), (4.0, 6.0, 8.0)):
        for box in ((4.0, 9.0), (4.0, math.inf)):
            (low, high), (above, most) = whole._divided(*box, counted, batches) or (box, (box[1] + 1, box[1]))
            assert (low, above, most) == (box[0], high + 1, box[1])


def test_what_is_not_decided_keeps_its_bound_and_what_no_plan_beats_is_the_best():
    def undecided(problem, x):
        raise UndecidedError("no time")

    price = exact(bands_with(FixedRate(1.0), exact, 9.0)._problem, 1.0).price
    assert bands_with(FixedRate(1.0), undecided, price).closer(0.5 * price) == 0.5 * price
    assert bands_with(FixedRate(1.0), exact, price).closer(0.5 * price) == price


@pytest.mark.parametrize("seeds", [FEW, pytest.param(MANY, marks=pytest.mark.full)], ids=["few", "many"])
@pytest.mark.parametrize("stages", [{}, {"anchored": True}, {"anchored": True, "lanes": True}])
def test_no_plan_of_a_band_is_better_than_the_program_says(seeds, stages):
    looked = 0
    for seed, problem, goal, _ in roomy_instances(seeds):
        for part in (1.0, 1.5):
            low, high = part * problem.least_way, 1.6 * part * problem.least_way
            best = LanePlans(problem, low, high).best(goal)
            if not best:
                continue
            program = TypeProgram(replace(problem, way_from=low, way_to=high), **stages)
            known = 3 * best if goal.rises else 0.0
            bound = goal.closer(program, worse_than(goal, best), known, NEVER)
            assert not is_beaten(goal, bound, best), f"seed {seed}, {part}: {bound}, best {best}"
            assert not goal.rules_out(program, best, NEVER), f"seed {seed}, {part}"
            looked += 1
    assert looked > 10


@pytest.mark.parametrize(
    "seeds", [[*FEW, SAID_TO_BE_IMPOSSIBLE], pytest.param(MANY, marks=pytest.mark.full)], ids=["few", "many"]
)
def test_no_plan_with_lanes_is_better_than_the_program_says(seeds):
    """The stage that reads, and that of the largest Layer, are in the program as they are."""
    looked = 0
    for seed, problem, goal in reading_instances(seeds):
        for part, wide in ((1.0, 2.0), (1.3, 1.3), (2.0, 2.0)):
            low, high = part * problem.least_way, wide * part * problem.least_way
            best = LanePlans(problem, low, high).best(goal)
            if not best:
                continue
            program = TypeProgram(replace(problem, way_from=low, way_to=high), anchored=True, lanes=True)
            known = 3 * best if goal.rises else 0.0
            bound = goal.closer(program, worse_than(goal, best), known, NEVER)
            assert not is_beaten(goal, bound, best), f"seed {seed}, {part}: {bound}, best {best}"
            assert not goal.rules_out(program, best, NEVER), f"seed {seed}, {part}"
            looked += 1
    assert looked > 10


def test_a_bound_is_not_above_a_plan_that_a_solver_denied():
    """HiGHS 1.12, simplifying, called 8 the least, and proved; four workers with two units are 7."""
    problem = replace(placed(910_008_815), way_from=3.0, way_to=6.0)
    bound = TypeProgram(problem, anchored=True, lanes=True).least_price(1.9, NEVER)
    assert bound == pytest.approx(7.0, rel=1e-4)


@pytest.mark.parametrize(
    "seeds", [range(7_000, 7_040), pytest.param(MANY, marks=pytest.mark.full)], ids=["few", "many"]
)
def test_what_lanes_do_not_slower_they_may_do_faster(seeds):
    """Lanes keep their whole batches at fewer rows a second: what is proved there says nothing of the same plan."""
    looked = 0
    for seed, problem, goal in reading_instances(seeds):
        if not goal.rises:
            continue
        every = LanePlans(problem)
        flights = {plan.lanes * plan.depth / plan.high for plan in every.plans if math.isfinite(plan.high)}
        for way in sorted(flights)[:6]:
            low, high = way * 0.999, way * 1.001
            if low > problem.least_way and (best := LanePlans(problem, low, high).best(goal)):
                program = TypeProgram(replace(problem, way_from=low, way_to=high), anchored=True, lanes=True)
                bound = goal.closer(program, worse_than(goal, best), 3 * best, NEVER)
                assert not is_beaten(goal, bound, best), f"seed {seed}, {way}: {bound}, best {best}"
                looked += 1
    assert looked > 10


@pytest.mark.parametrize("seeds", [FEW, pytest.param(MANY, marks=pytest.mark.full)], ids=["few", "many"])
def test_no_plan_with_so_many_in_flight_is_better_than_what_is_found(seeds):
    """A band of whole numbers has all plans in lanes of whole batches whose number lies in it."""
    looked = 0
    for seed, problem, goal, _ in roomy_instances(seeds):
        for low, high in ((2, 4), (6, 6), (5, 8)):
            every = LanePlans(problem)
            every.plans = [plan for plan in every.plans if low <= plan.lanes * plan.depth <= high]
            if not (best := every.best(goal)):
                continue
            outcome = planned(replace(problem, flight_from=low, flight_to=high), goal, exact)
            assert outcome.found is not None, f"seed {seed}, {low} to {high}"
            assert not is_beaten(goal, outcome.found.bound, best), f"seed {seed}, {low} to {high}: best {best}"
            looked += 1
    assert looked > 10


def test_a_band_has_no_other_plans():
    """Searched with its limits, a band has plans only that lie in it."""
    found_any = 0
    for seed, problem, goal, _ in roomy_instances(FEW):
        high = 1.3 * problem.least_way
        for limits in ({"way_to": high}, {"flight_to": 6.0}):
            outcome = planned(replace(problem, **limits), goal, exact)
            if outcome.found is not None:
                found_any += 1
                segments, rate = outcome.found.placement.segments, outcome.found.rows_per_second
                most = limits.get("way_to", limits.get("flight_to", 0.0) / rate)
                assert outcome.problem.way_of(segments) <= most * (1 + 1e-6), f"seed {seed}"
    assert found_any > 5


@pytest.mark.full
def test_few_of_little_memory_are_bounded_closely():
    """Stages of a ResNet have room for few batches, and in a pipeline of several many are in flight."""
    made = solve(Request(resnet(), Hardware.from_toml(RENTED), MinCost(1e4), (256,)))
    assert made.certificate.gap < 0.02
