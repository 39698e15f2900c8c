"""The planning problem as plain arrays, and what a placement costs and sustains.

States are the legal cuts (downsets of the Layers): state 0 is "nothing done", the last one "all done". A stage is a
pair of states, the earlier contained in the later one, on a type of resource. For a chain the states are its prefixes,
so chain and DAG are one problem. Per-layer figures are summed over each state once, so that a stage's figure is a
difference. Resource axis 0 is compute, the others are data: what a unit receives and what it sends, apart, as a
network is busy in both directions at once; times are seconds per row on one unit.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.planner.solve.calls import Calls, calling
from heterps.planner.solve.placement import TOLERANCE, Bools, Floats, Flow, Placement, Segment, Shards
from heterps.planner.solve.shared_use import shared_limits

__all__ = ["Problem"]


@dataclass(frozen=True, eq=False)
class Problem:
    """See the module's text; ``L`` Layers, ``T`` types, ``R`` resources, ``n`` states, ``H`` shared capacities.

    Parameters
    ----------
    members
        bool[n, L]: the Layers of each state, in order of size.
    layer_serial, layer_parallel
        float[R, L, T]: the parts of the time that more units do not, and do, divide.
    allowed
        bool[L, T]: where each Layer may run.
    layer_memory, memory_cap
        float[L, T], float[T]: bytes a worker needs for a Layer, and has.
    layer_held, cut_memory, held
        float[L, T]: bytes it needs more for each batch that it holds; those for each byte per row that crosses a cut
        beside it; and the batches that every worker holds at the least.
    layer_way, cut_way, own_way, way
        float[L, T], float[T], float[3, T], float: how many batches are in flight for each row per second, at the
        least: by where a Layer runs; for each byte per row in the messages over a cut beside a stage, gradients of
        parameters among them; for each byte per row that crosses a cut beside it, each byte of gradients that it passes
        on, and each cut before it, what its workers do themselves; and besides. Workers of a stage hold them together
        (:meth:`most_in_flight`).
    way_from, way_to
        Batches in flight for each row per second that all placements have which are looked for: at the least, and at
        the most as they are counted over all their stages (:attr:`stage_way`).
    flight_from, flight_to
        Batches in flight that all placements have which are looked for, whatever their rows per second. Workers that
        read have whole batches each, and all of them as many: so many that all lanes together have such a number.
    deepest
        Batches that a worker which reads may have in flight, whatever its memory.
    flows, receive_s, send_s, turn_s
        Tensors between Layers; float[R, T]: seconds of one unit per byte that it receives, and sends, over a cut, and
        per row for each cut beside it, however few bytes cross.
    gradients
        float[L]: bytes per row of the gradients of a Layer's parameters, which every stage before its own passes on:
        it receives them over the cut behind it and sends as many.
    price, cap
        float[T] per unit and hour; float[T] (inf: none).
    sold_in, product
        int[T], int[T]: units are sold as parts of products, numbered from 0, each of which has ``sold_in`` units of
        every type with its number. Where it has several, only the price of the whole, ``price @ sold_in`` over its
        types, means something: how it is divided among them is up to whoever looks for bounds.
    layer_usage, byte_usage, turn_usage, fixed_usage, capacity
        float[H, L, T], float[H, T], float[H, T], float[H], float[H]: what rows take from things that types share (cores
        and memory bandwidth of a Host): per row, per byte over a cut, per cut, in any case; and what there is per
        second.
    link
        int[T, T]: which of the shared capacities is that of what passes from one type to another, in bytes (-1: there
        is no limit). What passes at cuts takes from it by both types, beside what Layers do.
    mixes
        int[P, 2]: pairs of types that may run one stage together.
    shards
        The parameter side.
    kinds
        ``"cpu"`` or ``"gpu"`` by type.
    budget
        Price per hour above which placements are of no interest: a solver may say that there is none where all cost
        more.
    fused
        Whether placements of one stage are looked for only.
    calls
        What further shard hosts add to these figures (:meth:`calling`); None: nothing.
    """

    members: Bools
    layer_serial: Floats
    layer_parallel: Floats
    allowed: Bools
    layer_memory: Floats
    memory_cap: Floats
    layer_held: Floats
    cut_memory: float
    held: int
    layer_way: Floats
    cut_way: Floats
    own_way: Floats
    way: float
    deepest: float
    flows: tuple[Flow, ...]
    receive_s: Floats
    send_s: Floats
    turn_s: Floats
    gradients: Floats
    price: Floats
    cap: Floats
    sold_in: npt.NDArray[np.int64]
    product: npt.NDArray[np.int64]
    layer_usage: Floats
    byte_usage: Floats
    turn_usage: Floats
    fixed_usage: Floats
    capacity: Floats
    link: npt.NDArray[np.int64]
    mixes: npt.NDArray[np.int64]
    shards: Shards
    kinds: tuple[str, ...]
    budget: float = np.inf
    way_from: float = 0.0
    way_to: float = np.inf
    flight_from: float = 0.0
    flight_to: float = np.inf
    fused: bool = False
    calls: Calls | None = None

    @property
    def types(self) -> int:
        """Number of types."""
        return len(self.price)

    @property
    def layers(self) -> int:
        """Number of Layers."""
        return int(self.members.shape[1])

    @property
    def states(self) -> int:
        """Number of states."""
        return len(self.members)

    @cached_property
    def _is_nested(self) -> bool:
        """Whether every state contains those before it."""
        return not (self.members[:-1] & ~self.members[1:]).any()

    @cached_property
    def _first_with(self) -> npt.NDArray[np.int64]:
        """int[L]: the first state that has each Layer."""
        return np.asarray(self.members.argmax(axis=0))

    def _summed(self, figures: Floats) -> Floats:
        """[..., n, T]: figures by Layer, added up over each state."""
        if not self._is_nested:
            return np.asarray(self.members.astype(float) @ figures)
        held, steps = self.members[-1], np.zeros((*figures.shape[:-2], self.states, figures.shape[-1]))
        where: Any = (..., self._first_with[held], slice(None))
        np.add.at(steps, where, figures[..., held, :])
        return np.asarray(steps.cumsum(axis=-2))

    @cached_property
    def serial(self) -> Floats:
        """float[R, n, T]: serial seconds of each state."""
        return self._summed(self.layer_serial)

    @cached_property
    def has_serial(self) -> bool:
        """Whether there is work that more units do not divide."""
        return bool(self.layer_serial.any())

    @cached_property
    def parallel(self) -> Floats:
        """float[R, n, T]: parallel seconds of each state."""
        return self._summed(self.layer_parallel)

    @cached_property
    def forbidden(self) -> npt.NDArray[np.int64]:
        """int[n, T]: how many Layers of a state may not run on a type."""
        return self._summed((~self.allowed).astype(float)).round().astype(np.int64)

    @cached_property
    def memory(self) -> Floats:
        """float[2, n, T]: bytes that a worker needs for a state, and for each batch of it that it holds."""
        return self._summed(np.stack([self.layer_memory, self.layer_held]))

    @cached_property
    def beside_memory(self) -> Floats:
        """float[n]: bytes per batch that a worker on either side of the cut at each state needs for what crosses it."""
        return self.cut_bytes * self.cut_memory

    @cached_property
    def has_flight(self) -> bool:
        """Whether it is known that batches are in flight."""
        some = self.layer_way.any() or self.cut_way.any() or self.own_way.any()
        return bool(self.way or self.way_from or some)

    @cached_property
    def flight(self) -> Floats:
        """float[2, n, T]: the difference of [0] where a stage ends and [1] where it begins is what is in flight for it.

        In batches for each row per second, at the least. Layers of other stages are where they are fastest; nothing is
        known of the cuts between these.
        """
        fastest = self.fastest_way[:, None]
        more, (ends, begins) = self._summed(self.layer_way - fastest), self._cut_ways(1.0, 1.0)
        return np.stack([more + ends + self.way + fastest.sum(), more - begins])

    @cached_property
    def fastest_way(self) -> Floats:
        """float[L]: what each Layer adds to what is in flight where that is least, on types of which there are some."""
        there = self.product_cap[self.product] > 0
        fastest = np.where(self.allowed & there, self.layer_way, np.inf).min(axis=1, initial=np.inf)
        return np.where(np.isfinite(fastest), fastest, 0.0)

    @property
    def least_way(self) -> float:
        """Batches in flight for each row per second that no placement has fewer of."""
        return self.way + float(self.fastest_way.sum())

    @cached_property
    def stage_way(self) -> Floats:
        """float[2, n, T]: the same difference for what a stage adds to what is in flight for all, besides ``way``.

        A message over a cut takes what it takes on the slower side, so no less than any part of what it takes on one
        side and the rest of what it takes on the other: that is what the stages beside it count.
        """
        mine, (ends, begins) = self._summed(self.layer_way), self._cut_ways(self._sent_part, 1 - self._sent_part)
        return np.stack([mine + ends, mine - begins])

    @property
    def _sent_part(self) -> float:
        """The part of a message that the stage before a cut counts: all or nothing where that is the slower side.

        It is, or is not, of the cut behind a stage that reads, where that is known of all types.
        """
        reads, slow = self.allowed[0], self.cut_way
        if reads.all() or not reads.any():
            return 0.5
        if slow[reads].max() <= slow[~reads].min():
            return 0.0
        return 1.0 if slow[reads].min() >= slow[~reads].max() else 0.5

    def _cut_ways(self, sent: float, taken: float) -> tuple[Floats, Floats]:
        """float[n, T]: what a cut where a stage ends, and one where it begins, adds, with these parts of messages."""
        passed = (self._inner[:, 0] * self.passed_on)[:, None]
        crosses, passes, turns = self.own_way
        moved, own = (self.cut_bytes[:, None] + passed) * self.cut_way, self.cut_bytes[:, None] * crosses
        return sent * moved + own + passed * passes, taken * moved + own + self._inner * turns

    def way_of(self, segments: tuple[Segment, ...]) -> float:
        """Batches in flight for each row per second of a whole placement, at the least."""
        return self.way + sum(map(self.way_added, segments))

    def way_added(self, segment: Segment) -> float:
        """What a stage adds to it: where it is on two types, the less of what it would on either."""
        return min(self._way_on(segment, t) for t in segment.types)

    def _way_on(self, segment: Segment, t: int) -> float:
        return float(self.stage_way[0, segment.stop, t] - self.stage_way[1, segment.start, t])

    @cached_property
    def crossing(self) -> Floats:
        """float[2, n]: bytes per row forward and back over the cut at each state; a tensor crosses once."""
        crossing: dict[str, Bools] = {}
        done = np.ascontiguousarray(self.members.T)
        sizes = {flow.tensor: np.array([[flow.bytes], [flow.back]]) for flow in self.flows}
        for flow in self.flows:
            cut = done[flow.source] & ~done[flow.target]
            crossing[flow.tensor] = cut | crossing[flow.tensor] if flow.tensor in crossing else cut
        return sum((cut * sizes[tensor] for tensor, cut in crossing.items()), np.zeros((2, self.states)))

    @cached_property
    def cut_bytes(self) -> Floats:
        """float[n]: bytes per row over the cut at each state, both directions."""
        return np.asarray(self.crossing.sum(axis=0))

    @cached_property
    def passed_on(self) -> Floats:
        """float[n]: bytes per row of gradients of parameters that the stage before each state passes on."""
        all_ = self._summed(self.gradients[:, None])[:, 0]
        return np.asarray(np.maximum(all_[-1] - all_, 0.0))

    @cached_property
    def cut_after(self) -> Floats:
        """float[R, n, T]: seconds per row of a unit whose stage ends at each state."""
        forward, back = self.crossing[:, :, None] + np.stack([self.passed_on, self.passed_on])[:, :, None]
        return self._beside(forward * self.send_s[:, None] + back * self.receive_s[:, None])

    @cached_property
    def cut_before(self) -> Floats:
        """float[R, n, T]: seconds per row of a unit whose stage begins at each state."""
        forward, back = self.crossing[:, :, None]
        return self._beside(forward * self.receive_s[:, None] + back * self.send_s[:, None])

    def _beside(self, moved: Floats) -> Floats:
        return np.ascontiguousarray(moved + self._inner * self.turn_s[:, None])

    @property
    def _inner(self) -> Floats:
        """float[n, 1]: 1 where something is cut."""
        inner = np.ones((self.states, 1))
        inner[[0, -1]] = 0
        return inner

    @cached_property
    def usage(self) -> Floats:
        """float[H, n, T]: shared capacity that a state takes per row."""
        return np.ascontiguousarray(self._summed(self.layer_usage))

    @cached_property
    def cut_usage(self) -> Floats:
        """float[2, H, n, T]: shared capacity per row that a stage takes which begins, or ends, at each state."""
        moved = np.stack([self.cut_bytes, self.cut_bytes + 2 * self.passed_on])[:, None, :, None]
        return np.ascontiguousarray(moved * self.byte_usage[:, None] + self._inner * self.turn_usage[:, None])

    @cached_property
    def stage_figures(self) -> Floats:
        """float[T, 12 + 3 R, n]: all that the units of a stage follow from, so that each is a difference of two.

        Forbidden Layers; memory less what there is, memory; memory for each batch with what crosses after, and less
        what crosses before, a state; batches in flight likewise; batches held at the least where a stage ends, and at
        most where it begins; batches that all have in flight, for each row a second, and in any case; how many there
        may be where a stage reads; then for each resource: serial time, parallel time with the cut after, and less the
        cut before.
        """
        once, each = self.memory
        beside = self.beside_memory[:, None]
        least, most = np.full_like(once, self.held), np.full_like(once, np.inf)
        most[0] = self.deepest
        rows = [self.forbidden, once - self.memory_cap, once, each + beside, each - beside, *self.flight, least, most]
        lanes = np.full_like(once, np.inf)
        lanes[0] = self.flight_to
        rows += [np.full_like(once, self.way_from), np.full_like(once, self.flight_from), lanes]
        for serial, parallel, ends, begins in zip(
            self.serial, self.parallel, self.cut_after, self.cut_before, strict=True
        ):
            rows += [serial, parallel + ends, parallel - begins]
        return np.ascontiguousarray(np.stack(rows).transpose(2, 0, 1), float)

    @cached_property
    def work_figures(self) -> Floats:
        """Stage figures with nothing in flight."""
        figures = self.stage_figures.copy()
        figures[:, [5, 6, 9, 10]] = 0.0
        return figures

    @cached_property
    def words(self) -> npt.NDArray[np.uint64]:
        """Each state as a bit set, 64 Layers a word; no words at all where every state contains those before it."""
        if self._is_nested:
            return np.zeros((self.states, 0), np.uint64)
        padded = np.zeros((self.states, max(1, -(-self.layers // 64)) * 64), np.uint8)
        padded[:, : self.layers] = self.members
        return np.ascontiguousarray(np.packbits(padded, axis=1, bitorder="little")).view(np.uint64)

    @cached_property
    def packed(self) -> Bools:
        """bool[T]: types whose units are sold together with others, of their own or of another type."""
        return np.asarray((self.sold_in > 1) | (np.bincount(self.product)[self.product] > 1))

    @cached_property
    def product_price(self) -> Floats:
        """float[P]: price per hour of each product."""
        return np.asarray(np.bincount(self.product, self.price * self.sold_in), float)

    @cached_property
    def product_cap(self) -> Floats:
        """float[P]: how many of each product can be had."""
        most = np.full(len(self.product_price), np.inf)
        np.minimum.at(most, self.product, np.floor(self.cap / self.sold_in))
        return most

    def products(self, used: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """int[P]: how many of each product have so many units of the types."""
        needed = np.zeros(len(self.product_price), np.int64)
        np.maximum.at(needed, self.product, -(-used // self.sold_in))
        return needed

    @cached_property
    def is_coupled(self) -> bool:
        """Whether stages compete for something, so that each cannot be sized by itself."""
        scarce = np.isfinite(self.cap) | self.packed
        return bool(scarce.any() or len(self.capacity) or np.isfinite(self.most_way(1.0)))

    def most_way(self, x: float) -> float:
        """Batches in flight for each of x rows per second that a placement which is looked for has at the most."""
        return min(self.way_to, self.flight_to / x)

    @property
    def slowest(self) -> float:
        """Rows per second, so few that whatever is feasible at all is feasible there."""
        longest = max(float((self.serial[:, -1] + self.parallel[:, -1]).max()), self.shards.calls)
        return 1e-6 / longest if longest > 0 else 1.0

    @cached_property
    def order(self) -> tuple[int, ...]:
        """States along one way from nothing to all, by the smallest steps there are."""
        if self._is_nested:
            return tuple(range(self.states))
        order, sizes = [0], self.members.sum(axis=1)
        while order[-1] != self.states - 1:
            after = ~(self.members[order[-1]] & ~self.members).any(axis=1) & (sizes > sizes[order[-1]])
            order.append(int(np.flatnonzero(after)[0]))
        return tuple(order)

    def stage_layers(self, segment: Segment) -> list[int]:
        """Numbers of the Layers of a stage."""
        return [int(v) for v in np.flatnonzero(self.members[segment.stop] & ~self.members[segment.start])]

    def times(self, i: int, j: int, t: int) -> tuple[Floats, Floats]:
        """Serial and parallel seconds per row, by resource, of the stage from state i to j on type t."""
        serial = self.serial[:, j, t] - self.serial[:, i, t]
        parallel = self.parallel[:, j, t] - self.parallel[:, i, t]
        return serial, parallel + self.cut_before[:, i, t] + self.cut_after[:, j, t]

    def speed(self, segment: Segment) -> float:
        """Rows per second that a stage sustains with its units.

        A type with k units carries ``k * (1 - s*X) / q`` of the stage's X rows a second, by its slower resource; the
        shares of the types add up to X.
        """
        carriers = [(segment.type, segment.units), (segment.other, segment.other_units)]
        rates = []
        for t, k in carriers if segment.other >= 0 else carriers[:1]:
            serial, parallel = self.times(segment.start, segment.stop, t)
            rates.append([(k / q, k * s / q) if q > 0 else (np.inf, s) for s, q in zip(serial, parallel, strict=True)])
        return float(min(_crossing(chosen) for chosen in itertools.product(*rates)))

    def holds(self, i: int, j: int, t: int) -> float:
        """Batches that a worker of type t may have in the stage from state i to j: for which it has room, and depth."""
        room = float(self.memory_cap[t] - (self.memory[0, j, t] - self.memory[0, i, t]))
        each = float(self.memory[1, j, t] - self.memory[1, i, t] + self.beside_memory[i] + self.beside_memory[j])
        held = float(np.floor(room / each * (1 + TOLERANCE))) if each > 0 else (np.inf if room >= 0 else -1.0)
        return held if i > 0 else min(held, self.deepest)

    def most_in_flight(self, segment: Segment) -> float:
        """Batches that can be in flight so that workers of a stage have room for their part of them.

        Workers that read have as many in flight as those of their type need, and have room for. Those who hand batches
        on to a later stage look at two queues: one more than its part is allowed for, unless each has room for all.
        """
        counts, holds = segment.counts, [self.holds(segment.start, segment.stop, t) for t in segment.types]
        if segment.start == 0:
            return sum(units * each for units, each in zip(counts, holds, strict=True))
        return max(min(holds), sum(counts) * (min(holds) - 1))

    def has_room(self, segments: tuple[Segment, ...], flight: float) -> bool:
        """Whether workers of all stages have room for so many batches in flight."""
        return all(self.most_in_flight(segment) >= flight * (1 - TOLERANCE) for segment in segments)

    def _room_limits(self, segments: tuple[Segment, ...]) -> dict[str, float]:
        """Rows per second at which workers of each stage have room for what is in flight, and need be no deeper."""
        limits = {}
        for n, s in enumerate(segments):
            most = self.most_in_flight(s)
            if most < self.flight_from * (1 - TOLERANCE):
                limits[f"room {n}"] = 0.0
            elif (flight := self.in_flight(s)) > 0 and np.isfinite(most):
                bounded = s.start == 0 and most == self.deepest * (s.units + s.other_units)
                limits[f"{'depth' if bounded else 'room'} {n}"] = most / flight
        return limits

    def in_flight(self, segment: Segment) -> float:
        """Batches in flight for each row per second, at the least, as a stage knows it, of what is looked for."""
        return max(self.own_flight(segment), self.way_from)

    def own_flight(self, segment: Segment) -> float:
        """Those of any placement with such a stage.

        Where it is on two types, batches take one or the other: at the least all of them the one that takes less.
        """
        ways = (self.flight[0, segment.stop, t] - self.flight[1, segment.start, t] for t in segment.types)
        return float(min(ways))

    def price_of(self, segments: tuple[Segment, ...], hosts: int) -> float:
        """Price per hour of stages and shard hosts, in the numbers in which units are sold."""
        return float(self.bought(segments, hosts) @ self.price) + (
            self.shards.price * hosts if self.shards.type < 0 else 0.0
        )

    def bought(self, segments: tuple[Segment, ...], hosts: int) -> npt.NDArray[np.int64]:
        """Units by type, shard hosts counted where they sit, in the numbers in which they are sold."""
        used = Placement(segments, hosts, 0.0, 0.0).used(self.types) + self.hosts_by_type(hosts)
        return np.asarray(self.products(used)[self.product] * self.sold_in)

    def hosts_by_type(self, hosts: int) -> npt.NDArray[np.int64]:
        """Units that shard hosts take of each type."""
        return np.where(np.arange(self.types) == self.shards.type, hosts, 0)

    def calling(self, hosts: int) -> Problem:
        """The problem in which every batch calls so many shard hosts."""
        return self if self.calls is None or self.calls.counted == hosts else calling(self, hosts)

    @property
    def host_price(self) -> float:
        """Price of one shard host; where it is part of a product, its part of that price."""
        return float(self.price[self.shards.type]) if self.shards.type >= 0 else self.shards.price

    def limits(self, placement: Placement) -> dict[str, float]:
        """Rows per second that each part of a placement sustains: stages, shard hosts, shared capacities, links."""
        if (called := self.calling(placement.hosts)) is not self:
            return called.limits(placement)
        limits = {f"stage {i}": self.speed(segment) for i, segment in enumerate(placement.segments)}
        if self.shards.work(placement.hosts) > 0:
            limits["shard hosts"] = self.shards.speed(placement.hosts)
        top = min(1e18, *limits.values())  # a finite number
        shared = shared_limits(self, placement.segments, top) if len(self.capacity) else ()
        limits |= {f"shared {h}": float(x) for h, x in enumerate(shared) if np.isfinite(x)}
        if np.isfinite(self.flight_to):
            limits["in flight"] = self._last_in_flight(placement.segments, min(limits.values()))
        return limits | self._room_limits(placement.segments)

    def _last_in_flight(self, segments: tuple[Segment, ...], top: float) -> float:
        """Rows per second, up to ``top``, at which no more batches are counted than may be in flight."""
        counted = self.way_of(segments)
        return self.flight_to / counted if counted * top > self.flight_to else top

    def sustained(self, placement: Placement) -> float:
        """Rows per second that a placement sustains."""
        if self.is_coupled or self.mixes.size:
            return min(self.limits(placement).values())
        room = self._room_limits(placement.segments) if self.has_flight else {}
        slowest = self.calling(placement.hosts)._slowest(placement.segments)
        return min(self.shards.speed(placement.hosts), slowest, *room.values())

    def _slowest(self, segments: tuple[Segment, ...]) -> float:
        """Rows per second of the slowest stage, none of them mixed: :meth:`speed` of all at once."""
        i, j, t, k = np.array([(s.start, s.stop, s.type, s.units) for s in segments]).T
        serial = self.serial[:, j, t] - self.serial[:, i, t]
        parallel = self.parallel[:, j, t] - self.parallel[:, i, t] + self.cut_before[:, i, t] + self.cut_after[:, j, t]
        most = float((serial + parallel / k).max())
        return 1 / most if most > 0 else np.inf

    @cached_property
    def has_links(self) -> bool:
        """Whether it matters between which types something passes."""
        return bool((self.link >= 0).any())

    def passed(self, segments: tuple[Segment, ...]) -> Floats:
        """float[H]: bytes per row over links at cuts."""
        load = np.zeros(len(self.capacity))
        for before, after in itertools.pairwise(segments) if self.has_links else ():
            for ends, bytes_ in self.turned(before.type, after.type, after.start).items():
                if self.link[ends] >= 0:
                    load[self.link[ends]] += bytes_
        return load

    def turned(self, a: int, b: int, state: int) -> dict[tuple[int, int], float]:
        """Bytes per row from type to type where a stage on a ends, and one on b begins, at a state."""
        forward, back = map(float, self.crossing[:, state])
        back += float(self.passed_on[state])
        return {(a, b): forward, (b, a): back} if a != b else {(a, a): forward + back}


def _crossing(chosen: tuple[tuple[float, float], ...]) -> float:
    """Root of ``sum(rate - slope*x) = x``; infinite rates stand for work that takes no parallel time."""
    if any(np.isinf(rate) for rate, _ in chosen):
        serial = max(s for rate, s in chosen if np.isinf(rate))
        return 1 / serial if serial > 0 else np.inf
    return sum(rate for rate, _ in chosen) / (1 + sum(slope for _, slope in chosen))
