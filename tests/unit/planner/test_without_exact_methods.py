"""What is said where exact methods are too large: bounds over any cuts, programs of paths, raised prices; all goals."""

import math
import random

import numpy as np
import pytest

from heterps.planner.goals import FixedRate, MaxThroughput, MinCost
from heterps.planner.solve import large, pareto, solvers
from heterps.planner.solve.effort import Deadline, UndecidedError
from heterps.planner.solve.large import planned
from heterps.planner.solve.solvers import exact
from tests.unit.planner.brute import BrutePlans
from tests.unit.planner.instances import problem_of
from tests.unit.planner.odd_instances import drawn

CLOSE = 1e-6


def goals(rng, problem, x):
    """Every kind of goal, with limits that a plan for x rows a second just meets, or exceeds by far."""
    plans = BrutePlans(problem)
    yield FixedRate(x), plans.least_price(x)
    yield MinCost(x), plans.least_per_row(x, 2 * x)
    if least := plans.least_price(x):
        limit = rng.choice((1.0, 1.3, 2.0)) * least
        yield MinCost(x, 6 * x, limit), BrutePlans(problem).least_per_row(x, 6 * x, limit)
        if all_are_limited(problem):
            yield MaxThroughput(limit), BrutePlans(problem).most_rows(limit)
    if np.isfinite(problem.cap).all():
        yield MaxThroughput(), BrutePlans(problem).most_rows()


def all_are_limited(problem):
    return bool(((problem.product_price[problem.product] > 0) | np.isfinite(problem.cap)).all())


def rate_of(rng, problem):
    """Rows a second of about the speed of a unit, whatever the figures."""
    slowest = float((problem.layer_serial + problem.layer_parallel).max())
    return rng.uniform(0.05, 1.5) / slowest if slowest else 1.0


def check(seeds, **how):
    decided = 0
    for seed in seeds:
        rng, problem = random.Random(seed), problem_of(drawn(seed, most_layers=4))
        goal, best = rng.choice(list(goals(rng, problem, rate_of(rng, problem))))
        try:
            found = planned(problem, goal, exact, Deadline(20.0), **how).found
        except UndecidedError:
            continue
        assert (found is None) == (best is None), f"seed {seed}, {goal}: best {best}"
        if found is not None and math.isfinite(found.value):
            low, high = (best, found.bound) if goal.rises else (found.bound, best)
            assert low <= high * (1 + CLOSE), f"seed {seed}, {goal}: bound {found.bound}, best {best}"
            worse, better = (found.value, best) if goal.rises else (best, found.value)
            assert worse <= better * (1 + CLOSE), f"seed {seed}, {goal}: found {found.value}, best {best}"
            assert found.placement.price <= getattr(goal, "price_per_hour", math.inf) * (1 + CLOSE), f"seed {seed}"
            decided += 1
    assert decided > len(seeds) / 3


@pytest.mark.parametrize(
    "seeds", [range(9_000, 9_012), pytest.param(range(9_012, 9_500), marks=pytest.mark.full)], ids=["few", "many"]
)
@pytest.mark.parametrize("listed", [True, False], ids=["cuts are many", "cuts are not listed"])
def test_no_plan_is_better_than_what_is_said_of_large_graphs(seeds, listed, monkeypatch):
    monkeypatch.setattr(large, "FEW_STATES", 0)
    check(seeds, most=20_000 if listed else 1)


@pytest.mark.parametrize(
    "seeds", [range(9_000, 9_100), pytest.param(range(9_100, 12_000), marks=pytest.mark.full)], ids=["few", "many"]
)
@pytest.mark.parametrize("program", [True, False], ids=["program of paths", "raised prices"])
def test_no_plan_is_better_than_what_is_said_without_labels(seeds, program, monkeypatch):
    def too_large(problem, x, **_):
        raise UndecidedError("too large")

    monkeypatch.setattr(pareto, "_LABELS", (1,))
    if not program:
        monkeypatch.setattr(solvers, "milp_placement", too_large)
    check(seeds)
