"""Lookups become table access and gathering: ``lookup`` -> ``pull`` (always io) and ``gather_pool`` (movable).

Tables that are looked up by exactly the same id columns share a **row group**: one index, one probe, one row that holds
the values of all of them side by side. So a wide and a deep table over the same ids cost one pull.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from heterps.errors import GraphError
from heterps.graph import Graph, Op, kind
from heterps.graph.order import Circle, needs_first
from heterps.graph.types import TensorType

__all__ = ["Group", "Lowered", "groups_of", "lower"]

_PULL = "\0pull "  # no op's name begins so


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
    ids: dict[str, dict[str, None]] = {}  # by table, in the order of first use
    dims: dict[str, int] = {}
    for op in graph.ops:
        if op.kind == "lookup":
            ids.setdefault(op.attrs["table"], {}).update(dict.fromkeys(op.inputs))
            dims[op.attrs["table"]] = op.attrs["dim"]
    shared: dict[frozenset[str], list[str]] = {}
    for table, columns in ids.items():
        shared.setdefault(frozenset(columns), []).append(table)
    return tuple(_group(sorted(tables, key=lambda t: -dims[t]), ids[tables[0]], dims) for tables in shared.values())


def _group(tables: list[str], ids: Iterable[str], dims: Mapping[str, int]) -> Group:
    # Widest table first: its columns then start at an aligned address.
    columns, start = {}, 0
    for table in tables:
        columns[table] = (start, start + dims[table])
        start += dims[table]
    return Group("+".join(sorted(tables)), tuple(ids), columns, start)


@lru_cache(maxsize=4)  # a plan asks for one graph at many batch sizes
def lower(graph: Graph) -> Lowered:
    """Replace every lookup by a shared pull and a gather of its columns."""
    groups = groups_of(graph)
    by_table = {table: group for group in groups for table in group.tables}
    places = {group.name: {name: i for i, name in enumerate(group.ids)} for group in groups}
    ops: list[Op] = []
    emitted: set[str] = set()
    for op in _pulls_in_time(graph, by_table):
        if op.kind != "lookup":
            ops.append(op)
            continue
        group = by_table[op.attrs["table"]]
        if group.name not in emitted:
            emitted.add(group.name)
            ops.append(_pull(graph, group))
        ops.append(_gather(op, group, places[group.name][op.inputs[0]]))
    return Lowered(Graph.from_ops(tuple(ops), graph.loss, graph.outputs), groups)


def _pulls_in_time(graph: Graph, by_table: Mapping[str, Group]) -> list[Op]:
    """Order ops so that a lookup comes after all id columns of its group, which its pull reads.

    What waits for something that stands behind it comes a turn later, and so does whatever reads it; within a turn the
    order is the graph's.
    """
    place = {op.name: i for i, op in enumerate(graph)}
    turn: dict[str, int] = {}
    ready: dict[str, tuple[int, int]] = {}  # by group: turn and place of the column that comes last
    for name in _needs_first(graph, by_table):
        if name not in place:
            group = by_table[name.removeprefix(_PULL)]
            ready[group.name] = max((turn[column], place[column]) for column in group.ids)
            continue
        op = graph[name]
        needs = [(turn[source], place[source]) for source in op.inputs]
        needs += [ready[by_table[op.attrs["table"]].name]] if op.kind == "lookup" else []
        turn[name] = max((t + (p > place[name]) for t, p in needs), default=0)
    return sorted(graph, key=lambda op: (turn[op.name], place[op.name]))


def _needs_first(graph: Graph, by_table: Mapping[str, Group]) -> list[str]:
    """Names of ops, and of pulls by a table of theirs, after everything they need."""
    firsts = {table: next(iter(group.tables)) for table, group in by_table.items()}
    needs = {_PULL + firsts[table]: group.ids for table, group in by_table.items()}
    for op in graph:
        pulled = (_PULL + firsts[op.attrs["table"]],) if op.kind == "lookup" else ()
        needs[op.name] = (*op.inputs, *pulled)
    place = {name: i for i, name in enumerate(needs)}
    try:
        return needs_first(needs, place.__getitem__)
    except Circle as circle:
        loop = " -> ".join(name.removeprefix(_PULL) for name in circle.loop)
        raise GraphError(f"a table is looked up by ids that follow from its own rows: {loop}") from None


def pull_name(group: Group) -> str:
    """Return the name of the op that pulls a group."""
    return f"pull {group.name}"


def _pull(graph: Graph, group: Group) -> Op:
    attrs = {"group": group.name, "width": group.width, "tables": tuple(group.tables)}
    return _typed(pull_name(group), "pull", group.ids, attrs, tuple(graph[i].type for i in group.ids))


def _gather(op: Op, group: Group, source: int) -> Op:
    attrs = {
        "columns": group.tables[op.attrs["table"]],
        "source": source,
        "pooling": op.attrs["pooling"],
        "padding_id": op.attrs["padding_id"],
    }
    return Op(op.name, "gather_pool", (pull_name(group), op.inputs[0]), attrs, op.type, op.place)


def _typed(
    name: str, kind_name: str, inputs: tuple[str, ...], attrs: dict[str, Any], types: tuple[TensorType, ...]
) -> Op:
    return Op(name, kind_name, inputs, attrs, kind(kind_name).result(attrs, types))
