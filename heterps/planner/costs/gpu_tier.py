"""Tables on a GPU: whether there is one for them, whether a batch's rows fit there, and what the report says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from heterps.errors import PlanError, TableError
from heterps.hardware import Hardware, Pool
from heterps.planner.costs.layer_costs import Costs
from heterps.planner.costs.table_memory import group_spec
from heterps.planner.plan import Plan
from heterps.planner.show.figures import bytes_text, count_text
from heterps.planner.tiers import with_storage
from heterps.stages.lowering import Group, groups_of
from heterps.tables.on_device.able import check_group
from heterps.tables.on_device.device_rows import device_bytes, rows_within

__all__ = ["gpu_texts", "with_gpu_tables"]

#: Of a GPU's memory rows may take so much, as a worker does by default; the rest is for programs.
ROWS_SHARE = 0.5


def with_gpu_tables(made: Plan) -> Plan:
    """Return the plan with the tables whose pulls are pinned to a GPU stored there in its graph: runs go by that."""
    if _gpu_pool(made) is None:
        return made
    tables = [table for group in _on_gpu(made) for table in group.tables if not _is_stored(made, table)]
    return replace(made, graph=with_storage(made.graph, dict.fromkeys(tables, "gpu"))) if tables else made


def gpu_texts(made: Plan, costs: Costs) -> Iterator[str]:
    """Refuse tables that are to be on a GPU and cannot; say of the others how much of them fits at once."""
    groups = [group for group in _on_gpu(made) if all(_is_stored(made, table) for table in group.tables)]
    if not groups:
        return
    pool = _gpu_pool(made)
    if pool is None:
        where = "where the data is read" if made.is_fused else f"on pool {made.stages[1].pool!r}"
        raise PlanError(
            f"{_names(groups[0])} is to be on a GPU (storage='gpu'), but the cheapest plan computes {where}: pin the "
            "layers behind it to a GPU pool (--pin 'OP=gpu'), or keep it in memory (--storage 'TABLE=memory')"
        )
    room = int(pool.device.memory_bytes * ROWS_SHARE / len(groups))
    for group in groups:
        yield _fitting(made, costs, group, pool, room)


def _fitting(made: Plan, costs: Costs, group: Group, pool: Pool, room: int) -> str:
    spec, name = group_spec(made.graph, group), _names(group)
    try:
        check_group(spec)
    except TableError as error:
        raise PlanError(f"{name} cannot be on a GPU: {error}") from error
    looked_up = sum(op.type.shape[0] for op in costs.pulls if op.attrs["group"] == group.name)
    batch, fits = int(looked_up * made.batch_size * costs.layers.unique_fraction), rows_within(spec, room)
    if batch > fits:
        raise PlanError(
            f"{name} does not fit on {pool.device.name}: a batch of {made.batch_size:,} has {count_text(batch)} of its "
            f"rows, {bytes_text(device_bytes(spec, batch))}, and {bytes_text(room)} are for them. 1. A smaller batch "
            "(--batch-size). 2. A GPU with more memory. 3. Keep it on shard hosts (--storage 'TABLE=memory', or ssd)"
        )
    assert made.forecast is not None
    table = next(each for each in made.forecast.tables if each.group == group.name)
    _check_below(made, costs.hardware, pool, table.tier, table.bytes, name)
    below = "on the disk" if table.tier.endswith("ssd") else "in the memory"
    return (
        f"{name} on {pool.device.name}: {count_text(min(fits, table.rows))} of {count_text(table.rows)} rows fit at "
        f"once, all are {below} of its worker"
    )


def _check_below(made: Plan, hardware: Hardware, pool: Pool, tier: str, needed: float, name: str) -> None:
    """Refuse rows that do not fit into the memory of the machine that the GPU is in, where that is known."""
    room = None if pool.host is None else hardware.host(pool.host).memory_bytes
    if room is not None and tier == "gpu" and needed > room:
        raise PlanError(
            f"{name} takes {bytes_text(needed)}, and host {pool.host!r} of pool {pool.name!r} has {bytes_text(room)}: "
            "keep its rows on disk below the GPU (--storage 'TABLE=gpu+ssd'), or on shard hosts"
        )


def _gpu_pool(made: Plan) -> Pool | None:
    """Return the pool of the first compute stage, which holds such tables, if it has GPUs."""
    pool = None if made.is_fused else made.pool(made.stages[1].pool)
    return pool if pool is not None and pool.kind == "gpu" else None


def _on_gpu(made: Plan) -> list[Group]:
    tiers = {table.group: table.tier for table in made.forecast.tables} if made.forecast else {}
    return [group for group in groups_of(made.graph) if tiers.get(group.name, "").startswith("gpu")]


def _is_stored(made: Plan, table: str) -> bool:
    attrs = next(op.attrs for op in made.graph if op.kind == "lookup" and op.attrs["table"] == table)
    return str(attrs["storage"]).startswith("gpu")


def _names(group: Group) -> str:
    return f"table {', '.join(sorted(group.tables))}"
