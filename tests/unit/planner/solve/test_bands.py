"""Bounds by bands: no plan whose stages have room for all that it has in flight is better."""

import itertools
import math
from dataclasses import replace

import pytest

from heterps.hardware import Hardware
from heterps.models import resnet
from heterps.planner import MinCost
from heterps.planner.planner import Request, solve
from heterps.planner.solve import bands
from heterps.planner.solve.bands import Bands
from heterps.planner.solve.effort import NEVER
from heterps.planner.solve.large import planned
from heterps.planner.solve.solvers import exact
from heterps.planner.solve.type_program import TypeProgram
from tests.unit.planner.brute import BrutePlans
from tests.unit.planner.instances import goal_of, instance, problem_of
from tests.unit.planner.test_against_brute_force import best_by_brute_force
from tests.unit.planner.test_in_flight import RENTED

FEW, MANY = range(7_000, 7_080), range(7_080, 8_000)


class RoomyPlans(BrutePlans):
    """Plans with room for what is in flight for all of them together, not only for what each stage knows of it."""

    way_from, way_to = 0.0, math.inf

    def way(self, stages):
        """Batches in flight for each row a second; a message takes what it takes on the slower side."""
        slower = (max(self.p["cut_way"][s.type] for s in pair) * pair[1].message for pair in itertools.pairwise(stages))
        return self.p["way"] + sum(stage.adds for stage in stages) + sum(slower)

    @property
    def sequences(self):
        if not hasattr(self, "_roomy"):
            every = [(stages, self.way(stages), ceiling) for stages, ceiling in super().sequences]
            self._roomy = [
                (tuple(replace(stage, flight=max(stage.flight, way)) for stage in stages), ceiling)
                for stages, way, ceiling in every
                if self.way_from <= way <= self.way_to
            ]
        return self._roomy


def roomy_instances(seeds):
    """Instances in which room for batches in flight matters, each with its best plan."""
    for seed in seeds:
        made = instance(seed, most_layers=4)
        if "layer_held" in made and "layer_way" in made:
            problem, goal = problem_of(made), goal_of(made)
            best = best_by_brute_force(problem, goal, RoomyPlans)
            if best:
                yield seed, problem, goal, best


def is_beaten(goal, bound, best):
    return bound < best * (1 - 1e-6) if goal.rises else bound > best * (1 + 1e-6)


@pytest.mark.parametrize("seeds", [FEW, pytest.param(MANY, marks=pytest.mark.full)], ids=["few", "many"])
@pytest.mark.parametrize("listed", [True, False], ids=["all cuts", "types"])
def test_no_plan_is_better_than_bands_say(seeds, listed, monkeypatch):
    if not listed:
        monkeypatch.setattr(bands, "FEW_STATES", 0)
        monkeypatch.setattr(bands, "_MOST_BANDS", 3)
    looked = closer = 0
    for seed, problem, goal, best in roomy_instances(seeds):
        known = planned(problem, goal, exact).found.bound
        bound = Bands(problem, goal, exact, lambda best=best: best, lambda outcome: None, NEVER).closer(known)
        assert not is_beaten(goal, bound, best), f"seed {seed}: {bound}, best {best}, known {known}"
        assert not is_beaten(goal, known, best), f"seed {seed}"
        looked += 1
        closer += abs(bound - best) < abs(known - best) * 0.999
    assert looked > 10
    assert closer or not listed


@pytest.mark.parametrize("seeds", [FEW, pytest.param(MANY, marks=pytest.mark.full)], ids=["few", "many"])
@pytest.mark.parametrize("anchored", [False, True])
def test_no_plan_of_a_band_is_better_than_the_program_says(seeds, anchored, monkeypatch):
    looked = 0
    for seed, problem, goal, _ in roomy_instances(seeds):
        for part in (1.0, 1.5):
            low, high = part * problem.least_way, 1.6 * part * problem.least_way
            monkeypatch.setattr(RoomyPlans, "way_from", low)
            monkeypatch.setattr(RoomyPlans, "way_to", high)
            best = best_by_brute_force(problem, goal, RoomyPlans)
            if not best:
                continue
            program = TypeProgram(replace(problem, way_from=low, way_to=high), anchored)
            bound = goal.closer(program, best, math.inf if goal.rises else 0.0, NEVER)
            assert not is_beaten(goal, bound, best), f"seed {seed}, {part}: {bound}, best {best}"
            assert not goal.rules_out(program, best, NEVER), f"seed {seed}, {part}"
            looked += 1
        monkeypatch.undo()
    assert looked > 10


def test_a_band_has_no_other_plans():
    """Searched with its limits, a band has plans only that lie in it."""
    found_any = 0
    for seed, problem, goal, _ in roomy_instances(FEW):
        high = 1.3 * problem.least_way
        outcome = planned(replace(problem, way_to=high), goal, exact)
        if outcome.found is not None:
            found_any += 1
            segments, rate = outcome.found.placement.segments, outcome.found.rows_per_second
            assert outcome.problem.way_of(segments, rate) <= high * (1 + 1e-6), f"seed {seed}"
    assert found_any > 5


@pytest.mark.full
def test_few_of_little_memory_are_bounded_closely():
    """Stages of a ResNet have room for few batches, and in a pipeline of several many are in flight."""
    made = solve(Request(resnet(), Hardware.from_toml(RENTED), MinCost(1e4), (256,)))
    assert made.certificate.gap < 0.15
