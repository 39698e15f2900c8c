"""Where the rows of each table are kept: patterns over table names, written into the graph once."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from dataclasses import replace
from typing import get_args

from heterps.errors import PlanError
from heterps.graph import Graph, Op
from heterps.stages.lowering import groups_of
from heterps.tables.specs.spec import Storage

__all__ = ["TIERS", "with_storage"]

TIERS: tuple[str, ...] = get_args(Storage)


def with_storage(graph: Graph, patterns: Mapping[str, str]) -> Graph:
    """Return the graph with the storage of its tables as patterns say.

    A table's name counts before a pattern, a pattern before ``*``. Tables that are looked up by the same ids share
    rows: they are kept where one of them is to be. Patterns of one rank that disagree are an error, as is one that
    matches nothing.
    """
    groups = groups_of(graph)
    tables = [table for group in groups for table in group.tables]
    for pattern, tier in patterns.items():
        if tier not in TIERS:
            raise PlanError(f"storage: {pattern}={tier} is not known; rows can be in {', '.join(TIERS)}")
        if not fnmatch.filter(tables, pattern):
            raise PlanError(f"storage: {pattern!r} matches no table; there are {', '.join(tables) or 'none'}")
    chosen: dict[str, str] = {}
    for group in groups:
        said = _tier_of(tuple(group.tables), patterns)
        chosen |= {} if said is None else dict.fromkeys(group.tables, said)
    return Graph.from_ops(tuple(_kept_in(op, chosen) for op in graph), graph.loss, graph.outputs)


def _tier_of(tables: tuple[str, ...], patterns: Mapping[str, str]) -> str | None:
    """Return what the patterns of the highest rank say about tables that share rows."""
    ranks: dict[int, dict[str, str]] = {}
    for pattern, tier in patterns.items():
        if fnmatch.filter(tables, pattern):
            ranks.setdefault(2 if pattern in tables else 0 if pattern == "*" else 1, {})[pattern] = tier
    highest = ranks[max(ranks)] if ranks else {}
    if len(set(highest.values())) > 1:
        said = " and ".join(f"{pattern!r} says {tier}" for pattern, tier in highest.items())
        raise PlanError(f"storage: {said} of {', '.join(tables)}, which share rows: make them agree")
    return next(iter(highest.values()), None)


def _kept_in(op: Op, chosen: Mapping[str, str]) -> Op:
    tier = chosen.get(op.attrs["table"]) if op.kind == "lookup" else None
    return op if tier is None else replace(op, attrs={**op.attrs, "storage": tier})
