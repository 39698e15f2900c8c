"""From a placement to a Plan: names, forecast by part, memory, bytes on links, price by part."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from operator import mul

from heterps.hardware import Pool
from heterps.planner.costs.forecast import Cost, Forecast, StageForecast
from heterps.planner.costs.layer_costs import Costs
from heterps.planner.costs.on_the_way import DEPTH, comes_first, depths_of
from heterps.planner.costs.planning_model import placed_tables, shared_name, sold_in
from heterps.planner.costs.playing import at_work_for, depth_for
from heterps.planner.plan import Plan, Share, Stage
from heterps.planner.purchases import Purchase
from heterps.planner.solve.placement import Segment
from heterps.planner.solve.problem import Problem
from heterps.planner.solve.search import SearchResult
from heterps.planner.solve.shared_use import carried_by_first
from heterps.protocol.words.modes import Async, Mode

__all__ = [
    "Draft",
    "assemble",
    "at_depth",
    "at_rate",
    "batches_held",
    "has_lanes_for_depth",
    "in_flight",
]

_ASKED = 0.99  # of what a plan sustains: below, it is not bound by anything of its own


@dataclass(frozen=True)
class Draft:
    """A solved problem with everything needed to write the plan."""

    costs: Costs
    problem: Problem
    server: Pool
    found: SearchResult
    pins: Mapping[str, str]
    complete: bool = True  # whether the problem's states are all legal cuts
    depths: tuple[int, ...] = ()  # batches in flight per lane, of each type that reads
    at_work: tuple[float, ...] = ()  # batches at work in such a lane for each row per second
    fits: bool = True  # whether every stage has the memory for these
    slowed: bool = False  # whether it runs slower than its units could, as there is no memory for more batches

    def __post_init__(self) -> None:
        if not self.depths:
            object.__setattr__(self, "depths", (DEPTH,) * len(self.found.placement.segments[0].types))

    def pool(self, type_: int) -> Pool:
        """Return the pool of a type."""
        return self.costs.hardware.pools[type_]

    @property
    def called(self) -> Problem:
        """The problem in which batches call as many shard hosts as there are."""
        return self.problem.calling(self.found.placement.hosts)

    @property
    def purchases(self) -> tuple[Purchase, ...]:
        """What is bought: products, packs, units."""
        return tuple(_purchases(self))


def assemble(draft: Draft, rows_per_second: float | None = None, mode: Mode | None = None) -> Plan:
    """Write the plan; ``rows_per_second`` is the rate at which it will run, if less than it sustains.

    Where steps are ordered over lanes each of these has one batch in flight: there are as many lanes as batches.
    """
    segments = draft.found.placement.segments
    stages = tuple(_stage(draft, segment, _names(draft)[i]) for i, segment in enumerate(segments))
    forecast = _forecast(draft, stages, rows_per_second or draft.found.rows_per_second)
    ordered = mode is not None and mode.ordered
    depths = {} if ordered or len(set(draft.depths)) == 1 else dict(zip(stages[0].workers, draft.depths, strict=True))
    depth = 1 if ordered else max(draft.depths)
    used = {name for stage in stages for name in stage.workers} | {draft.server.name}
    return Plan(
        graph=draft.costs.graph,
        stages=stages,
        pools=tuple(pool for pool in draft.costs.hardware.pools if pool.name in used),
        batch_size=draft.costs.batch_size,
        shard_hosts=draft.found.placement.hosts,
        shard_pool=draft.server.name,
        replicas=draft.costs.replicas,
        lanes=in_flight(draft) if ordered else sum(segments[0].counts),
        depth=depth,
        depths=depths,
        mode=mode or Async(depth=depth),
        memory_bytes=_memory(draft, forecast),
        forecast=forecast,
        purchases=draft.purchases,
    )


def _names(draft: Draft) -> list[str]:
    """``all``; else ``io`` for what reads, ``compute`` for what ends the forward pass, numbers between."""
    count = len(draft.found.placement.segments)
    return ["all"] if count == 1 else ["io", *(f"middle{i}" for i in range(1, count - 1)), "compute"]


def _stage(draft: Draft, segment: Segment, name: str) -> Stage:
    layers = [draft.costs.layers.layers[v] for v in draft.problem.stage_layers(segment)]
    order = {op.name: i for i, op in enumerate(draft.costs.lowered)}
    ops = sorted((op for layer in layers for op in layer.ops), key=order.__getitem__)
    also: tuple[Share, ...] = ()
    if segment.other >= 0:
        x = draft.found.rows_per_second
        share = 1 - carried_by_first(draft.called, segment, x) / x
        also = (Share(draft.pool(segment.other).name, segment.other_units, share),)
    return Stage(
        name, tuple(layer.name for layer in layers), tuple(ops), draft.pool(segment.type).name, segment.units, also
    )


def at_depth(draft: Draft) -> Draft:
    """Return a draft with as many batches in flight per lane as keep the slowest part of its plan busy."""
    return at_rate(replace(draft, at_work=at_work_for(assemble(draft), draft.costs)), draft.found.rows_per_second)


def at_rate(draft: Draft, rows_per_second: float) -> Draft:
    """Return a draft with as many batches in flight as so many rows per second need, each pool the same part."""
    least, _ = depths_of(draft.costs)
    return replace(draft, depths=tuple(max(least, depth_for(each, rows_per_second)) for each in draft.at_work))


def in_flight(draft: Draft) -> int:
    """Batches in flight in all lanes together."""
    return sum(map(mul, draft.found.placement.segments[0].counts, draft.depths))


def has_lanes_for_depth(draft: Draft) -> bool:
    """Whether there is a worker that reads only because those there are may not have more batches in flight."""
    first, problem, rate = draft.found.placement.segments[0], draft.called, draft.found.rows_per_second
    fewer, lanes = replace(first, units=first.units - 1), sum(first.counts)
    if not fewer.units or problem.speed(fewer) < rate:
        return False
    return depth_for(max(draft.at_work) * lanes / (lanes - 1), rate) > problem.deepest


def batches_held(draft: Draft) -> list[tuple[int, ...]]:
    """Batches that a worker of each type of a stage has at once: those of its own lane, or its part of all in flight.

    Those who hand batches on look at two queues, so none gets much more than its part: one more is allowed for.
    """
    every, later = in_flight(draft), draft.found.placement.segments[1:]
    parts = ((min(every, -(-every // sum(segment.counts)) + 1),) * len(segment.types) for segment in later)
    return [draft.depths, *parts]


def _forecast(draft: Draft, stages: tuple[Stage, ...], rate: float) -> Forecast:
    problem, placement = draft.problem, draft.found.placement
    limits = problem.limits(placement)
    slowest = min(limits, key=lambda name: limits[name])
    bottleneck = _bottleneck(draft, slowest, stages)
    if rate < _ASKED * limits[slowest]:
        most = "batches in flight" if draft.costs.depth else "memory for batches in flight"
        first = most if draft.slowed else "what was asked for"
        bottleneck = f"{first}, then {bottleneck}"
    parts = tuple(
        _stage_forecast(draft, segment, stage, rate, limits[f"stage {i}"], max(held))
        for i, (segment, stage, held) in enumerate(zip(placement.segments, stages, batches_held(draft), strict=True))
    )
    return Forecast(
        rows_per_second=rate,
        stages=parts,
        bottleneck=bottleneck,
        price_per_hour=sum(each.count * each.price_per_hour for each in _purchases(draft)),
        price_parts=_prices(draft),
        link_bytes_per_s=_links(draft, rate),
        shard_busy=rate / draft.costs.stretch / problem.shards.speed(max(placement.hosts, 1)),
        tables=placed_tables(draft.costs, draft.server, draft.pins),
        data_sheet=_unmeasured_gpus(draft, stages),
    )


def _unmeasured_gpus(draft: Draft, stages: tuple[Stage, ...]) -> tuple[str, ...]:
    """Return the GPU pools of a plan whose rates no profile has."""
    used = dict.fromkeys(pool for stage in stages for pool in stage.workers)
    pools = {pool.name: pool for pool in draft.costs.hardware.pools}
    return tuple(name for name in used if pools[name].kind == "gpu" and name not in draft.costs.profile.pools)


def _stage_forecast(
    draft: Draft, segment: Segment, stage: Stage, rate: float, limit: float, held: int
) -> StageForecast:
    pool, costs = draft.pool(segment.type), draft.costs
    layers = [costs.layers.layers[v] for v in draft.problem.stage_layers(segment)]
    rates, n = costs.rates(pool), costs.batch_size
    received, sent = (n * bytes_ for bytes_ in _moved(draft.problem, segment))
    further = draft.found.placement.hosts - 1 if segment.start == 0 and comes_first(costs) else 0
    cuts = sum(0 < state < draft.problem.states - 1 for state in (segment.start, segment.stop))
    bus = pool.device.bus_bytes_per_s
    cost = sum((costs.cost(layer, pool) for layer in layers), Cost()) + Cost(
        call_s=cuts * rates.call_s
        + further * costs.further_call_s(pool)
        + (0.0 if pool.kind == "gpu" else (received + sent) * rates.wire_s_per_byte),
        bus_s=max(received, sent) / bus if bus else 0.0,
        network_s=max(received, sent) * costs.byte_s(pool),
        network_bytes=received + sent,
    )
    memory = _worker_bytes(draft, segment, held)
    could = limit * costs.stretch  # the problem's limit leaves the head-room free
    return StageForecast(stage.name, cost, rate / could, could, memory, _limit(draft, segment, cost))


def _worker_bytes(draft: Draft, segment: Segment, held: int) -> float:
    """Memory of a worker that has so many batches of a stage."""
    layers = (draft.costs.layers.layers[v] for v in draft.problem.stage_layers(segment))
    crossing = float(draft.problem.cut_bytes[segment.start] + draft.problem.cut_bytes[segment.stop])
    return sum(draft.costs.worker_bytes(layer, held) for layer in layers) + crossing * draft.costs.batch_size * held


def _moved(problem: Problem, segment: Segment) -> tuple[float, float]:
    """Bytes per row that a stage receives, and sends, over the cuts beside it."""
    entered, returned = problem.crossing[:, segment.start]
    handed, got_back = problem.crossing[:, segment.stop]
    passed = problem.passed_on[segment.stop]
    return float(entered + got_back + passed), float(returned + handed + passed)


def _limit(draft: Draft, segment: Segment, cost: Cost) -> str:
    """The resource that bounds a stage, and its largest part."""
    serial, parallel = draft.called.times(segment.start, segment.stop, segment.type)
    compute, *moving = serial + parallel / segment.units
    data = max(moving)
    parts = cost.parts()
    data_parts = {"network_s", "bus_s"}
    mine = [name for name in parts if (name in data_parts) == (data > compute)]
    return f"{'data' if data > compute else 'compute'}: {mine[0].removesuffix('_s')}" if mine else "nothing"


def _bottleneck(draft: Draft, slowest: str, stages: tuple[Stage, ...]) -> str:
    kind, _, number = slowest.partition(" ")
    if kind == "stage":
        return f"stage {stages[int(number)].name}"
    if kind == "room":
        return f"memory of stage {stages[int(number)].name}"
    if kind == "depth":
        return f"batches in flight, {draft.problem.deepest:g} for each worker of stage {stages[int(number)].name}"
    if kind == "shared":
        return shared_name(draft.problem, draft.costs.hardware, int(number))
    return slowest


def _purchases(draft: Draft) -> Iterator[Purchase]:
    """What is bought: products, packs, units; pools on a Host, without a price of their own, are there."""
    problem, placement, hardware = draft.problem, draft.found.placement, draft.costs.hardware
    bought = problem.bought(placement.segments, placement.hosts)
    for t, pool in enumerate(hardware.pools):
        product = hardware.product_of(pool.name)
        count = int(bought[t]) // sold_in(hardware, pool)
        if not count or (pool.host is not None and not pool.device.price_per_hour):
            continue
        if product is None:
            pack = pool.device.sold_in
            yield Purchase(pool.name, count, {pool.name: pack}, pack * pool.device.price_per_hour)
        elif pool.name == next(iter(product.pools)):
            yield Purchase(product.name, count, dict(product.pools), product.price_per_hour)


def _prices(draft: Draft) -> dict[str, float]:
    """Price per hour by product or pool, in the numbers sold, with shard hosts that are units apart."""
    parts = {each.name: each.count * each.price_per_hour for each in _purchases(draft)}
    hosts = draft.found.placement.hosts if draft.problem.shards.type >= 0 else 0
    carrier = next((each for each in _purchases(draft) if [*each.holds] == [draft.server.name]), None)
    if not hosts or carrier is None:
        return parts  # on Hosts, or part of a product that is paid for whole
    parts["shard hosts"] = hosts * draft.server.device.price_per_hour
    parts[carrier.name] -= parts["shard hosts"]
    return {name: price for name, price in parts.items() if price > 1e-12}


def _links(draft: Draft, rate: float) -> dict[str, float]:
    loads: dict[str, float] = {}
    for before, after in itertools.pairwise(draft.found.placement.segments):
        sides = {each.type: " + ".join(draft.pool(t).name for t in each.types) for each in (before, after)}
        for (a, b), bytes_ in draft.problem.turned(before.type, after.type, after.start).items():
            name = f"{sides[a]} - {sides[b]}"
            loads[name] = loads.get(name, 0.0) + bytes_ * rate
    loads["workers - shard hosts"] = draft.costs.shard_bytes / draft.costs.batch_size * rate
    if draft.costs.replicas > 1:
        loads["shard hosts - backups"] = draft.costs.replica_bytes / draft.costs.batch_size * rate
    return loads


def _memory(draft: Draft, forecast: Forecast) -> dict[str, float]:
    """Bytes of one worker by pool: its stages, and its part of the tables where shard hosts sit."""
    memory: dict[str, float] = {}
    for segment, held in zip(draft.found.placement.segments, batches_held(draft), strict=True):
        for type_, each in zip(segment.types, held, strict=True):
            name = draft.pool(type_).name
            memory[name] = max(memory.get(name, 0.0), _worker_bytes(draft, segment, each))
    rows = sum(table.bytes for table in forecast.tables if table.tier == "memory")
    copies = draft.costs.replicas
    tables = copies * (rows + draft.costs.dense_bytes) / max(draft.found.placement.hosts, copies)
    if draft.problem.shards.type < 0:  # in the same processes as the stages
        memory[draft.server.name] = memory.get(draft.server.name, 0.0) + tables
    else:
        memory[draft.server.name] = max(memory.get(draft.server.name, 0.0), tables)
    return memory
