"""Planning problems in which every batch calls every shard host, and every legal plan of them, in plain Python."""

import math
import random
from dataclasses import replace

from heterps.planner.solve.calls import Calls
from tests.unit.planner.brute import SLACK, BrutePlans
from tests.unit.planner.instances import goal_of, problem_of
from tests.unit.planner.odd_instances import drawn


def called(seed, most_layers=4):
    """A problem with shard hosts that all readers call, and its goal; None: it has no hosts, or nothing reads first."""
    rng, made = random.Random(f"calls of {seed}"), drawn(seed, most_layers)
    problem = problem_of(made)
    if not problem.shards.minimum or not _comes_first(problem):
        return None
    types, first = problem.types, problem.layer_serial[0, 0] + problem.layer_parallel[0, 0]
    share = problem.layer_parallel[0, 0] / first
    seconds = first * [rng.uniform(0, 0.3) for _ in range(types)]
    usage, fixed = rng.uniform(0, 0.3) * problem.layer_usage[:, 0], rng.uniform(0, 0.3) * problem.fixed_usage
    network = rng.choice((0.0, 1.5 * problem.shards.seconds))
    shards = replace(problem.shards, calls=rng.uniform(0, 0.5) * problem.shards.seconds, network=network)
    calls = Calls(seconds * (1 - share), seconds * share, usage, fixed)
    return replace(problem, shards=shards, calls=calls), goal_of(made)


def _comes_first(problem):
    reached, seconds = {0}, problem.layer_serial[0, 0] + problem.layer_parallel[0, 0]
    for flow in sorted(problem.flows, key=lambda flow: (flow.source, flow.target)):
        reached |= {flow.target} if flow.source in reached else set()
    return len(reached) == problem.layers and (seconds > 0).all()


class _WithHosts(BrutePlans):
    """All plans with so many shard hosts."""

    def __init__(self, problem, count):
        super().__init__(problem)
        self.count, calls = count, problem.calls
        more = count - calls.counted
        for t in range(self.types):
            self.p["layer_serial"][0][0][t] += more * calls.serial[t]
            self.p["layer_parallel"][0][0][t] += more * calls.parallel[t]
            for h, use in enumerate(calls.usage):
                self.p["layer_usage"][h][0][t] += more * use[t]
        for h, use in enumerate(calls.fixed):
            self.p["fixed_usage"][h] += more * use

    def hosts(self, x):
        return self.count

    def ceiling(self, stages):
        return min(super().ceiling(stages), speed(self.shards, self.count))


def speed(shards, count):
    """Rows a second of so many hosts: each has its part of the work, and all calls."""
    busy = shards.seconds / count + shards.calls
    return min(1 / busy if busy else math.inf, count / shards.network if shards.network else math.inf)


class CalledPlans:
    """All plans, by the number of hosts: the fewest that carry what is asked for, as more only slow readers down."""

    def __init__(self, problem):
        self.problem, self._by_count = problem, {}

    def _with(self, count):
        if count not in self._by_count:
            self._by_count[count] = _WithHosts(self.problem, count)
        return self._by_count[count]

    def _counts(self, x):
        """Numbers of hosts up to that which carries x rows a second; all there are to be had if none does."""
        shards, most = self.problem.shards, 200
        for count in range(shards.minimum, most):
            yield count
            if speed(shards, count) >= x * (1 - SLACK):
                return

    def least_price(self, x):
        prices = [self._with(count).least_price(x) for count in self._counts(x)]
        return min((price for price in prices if price is not None), default=None)

    def least_per_row(self, low, high):
        found = [self._with(count).least_per_row(low, high) for count in self._counts(high)]
        return min((each for each in found if each is not None), default=None)

    def most_rows(self, budget=math.inf):
        """None is faster than one whose readers call the fewest hosts."""
        best, top = None, BrutePlans(self.problem).most_rows(budget)
        for count in () if top is None else self._counts(top):
            if (found := self._with(count).most_rows(budget)) is not None and (best is None or found > best):
                best = found
        return best
