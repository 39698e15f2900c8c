"""Stages on two pools at once, against every way to divide every stage."""

import itertools
import math
import random
from dataclasses import replace

import numpy as np
import pytest

from heterps.planner.solve import pareto, small
from heterps.planner.solve.dag import over_downsets
from heterps.planner.solve.effort import UndecidedError
from heterps.planner.solve.making import make_problem
from heterps.planner.solve.milp import milp_placement
from heterps.planner.solve.multipliers import multiplier_placement
from heterps.planner.solve.solvers import exact
from tests.unit.planner.brute import SLACK, BrutePlans
from tests.unit.planner.instances import LINKED, instance, problem_of

SEEDS = range(60)


def mixed_instance(seed):
    """A small instance with two types that may share a stage; with links no stage is shared."""
    made = {"price": [1.0]}
    for number in itertools.count(1000 * seed):
        if len(made["price"]) > 1 and len(made["allowed"]) <= 3:
            break
        made = instance(number, most_layers=3)
    rng = random.Random(seed)
    made = {name: value for name, value in made.items() if name not in LINKED}
    made["cap"] = [rng.choice((1, 2, 3, 5)), *made["cap"][1:]]
    return over_downsets(problem_of(made | {"mixes": [(0, 1)]}))[0], rng.uniform(0.2, 3)


class MixedPlans(BrutePlans):
    """All plans, those with shared stages too, at one throughput."""

    orders = ((0, 1),)

    def options(self, start, stop, x):
        """Ways to run a stage: units by type, and what a row takes of the shared capacities."""
        stages = [self.stage(start, stop, t) for t in range(self.types)]
        for t, stage in enumerate(stages):
            if stage is not None and (units := stage.units(x)) is not None:
                yield {t: units}, stage.taken
        for a, b in self.orders:
            if stages[a] is not None and stages[b] is not None:
                yield from self.shared(stages[a], stages[b], x)

    def shared(self, first, second, x):
        """Ways to use up units of one type, and to have the rest carried by another."""
        whole, other = first.fractions(x), second.fractions(x)
        least = min(first.flight, second.flight)  # batches go on to one or the other
        rooms = [replace(stage, flight=least).units_with_room(x) for stage in (first, second)]
        if whole is None or other is None or None in rooms:
            return
        for k in range(1, int(min(math.ceil(whole) - 1, self.p["cap"][first.type])) + 1):
            share = k / whole
            room = max(rooms) - k
            if first.first:  # what reads has lanes of either type, each as deep as it needs to be
                left = least * x * (1 - SLACK) - k * first.holds
                room = math.ceil(left / second.holds) if left > 0 else 0
            rest = max(1, math.ceil(other * (1 - share) * (1 - SLACK)), room)
            taken = zip(first.taken, second.taken, strict=True)
            yield {first.type: k, second.type: rest}, [share * a + (1 - share) * b for a, b in taken]

    def ways(self, x):
        def go(state, sofar):
            if state == self.everything:
                yield sofar
            for later in self.downsets:
                if later != state and later & state == state:
                    for option in self.options(state, later, x):
                        yield from go(later, [*sofar, option])

        return go(0, [])

    def least(self, x):
        prices = [self.cost(way, x) for way in self.ways(x)]
        return min((price for price in prices if price is not None), default=None)

    def cost(self, way, x):
        for h, capacity in enumerate(self.p["capacity"]):
            taken = self.p["fixed_usage"][h] + sum(taken[h] for _, taken in way)
            if taken * x > capacity * (1 + SLACK):
                return None
        used = [sum(units.get(t, 0) for units, _ in way) for t in range(self.types)]
        hosts = self.hosts(x)
        if self.shards.type >= 0:
            used[self.shards.type] += hosts
        return self.bought(used, hosts)


