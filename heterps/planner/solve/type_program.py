"""What no plan can beat, as an integer program: the type of every Layer, whatever the order, and whole units.

A plan puts every Layer on a type. All stages of a type together need at least the units that their work takes as one
stage, and what crosses between types must be sent on one side and received on the other, whatever the stages: a tensor
whose source is on a type and one of whose readers is not leaves that type once. Gradients of parameters pass through
the type of the first Layer unless theirs is the same. So the least price over places of Layers, with whole units of
types, whole products and whole shard hosts, is no more than any plan's. Branches that are alike are one: some best
solution in fractions treats them alike, and fractions are allowed for them. So they are for all Layers where pools may
share a stage, and where there are very many: then only units are whole. Serial parts, calls and links are left out.

Memory counts where no pools share stages: k units of a stage hold its Layers k times and the batches in flight, N or
more, between them, so ``N * each + k * once <= k * cap`` for what its Layers take together. So k is at least the sum of
``N * each / (cap - once)`` over its Layers alone, and over all stages of a type; and, as every stage has a unit, units
of a type are at least the sum of ``(N * each + once) / cap``, and with the batches that a worker must hold for N. N is
at least what all Layers take where they take least, and a Layer that is on a type knows what it takes there. Where
plans are looked for that have so many batches in flight at the most, what Layers, and tensors that cross between types,
add to them is one more row: a tensor comes to each type over another cut, and leaves its own over one. Gradients of a
Layer that is not on the type of the first come over the cut before its stage, and over the one behind the first: these
may be one, so they take what they take on either side.

The throughput x is a column of the program: Layers send ``w[v, t]`` rows a second to types, which is x where a Layer is
on one type. So the least price less ``c * x``, over all throughputs from low to high, is one program. If it is m, every
plan's price per row is at least c + m/x; where m is not negative, at least c.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from heterps.planner.solve.anchor_stage import add_anchor_stage
from heterps.planner.solve.dag import all_after_first
from heterps.planner.solve.effort import Deadline, UndecidedError
from heterps.planner.solve.integer_program import IntegerProgram
from heterps.planner.solve.lane_stage import add_lanes
from heterps.planner.solve.mincut import fold_of, folded, folded_name
from heterps.planner.solve.one_stage import Columns
from heterps.planner.solve.placement import TOLERANCE, Bools, Floats
from heterps.planner.solve.problem import Problem

__all__ = ["MOST_COLUMNS", "TypeProgram", "least_per_row", "most_within"]

MOST_COLUMNS = 20_000  # of places and crossings, beyond which a program takes long
_MOST_WHOLE = 64  # Layers that may be on several types, beyond which it does if they must not be split
_MOST_SINGLE = 64  # Layers that are alone in their kind, with which a stage is looked at as it is
_FEW_SINGLE = 20  # with which that is quick
_SECONDS = 2.0  # for one program
_STAGE_SECONDS = 5.0  # for one with stages as they are
_ROUNDING = 1e-6  # relative: what is so close is not told apart
_LESS = 1e-5  # relative: by which a price per row is below one that is known, so that rounding does not hide it
_NEARLY = 1e-3  # of a price per row, within which what costs least need not be found
_CLOSE = 2e-3  # relative distance from the plan at which a bound is good enough
_NEAR = 0.01  # relative distance from a plan's throughput that is looked at first
_TURNS, _FEW_TURNS = 12, 3  # throughputs that are tried in turn
_PRICES = 4  # per row that are

Terms = list[tuple[int, float]]


class TypeProgram:
    """The program of a problem, at any throughput.

    ``anchored``: with one stage of each type as it is, on which no first stage is; ``lanes``: the first stage, too.
    ``bought``: the fewest and the most of each product. ``prices`` is how many prices per row are tried in turn.
    """

    def __init__(
        self,
        problem: Problem,
        anchored: bool = False,
        lanes: bool = False,
        bought: tuple[Floats, Floats] | None = None,
    ) -> None:
        self.problem, self._is_anchored, self._has_lanes, self.prices = problem, anchored, lanes, _PRICES
        self._bought = bought or (0 * problem.product_price, np.full_like(problem.product_price, np.inf))
        self.seen: Floats | None = None  # what the last solution buys of each product
        self._small, self._counts = folded(problem)

    @property
    def applies(self) -> bool:
        """Whether the program is small enough."""
        tensors = len({flow.tensor for flow in self._small.flows})
        return (3 * self._small.layers + 2 * tensors) * self._small.types <= MOST_COLUMNS

    @property
    def can_be_anchored(self) -> bool:
        """Whether stages of their own do not make the program too large."""
        return bool((self._counts == 1).sum() <= _MOST_SINGLE) and any(map(self._is_later, range(self._small.types)))

    @property
    def is_quick(self) -> bool:
        """Whether such a program takes tenths of a second, whatever is bought."""
        return self.can_be_anchored and bool((self._counts == 1).sum() <= _FEW_SINGLE)

    @property
    def _can_have_lanes(self) -> bool:
        """Whether the first stage can be looked at as it is."""
        p = self.problem
        limited = bool(np.isfinite(p.way_to) and (p.memory_cap > 0).all())
        return limited and self._first is not None and not p.mixes.size

    @cached_property
    def _is_whole(self) -> Bools:
        """bool[L]: Layers that must not be split, of those that might be."""
        free = (self._counts == 1) & (self._small.allowed.sum(axis=1) > 1)
        few = free.sum() <= _MOST_WHOLE and not self.problem.mixes.size
        return np.asarray(free & few)

    def least_price(self, x: float, deadline: Deadline) -> float:
        """Lower bound on the price per hour at x rows a second or more; inf: no plan, 0: nothing is known in time."""
        return max(0.0, self.least_beyond(0.0, x, x, deadline)[0])

    def exceeds(self, budget: float, x: float, deadline: Deadline, high: float = 0.0) -> bool:
        """Whether it is proved that x rows a second cost more than a price per hour, or more than there is.

        Given that no plan does more than ``high``: what does more than x could do x, but lanes of whole batches have as
        many in flight then, so for each row a second more than plans may have that are looked for.
        """
        most, fast = budget * (1 + _ROUNDING), max(x, high) if self._has_lanes else x
        if np.isinf(fast):
            return False
        price = self.least_beyond(0.0, x, fast, deadline, most, close=np.inf)[0]  # any solution will do
        return price > most or price == np.inf  # which is no more than what may be paid where that has no end

    def least_beyond(
        self,
        per_row: float,
        low: float,
        high: float,
        deadline: Deadline,
        most: float = np.inf,
        budget: float = np.inf,
        *,
        close: float = 0.0,
    ) -> tuple[float, float]:
        """Lower bound on the price per hour less so much per row a second, from low to high rows a second.

        Of plans within a ``budget`` per hour. inf: no plan, or none that costs so much at ``most``; -inf: nothing is
        known in time. And the price per row of the solution that comes closest, or as ``close``.
        """
        if not self.problem.shards.carry(low):
            return np.inf, np.inf
        program = IntegerProgram()
        rate, products = self._build(program, per_row, low, high)
        if np.isfinite(budget):
            program.within(budget * (1 + _ROUNDING), budget, but=rate)
        dearest = most + 2 * _ROUNDING * max(per_row * high, most)
        seconds = min(_STAGE_SECONDS if self._is_anchored else _SECONDS, deadline.left)
        try:
            found = program.solve(max(0.05, seconds), dearest, close)
        except UndecidedError:
            return -np.inf, np.inf
        if found is None:
            return np.inf, np.inf
        self.seen = np.round(found.values[products])
        rounding = _ROUNDING * (abs(found.value) + 2 * per_row * high)
        return found.bound - rounding, per_row + found.value / (high * float(found.values[rate]))

    def _build(self, program: IntegerProgram, per_row: float, low: float, high: float) -> tuple[int, list[int]]:
        """Add all columns and rows; those of the throughput and the products are returned.

        Rows a second are parts of ``high``.
        """
        small, types = self._small, range(self._small.types)
        rate = program.continuous(-per_row * high, 1.0)
        program.row([(rate, 1.0)], low / high, 1.0)
        rows = [self._add_places(program, v, rate) for v in range(small.layers)]
        work: list[list[Terms]] = [[[] for _ in small.layer_parallel] for _ in types]
        for t in types:
            for r, seconds in enumerate(small.layer_parallel[:, :, t]):
                work[t][r] += [(rows[v][t], float(s)) for v, s in enumerate(seconds) if s]
            work[t] += [[(rows[v][t], float(s)) for v, s in enumerate(each) if s] for each, _ in self._held(t, high)]
        ways = [(rows[v][t], float(way)) for (v, t), way in np.ndenumerate(small.layer_way / self._most_way) if way]
        messages = self._add_crossing(program, rows, work, ways, high)
        self._add_gradients(program, rows, work, ways)
        flight = self._add_flight(program, ways, rate)
        products, hosts, units = self._add_units(program, work, rate, low, high)
        if self._is_anchored:
            at = Columns(rate, rows, messages, flight, units, hosts, low, high, self._most_way, self._shared)
            self._add_stages(program, at)
        return rate, products

    def _add_stages(self, program: IntegerProgram, at: Columns) -> None:
        """Stages as they are: that which reads, and on each type that it is not on that of the largest Layer."""
        p, small, single, types = self.problem, self._small, self._counts == 1, range(self._small.types)
        sums = [[*small.layer_parallel[:, :, t], *(each for each, _ in self._held(t, at.high))] for t in types]
        lanes = self._has_lanes and self._can_have_lanes
        found = [
            add_anchor_stage(program, p, small, single, t, at, sums[t], lanes) for t in filter(self._is_later, types)
        ]
        if lanes:
            assert self._first is not None
            later = [stage for stage in found if stage is not None]
            add_lanes(program, p, small, single, self._first, at, sums, later)

    def _add_flight(self, program: IntegerProgram, ways: Terms, rate: int) -> int | None:
        """The column of the batches in flight, within the band; None if there is no limit to them."""
        p = self.problem
        if not np.isfinite(p.way_to):
            return None
        flight = program.continuous(0.0, 1 + TOLERANCE)
        program.row([(flight, 1.0), (rate, -1 - TOLERANCE)], -np.inf, 0.0)
        program.row([(flight, 1.0), (rate, -p.way_from / p.way_to)], 0.0, np.inf)
        program.row([(flight, 1.0), (rate, -p.way / p.way_to), *((c, -way) for c, way in ways)], 0.0, np.inf)
        return flight

    @property
    def _most_way(self) -> float:
        """What batches in flight are parts of, so that columns are not too unlike."""
        return self.problem.way_to if np.isfinite(self.problem.way_to) else 1.0

    @cached_property
    def _shared(self) -> dict[tuple[str, int], int]:
        """Tensors that are one, and read by all Layers of which one stands for several; and how many these are.

        Branches of which one reads such a tensor, and another does not, are not alike.
        """
        _, at = fold_of(self.problem)
        readers: dict[str, set[int]] = {}
        for flow in self.problem.flows:
            readers.setdefault(flow.tensor, set()).add(flow.target)
        sources = {flow.tensor: flow.source for flow in self.problem.flows}
        names: dict[str, list[set[int]]] = {}
        for tensor, layers in readers.items():
            name = folded_name(int(at[sources[tensor]]), {int(at[v]) for v in layers})
            names.setdefault(name, []).append(layers)
        one = {name: every[0] for name, every in names.items() if len(every) == 1}
        found = {}
        for name, layers in one.items():
            for g, count in zip(*np.unique(at[sorted(layers)], return_counts=True), strict=True):
                if count > 1:
                    found[name, int(g)] = int(count)
        return found

    def _is_later(self, t: int) -> bool:
        """Whether no first stage is on a type, and memory counts there."""
        first, cap = self._first, self.problem.memory_cap[t]
        shares = bool(self.problem.mixes.size)
        return first is not None and not self._small.allowed[first, t] and not shares and bool(0 < cap < np.inf)

    def _add_places(self, program: IntegerProgram, v: int, rate: int) -> list[int]:
        """Columns of the rows a second that a Layer sends to each type: all of them to one, if it must not be split."""
        allowed = self._small.allowed[v]
        columns = [program.continuous(0.0, float(ok)) for ok in allowed]
        program.row([*((c, 1.0) for c in columns), (rate, -1.0)], 0, 0)
        if self._is_whole[v]:
            places = [program.binary() for _ in columns]
            program.row([(place, 1.0) for place in places], 1, 1)
            for column, place in zip(columns, places, strict=True):
                program.row([(column, 1.0), (place, -1.0)], -np.inf, 0)
        return columns

    def _held(self, t: int, high: float) -> list[tuple[Floats, float]]:
        """Units of a type for each row a second of each Layer, and of each byte that crosses, by the memory they take.

        Three sums of which each bounds the units. A Layer that leaves next to no room counts as if it left a hundredth:
        coefficients must not be too unlike. What does not grow with the rows counts for as many as there are at most.
        """
        p, small, cap = self.problem, self._small, float(self.problem.memory_cap[t])
        if p.mixes.size or not 0 < cap < np.inf:
            return []
        flight = p.least_way + (small.layer_way[:, t] - small.fastest_way) / self._counts
        each, once = small.layer_held[:, t] * np.maximum(flight, p.way_from), small.layer_memory[:, t]
        room = np.maximum(cap - once / self._counts, 1e-2 * cap)
        crosses = p.cut_memory / cap * max(p.least_way, p.way_from), p.cut_memory / cap * p.held / high
        fewest = (p.held * small.layer_held[:, t] + once) / cap / high
        return [(each / room, crosses[0]), ((each + once / high) / cap, crosses[0]), (fewest, crosses[1])]

    def _add_crossing(
        self, program: IntegerProgram, rows: list[list[int]], work: list[list[Terms]], ways: Terms, high: float
    ) -> dict[str, int]:
        """What leaves a type, and what comes to it: bytes that take time, and memory of the batches in flight.

        Columns of the messages are returned, by tensor.
        """
        p, small, resources = self.problem, self._small, len(self._small.layer_parallel)
        readers: dict[str, list[int]] = {}
        sizes = {}
        messages: dict[str, int] = {}
        held = [[crosses for _, crosses in self._held(t, high)] for t in range(small.types)]
        for flow in small.flows:
            readers.setdefault(flow.tensor, []).append(flow.target)
            sizes[flow.tensor] = (flow.source, flow.bytes, flow.back)
        for tensor, (source, forward, back) in sizes.items():
            moved: tuple[Terms, Terms] = [], []
            for t in range(small.types):
                leaves, comes = program.part(), program.part()
                for reader in readers[tensor]:
                    ends = rows[source][t], rows[reader][t]
                    program.row([(leaves, 1.0), (ends[0], -1.0), (ends[1], 1.0)], 0, np.inf)
                    program.row([(comes, 1.0), (ends[0], 1.0), (ends[1], -1.0)], 0, np.inf)
                for r, (receive_s, send_s) in enumerate(zip(small.receive_s[:, t], small.send_s[:, t], strict=True)):
                    work[t][r].append((leaves, float(forward * send_s + back * receive_s)))
                    work[t][r].append((comes, float(forward * receive_s + back * send_s)))
                for taken, each in zip(work[t][resources:], held[t], strict=True):
                    taken += [(leaves, (forward + back) * each), (comes, (forward + back) * each)]
                ways += [(c, float((forward + back) * p.own_way[0, t] / self._most_way)) for c in (leaves, comes)]
                for terms, column in zip(moved, (leaves, comes), strict=True):
                    terms.append((column, -float((forward + back) * p.cut_way[t] / self._most_way)))
            if np.isfinite(p.way_to):
                messages[tensor] = self._add_message(program, moved, ways)
        return messages

    def _add_message(self, program: IntegerProgram, sides: tuple[Terms, Terms], ways: Terms) -> int:
        """A column of what a message adds to the batches in flight: no less than either side (negative) says."""
        message = program.continuous(0.0, 1 + TOLERANCE)  # of what is in flight
        ways.append((message, 1.0))
        for terms in sides:
            program.row([(message, 1.0), *terms], 0, np.inf)
        return message

    def _add_gradients(
        self, program: IntegerProgram, rows: list[list[int]], work: list[list[Terms]], ways: Terms
    ) -> None:
        """What the type of the first Layer, if there is one that all others need, passes on for the others.

        Gradients are messages, which take what they take on either side: of the cut behind the first stage, and of that
        before their own.
        """
        p, small, first = self.problem, self._small, self._first
        if first is None:
            return
        for v in np.flatnonzero(small.gradients):
            sides: tuple[Terms, Terms] = [], []
            size = small.gradients[v] / self._most_way
            for t in range(small.types):
                passed, made = program.part(), program.part()
                program.row([(passed, 1.0), (rows[first][t], -1.0), (rows[v][t], 1.0)], 0, np.inf)
                program.row([(made, 1.0), (rows[v][t], -1.0), (rows[first][t], 1.0)], 0, np.inf)
                for r, each in enumerate(small.receive_s[:, t] + small.send_s[:, t]):
                    work[t][r].append((passed, float(small.gradients[v] * each)))
                ways.append((passed, float(size * p.own_way[1, t])))
                for terms, column in zip(sides, (passed, made), strict=True):
                    terms.append((column, -float(size * p.cut_way[t])))
            if np.isfinite(p.way_to):
                self._add_message(program, sides, ways)

    @property
    def _first(self) -> int | None:
        """The Layer that all others come after."""
        return 0 if all_after_first(self._small) and self._counts[0] == 1 else None

    def _add_units(
        self, program: IntegerProgram, work: list[list[Terms]], rate: int, low: float, high: float
    ) -> tuple[list[int], int, list[int]]:
        """Products of which units of each type within the caps are parts (a single unit is one too), and shard hosts.

        Of these no fewer for a row than at the lowest throughput. Columns of products, of hosts and of units are
        returned.
        """
        p, every = self.problem, []
        hosts = program.integer(p.shards.price if p.shards.type < 0 else 0.0, p.shards.hosts(high) + 1.0)
        program.row([(hosts, 1.0)], p.shards.minimum, np.inf)
        program.row([(hosts, 1.0), (rate, -p.shards.each(low) * high * (1 - TOLERANCE))], 0, np.inf)
        products = [program.integer(*each) for each in zip(p.product_price, self._bought[1], strict=True)]
        for product, fewest in zip(products, self._bought[0], strict=True):
            program.row([(product, 1.0)], fewest, np.inf)
        for t, resources in enumerate(work):
            here, each = (-1.0 if p.shards.type == t else 0.0), float(p.sold_in[t])
            most = min(float(p.cap[t]), each * float(self._bought[1][p.product[t]]))
            every.append(units := program.continuous(0.0, most))
            program.row([(units, 1.0), (products[p.product[t]], -each)], -np.inf, 0.0)
            program.row([(products[p.product[t]], each)], -np.inf, float(p.cap[t]))
            for taken in resources:
                # A unit is not added for a rounding error.
                needed = [(c, -seconds * high * (1 - TOLERANCE)) for c, seconds in taken]
                program.row([(units, 1.0), (hosts, here), *needed], 0, np.inf)
        return products, hosts, every


def least_per_row(
    program: TypeProgram,
    low: float,
    high: float,
    value: float,
    floor: float,
    deadline: Deadline,
    budget: float = np.inf,
) -> float:
    """Lower bound on the price per hour over rows per second from low to high, given a plan's and a lower bound.

    Of plans within a budget per hour. A price per row is tried that is nearly the plan's; where a solution costs less,
    that of the solution.
    """
    per_row, least = value * (1 - _CLOSE), floor
    for _ in range(program.prices):
        if deadline.over or per_row <= least:
            break
        close = _NEARLY * per_row * low
        beyond, seen = program.least_beyond(per_row, low, high, deadline, 0.0, budget, close=close)
        if beyond >= 0:
            return max(least, per_row)
        if np.isinf(beyond):
            break
        least = max(least, per_row + beyond / low)
        per_row = min(seen, per_row) * (1 - _LESS)
    return least


def most_within(program: TypeProgram, value: float, most: float, budget: float, deadline: Deadline) -> float:
    """Upper bound on the rows per second within a price per hour, given a plan's and an upper bound."""
    low, high = value, most
    turns, near = (_TURNS, _NEAR) if program.prices > 1 else (_FEW_TURNS, _CLOSE)
    for turn in range(turns):
        x = low * (1 + near) if turn == 0 or np.isinf(high) else float(np.sqrt(low * high))
        if x >= high or deadline.over:
            break
        if program.exceeds(budget, x, deadline, high):
            high = x
        else:
            low = x
    return high
