"""Lookups become table access and gathering: ``lookup`` -> ``pull`` (always io) and ``gather_pool`` (movable).

Tables that are looked up by exactly the same id columns share a **row group**: one index, one probe, one row that holds
the values of all of them side by side. So a wide and a deep table over the same ids cost one pull.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from heterps.graph import Graph, Op, kind
from heterps.graph.types import TensorType

__all__ = ["Group", "Lowered", "groups_of", "lower"]


@dataclass(frozen=True)
class Group:
    """Tables that share rows: ``tables`` maps each name to its columns in the shared row."""

    name: str
    ids: tuple[str, ...]
    tables: Mapping[str, tuple[int, int]]
    width: int


@dataclass(frozen=True)
class Lowered:
    """A graph without ``lookup`` ops, and the row groups its ``pull`` ops read."""

    graph: Graph
    groups: tuple[Group, ...]


def groups_of(graph: Graph) -> tuple[Group, ...]:
    """Return the row groups of a graph in order of first use."""
    ids: dict[str, list[str]] = {}
    dims: dict[str, int] = {}
    for op in graph.ops:
        if op.kind == "lookup":
            columns = ids.setdefault(op.attrs["table"], [])
            columns.extend(name for name in op.inputs if name not in columns)
            dims[op.attrs["table"]] = op.attrs["dim"]
    shared: dict[frozenset[str], list[str]] = {}
    for table, columns in ids.items():
        shared.setdefault(frozenset(columns), []).append(table)
    return tuple(_group(sorted(tables, key=lambda t: -dims[t]), ids[tables[0]], dims) for tables in shared.values())


def _group(tables: list[str], ids: list[str], dims: Mapping[str, int]) -> Group:
    # Widest table first: its columns then start at an aligned address.
    columns, start = {}, 0
    for table in tables:
        columns[table] = (start, start + dims[table])
        start += dims[table]
    return Group("+".join(sorted(tables)), tuple(ids), columns, start)


def lower(graph: Graph) -> Lowered:
    """Replace every lookup by a shared pull and a gather of its columns."""
    groups = groups_of(graph)
    by_table = {table: group for group in groups for table in group.tables}
    ops: list[Op] = []
    emitted: set[str] = set()
    available: set[str] = set()
    waiting = list(graph.ops)
    while waiting:  # a pull reads all id columns of its group, so a lookup may have to wait for the last one
        later: list[Op] = []
        for op in waiting:
            group = by_table.get(op.attrs["table"]) if op.kind == "lookup" else None
            needs = set(op.inputs) | set(group.ids if group else ())
            if not needs <= available:
                later.append(op)
                continue
            if group and group.name not in emitted:
                emitted.add(group.name)
                ops.append(_pull(graph, group))
            ops.append(_gather(op, group) if group else op)
            available.add(op.name)
        waiting = later
    return Lowered(Graph.from_ops(tuple(ops), graph.loss, graph.outputs), groups)


def pull_name(group: Group) -> str:
    """Return the name of the op that pulls a group."""
    return f"pull {group.name}"


def _pull(graph: Graph, group: Group) -> Op:
    attrs = {"group": group.name, "width": group.width, "tables": tuple(group.tables)}
    return _typed(pull_name(group), "pull", group.ids, attrs, tuple(graph[i].type for i in group.ids))


def _gather(op: Op, group: Group) -> Op:
    attrs = {
        "columns": group.tables[op.attrs["table"]],
        "source": group.ids.index(op.inputs[0]),
        "pooling": op.attrs["pooling"],
        "padding_id": op.attrs["padding_id"],
    }
    return Op(op.name, "gather_pool", (pull_name(group), op.inputs[0]), attrs, op.type, op.place)


def _typed(
    name: str, kind_name: str, inputs: tuple[str, ...], attrs: dict[str, Any], types: tuple[TensorType, ...]
) -> Op:
    return Op(name, kind_name, inputs, attrs, kind(kind_name).result(attrs, types))