@pytest.mark.parametrize("labels", [True, False], ids=["labels", "no labels"])
def test_no_plan_with_shared_stages_beats_the_bound(labels, monkeypatch):
    """With labels the answer is the best; without, bounds hold and nothing is called impossible that is not."""
    if not labels:
        monkeypatch.setattr(pareto, "_LABELS", (1,))
    found_any = 0
    for seed in SEEDS:
        problem, x = mixed_instance(seed)
        best = MixedPlans(problem).least(x)
        try:
            found = exact(problem, x)
        except UndecidedError:
            assert not labels
            continue
        assert (found is None) == (best is None), f"seed {seed}: {best}, {found}"
        if found is not None:
            found_any += 1
            assert found.bound <= best * (1 + 1e-6), f"seed {seed}"
            assert found.price >= best * (1 - 1e-6), f"seed {seed}"
            assert not labels or found.price == pytest.approx(best), f"seed {seed}"
    assert found_any > 20


class BothOrders(MixedPlans):
    """Either of the two types may be the one that is used up."""

    orders = ((0, 1), (1, 0))


@pytest.mark.parametrize(
    "seeds",
    [
        (*SEEDS, 310_001_606, 322_000_997, 330_003_191, 910_007_629),
        pytest.param(range(60, 2_000), marks=pytest.mark.full),
    ],
    ids=["few", "many"],
)
def test_one_order_of_two_types_is_enough_where_only_units_count(seeds, monkeypatch):
    """But where one has the speed and the other the room, or the shorter way: in the last four of these seeds."""
    monkeypatch.setattr(small, "_FEW", 0)
    found_any = 0
    for seed in seeds:
        problem, x = mixed_instance(seed)
        problem = replace(problem, mixes=np.array([(0, 1), (1, 0)]), cap=np.minimum(problem.cap, 8.0))
        best, found = BothOrders(problem).least(x), exact(problem, x)
        assert (found is None) == (best is None), f"seed {seed}: {best}, {found}"
        if found is not None:
            found_any += 1
            assert found.price == pytest.approx(best), f"seed {seed}"
    assert found_any > len(seeds) // 3


def test_a_plan_with_shared_stages_sustains_what_its_shares_leave():
    """Of these seeds the first two were found for one throughput and said to sustain 3 and 10 % less than it."""
    for seed in (8968, 12353, *SEEDS):
        problem, x = mixed_instance(seed)
        found = exact(problem, x)
        if found is not None and any(segment.other >= 0 for segment in found.segments):
            reached = problem.sustained(found)
            assert reached >= x * (1 - 1e-9), f"seed {seed}"
            assert MixedPlans(problem).least(reached * (1 - 1e-6)) <= found.price * (1 + 1e-9), f"seed {seed}"


@pytest.mark.parametrize("solve", [multiplier_placement, milp_placement], ids=["raised prices", "program"])
def test_solvers_that_know_no_shared_stages_claim_nothing_about_them(solve):
    for seed in SEEDS:
        problem, x = mixed_instance(seed)
        best = MixedPlans(problem).least(x)
        try:
            found = solve(problem, x)
        except UndecidedError:
            continue
        assert (found is None) <= (best is None), f"seed {seed}"
        assert found is None or found.bound <= best * (1 + 1e-6), f"seed {seed}"


def test_a_stage_that_no_type_can_carry_alone_is_shared():
    """Two units of the one or ten of the other would do, one of each is there: whole stages have no plan."""
    problem = make_problem([[1.01, 10.0]], cap=[1, 1], mixes=[(0, 1)])
    assert exact(problem, 1.0).price == 2.0
    with pytest.raises(UndecidedError):
        multiplier_placement(problem, 1.0)


def test_more_ways_to_divide_a_stage_than_are_looked_at_are_not_left_out(monkeypatch):
    problem, x = next(pair for pair in map(mixed_instance, SEEDS) if exact(*pair) is not None)
    monkeypatch.setattr(pareto, "_MOST_CHOICES", problem.types)
    with pytest.raises(pareto.TooManyLabelsError, match="ways to divide a stage"):
        pareto.label_placement(problem, x)
