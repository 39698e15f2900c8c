"""Every legal plan of the documented model, one after another, in plain Python.

Nothing here is shared with the solvers but the plain numbers of a Problem: downsets, stages, units, capacities and
prices are worked out anew, after docs/planner.md. Small instances only.
"""

import itertools
import math
from dataclasses import dataclass
from functools import cached_property

SLACK = 1e-9  # a unit is not added for a rounding error


@dataclass(frozen=True)
class BruteStage:
    """Layers run together on a type: what a row takes of a unit, of the shared capacities, and the bytes beside it.

    ``flight`` batches are on their way for each row per second, ``holds`` a unit has room for; ``first`` is what reads.
    ``adds`` is what the stage adds to those of the whole plan, besides ``message`` bytes over the cut before it.
    """

    type: int
    serial: tuple[float, ...]
    parallel: tuple[float, ...]
    taken: tuple[float, ...]
    entering: tuple[float, float]
    flight: float
    holds: float
    first: bool
    adds: float
    message: float

    def units(self, x):
        """Units that carry x rows a second; None if no number does."""
        working, room = self.units_working(x), self.units_with_room(x)
        return None if working is None or room is None else max(working, room)

    def units_working(self, x):
        """Units that carry x rows a second, whatever is in flight; None if no number does."""
        most = self.fractions(x)
        return None if most is None else max(1, math.ceil(most * (1 - SLACK)))

    def fractions(self, x):
        """The same, not rounded: of work that is not divided, none, as long as there is time for x rows."""
        most = 0.0
        for serial, parallel in zip(self.serial, self.parallel, strict=True):
            left = 1 - serial * x
            if left <= (1e-12 if parallel else -SLACK):
                return None
            most = max(most, parallel * x / left if parallel else 0.0)
        return most

    def units_with_room(self, x):
        """Units that have room for what is under way at x rows a second; None if no number has."""
        under_way = self.flight * x * (1 - SLACK)
        if under_way <= self.most_under_way(1):
            return 1
        each = self.holds if self.first else self.holds - 1
        return math.ceil(under_way / each) if each > 0 else None

    def most_under_way(self, units):
        """Batches that units have room for: their part, and one more where others hand them out; or each for all."""
        return units * self.holds if self.first else max(self.holds, units * (self.holds - 1))

    def speed(self, units):
        """Rows per second with so many units."""
        slowest = max(s + q / units for s, q in zip(self.serial, self.parallel, strict=True))
        worked = 1 / slowest if slowest else math.inf
        return min(worked, self.most_under_way(units) / self.flight) if self.flight else worked


