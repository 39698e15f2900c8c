"""Two pools that read have a depth each, and no plan has fewer batches in flight, or more room, than is counted."""

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
from tests.unit.planner.brute import SLACK, BrutePlans
from tests.unit.planner.instances import LINKED, instance, problem_of

FEW, MANY = range(30), range(30, 1_000)


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
            if stage is not None and (whole := stage.fractions(x)) is not None:
                fewest = max(1, math.ceil(whole * (1 - SLACK)))
                yield from ([(stage, 1.0, units)] for units in range(fewest, fewest + (12 if start == 0 else 1)))
        for one, two in ([stages[t] for t in order] for order in self.orders):
            if one is None or two is None:
                continue
            whole, other = one.fractions(x), two.fractions(x)
            for k in range(1, int(min(math.ceil(whole) - 1, self.p["cap"][one.type])) + 1):
                least = max(1, math.ceil(other * (1 - k / whole) * (1 - SLACK)))
                for m in range(least, least + (6 if start == 0 else 1)):
                    yield [(one, k / whole, k), (two, 1 - k / whole, m)]

    def ways(self, parts):
        """Batches in flight for each row a second, on each type that reads: as many as its lanes carry."""
        later = self.p["way"]
        for before, part in itertools.pairwise(parts):
            later += sum(share * stage.adds for stage, share, _ in part)
            for (a, one, _), (b, two, _) in itertools.product(before, part):
                if before is not parts[0]:
                    later += one * two * max(self.p["cut_way"][a.type], self.p["cut_way"][b.type]) * b.message
        return [
            share * (later + stage.adds + sum(self.message(stage, *each) for each in (parts[1] if parts[1:] else ())))
            for stage, share, _ in parts[0]
        ]

    def message(self, stage, behind, share, units):
        """What a message from a stage to one behind it adds, of which a share goes there."""
        return share * max(self.p["cut_way"][stage.type], self.p["cut_way"][behind.type]) * behind.message

    def paid(self, parts, x):
        """Batches in flight and the price; None if there is no room for them, or are not so many units."""
        ways, used = self.ways(parts), [0] * self.types
        for way, (stage, _, units) in zip(ways, parts[0], strict=True):
            lane = max(way * x / units * (1 - SLACK), self.p["held"])
            if lane > stage.holds:
                return None  # with more lanes it is another plan
            used[stage.type] += units
        for part in parts[1:]:
            least = max(min(stage.flight for stage, _, _ in part), sum(ways))
            rooms = [replace(stage, flight=least).units_with_room(x) for stage, _, _ in part]
            if None in rooms:
                return None
            for stage, _, units in part:
                used[stage.type] += units
            used[part[-1][0].type] += max(0, max(rooms) - sum(units for _, _, units in part))
        hosts = self.hosts(x)
        if self.shards.type >= 0:
            used[self.shards.type] += hosts
        price = self.bought(used, hosts)
        return None if price is None else (sum(ways), price)


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


def test_a_lane_that_is_faster_than_all_others_has_a_depth_of_its_own():
    """One reader of eight does as much as six others: at the depth that it needs all of them held too many batches."""
    request = Request(ctrdnn(hidden=(256,) * 16), Hardware.from_toml(MACHINES), MaxThroughput(360), BATCH_SIZES)
    made = solve(request)
    assert made.certificate.gap < 0.02
    assert made.stages[0].workers.keys() == made.depths.keys() == {"cpu", "p3_2xlarge"}
