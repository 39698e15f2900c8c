"""A plan played in simulated time: the figures of the cost model go to the protocol's simulator as durations.

The forecast adds up what units take; played, a batch also waits: for its turn, for credits, for other lanes, for the
end of a Split or of a pass. Kernels are divided into a third for the forward and two thirds for the backward pass.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from heterps.hardware import Pool
from heterps.planner.costs.forecast import Cost
from heterps.planner.costs.layer_costs import Costs
from heterps.planner.costs.on_the_way import AHEAD, DEEPEST, DEPTH, wire_s
from heterps.planner.costs.planning_model import free_cores
from heterps.planner.costs.sample import Sample
from heterps.planner.plan import Plan, Stage
from heterps.planner.ways import ALLREDUCE, GEO, resolve_ways
from heterps.protocol.words.modes import Async, Mode
from heterps.simulator.timed.durations import Crew, Durations, HostTimes, PoolOfWorkers, StageTimes, WorkerTimes
from heterps.simulator.timed.play import Played, Script, play
from heterps.stages import Layer
from heterps.stages.lowering import groups_of

__all__ = [
    "at_work_for",
    "deeper",
    "depth_for",
    "durations_of",
    "even_splits",
    "miniature",
    "most_at_depth",
    "play_plan",
    "steady_play",
]

_FORWARD = 1 / 3  # of the kernels: a backward pass takes about two forward passes
_HEAPS = 0.8  # exponent by which distinct ids grow over batches where no data was looked at
_DISK_BYTES_PER_S = 5e8  # of a cut that is written or read
#: What a settled row takes of a worker (laid out, heard of again) and of a host (found to be changed), in pulls of one.
_SETTLING, _TELLING = 4, 3
_ROUNDING = 1e-9  # relative: so much less than a limit is within it
_MOST_PLAYED = 12  # workers beyond which a pipeline is played in miniature, where only its rate is asked for


def play_plan(
    plan: Plan,
    costs: Costs,
    *,
    splits: tuple[int, ...] | None = None,
    passes: int = 1,
    cut_every_s: float = 0.0,
    slow: Mapping[int, float] | None = None,
    sample: Sample | None = None,
    mode: Mode | None = None,
) -> Played:
    """Play a plan on the hardware of ``costs``.

    Parameters
    ----------
    splits
        Batches of each Split; by default a few for each worker that reads.
    slow
        Workers that read, by number, that take so many times as long.
    mode
        Another mode than the plan's.
    """
    script = Script(
        mode or plan.mode,
        splits or even_splits(plan),
        plan.lanes,
        passes,
        group=_is_reduced(plan) and mode is None,
        cut_every_s=cut_every_s,
        slow=slow,
        depths=plan.depths_in(mode or plan.mode),
    )
    played = replace(plan, mode=script.mode) if isinstance(plan.mode, Async) else plan  # how many batches are merged
    return play(durations_of(played, costs, sample), script)


def even_splits(plan: Plan, batches: int = 40, each: int = 2) -> tuple[int, ...]:
    """Splits of equal size: ``each`` for every worker that reads."""
    return (batches,) * (each * max(plan.lanes, sum(plan.stages[0].workers.values())))


def at_work_for(plan: Plan, costs: Costs) -> tuple[float, ...]:
    """Batches at work in a lane of each pool that reads, for each row per second of all lanes.

    How long a batch is on its way is played: one worker for every stage, one batch after another; where stages are on
    two pools, on every way through them. Pools of unequal speed carry unequal parts.
    """
    first = plan.stages[0]
    shares = ((pool, share / first.workers[pool] / plan.batch_size) for pool, share in first.shares.items())
    return tuple(batches * _on_its_way_s(plan, costs, pool) for pool, batches in shares)


def depth_for(at_work: float, rows_per_second: float) -> int:
    """Batches in flight per lane with which a plan can reach a throughput, given those at work for each row."""
    return max(DEPTH, math.ceil(AHEAD * rows_per_second * at_work))


def most_at_depth(at_work: float, depth: int) -> float:
    """Rows per second for which so many batches in flight per lane are enough."""
    return depth / AHEAD / at_work * (1 - _ROUNDING)


def _on_its_way_s(plan: Plan, costs: Costs, pool: str) -> float:
    """Seconds that a batch which a worker of a pool reads is on its way, on average over the ways it may take."""
    ways = itertools.product(*(stage.shares.items() for stage in plan.stages[1:]))
    return sum(math.prod(part for _, part in way) * _way_s(plan, costs, (pool, *(on for on, _ in way))) for way in ways)


def _way_s(plan: Plan, costs: Costs, pools: Sequence[str]) -> float:
    """Seconds that a batch is on its way through one worker of these pools, by stage, with nothing else under way."""
    stages = tuple(replace(s, pool=pool, units=1, also=()) for s, pool in zip(plan.stages, pools, strict=True))
    one = replace(plan, stages=stages, lanes=1, shard_hosts=plan.replicas, depths={})
    return 1 / play_plan(one, costs, splits=(8,), mode=Async(1)).batches_per_second


def deeper(depth: int) -> int:
    """The next depth to be tried."""
    return min(DEEPEST, math.ceil(1.5 * depth))


def steady_play(plan: Plan, costs: Costs) -> tuple[Plan, Played]:
    """Play a plan without barriers, in miniature if it is large, long enough to be in its stride."""
    small = miniature(plan)
    splits = (4 * small.depth + 12,) * small.lanes
    if small.stages[0].also:  # short Splits, of which the faster workers take more
        splits = (4 * small.depth + 12,) * (4 * small.lanes)
    return small, play_plan(small, costs, splits=splits, mode=Async(small.depth))


def durations_of(plan: Plan, costs: Costs, sample: Sample | None = None) -> Durations:
    """What a batch of the plan takes at each place that it passes."""
    layers = [_layers_of(costs, stage) for stage in plan.stages]
    reduced = _is_reduced(plan)
    own = 0.0 if reduced else sum(layer.cost.parameter_bytes for layer in layers[0])
    stay = 2 if reduced else 1  # gradients of a stage that all-reduces its parameters stay there
    away = sum(layer.cost.parameter_bytes for part in layers[stay:] for layer in part)
    stages = tuple(_stage(plan, costs, layers, i, reduced) for i in range(len(plan.stages)))
    return Durations(
        pools={pool.name: _pool(costs, pool) for pool in costs.hardware.pools},
        worker=_worker(plan, costs, layers[0], away, sample),
        stages=stages,
        hosts=_hosts(plan, costs, own, reduced, sample),
        rows=plan.batch_size,
        machines={host.name: free_cores(costs, host) / _unit_cores(plan, host.name) for host in costs.hardware.hosts},
        links={frozenset((link.source, link.target)): link.bytes_per_s for link in costs.hardware.links},
        group_bytes=4.0 * costs.dense_size if reduced else 0.0,
        group_s=_group_s(plan, costs) if reduced else 0.0,
    )


def _is_reduced(plan: Plan) -> bool:
    if not plan.parameters:
        return False  # all by their tables; of a large graph that takes a while to list
    return any(way.kind == ALLREDUCE for way in resolve_ways(plan.graph, plan.parameters).values())


def _layers_of(costs: Costs, stage: Stage) -> list[Layer]:
    mine = set(stage.ops)
    return [layer for layer in costs.layers.layers if layer.ops[0] in mine]


def _pool(costs: Costs, pool: Pool) -> PoolOfWorkers:
    rate = 1 / costs.byte_s(pool)
    return PoolOfWorkers(rate, rate, "" if pool.kind == "gpu" else pool.host or "")


def _unit_cores(plan: Plan, host: str) -> int:
    """Cores of a unit, as machines count what their units do: of the pools that the plan uses, the most."""
    on = [pool.device.cores for pool in plan.pools if pool.host == host and pool.kind == "cpu"]
    return max(on, default=1)


def _total(costs: Costs, layers: list[Layer], pool: Pool) -> Cost:
    return sum((costs.cost(layer, pool) for layer in layers), Cost())


def _crews(costs: Costs, stage: Stage, layers: list[Layer]) -> tuple[Crew, ...]:
    """Workers by pool; what more units do not divide makes each slower, and a second pool has its own speed."""
    first = _total(costs, layers, costs.hardware.pool(stage.pool)).compute_s
    crews = []
    for name, units in stage.workers.items():
        pool = costs.hardware.pool(name)
        share = 1.0 if pool.host else costs.rates(pool).compute_fraction
        ratio = _total(costs, layers, pool).compute_s / first if first else 1.0
        crews.append(Crew(name, units, ratio * (units * (1 - share) + share)))
    return tuple(crews)


def _crossing(plan: Plan, costs: Costs, i: int) -> tuple[float, float]:
    """Bytes of a batch that come into a stage from those before it, and go back; a tensor crosses once."""
    stage_of = {op: n for n, stage in enumerate(plan.stages) for op in stage.ops}
    where = [stage_of[layer.ops[0]] for layer in costs.layers.layers]
    tensors = {e.tensor: e for e in costs.layers.edges if where[e.source] < i <= where[e.target]}
    return sum(e.forward_bytes for e in tensors.values()), sum(e.backward_bytes for e in tensors.values())


def _stage(plan: Plan, costs: Costs, layers: list[list[Layer]], i: int, reduced: bool) -> StageTimes:
    stage, mine = plan.stages[i], layers[i]
    pool = costs.hardware.pool(stage.pool)
    cost, wire, call = _total(costs, mine, pool), wire_s(costs, pool), costs.rates(pool).call_s * costs.crowding(pool)
    into, back = _crossing(plan, costs, i) if i else (0.0, 0.0)
    out, returned = _crossing(plan, costs, i + 1) if i + 1 < len(plan.stages) else (0.0, 0.0)
    first = 2 if reduced else 1  # whose parameters come from hosts, and gradients go back
    behind = sum(layer.cost.parameter_bytes for part in layers[max(first, i + 1) :] for layer in part)
    dense = sum(layer.cost.parameter_bytes for layer in mine) if i >= first else 0.0
    server, bus = costs.hardware.pool(plan.shard_pool), pool.device.bus_bytes_per_s
    return StageTimes(
        crews=_crews(costs, stage, mine),
        forward_s=_FORWARD * cost.kernel_s + out * wire,
        backward_s=(1 - _FORWARD) * cost.kernel_s + (returned + behind) * wire,
        enter_s=((into + back + (1 + 1 / _merged(plan)) * dense) * wire + call) if i else 0.0,
        forward_bytes=into,
        backward_bytes=back,
        bus_s=(into + back + out + returned) / bus if bus else 0.0,
        dense_bytes=dense,
        dense_call_s=(dense * wire_s(costs, server) + plan.shard_hosts * costs.rates(server).call_s) / _merged(plan),
        dense_every=_merged(plan),
    )


def _worker(plan: Plan, costs: Costs, layers: list[Layer], away: float, sample: Sample | None) -> WorkerTimes:
    pool = costs.hardware.pool(plan.stages[0].pool)
    cost, wire, slower = _total(costs, layers, pool), wire_s(costs, pool), costs.crowding(pool)
    rates, own = costs.rates(pool), _own(plan)
    rows = _rows(costs, own or None)
    learn = sum(map(rates.pull, rows)) + sum(map(rates.push, rows)) + (0.0 if own else rates.dense(costs.dense_size))
    push, settle = cost.push_s + away * wire, 0.0
    if _merged(plan) > 1:
        push = _merged_push_s(plan, costs, layers, away, sample)
    if plan.mode.adds:
        settled, bytes_ = _settled(plan, costs, sample)
        learn += sum(map(rates.pull, rows))  # which rows are lacking
        settle = _SETTLING * sum(map(rates.pull, settled)) * slower + 2 * bytes_ * wire
        push = max(0.0, push - _half(costs, own) * wire) if own else 0.0
    dense = sum(costs.cost(layer, pool).pull_s for layer in layers if not layer.groups)
    pull = max(0.0, cost.pull_s - _half(costs, own) * wire - dense * (1 - 1 / _merged(plan)))
    return WorkerTimes(
        cost.read_s, cost.dedupe_s + cost.engine_s, pull, push, rates.call_s * slower, learn * slower, settle
    )


def _hosts(plan: Plan, costs: Costs, own: float, reduced: bool, sample: Sample | None) -> HostTimes:
    server = costs.hardware.pool(plan.shard_pool)
    rates, slower, kept = costs.rates(server), costs.crowding(server), _own(plan)
    rows = [count for op, count in zip(costs.pulls, _rows(costs), strict=True) if op.attrs["group"] not in kept]
    half = _half(costs) - _half(costs, kept)
    merged = _merged(plan)
    pulled = half + own / merged
    pushed = half * _shared(plan, sample) + (0.0 if reduced else 4.0 * costs.dense_size) / merged
    wire = wire_s(costs, server)
    settled, settled_bytes = _settled(plan, costs, sample)
    settle = sum(map(rates.push, settled)) + _TELLING * sum(map(rates.pull, settled))
    held = (sum(table.bytes for table in costs.tables if table.tier == "memory") + costs.dense_bytes) / plan.shard_hosts
    return HostTimes(
        pool=server.name,
        count=plan.shard_hosts,
        replicas=plan.replicas,
        serve_s=(sum(map(rates.pull, rows)) + costs.creating_s(rates)) * slower + pulled * wire,
        apply_s=_applying_s(plan, costs, reduced, sample) * slower + pushed * wire,
        call_s=rates.call_s * slower,
        pull_bytes=pulled,
        push_bytes=pushed,
        settle_s=settle * slower + 2 * settled_bytes * wire,
        settle_bytes=settled_bytes,
        write_s=held / _DISK_BYTES_PER_S,
    )


def _applying_s(plan: Plan, costs: Costs, reduced: bool, sample: Sample | None) -> float:
    """Of shard hosts for the gradients of a batch: in Sync those of all lanes are added up, then applied at once.

    Those of batches that a worker has merged come as one.
    """
    rates, rows = costs.rates(costs.hardware.pool(plan.shard_pool)), _rows(costs)
    dense = 0.0 if reduced else rates.dense(costs.dense_size)
    lanes = plan.lanes if plan.mode.ordered else 1
    if lanes == 1:
        merged, shared = _merged(plan), _shared(plan, sample)
        return (sum(rates.push(count * shared * merged) for count in rows) + dense) / merged
    together = lanes ** _growth(sample)  # times as many distinct rows
    return (sum(rates.push(count * together) for count in rows) + dense) / lanes + sum(rows) * rates.merge_s


def _merged(plan: Plan) -> int:
    """Batches whose gradients go in one push, and for which dense parameters come once."""
    return plan.mode.merge if isinstance(plan.mode, Async) else 1


def _shared(plan: Plan, sample: Sample | None) -> float:
    """Distinct rows of the batches of a push, over those of each of them."""
    merged: float = _merged(plan) ** (_growth(sample) - 1)
    return merged


def _merged_push_s(plan: Plan, costs: Costs, layers: list[Layer], away: float, sample: Sample | None) -> float:
    """Of a worker for a batch of a push: it adds up the rows of each, and sends those that are distinct at the end."""
    pool = costs.hardware.pool(plan.stages[0].pool)
    wire, merged = wire_s(costs, pool), _merged(plan)
    by_rows = sum(costs.cost(layer, pool).push_s for layer in layers if layer.groups)
    dense = sum(costs.cost(layer, pool).push_s for layer in layers if not layer.groups) + away * wire
    adding = sum(_rows(costs)) * costs.rates(pool).merge_s * costs.crowding(pool)
    return adding + by_rows * _shared(plan, sample) + dense / merged


def _growth(sample: Sample | None) -> float:
    """Exponent by which distinct ids grow over batches."""
    return _HEAPS if sample is None else max((g.exponent for g in sample.growth.values()), default=_HEAPS)


def _own(plan: Plan) -> frozenset[str]:
    """Row groups that workers train themselves, beside others."""
    ways = resolve_ways(plan.graph, plan.parameters) if plan.mode.has_ranges else {}
    groups = groups_of(plan.graph) if ways else ()
    return frozenset(group.name for group in groups if ways[next(iter(group.tables))].kind == GEO)


def _rows(costs: Costs, groups: Collection[str] | None = None) -> list[float]:
    """Distinct rows of a batch, by pull of some groups, or of all."""
    pulls = [op for op in costs.pulls if groups is None or op.attrs["group"] in groups]
    return [op.type.shape[0] * costs.batch_size * costs.layers.unique_fraction for op in pulls]


def _half(costs: Costs, groups: Collection[str] | None = None) -> float:
    """Bytes of the rows of a batch one way, of some groups or of all."""
    layers = [layer for layer in costs.layers.layers if groups is None or set(layer.groups) & set(groups)]
    return sum(layer.row_bytes for layer in layers) / 2


def _settled(plan: Plan, costs: Costs, sample: Sample | None) -> tuple[list[float], float]:
    """Distinct rows of a range of batches, by pull, and their bytes; in Geo with those of the dense parameters."""
    own, unit = _own(plan) or None, plan.mode.span
    rows = _rows(costs, own)
    times = unit ** _growth(sample) if unit > 1 else 1.0
    return [count * times for count in rows], _half(costs, own) * times + (0.0 if own else 4.0 * costs.dense_size)


def _group_s(plan: Plan, costs: Costs) -> float:
    """What a member takes for a step: its segment of every lane added up, what it sends and gets, the rule."""
    stage = plan.stages[0 if plan.is_fused else 1]
    pool = costs.hardware.pool(stage.pool)
    rates, bytes_ = costs.rates(pool), 4.0 * costs.dense_size
    workers = max(1, sum(stage.workers.values()))
    others = (workers - 1) / workers
    moved = 2 * bytes_ * others * (1 + plan.lanes / workers)
    adding = bytes_ / workers * plan.lanes * 3 / rates.bytes_per_s
    return (adding + rates.dense(costs.dense_size)) * costs.crowding(pool) + moved * wire_s(costs, pool)


def miniature(plan: Plan, most: int = _MOST_PLAYED) -> Plan:
    """A plan of fewer workers in about the same ratios, at most so many; the plan itself where it has no more."""
    total = sum(sum(stage.workers.values()) for stage in plan.stages) + plan.shard_hosts
    if total <= most:
        return plan
    scale = most / total

    def fewer(count: int) -> int:
        return max(1, math.floor(count * scale))

    stages = tuple(
        replace(
            stage,
            units=fewer(stage.units),
            also=tuple(replace(share, units=fewer(share.units)) for share in stage.also),
        )
        for stage in plan.stages
    )
    lanes = sum(stages[0].workers.values())
    return replace(plan, stages=stages, lanes=lanes, shard_hosts=max(plan.replicas, fewer(plan.shard_hosts)))
