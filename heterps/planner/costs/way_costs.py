"""What dense parameters cost a step by each way they can travel, and which is chosen where nobody has said so.

Through tables every lane gets all parameters and sends all gradients; the hosts add them up and step. All-reduced, a
lane's gradient goes to the owners of its segments, each adds its own, all get all sums, and every worker steps: those
that compute, so in a plan of several stages those of the first behind the one that reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from heterps.graph import Graph
from heterps.hardware import Pool
from heterps.kernels.program.param_layout import ParamLayout
from heterps.planner.costs.layer_costs import Costs
from heterps.planner.plan import Plan
from heterps.planner.ways import ALLREDUCE, TABLE
from heterps.stages.lowering import groups_of

__all__ = ["WayCost", "choose_ways", "dense_way_costs", "way_texts"]

_COPIES = 4  # parameters, two optimiser slots, the sum of gradients


@dataclass(frozen=True)
class WayCost:
    """One step of all lanes: seconds of the slowest party, bytes through the network of a worker and of a host.

    ``memory_bytes`` is what a worker holds for it; ``barred`` says why the way cannot be taken, "" if it can.
    """

    way: str
    seconds: float
    worker_bytes: float
    host_bytes: float
    memory_bytes: float
    barred: str = ""


def dense_way_costs(costs: Costs, plan: Plan) -> tuple[WayCost, ...]:
    """Return what each way would take in a plan, tables first."""
    stage = plan.stages[0 if plan.is_fused else 1]  # whose workers would hold them
    pool, workers = costs.hardware.pool(stage.pool), sum(stage.workers.values())
    server = costs.hardware.pool(plan.shard_pool)
    return _by_table(costs, plan, pool, server, workers), _by_group(costs, plan, pool, workers)


def _by_table(costs: Costs, plan: Plan, pool: Pool, server: Pool, workers: int) -> WayCost:
    bytes_, rates = 4.0 * costs.dense_size, costs.rates(server)
    at_worker = 2 * bytes_ * plan.lanes / workers
    at_host = 2 * bytes_ * plan.lanes / plan.shard_hosts
    adding = bytes_ / plan.shard_hosts * plan.lanes * 3 / rates.bytes_per_s  # read two, write one
    hosts = at_host * (costs.byte_s(server) + rates.wire_s_per_byte) + adding
    hosts += rates.dense(costs.dense_size / plan.shard_hosts)
    return WayCost(TABLE, max(hosts, _sent(costs, pool, at_worker)), at_worker, at_host, 2 * bytes_)


def _by_group(costs: Costs, plan: Plan, pool: Pool, workers: int) -> WayCost:
    bytes_, rates = 4.0 * costs.dense_size, costs.rates(pool)
    others = (workers - 1) / workers
    gradients = 2 * bytes_ * others * plan.lanes / workers  # of its own lanes out, of the others' in
    sums = 2 * bytes_ * others  # its own to each of the others, theirs to it
    adding = bytes_ / workers * plan.lanes * 3 / rates.bytes_per_s
    seconds = _sent(costs, pool, gradients + sums) + adding + rates.dense(costs.dense_size)
    memory = _COPIES * bytes_
    return WayCost(ALLREDUCE, seconds, gradients + sums, 0.0, memory, _barred(plan, pool, workers, memory))


def _sent(costs: Costs, pool: Pool, bytes_: float) -> float:
    return bytes_ * (costs.byte_s(pool) + costs.rates(pool).wire_s_per_byte)


def _barred(plan: Plan, pool: Pool, workers: int, memory: float) -> str:
    if not plan.mode.ordered:
        return f"it takes Sync mode, the plan is {plan.mode.name}"
    if workers < 2:
        return "there is one worker only"
    if not plan.is_fused and (why := _barred_in_stages(plan, workers)):
        return why
    free = pool.device.memory_bytes - plan.memory_bytes.get(pool.name, 0.0)
    return f"a worker of {pool.name} has no memory for it" if pool.host is None and memory > free else ""


def _barred_in_stages(plan: Plan, workers: int) -> str:
    """Say why the workers of the first compute stage cannot all-reduce among themselves."""
    stage_of = {op: i for i, stage in enumerate(plan.stages) for op in stage.ops}
    away = next((piece.op for piece in ParamLayout(plan.graph) if stage_of.get(piece.op) != 1), None)
    if away is not None:
        return f"it goes between the workers of stage 1, but {away} is in stage {stage_of.get(away)}"
    if plan.lanes < workers:
        return f"each lane computes on one worker, and {plan.lanes} lanes leave some of {workers} idle"
    on_gpu = [table.group for table in plan.forecast.tables if table.tier.startswith("gpu")] if plan.forecast else []
    return f"the worker that has {on_gpu[0]} on its GPU holds all dense parameters" if on_gpu else ""


def choose_ways(graph: Graph, ways: tuple[WayCost, ...]) -> Mapping[str, str]:
    """Return the patterns of the cheapest way that can be taken; none where that is the tables'."""
    best = min((way for way in ways if not way.barred), key=lambda way: way.seconds)
    layout = ParamLayout(graph)
    if best.way == TABLE or not layout.size:
        return {}
    if not groups_of(graph):
        return {"*": best.way}
    return dict.fromkeys(dict.fromkeys(piece.op for piece in layout), best.way)


def way_texts(ways: tuple[WayCost, ...], pinned: bool) -> tuple[str, ...]:
    """Say what each way would take, for a plan's assumptions."""
    who = "pinned" if pinned else "the cheapest is chosen"
    shown = "; ".join(
        f"{way.way} {1e3 * way.seconds:.3g} ms a step, {way.worker_bytes / 1e6:.3g} MB a worker"
        + (f" ({way.barred})" if way.barred else "")
        for way in ways
    )
    return (f"dense parameters by way ({who}): {shown}",)
