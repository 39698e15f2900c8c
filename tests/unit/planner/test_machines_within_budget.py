"""The most rows per second of several products within a budget, against every legal plan; and what bounds it."""

import math
import random

import pytest

from heterps.planner.goals import MaxThroughput
from heterps.planner.solve import pareto, small
from heterps.planner.solve.dag import over_downsets
from heterps.planner.solve.effort import UndecidedError
from heterps.planner.solve.fair_prices import most_by_parts, worth_of
from heterps.planner.solve.large import planned
from heterps.planner.solve.making import make_problem
from heterps.planner.solve.solvers import exact
from tests.unit.planner.brute import BrutePlans
from tests.unit.planner.instances import LINKED, instance, problem_of
from tests.unit.planner.test_against_brute_force import difference
from tests.unit.planner.test_mixed_stages import MixedPlans

SEEDS, MIXED = range(40), range(14)
PRODUCTS = ([0, 0, 1, 1, 2], [0, 0, 1, 1, 2, 2], [0, 1, 1, 2], [0, 0, 1, 2], [0, 0, 0, 1, 2])


@pytest.fixture(autouse=True)
def _all_bounds(monkeypatch):
    """Small problems are solved without the bounds that large ones need: here none is small."""
    monkeypatch.setattr(small, "_FEW", 0)


def machines(seed, most_layers=3, goal="most"):
    """A small instance with three products or more, each of one to three types, and a budget."""
    rng = random.Random(f"machines of {seed}")
    product = rng.choice(PRODUCTS)
    types = len(product)
    made = {"price": []}
    while len(made["price"]) != 3:
        made = instance(rng.randrange(10**9), most_layers)
    spread = [*range(3), *(rng.randrange(3) for _ in range(types - 3))]
    made = {name: _over_types(name, value, spread) for name, value in made.items()}
    for name in ("usage", "byte_usage", "turn_usage", "fixed_usage", "capacity", *LINKED):  # machines share no Host
        made.pop(name, None)
    made["product"] = product
    made["price"] = [rng.uniform(0.5, 4) for _ in product]
    made["sold_in"] = [rng.choice((1, 1, 2, 3)) for _ in product]
    there = [rng.choice((math.inf, 1, 2, 4)) for _ in range(3)]
    made["cap"] = [there[p] * n for p, n in zip(product, made["sold_in"], strict=True)]
    made["goal"] = (goal, rng.uniform(5, 40))
    return made


def _over_types(name, value, spread):
    """A figure of three types, for as many more that are like them."""
    if name in ("goal", "flows", "shards", "capacity", "fixed_usage", "gradients", *LINKED):
        return value
    if isinstance(value, list) and value and not isinstance(value[0], list):
        return [value[t] for t in spread]
    return [_over_types(name, each, spread) for each in value] if isinstance(value, list) else value


def test_no_legal_plan_is_better():
    for seed in SEEDS:
        assert not (what := difference(machines(seed))), f"seed {seed}: {what}"


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_no_legal_plan_is_better_for_long():
    for seed in range(1_000, 11_000):
        assert not (what := difference(machines(seed, most_layers=4))), f"seed {seed}: {what}"


@pytest.mark.parametrize("labels", [True, False], ids=["labels", "no labels"])
def test_no_plan_with_shared_stages_is_better(labels, monkeypatch):
    if not labels:
        monkeypatch.setattr(pareto, "_LABELS", (1,))
    found_any = 0
    for seed in MIXED:
        made = machines(seed, most_layers=2)
        made["cap"][0] = min(made["cap"][0], 3 * made["sold_in"][0])
        problem, budget = problem_of(made | {"mixes": [(0, 1)]}), made["goal"][1]
        plans = MixedPlans(over_downsets(problem)[0])
        try:
            found = planned(problem, MaxThroughput(budget), exact).found
        except UndecidedError:
            assert not labels
            continue
        if found is None:
            assert _costs(plans, problem.slowest) > budget, seed
            continue
        found_any += 1
        assert _costs(plans, found.value * (1 - 1e-9)) <= budget * (1 + 1e-9), seed
        assert _costs(plans, found.bound * (1 + 1e-5)) > budget, seed
        assert not labels or found.gap < 1e-6, seed
    assert found_any > 4


def _costs(plans, x):
    least = plans.least(x)
    return math.inf if least is None else least


def test_parts_of_plans_bound_every_plan():
    looked = short = 0
    for seed in SEEDS:
        made = machines(seed)
        problem, plans = over_downsets(problem_of(made))[0], BrutePlans(problem_of(made))
        for x in (0.5, 1.5, 3.0):
            best, bound = plans.least_price(x), worth_of(problem, x)
            looked += best is not None
            short += best is not None and bound.less > 0
            assert best is None or bound.least <= best * (1 + 1e-9), (seed, x)
    assert looked > 50
    assert short > 4


def test_what_is_scarce_is_worth_more_than_it_costs():
    """Four units at the price of one each would do; of two that are there each is worth what the others cost more."""
    problem = make_problem([[1.0, 1.0]], price=[1.0, 3.0], cap=[2, math.inf])
    found = worth_of(problem, 4.0)
    assert found.price == pytest.approx([3.0, 3.0])
    assert found.less == pytest.approx(4.0)
    assert found.least == pytest.approx(8.0)
    assert most_by_parts(problem, 8.0, 0.0, 100.0) == pytest.approx(4.0, rel=6e-3)
    assert most_by_parts(problem, 8.0, 5.0, 100.0) == 5.0
