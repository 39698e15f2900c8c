"""Lanes of unequal speed have more batches in flight, and no plan has fewer than is counted for it."""

import itertools
import math
import random
from dataclasses import replace

import pytest

from heterps.hardware import Hardware
from heterps.models import ctrdnn
from heterps.planner import MaxThroughput
from heterps.planner.planner import BATCH_SIZES, Request, solve
from heterps.planner.solve import small
from heterps.planner.solve.dag import over_downsets
from heterps.planner.solve.pareto import label_placement
from heterps.planner.solve.unequal_lanes import lane_factor
from tests.unit.planner.brute import SLACK, BrutePlans
from tests.unit.planner.instances import LINKED, instance, problem_of
from tests.unit.planner.test_mixed_stages import fractional

FEW, MANY = range(30), range(30, 1_000)


def in_flight(k, m, a, b, x):
    """Batches in flight for each row a second, by what lanes of each type carry, over those of one lane with all."""
    first = min(a, x / k)
    rest = max(0.0, x - k * first) / m
    return (k + m) * first / x, (k + m) * rest / x


def test_no_lanes_have_less_in_flight_than_the_factor_says():
    rng = random.Random(7)
    for _ in range(20_000):
        k, m, a, b = rng.randint(1, 30), rng.randint(1, 30), rng.uniform(0.1, 9), rng.uniform(0.1, 9)
        reached = (k * a + m * b) * rng.choice((1.0, rng.uniform(0.2, 1)))  # by a plan, its own rate
        looked = reached * rng.choice((1.0, rng.uniform(0.2, 1)))  # at by the search, before it
        if k >= looked / a:
            continue  # one type alone carries that
        faster = 0 if a >= b else 1
        fewest = max(1, math.ceil((looked - k * a) / b * (1 - 1e-9)))
        counted = lane_factor(k, fewest if a >= b else m, looked / a, looked / b)
        assert counted <= in_flight(k, m, a, b, reached)[faster] * (1 + 1e-9)


class LanePlans(BrutePlans):
    """Plans with stages on the first two types, more of the other than work needs, and room for all in flight."""

    def __init__(self, problem):
        super().__init__(problem)
        self.orders = problem.mixes.tolist()

    def plans(self, x):
        """Every plan at a rate: batches in flight for each row a second, and price."""
        for states in self.chains(0):
            every = [list(self.divided(start, stop, x)) for start, stop in itertools.pairwise(states)]
            for parts in itertools.product(*every):
                if (price := self.paid(parts, x)) is not None:
                    yield price

    def chains(self, state):
        if state == self.everything:
            yield [state]
        for later in self.downsets:
            if later != state and later & state == state:
                yield from ([state, *rest] for rest in self.chains(later))

    def divided(self, start, stop, x):
        """What of a stage is carried by which type, with how many units at the least."""
        stages = [self.stage(start, stop, t) for t in range(self.types)]
        for stage in stages:
            if stage is not None and (whole := fractional(stage, x)) is not None:
                yield [(stage, 1.0, max(1, math.ceil(whole * (1 - SLACK))))]
        for one, two in ([stages[t] for t in order] for order in self.orders):
            if one is None or two is None:
                continue
            whole, other = fractional(one, x), fractional(two, x)
            for k in range(1, int(min(math.ceil(whole) - 1, self.p["cap"][one.type])) + 1):
                least = max(1, math.ceil(other * (1 - k / whole) * (1 - SLACK)))
                for m in range(least, least + (4 if start == 0 else 1)):
                    yield [(one, k / whole, k), (two, 1 - k / whole, m)]

    def way(self, parts):
        """Batches in flight for each row a second: of the lanes that need most, as many for all."""
        later, lanes = self.p["way"], sum(units for _, _, units in parts[0])
        for before, part in itertools.pairwise(parts):
            later += sum(share * stage.adds for stage, share, _ in part)
            for (a, one, _), (b, two, _) in itertools.product(before, part):
                if before is not parts[0]:
                    later += one * two * max(self.p["cut_way"][a.type], self.p["cut_way"][b.type]) * b.message
        needs = []
        for stage, share, units in parts[0]:
            own = stage.adds + sum(
                two * max(self.p["cut_way"][stage.type], self.p["cut_way"][b.type]) * b.message
                for b, two, _ in (parts[1] if len(parts) > 1 else ())
            )
            needs.append(lanes * share / units * (later + own))
        return max(needs)

    def paid(self, parts, x):
        """Batches in flight and the price; None if there is no room for them, or are not so many units."""
        way, used = self.way(parts), [0] * self.types
        for i, part in enumerate(parts):
            least = min(stage.flight for stage, _, _ in part)
            rooms = [replace(stage, flight=max(least, way)).units_with_room(x) for stage, _, _ in part]
            if None in rooms:
                return None
            short = max(rooms) - sum(units for _, _, units in part)
            if short > 0 and i == 0 and len(part) > 1:
                return None  # with more lanes it is another plan
            for stage, _, units in part:
                used[stage.type] += units
            used[part[-1][0].type] += max(0, short)
        hosts = self.hosts(x)
        if self.shards.type >= 0:
            used[self.shards.type] += hosts
        price = self.bought(used, hosts)
        return None if price is None else (way, price)


