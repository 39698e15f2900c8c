"""From a placement to a Plan: names, forecast by part, memory, bytes on links, price by part."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass

from heterps.errors import PlanError
from heterps.hardware import Pool
from heterps.planner.costs.forecast import Cost, Forecast, StageForecast
from heterps.planner.costs.layer_costs import Costs
from heterps.planner.costs.planning_model import DEPTH, placed_tables
from heterps.planner.plan import Plan, Share, Stage
from heterps.planner.show.timeline import steady_rate
from heterps.planner.solve.problem import Problem, Segment
from heterps.planner.solve.search import SearchResult
from heterps.protocol.words.modes import Async, Mode

__all__ = ["Draft", "assemble", "check_plan", "depth_of"]

_DEEPEST = 512  # batches in flight per lane
_BUSY = 0.97  # of the slowest stage's speed that a pipeline must reach when it is played
_MOST_PLAYED = 400  # units beyond which a pipeline is played in miniature


@dataclass(frozen=True)
class Draft:
    """A solved problem with everything needed to write the plan."""

    costs: Costs
    problem: Problem
    server: Pool
    found: SearchResult
    pins: Mapping[str, str]
    complete: bool = True  # whether the problem's states are all legal cuts
    depth: int = 2  # batches in flight per lane
    fits: bool = True  # whether every stage has the memory for that depth

    def pool(self, type_: int) -> Pool:
        """Return the pool of a type."""
        return self.costs.hardware.pools[type_]


def assemble(draft: Draft, rows_per_second: float | None = None, mode: Mode | None = None) -> Plan:
    """Write the plan; ``rows_per_second`` is the rate at which it will run, if less than it sustains."""
    segments = draft.found.placement.segments
    stages = tuple(_stage(draft, segment, _names(draft)[i]) for i, segment in enumerate(segments))
    depth = draft.depth
    forecast = _forecast(draft, stages, rows_per_second or draft.found.rows_per_second, depth)
    used = {name for stage in stages for name in stage.workers} | {draft.server.name}
    return Plan(
        graph=draft.costs.graph,
        stages=stages,
        pools=tuple(pool for pool in draft.costs.hardware.pools if pool.name in used),
        batch_size=draft.costs.batch_size,
        shard_hosts=draft.found.placement.hosts,
        shard_pool=draft.server.name,
        replicas=draft.costs.replicas,
        lanes=max(1, segments[0].units + segments[0].other_units),
        depth=depth,
        mode=mode or Async(depth=depth),
        memory_bytes=_memory(draft, forecast),
        forecast=forecast,
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
        share = 1 - draft.problem.share(segment)
        also = (Share(draft.pool(segment.other).name, segment.other_units, share),)
    return Stage(
        name, tuple(layer.name for layer in layers), tuple(ops), draft.pool(segment.type).name, segment.units, also
    )


def depth_of(draft: Draft) -> int:
    """Batches in flight per lane: the fewest with which the pipeline, played through, keeps its slowest stage busy.

    Raises
    ------
    PlanError
        If no depth does: then forecast and timeline contradict each other.
    """
    segments = draft.found.placement.segments
    if len(segments) == 1:
        return DEPTH
    times, units = _pipeline(draft)
    goal = _BUSY * min(k / t for k, t in zip(units, times, strict=True))
    # So many are at work at that rate: fewer in flight cannot reach it.
    low = max(DEPTH, math.floor(goal * sum(times) * (1 - 1e-9) / units[0])) - 1
    high = low + 1
    while steady_rate(times, units, high * units[0]) < goal:
        low, high = high, high + max(1, high // 2)
        if high > _DEEPEST:
            raise PlanError(_contradiction("with any number of batches in flight", draft.found.rows_per_second, goal))
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if steady_rate(times, units, middle * units[0]) >= goal else (middle, high)
    return high


def _pipeline(draft: Draft) -> tuple[list[float], list[int]]:
    """Seconds of a batch on one unit, and units, by stage; fewer units in the same ratios where there are many."""
    segments, n = draft.found.placement.segments, draft.costs.batch_size
    units = [segment.units + segment.other_units for segment in segments]
    times = [k * n / draft.problem.speed(s) for k, s in zip(units, segments, strict=True)]
    scale = max(1.0, sum(units) / _MOST_PLAYED)
    return times, [max(1, round(k / scale)) for k in units]


def check_plan(made: Plan) -> Plan:
    """Play a finished plan once and compare its figures with one another; what contradicts itself stops here.

    Raises
    ------
    PlanError
        With both figures: a bug of the planner.
    """
    for name, need in made.memory_bytes.items():
        pool = made.pool(name)
        if pool.host is None and need > pool.device.memory_bytes:
            raise PlanError(_contradiction(f"memory of a worker of {name} in bytes", pool.device.memory_bytes, need))
    if made.forecast is None or made.is_fused:
        return made
    units = [sum(stage.workers.values()) for stage in made.stages]
    if sum(units) <= _MOST_PLAYED:
        times = [k * made.batch_size / s.rows_per_second for k, s in zip(units, made.forecast.stages, strict=True)]
        played = steady_rate(times, units, made.lanes * made.depth) * made.batch_size
        if played < _BUSY * 0.99 * made.forecast.rows_per_second:
            raise PlanError(_contradiction("rows per second", made.forecast.rows_per_second, played))
    return made


def _contradiction(what: str, planned: float, checked: float) -> str:
    return (
        f"the plan contradicts itself ({what}: {planned:,.4g} planned, {checked:,.4g} when it was checked). This is a "
        "bug in the planner; please report it with the graph, the hardware and the goal"
    )


def _forecast(draft: Draft, stages: tuple[Stage, ...], rate: float, depth: int) -> Forecast:
    problem, placement = draft.problem, draft.found.placement
    limits = problem.limits(placement)
    slowest = min(limits, key=lambda name: limits[name])
    parts = tuple(
        _stage_forecast(draft, segment, stage, rate, limits[f"stage {i}"], depth)
        for i, (segment, stage) in enumerate(zip(placement.segments, stages, strict=True))
    )
    return Forecast(
        rows_per_second=rate,
        stages=parts,
        bottleneck=_bottleneck(draft, slowest, stages),
        price_per_hour=sum(_prices(draft).values()),
        price_parts=_prices(draft),
        link_bytes_per_s=_links(draft, stages, rate),
        shard_busy=rate * problem.shards.seconds / draft.costs.stretch / max(placement.hosts, 1),
        tables=placed_tables(draft.costs, draft.server, draft.pins),
        data_sheet=_unmeasured_gpus(draft, stages),
    )


def _unmeasured_gpus(draft: Draft, stages: tuple[Stage, ...]) -> tuple[str, ...]:
    """Return the GPU pools of a plan whose rates no profile has."""
    used = dict.fromkeys(pool for stage in stages for pool in stage.workers)
    pools = {pool.name: pool for pool in draft.costs.hardware.pools}
    return tuple(name for name in used if pools[name].kind == "gpu" and name not in draft.costs.profile.pools)


def _stage_forecast(
    draft: Draft, segment: Segment, stage: Stage, rate: float, limit: float, depth: int
) -> StageForecast:
    pool, costs = draft.pool(segment.type), draft.costs
    layers = [costs.layers.layers[v] for v in draft.problem.stage_layers(segment)]
    rates, n = costs.rates(pool), costs.batch_size
    crossing = float(draft.problem.cut_bytes[segment.start] + draft.problem.cut_bytes[segment.stop]) * n
    cuts = sum(0 < state < draft.problem.states - 1 for state in (segment.start, segment.stop))
    bus = pool.device.bus_bytes_per_s
    cost = sum((costs.cost(layer, pool) for layer in layers), Cost()) + Cost(
        call_s=cuts * rates.call_s + (0.0 if pool.kind == "gpu" else crossing * rates.wire_s_per_byte),
        bus_s=crossing / bus if bus else 0.0,
        network_s=crossing * costs.byte_s(pool),
        network_bytes=crossing,
    )
    memory = sum(costs.worker_bytes(layer, depth) for layer in layers) + crossing * depth
    could = limit * costs.stretch  # the problem's limit leaves the head-room free
    return StageForecast(stage.name, cost, rate / could, could, memory, _limit(draft, segment, cost))


def _limit(draft: Draft, segment: Segment, cost: Cost) -> str:
    """The resource that bounds a stage, and its largest part."""
    serial, parallel = draft.problem.times(segment.start, segment.stop, segment.type)
    compute, data = serial + parallel / segment.units
    parts = cost.parts()
    data_parts = {"network_s", "bus_s"}
    mine = [name for name in parts if (name in data_parts) == (data > compute)]
    return f"{'data' if data > compute else 'compute'}: {mine[0]}" if mine else "nothing"


def _bottleneck(draft: Draft, slowest: str, stages: tuple[Stage, ...]) -> str:
    kind, _, number = slowest.partition(" ")
    if kind == "stage":
        return f"stage {stages[int(number)].name}"
    if kind == "shared":
        host = draft.costs.hardware.hosts[int(number) // 2]
        return f"{'cores' if int(number) % 2 == 0 else 'memory bandwidth'} of host {host.name}"
    if kind == "link":
        a, b = (draft.pool(int(t)).name for t in number.split())
        return f"link {a} - {b}"
    return slowest


def _prices(draft: Draft) -> dict[str, float]:
    """Price per hour by pool, in the numbers sold, with the shard hosts apart."""
    problem, placement = draft.problem, draft.found.placement
    bought = problem.bought(placement.segments, placement.hosts)
    hosts = placement.hosts if problem.shards.type >= 0 else 0
    parts = {}
    for t, pool in enumerate(draft.costs.hardware.pools):
        units = int(bought[t]) - (hosts if t == problem.shards.type else 0)
        if units:
            parts[pool.name] = units * pool.device.price_per_hour
    if hosts:
        parts["shard hosts"] = hosts * draft.server.device.price_per_hour
    return parts


def _links(draft: Draft, stages: tuple[Stage, ...], rate: float) -> dict[str, float]:
    loads: dict[str, float] = {}
    for (before, _), (after, segment) in itertools.pairwise(zip(stages, draft.found.placement.segments, strict=True)):
        name = f"{before.pool} - {after.pool}"
        loads[name] = loads.get(name, 0.0) + float(draft.problem.cut_bytes[segment.start]) * rate
    loads["workers - shard hosts"] = draft.costs.shard_bytes / draft.costs.batch_size * rate
    if draft.costs.replicas > 1:
        loads["shard hosts - backups"] = draft.costs.replica_bytes / draft.costs.batch_size * rate
    return loads


def _memory(draft: Draft, forecast: Forecast) -> dict[str, float]:
    """Bytes of one worker by pool: its stages, and its part of the tables where shard hosts sit."""
    memory: dict[str, float] = {}
    for segment, stage in zip(draft.found.placement.segments, forecast.stages, strict=True):
        for type_ in (segment.type, segment.other):
            if type_ >= 0:
                name = draft.pool(type_).name
                memory[name] = max(memory.get(name, 0.0), stage.memory_bytes)
    rows = sum(table.bytes for table in forecast.tables if table.tier == "memory")
    copies = draft.costs.replicas
    tables = copies * (rows + draft.costs.dense_bytes) / max(draft.found.placement.hosts, copies)
    if draft.problem.shards.type < 0:  # in the same processes as the stages
        memory[draft.server.name] = memory.get(draft.server.name, 0.0) + tables
    else:
        memory[draft.server.name] = max(memory.get(draft.server.name, 0.0), tables)
    return memory
