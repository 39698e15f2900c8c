"""Embedding caches in the memory of GPUs: whether they fit there, and what the report says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from heterps.errors import PlanError
from heterps.hardware import Pool
from heterps.planner.costs.gpu_tier import ROWS_SHARE
from heterps.planner.costs.table_memory import group_spec
from heterps.planner.plan import Plan
from heterps.planner.show.figures import bytes_text, count_text
from heterps.planner.ways import CACHE, Way
from heterps.protocol.words.modes import Cached
from heterps.stages.lowering import Group, groups_of
from heterps.tables import cached_row_bytes
from heterps.tables.on_device.device_cache import cache_bytes, cached_within

__all__ = ["gpu_cache_texts"]


def gpu_cache_texts(made: Plan, ways: Mapping[str, Way]) -> Iterator[str]:
    """Refuse caches that a plan of one stage on a GPU has no room for there; say of the others what they take.

    A cache is where the data is read: on a GPU only where all is computed there.
    """
    groups = [group for group in groups_of(made.graph) if ways[next(iter(group.tables))].kind == CACHE]
    if not isinstance(made.mode, Cached) or not groups:
        return
    pool = made.pool(made.stages[0].pool)
    if made.is_fused and pool.kind == "gpu":
        yield from _fitting(made, groups, ways, pool)
    elif any(made.pool(stage.pool).kind == "gpu" for stage in made.stages):
        yield (
            f"cache of {_names(groups)}: in the memory of the workers that read the data, not of a GPU, which takes a "
            "plan of one stage there"
        )


def _fitting(made: Plan, groups: list[Group], ways: Mapping[str, Way], pool: Pool) -> Iterator[str]:
    specs = {group.name: group_spec(made.graph, group) for group in groups}
    rows = {group.name: _rows(ways[next(iter(group.tables))], cached_row_bytes(specs[group.name])) for group in groups}
    taken = {name: cache_bytes(spec, rows[name]) for name, spec in specs.items()}
    room = int(pool.device.memory_bytes * ROWS_SHARE)
    if sum(taken.values()) > room:
        share = room / sum(taken.values())
        fits = ", ".join(count_text(cached_within(specs[name], int(taken[name] * share))) for name in specs)
        raise PlanError(
            f"the cache of {_names(groups)} does not fit on {pool.device.name}: it takes "
            f"{bytes_text(sum(taken.values()))} there, and {bytes_text(room)} are for rows. 1. Fewer rows: {fits} "
            "(--cache-rows, cache:ROWS). 2. A GPU with more memory. 3. A plan that reads its data on CPUs"
        )
    for group in groups:
        many, much = count_text(rows[group.name]), bytes_text(taken[group.name])
        yield f"cache of {_names([group])}: {many} rows on {pool.device.name} take {much}"


def _rows(way: Way, row_bytes: int) -> int:
    number = way.number or 0
    return max(1, number // row_bytes) if way.in_bytes else number


def _names(groups: list[Group]) -> str:
    return " and ".join(", ".join(sorted(group.tables)) for group in groups)