class BrutePlans:
    """All sequences of stages of a problem, and what each costs and sustains."""

    def __init__(self, problem):
        self.p = {name: _plain(getattr(problem, name)) for name in _FIGURES}
        self.layers, self.types = len(self.p["allowed"]), len(self.p["price"])
        self.flows = [(f.source, f.target, f.tensor, (f.bytes, f.back)) for f in problem.flows]
        self.resources = range(len(self.p["layer_serial"]))
        self.shards = problem.shards
        self._speeds = {}  # of a stage with one unit, two, ...; one goal to a BrutePlans
        self._units = {}  # of a stage at a throughput: sequences share stages and throughputs
        self._bought = {}  # prices by what is used
        self.machines = [
            [t for t in range(self.types) if self.p["product"][t] == number] for number in set(self.p["product"])
        ]  # types that are bought together, whole
        self.linked = any(number >= 0 for row in self.p["link"] for number in row)
        self.everything = (1 << self.layers) - 1

    @cached_property
    def downsets(self):
        closed = lambda s: all(s >> a & 1 or not s >> b & 1 for a, b, _, _ in self.flows)  # noqa: E731
        return [s for s in range(1 << self.layers) if closed(s)]

    @cached_property
    def sequences(self):
        """Every chain of downsets from nothing to everything, with every type for every stage; and its ceiling."""
        after = {s: list(self._next(s)) for s in self.downsets}

        def go(state, sofar):
            if state == self.everything:
                yield tuple(sofar), self.ceiling(sofar)
            for end, stage in after[state]:
                yield from go(end, [*sofar, stage])

        return list(go(0, []))

    def _next(self, state):
        for later in self.downsets:
            if later != state and later & state == state:
                stages = (self.stage(state, later, t) for t in range(self.types))
                yield from ((later, stage) for stage in stages if stage is not None)

    def crossing(self, state):
        """Bytes per row forward and back over the cut at a state; a tensor crosses once."""
        cut = {n: b for a, c, n, b in self.flows if state >> a & 1 and not state >> c & 1}
        return sum(there for there, _ in cut.values()), sum(back for _, back in cut.values())

    def behind(self, state):
        """Bytes per row of the gradients of parameters of Layers that are not in a state."""
        return sum(size for v, size in enumerate(self.p["gradients"]) if not state >> v & 1)

    def stage(self, start, stop, t):
        p, mine = self.p, [v for v in range(self.layers) if (stop & ~start) >> v & 1]
        cuts = [s for s in (start, stop) if s not in (0, self.everything)]
        beside = sum(sum(self.crossing(s)) for s in cuts)
        room = p["memory_cap"][t] - sum(p["layer_memory"][v][t] for v in mine)
        each = sum(p["layer_held"][v][t] for v in mine) + beside * p["cut_memory"]
        (came, returned), (went, returns) = self.crossing(start), self.crossing(stop)
        carried = self.behind(stop)  # through the hands of this stage: in from the one behind, out again
        received, sent = came + returns + carried, returned + went + carried
        if not all(p["allowed"][v][t] for v in mine) or room * (1 + SLACK) < p["held"] * each:
            return None
        extra = [
            received * p["receive_s"][r][t] + sent * p["send_s"][r][t] + len(cuts) * p["turn_s"][r][t]
            for r in self.resources
        ]
        taken = [
            sum(use[v][t] for v in mine) + (received + sent) * p["byte_usage"][h][t] + len(cuts) * p["turn_usage"][h][t]
            for h, use in enumerate(p["layer_usage"])
        ]
        serial = tuple(sum(p["layer_serial"][r][v][t] for v in mine) for r in self.resources)
        parallel = tuple(sum(p["layer_parallel"][r][v][t] for v in mine) + extra[r] for r in self.resources)
        holds = math.floor(room / each * (1 + SLACK)) if each and math.isfinite(room) else math.inf
        holds = holds if start else min(holds, p["deepest"])  # who reads has no more lanes' batches than that
        flight, behind = self.flight(mine, t) + self.beside(start, stop, t), self.behind(start)
        adds = sum(p["layer_way"][v][t] for v in mine) + self.beside(start, stop, t, 0.0)
        entering = came, returned + behind
        return BruteStage(t, serial, parallel, tuple(taken), entering, flight, holds, start == 0, adds, sum(entering))

    def flight(self, mine, t):
        """Batches under way per row a second at the least, with these Layers on a type and others anywhere."""
        way = self.p["layer_way"]
        places = [
            [t] if v in mine else [u for u in range(self.types) if ok[u] and self.is_there(u)]
            for v, ok in enumerate(self.p["allowed"])
        ]
        return self.p["way"] + sum(min((way[v][u] for u in at), default=0.0) for v, at in enumerate(places))

    def is_there(self, t):
        """Whether there is any of a type, as it is sold."""
        parts = next(parts for parts in self.machines if t in parts)
        return all(self.p["cap"][u] >= self.p["sold_in"][u] for u in parts)

    def beside(self, start, stop, t, part=1.0):
        """Batches under way per row a second for the cuts beside a stage: messages, and what its workers do."""
        message, (crosses, passes, turns), added = part * self.p["cut_way"][t], self.p["own_way"], 0.0
        for state in {start, stop} - {0, self.everything}:
            added += sum(self.crossing(state)) * (message + crosses[t]) + self.behind(state) * message
            added += self.behind(state) * passes[t] if state == stop else turns[t]
        return added

    def price(self, stages, ceiling, x):
        """Price per hour of a sequence at x rows a second; None if it cannot run."""
        if x > ceiling * (1 + SLACK):
            return None
        used = [0] * self.types
        hosts = self.hosts(x)
        if self.shards.type >= 0:
            used[self.shards.type] += hosts
        for stage in stages:
            units = self.units(stage, x)
            if units is None:
                return None
            used[stage.type] += units
        key = (*used, hosts)
        if key not in self._bought:
            self._bought[key] = self.bought(used, hosts)
        return self._bought[key]

    def units(self, stage, x):
        """Units of a stage that carry x rows a second; None if no number does."""
        if (id(stage), x) not in self._units:
            self._units[id(stage), x] = stage.units(x)
        return self._units[id(stage), x]

    def bought(self, used, hosts):
        """Price per hour of units by type and shard hosts; None if there are not so many."""
        total = self.shards.price * hosts if self.shards.type < 0 else 0.0
        for parts in self.machines:
            count = max(math.ceil(used[t] / self.p["sold_in"][t]) for t in parts)
            if any(count * self.p["sold_in"][t] > self.p["cap"][t] for t in parts):
                return None
            total += count * sum(self.p["sold_in"][t] * self.p["price"][t] for t in parts)
        return total

    def hosts(self, x):
        return max(self.shards.minimum, math.ceil(self.shards.seconds * x * (1 - SLACK)))

    def ceiling(self, stages):
        """Rows per second that shared capacities and links let through."""
        taken = [fixed + sum(stage.taken[h] for stage in stages) for h, fixed in enumerate(self.p["fixed_usage"])]
        for before, stage in itertools.pairwise(stages) if self.linked else ():
            for (a, b), bytes_ in zip(
                ((before.type, stage.type), (stage.type, before.type)), stage.entering, strict=True
            ):
                if self.p["link"][a][b] >= 0:
                    taken[self.p["link"][a][b]] += bytes_
        return min(
            (have / use for have, use in zip(self.p["capacity"], taken, strict=True) if use > 0), default=math.inf
        )

    def steps(self, stages, ceiling, high, budget=math.inf):
        """Rows per second at which a sequence comes to need another unit or host, or ends: prices change only there."""
        found = {ceiling, high}
        for stage in stages:
            if id(stage) not in self._speeds:
                self._speeds[id(stage)] = self._speeds_of(stage, high, budget)
            found.update(self._speeds[id(stage)])
        if self.shards.seconds:
            top = min(high, max((x for x in found if math.isfinite(x)), default=0.0))
            found |= {k / self.shards.seconds for k in range(1, int(self.shards.seconds * top) + 2)}
        return sorted(x for x in found if x <= high and math.isfinite(x))

    def _speeds_of(self, stage, high, budget):
        price = self.p["price"][stage.type]
        most = min(self.p["cap"][stage.type], budget / price if price else math.inf, 10_000)
        speeds = (stage.speed(k) for k in range(1, int(most * (1 + SLACK)) + 1))
        return list(itertools.takewhile(lambda speed: speed <= high, speeds))

    def least_price(self, x):
        """Least price per hour at x rows a second; None: no plan."""
        prices = [self.price(stages, ceiling, x) for stages, ceiling in self.sequences]
        return min((price for price in prices if price is not None), default=None)

    def least_per_row(self, low, high, budget=math.inf):
        """Least price per hour over rows per second, for some throughput from low to high; None: no plan.

        No plan that costs more than ``budget`` an hour.
        """
        best = None
        for stages, ceiling in self.sequences:
            for x in [low, *(x for x in self.steps(stages, ceiling, high) if x > low)]:
                price = self.price(stages, ceiling, x)
                if price is None or price > budget * (1 + SLACK):
                    break
                if best is not None and price >= best * high:  # it rises with x, and x ends at high
                    break
                best = price / x if best is None else min(best, price / x)
        return best

    def most_rows(self, budget=math.inf):
        """Most rows per second within caps and a price per hour; None: no plan."""
        best = None

        def carries(x):
            price = self.price(stages, ceiling, x)
            return price is not None and price <= budget * (1 + SLACK)

        for stages, ceiling in self.sequences:
            if best is not None and not carries(best):  # what a sequence carries at x it carries below x
                continue
            steps = self.steps(stages, ceiling, math.inf, budget)
            low, high = 0, len(steps)
            while low < high:
                middle = (low + high) // 2
                low, high = (middle + 1, high) if carries(steps[middle]) else (low, middle)
            if low and (best is None or steps[low - 1] > best):
                best = steps[low - 1]
        return best


_FIGURES = (
    "layer_serial", "layer_parallel", "allowed", "layer_memory", "memory_cap", "layer_held", "cut_memory", "held",
    "layer_way", "cut_way", "own_way", "way", "deepest", "receive_s", "send_s", "turn_s", "gradients",
    "price", "cap", "sold_in", "product", "layer_usage", "byte_usage", "turn_usage", "fixed_usage", "capacity", "link",
)  # fmt: skip


def _plain(value):
    return value.tolist() if hasattr(value, "tolist") else value