def flying(seeds):
    """Instances with two types that may share stages, and batches in flight; and a rate."""
    for seed in seeds:
        rng = random.Random(f"lanes of {seed}")
        made = {"price": [1.0]}
        while len(made["price"]) < 2 or len(made["allowed"]) > 2 or "layer_way" not in made:
            made = instance(rng.randrange(10**9), most_layers=2)
        for name in ("usage", "byte_usage", "turn_usage", "fixed_usage", "capacity", *LINKED):
            made.pop(name, None)
        made["fraction"] = 1.0
        made["cap"] = [rng.choice((2, 3, 5)), rng.choice((3, 6, 12)), *made["cap"][2:]]
        orders = rng.choice(([(0, 1)], [(0, 1), (1, 0)]))
        yield seed, over_downsets(problem_of(made | {"mixes": orders}))[0], rng.uniform(0.5, 3)


@pytest.mark.parametrize("seeds", [FEW, pytest.param(MANY, marks=pytest.mark.full)], ids=["few", "many"])
def test_no_plan_of_a_band_is_left_out_by_a_search_at_a_lower_rate(seeds, monkeypatch):
    monkeypatch.setattr(small, "_FEW", 0)
    looked = 0
    for seed, problem, x in flying(seeds):
        every = [plan for rate in (x, 1.07 * x, 1.4 * x) for plan in LanePlans(problem).plans(rate)]
        for low, high in ((0.0, 1.5), (1.0, 2.0), (1.5, 4.0), (2.5, math.inf)):
            low, high = low * problem.least_way, high * problem.least_way
            best = min((price for way, price in every if low <= way <= high), default=None)
            if best is None:
                continue
            looked += 1
            found = label_placement(replace(problem, way_from=low, way_to=high), x)
            assert found is not None, f"seed {seed}, {low} to {high}: best {best}"
            assert found.bound <= best * (1 + 1e-6), f"seed {seed}, {low} to {high}"
    assert looked > len(seeds)


MACHINES = """
[[pool]]
name = "cpu"
device = "c6a-8xlarge"
cap = 1

[[product]]
name = "p3-2xlarge"
"""


def test_a_lane_that_is_faster_than_all_others_does_not_leave_the_certificate_open():
    """One reader of eight does as much as six others: at the depth that it needs all of them held too many batches."""
    request = Request(ctrdnn(hidden=(256,) * 16), Hardware.from_toml(MACHINES), MaxThroughput(360), BATCH_SIZES)
    assert solve(request).certificate.gap < 0.02
