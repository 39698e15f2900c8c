"""A graph with its rules and seed: what every host, stage and worker must agree on before anything runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from heterps.errors import GraphError, HeterpsError, TableError
from heterps.fields import Count, Seed, check_fields
from heterps.graph import Graph
from heterps.kernels.program.param_layout import ParamLayout, ParamPiece
from heterps.stages.lowering import Group, Lowered, lower
from heterps.tables import (
    ACCESSORS,
    ENTRIES,
    INITIALISERS,
    RULES,
    SGD,
    AdaGrad,
    Adam,
    DenseSpec,
    GroupSpec,
    Initialiser,
    Rule,
    TableSpec,
    Uniform,
)

__all__ = ["Model"]


@dataclass(frozen=True)
class Model:
    """The specifications that follow from a graph.

    Parameters
    ----------
    graph
        As the user wrote it.
    sparse, dense
        Rules of tables and of dense parameters where the graph names none.
    seed
        First values of rows and parameters, dropout and shuffling all follow from it.
    summed
        Batches whose gradients are added up before a rule sees them (lanes of the Sync mode): steps of running
        statistics must be averaged instead.
    """

    graph: Graph
    sparse: Rule = field(default_factory=AdaGrad)
    dense: Rule = field(default_factory=Adam)
    seed: Seed = 0
    summed: Count = 1

    def __post_init__(self) -> None:
        check_fields(self, GraphError, "model")

    @cached_property
    def lowered(self) -> Lowered:
        """The graph that runs, and its row groups."""
        return lower(self.graph)

    @cached_property
    def label(self) -> str | None:
        """The column that the loss compares with; None where the label is computed."""
        label = self.graph[self.graph[self.graph.loss].inputs[1]]
        return label.name if label.kind == "input" else None

    @cached_property
    def layout(self) -> ParamLayout:
        """Where each dense parameter lies in the flat vector."""
        return ParamLayout(self.lowered.graph)

    @cached_property
    def groups(self) -> tuple[GroupSpec, ...]:
        """Row groups with the rules of their tables."""
        return tuple(self._group(group) for group in self.lowered.groups)

    def _group(self, group: Group) -> GroupSpec:
        attrs = {op.attrs["table"]: op.attrs for op in self.graph if op.kind == "lookup"}
        tables = tuple(self._table(name, attrs[name]) for name in group.tables)
        shared = {what: _one(what, {name: attrs[name][what] for name in group.tables}) for what in _OF_ROWS}
        try:
            return GroupSpec(group.name, tables, **shared)
        except TableError as error:
            raise GraphError(f"tables {', '.join(sorted(group.tables))}: {error}") from error

    def _table(self, name: str, attrs: Mapping[str, Any]) -> TableSpec:
        try:
            return TableSpec(
                name,
                attrs["dim"],
                RULES.from_json(attrs["rule"]) if attrs["rule"] else self.sparse,
                INITIALISERS.from_json(attrs["init"]) if attrs["init"] else _default_init(attrs["dim"]),
                ENTRIES.from_json(attrs["entry"]) if attrs["entry"] else None,
                ACCESSORS.from_json(attrs["accessor"]) if attrs["accessor"] else None,
            )
        except (HeterpsError, TypeError, KeyError) as error:
            raise GraphError(f"table {name!r}: {error}") from error

    @cached_property
    def parameters(self) -> tuple[DenseSpec, ...]:
        """Dense parameters in the order of the flat vector."""
        return tuple(
            DenseSpec(piece.name, piece.shape or (1,), self._rule(piece), INITIALISERS.from_json(piece.init))
            for piece in self.layout
        )

    def _rule(self, piece: ParamPiece) -> Rule:
        """The run's rule; a running statistic has its own, whose step is shared by the batches that are summed."""
        if piece.rule is None:
            return self.dense
        rule = RULES.from_json(piece.rule)
        if self.summed > 1 and isinstance(rule, SGD) and isinstance(rule.lr, float):
            return replace(rule, lr=rule.lr / self.summed)
        return rule

    def dense_ranges(self, hosts: int) -> tuple[tuple[int, int], ...]:
        """Cut the list of parameters into one range per host, of about equal size; the first host may have all."""
        total, ranges, start, at = sum(p.size for p in self.parameters), [], 0, 0
        for host in range(hosts):
            stop = start
            while stop < len(self.parameters) and at < total * (host + 1) / hosts:
                at += self.parameters[stop].size
                stop += 1
            ranges.append((start, stop))
            start = stop
        return tuple(ranges)

    def span(self, first: int, last: int) -> slice:
        """Return the piece of the flat vector that holds parameters ``first`` to ``last``."""
        sizes = [p.size for p in self.parameters]
        return slice(sum(sizes[:first]), sum(sizes[:last]))


def _default_init(dim: int) -> Initialiser:
    return Uniform(0.01 if dim > 1 else 1e-4)


_OF_ROWS = ("storage", "budget", "when_full")  # which tables that are looked up by the same ids have in common


def _one(what: str, values: Mapping[str, Any]) -> Any:
    """Return what tables that share rows agree on."""
    if len(set(values.values())) > 1:
        raise GraphError(f"tables {sorted(values)} share rows but not one {what}: {list(values.values())}")
    return next(iter(values.values()))
