"""What the rows of tables cost a step by each way they can travel, and which is chosen where staleness is allowed.

Through tables every batch gets its distinct rows and sends their gradients. By Geo a worker trains its rows itself: for
each range of k batches it sends what changed in the distinct rows of the range, and gets those that all lanes changed.
Geo changes what is learned, as rows are up to two ranges behind: it is chosen only where somebody allows that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from heterps.graph import Graph
from heterps.planner.costs.layer_costs import Costs
from heterps.planner.costs.sample import Sample
from heterps.planner.costs.way_costs import WayCost
from heterps.planner.plan import Plan
from heterps.planner.ways import GEO, TABLE, Way
from heterps.protocol.words.modes import Async, Mixed, MixedSync, Sync
from heterps.stages.lowering import Group, groups_of

__all__ = ["RowWays", "choose_row_ways", "row_way_costs", "row_way_texts"]

_BESIDE = 8  # bytes of an id beside its row's values
_HEAPS = 0.8  # exponent by which distinct ids grow over batches where no data was looked at
_RULES = ("SGD", "Momentum")  # that workers can apply themselves while hosts add up


@dataclass(frozen=True)
class RowWays:
    """The rows of one group: what each way would take, tables first."""

    tables: tuple[str, ...]
    ways: tuple[WayCost, ...]

    @property
    def best(self) -> WayCost:
        """The cheapest that can be taken."""
        return min((way for way in self.ways if not way.barred), key=lambda way: way.seconds)


def row_way_costs(costs: Costs, plan: Plan, sample: Sample | None, k: int) -> tuple[RowWays, ...]:
    """Return what each row group would take in a plan through its table, and by Geo with ranges of k batches."""
    groups = {group.name: group for group in groups_of(costs.graph)}
    rows = {op.attrs["group"]: op.type.shape[0] for op in costs.pulls}
    return tuple(_of_group(costs, plan, sample, k, groups[name], ids) for name, ids in rows.items())


def _of_group(costs: Costs, plan: Plan, sample: Sample | None, k: int, group: Group, ids: int) -> RowWays:
    batch = ids * costs.batch_size * costs.layers.unique_fraction
    mine, all_ = (_distinct(sample, group.name, batch, n) / k for n in (k, k * plan.lanes))
    held = _distinct(sample, group.name, batch, 10 * k)
    tables = tuple(group.tables)
    by_table = _cost(costs, plan, TABLE, group, batch, batch, 0.0)
    by_geo = _cost(costs, plan, f"{GEO}:{k}", group, mine, all_, batch, held, _barred(costs.graph, plan, group))
    return RowWays(tables, (by_table, by_geo))


def _distinct(sample: Sample | None, group: str, batch: float, batches: int) -> float:
    """Return how many distinct rows so many batches have, as the sampled ids say, else by Heaps' law."""
    met = sample.met.get(group) if sample is not None else None
    if sample is None or not met:
        return float(batch * batches**_HEAPS)
    times, ids = np.array(met, float).T
    often = np.minimum(times / sample.batches, 1.0)
    seen = float(ids @ (1 - (1 - often) ** batches))
    growth = sample.growth[group]
    beyond = growth.rows(batches * batch / max(sample.unique_fraction, 1e-9))  # ids that the sample has not met
    return min(max(seen, beyond), batch * batches)


def _cost(
    costs: Costs,
    plan: Plan,
    way: str,
    group: Group,
    sent: float,
    got: float,
    learned: float,
    held: float = 0.0,
    barred: str = "",
) -> WayCost:
    """One step of all lanes: rows that a lane sends and gets for a batch, and learns itself."""
    pool, workers = costs.hardware.pool(plan.stages[0].pool), sum(plan.stages[0].workers.values())
    server, row = costs.hardware.pool(plan.shard_pool), 4.0 * group.width + _BESIDE
    at_worker, at_host = ((sent + got) * row * plan.lanes / each for each in (workers, plan.shard_hosts))
    hosts, own = costs.rates(server), costs.rates(pool)
    served = (hosts.push(sent) + hosts.pull(got)) * plan.lanes / plan.shard_hosts
    served += at_host * (costs.byte_s(server) + hosts.wire_s_per_byte)
    trained = (own.pull(learned) + own.push(learned)) * plan.lanes / workers if learned else 0.0
    trained += at_worker * (costs.byte_s(pool) + own.wire_s_per_byte)
    return WayCost(way, max(served, trained), at_worker, at_host, 2 * held * row, barred)


def _barred(graph: Graph, plan: Plan, group: Group) -> str:
    if not isinstance(plan.mode, Async | Sync | Mixed | MixedSync):
        return f"it takes async or sync mode, the plan is {plan.mode.name}"
    if not plan.is_fused:
        return f"it takes a plan of one stage, this one has {len(plan.stages)}"
    for op in graph:
        if op.kind == "lookup" and op.attrs["table"] in group.tables:
            if op.attrs["entry"]:
                return f"table {op.attrs['table']} has an entry"
            if not op.attrs["rule"] or op.attrs["rule"]["kind"] not in _RULES:
                return f"table {op.attrs['table']} does not name the rule SGD or Momentum"
    return ""


def choose_row_ways(costs: tuple[RowWays, ...]) -> dict[str, str]:
    """Return the tables that are cheaper by Geo, with that way."""
    return {table: each.best.way for each in costs for table in each.tables if each.best.way != TABLE}


def row_way_texts(costs: tuple[RowWays, ...], ways: Mapping[str, Way]) -> Iterator[str]:
    """Say what each way would take, for a plan's assumptions."""
    for each in costs:
        who = "the cheapest is chosen" if ways[each.tables[0]].kind == TABLE else "pinned"
        shown = "; ".join(
            f"{way.way} {1e3 * way.seconds:.3g} ms a step, {way.worker_bytes / 1e6:.3g} MB a worker"
            + (f" ({way.barred})" if way.barred else "")
            for way in each.ways
        )
        yield f"rows of {', '.join(each.tables)} by way ({who}): {shown}"
