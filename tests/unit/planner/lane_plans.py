"""Plans whose lanes have whole batches each, one after another: all stages have room for what all lanes have in flight.

Beside every sequence of stages stand so many lanes and so many batches in each: what is in flight follows, and with it
the units that have room, and up to how many rows a second so many batches are enough.
"""

import itertools
import math
from dataclasses import dataclass

from heterps.planner.goals import MinCost
from tests.unit.planner.brute import SLACK, BrutePlans

MOST_LANES, MOST_DEPTH = 6, 7


@dataclass(frozen=True)
class LanePlan:
    """Stages, the fewest units of each, lanes, batches in each, and for how many rows a second that is a plan."""

    stages: tuple
    fewest: tuple
    lanes: int
    depth: int
    low: float
    high: float


class LanePlans:
    """All plans of a problem with up to so many lanes and batches in each, by how many are in flight for each row."""

    def __init__(self, problem, way_from=0.0, way_to=math.inf):
        self.brute = BrutePlans(problem)
        self.plans = [
            plan
            for stages, ceiling in self.brute.sequences
            for plan in self._with_lanes(stages, ceiling, way_from, way_to)
        ]

    def way(self, stages):
        """Batches in flight for each row a second; a message takes what it takes on the slower side."""
        p = self.brute.p
        slower = (max(p["cut_way"][s.type] for s in pair) * pair[1].message for pair in itertools.pairwise(stages))
        whole = p["way"] + sum(stage.adds for stage in stages) + sum(slower)
        return max(whole, *(stage.flight for stage in stages))

    def _with_lanes(self, stages, ceiling, way_from, way_to):
        held, way = max(1, self.brute.p["held"]), self.way(stages)
        for lanes, depth in itertools.product(range(1, MOST_LANES + 1), range(held, MOST_DEPTH + 1)):
            flight = lanes * depth
            fewest = [self._units_with_room(stage, flight) for stage in stages[1:]]
            if depth > stages[0].holds or None in fewest:
                continue
            low = flight / way_to if way_to else math.inf
            high = min(ceiling, flight / max(way, way_from) if max(way, way_from) else math.inf)
            if low <= high:
                yield LanePlan(stages, (lanes, *fewest), lanes, depth, low, high)

    def _units_with_room(self, stage, flight):
        if flight <= stage.holds:
            return 1
        return math.ceil(flight / (stage.holds - 1)) if stage.holds > 1 else None

    def price(self, plan, x):
        """Price per hour of a plan at x rows a second; None if it cannot run."""
        if not plan.low * (1 - SLACK) <= x <= plan.high * (1 + SLACK):
            return None
        used, hosts = [0] * self.brute.types, self.brute.hosts(x)
        if self.brute.shards.type >= 0:
            used[self.brute.shards.type] += hosts
        for n, (stage, fewest) in enumerate(zip(plan.stages, plan.fewest, strict=True)):
            units = stage.units_working(x)
            if units is None or (n == 0 and units > plan.lanes):
                return None
            used[stage.type] += max(units, fewest)
        return self.brute.bought(used, hosts)

    def steps(self, plan, low, high):
        """Rows per second at which prices may change."""
        low, high = max(low, plan.low), min(high, plan.high)
        found = {low, high}
        for stage in plan.stages:
            found |= {_speed(stage, k) for k in range(1, 40)}
        if self.brute.shards.seconds:
            found |= {k / self.brute.shards.seconds for k in range(1, 40)}
        return sorted(x for x in found if low <= x <= high and math.isfinite(x))

    def best(self, goal):
        """The best value; None: no plan."""
        found = None
        for plan in self.plans:
            for x in self.steps(plan, *_asked(goal)):
                price = self.price(plan, x)
                if price is not None and price <= getattr(goal, "price_per_hour", math.inf) * (1 + SLACK):
                    value = x if goal.rises else price / (x if isinstance(goal, MinCost) else 1)
                    found = value if found is None else (max if goal.rises else min)(found, value)
        return found


def _asked(goal):
    """Rows per second that a goal asks for."""
    if goal.rises:
        return 0.0, math.inf
    return goal.rows_per_second, goal.fastest(0.0) if isinstance(goal, MinCost) else goal.rows_per_second


def _speed(stage, units):
    slowest = max(s + q / units for s, q in zip(stage.serial, stage.parallel, strict=True))
    return 1 / slowest if slowest else math.inf
