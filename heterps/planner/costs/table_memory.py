"""How large the tables will be, and where their rows are kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from heterps.graph import Graph
from heterps.planner.costs.forecast import TableForecast
from heterps.planner.costs.sample import Sample
from heterps.stages.lowering import Group, groups_of
from heterps.tables import ACCESSORS, ENTRIES, RULES, ElementAdaGrad, GroupSpec, TableSpec
from heterps.tables.live.row_layout import RowLayout

__all__ = ["INDEX_BYTES", "disk_texts", "forecast_tables", "group_spec", "new_rows", "row_bytes", "with_tiers"]

#: Bytes of the hash index per row at its usual load, and room that growing regions keep.
INDEX_BYTES = 12.0
_SLACK = 1.25
_ROWS_UNKNOWN = 1e6


def row_bytes(graph: Graph, group: Group) -> float:
    """Bytes that one row of a group takes, its slots, counters and index entry included."""
    return (RowLayout(group_spec(graph, group), 0).row_bytes + INDEX_BYTES) * _SLACK


@lru_cache(maxsize=1)  # asked for by every group of one graph
def _lookups(graph: Graph) -> dict[str, Mapping[str, Any]]:
    """Attributes of the lookups, by table."""
    return {op.attrs["table"]: op.attrs for op in graph if op.kind == "lookup"}


def group_spec(graph: Graph, group: Group) -> GroupSpec:
    """Return a group as far as its rows' size goes; tables without a rule of their own have the run's default."""
    attrs = _lookups(graph)
    full = next(attrs[name]["when_full"] for name in group.tables)
    return GroupSpec(group.name, tuple(_table(name, attrs[name]) for name in group.tables), when_full=full)


def _table(name: str, attrs: Mapping[str, Any]) -> TableSpec:
    return TableSpec(
        name,
        attrs["dim"],
        RULES.from_json(attrs["rule"]) if attrs["rule"] else ElementAdaGrad(),
        entry=ENTRIES.from_json(attrs["entry"]) if attrs["entry"] else None,
        accessor=ACCESSORS.from_json(attrs["accessor"]) if attrs["accessor"] else None,
    )


def forecast_tables(graph: Graph, sample: Sample | None, rows: float | None) -> tuple[TableForecast, ...]:
    """Rows and bytes of each row group once ``rows`` rows of data were trained on."""
    return tuple(_forecast(graph, group, sample, rows) for group in groups_of(graph))


def _forecast(graph: Graph, group: Group, sample: Sample | None, rows: float | None) -> TableForecast:
    storage = next(attrs["storage"] for table, attrs in _lookups(graph).items() if table in group.tables)
    if sample is None:
        basis = f"not sampled: taken as {_ROWS_UNKNOWN:,.0f} rows"
        return TableForecast(group.name, _ROWS_UNKNOWN, _ROWS_UNKNOWN * row_bytes(graph, group), storage, basis)
    growth, horizon = sample.growth[group.name], _horizon(sample, rows)
    expected = growth.rows(horizon * sample.ids_per_row[group.name])
    basis = (
        f"{growth.distinct:,.0f} distinct in {sample.rows:,} sampled rows, growing as ids^{growth.exponent:.2f}; "
        f"after {horizon:,.0f} rows"
    )
    return TableForecast(group.name, expected, expected * row_bytes(graph, group), storage, basis)


def new_rows(tables: tuple[TableForecast, ...], sample: Sample | None, rows: float | None) -> float:
    """Rows that a row of data brings into the tables, on average over the ``rows`` that are trained on."""
    return 0.0 if sample is None else sum(table.rows for table in tables) / _horizon(sample, rows)


def _horizon(sample: Sample, rows: float | None) -> float:
    """Rows of data after which tables are looked at."""
    return rows or sample.total_rows or sample.rows


def with_tiers(
    tables: tuple[TableForecast, ...], memory_bytes: float, on_gpu: frozenset[str]
) -> tuple[TableForecast, ...]:
    """Decide where rows are kept: on the GPU where they are stored there or their pull is pinned there, in memory
    while that lasts, else on SSD.

    Small groups come first: they are looked up as often as large ones.
    """
    placed = {}
    for table in sorted(tables, key=lambda table: table.bytes):
        tier = table.tier
        if table.group in on_gpu and not tier.startswith("gpu"):
            tier = "gpu"
        elif tier == "memory" and table.bytes > memory_bytes:
            tier = "ssd"
        memory_bytes -= table.bytes if tier == "memory" else 0.0
        placed[table.group] = replace(table, tier=tier)
    return tuple(placed[table.group] for table in tables)


def disk_texts(graph: Graph, asked: tuple[TableForecast, ...], placed: tuple[TableForecast, ...]) -> Iterator[str]:
    """Say of rows on disk what the forecast leaves out; of those that only do not fit, that runs must be told."""
    names = {group.name: ", ".join(group.tables) for group in groups_of(graph)}
    for before, after in zip(asked, placed, strict=True):
        if before.tier.endswith("ssd"):
            yield f"rows of {names[after.group]} are on disk: what it takes to read them there is not in the forecast"
        elif after.tier == "ssd":
            yield (
                f"rows of {names[after.group]} do not fit into memory if they come to be so many, and the forecast "
                "counts no disks: keep them there (--storage 'TABLE=ssd'), or admit fewer ids (entry)"
            )
