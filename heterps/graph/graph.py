"""The model as a value: ops in topological order, the loss and named outputs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from heterps.documents import read_json
from heterps.errors import GraphError, HeterpsError
from heterps.fields import Found
from heterps.graph import legality
from heterps.graph.kinds import OpKind, Param, kind
from heterps.graph.order import needed_for
from heterps.graph.tensor import Tensor, freeze
from heterps.graph.types import TensorType
from heterps.html_table import html_table
from heterps.writing import write_whole

if TYPE_CHECKING:
    import networkx as nx

__all__ = ["SCHEMA_VERSION", "Graph", "Op"]

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Op:
    """One op of a Graph: what it does, what it reads, what it yields, where it is pinned."""

    name: str
    kind: str
    inputs: tuple[str, ...]
    attrs: Mapping[str, Any] = field(hash=False)
    type: TensorType
    place: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return what JSON needs to know; the type is inferred again on load."""
        row = {"name": self.name, "kind": self.kind, "inputs": list(self.inputs), "attrs": dict(self.attrs)}
        return row | ({"place": self.place} if self.place else {})


class Graph:
    """An immutable model.

    Parameters
    ----------
    loss
        The tensor training makes small; made by a loss op.
    outputs
        Further tensors to be fetched by name, for example item vectors. The loss's own prediction is always there.

    Examples
    --------
    >>> from heterps import Graph, ops
    >>> x, y = ops.input("x", shape=(3,)), ops.input("y")
    >>> graph = Graph(loss=ops.logloss(ops.dense(x, 1, name="out"), y))
    >>> [op.name for op in graph.ops]
    ['x', 'out', 'y', 'logloss']
    >>> Graph.from_json(graph.to_json()) == graph
    True
    """

    def __init__(self, loss: Tensor, outputs: Mapping[str, Tensor] | None = None) -> None:
        if not isinstance(loss, Tensor):
            raise GraphError(f"Graph(loss=...) takes a tensor made by heterps.ops, got {type(loss).__name__}")
        if not loss.kind.loss:
            raise GraphError(f"no loss: {loss!r} is not a loss op; end the graph with ops.logloss, ops.mse, ...")
        outputs = dict(outputs or {})
        ops, names = _collect([loss, *outputs.values()])
        self._set(ops, names[loss], {key: names[tensor] for key, tensor in outputs.items()})

    def _set(self, ops: tuple[Op, ...], loss: str, outputs: dict[str, str]) -> None:
        self.ops, self.loss, self.outputs = ops, loss, outputs
        self._index = {op.name: op for op in ops}
        legality.check(self)

    @classmethod
    def from_ops(cls, ops: tuple[Op, ...], loss: str, outputs: Mapping[str, str] | None = None) -> Graph:
        """Make a Graph from finished ops in topological order (lowering, JSON)."""
        graph = cls.__new__(cls)
        graph._set(tuple(ops), loss, dict(outputs or {}))
        return graph

    def __getitem__(self, name: str) -> Op:
        if name not in self._index:
            raise GraphError(f"the graph has no op {name!r}; its ops: {', '.join(self._index)}")
        return self._index[name]

    def __contains__(self, name: str) -> bool:
        return name in self._index

    def __iter__(self) -> Iterator[Op]:
        return iter(self.ops)

    def __len__(self) -> int:
        return len(self.ops)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Graph) and (self.ops, self.loss, self.outputs) == (
            other.ops,
            other.loss,
            other.outputs,
        )

    def __hash__(self) -> int:
        return hash((tuple(op.name for op in self.ops), self.loss))

    def __repr__(self) -> str:
        return f"<Graph of {len(self.ops)} ops, loss {self.loss!r}>"

    def _repr_html_(self) -> str:
        rows = [(op.name, op.kind, op.type, ", ".join(op.inputs), self._size(op)) for op in self.ops]
        total = sum(prod(param.shape) for op in self.ops for param in self.params(op))
        caption = f"Graph of {len(self.ops)} ops, loss {self.loss!r}, {total:,} dense parameters"
        return html_table(caption, ("op", "kind", "gives, a row", "of", "parameters"), rows)

    def _size(self, op: Op) -> str:
        return ", ".join(f"{param.name} {'x'.join(map(str, param.shape))}" for param in self.params(op))

    def kind(self, op: Op) -> OpKind:
        """Return the registered kind of an op."""
        return kind(op.kind)

    def params(self, op: Op) -> tuple[Param, ...]:
        """Return the dense parameters of an op."""
        return kind(op.kind).params(op.attrs, tuple(self[name].type for name in op.inputs))

    @cached_property
    def inputs(self) -> tuple[Op, ...]:
        """The columns of data that the graph reads."""
        return tuple(op for op in self.ops if op.kind == "input")

    @cached_property
    def nx(self) -> nx.DiGraph[str]:
        """A networkx view: a node per op (attribute ``op``), an edge per use."""
        import networkx as nx  # slow to import, and training needs no more than an order

        view: nx.DiGraph[str] = nx.DiGraph()
        for op in self.ops:
            view.add_node(op.name, op=op)
            view.add_edges_from((source, op.name) for source in op.inputs)
        return view

    def upstream(self, *names: str) -> set[str]:
        """Return the names of all ops that lead to the given ones, and those."""
        return needed_for(lambda name: self[name].inputs, names)

    def consumers(self, name: str) -> tuple[Op, ...]:
        """Return the ops that read an op's result, in order."""
        return self._consumers.get(name, ())

    @cached_property
    def _consumers(self) -> Mapping[str, tuple[Op, ...]]:
        found: dict[str, dict[str, Op]] = {}
        for op in self.ops:
            for source in op.inputs:
                found.setdefault(source, {})[op.name] = op
        return {source: tuple(readers.values()) for source, readers in found.items()}

    def to_json(self) -> dict[str, Any]:
        """Return a JSON value that :meth:`from_json` turns back into an equal Graph."""
        return {
            "schema": SCHEMA_VERSION,
            "ops": [op.to_json() for op in self.ops],
            "loss": self.loss,
            "outputs": dict(self.outputs),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any] | Found) -> Graph:
        """Load a graph; runs no code, checks everything a built graph is checked for."""
        found = Found.of(value, GraphError, "graph").only(("schema", "ops", "loss", "outputs"))
        found["schema"].read(Literal[SCHEMA_VERSION])
        values = {
            "ops": _ops_from_json(found["ops"]),
            "loss": found["loss"].read(str),
            "outputs": found.get("outputs", {}).read(Mapping[str, str]),
        }
        return found.built(cls.from_ops, values)

    @classmethod
    def from_found(cls, found: Found) -> Graph:
        """Read a graph where a document has one."""
        return cls.from_json(found)

    def save(self, path: str | Path) -> None:
        """Write the graph as a JSON file."""
        write_whole(path, json.dumps(self.to_json(), indent=1) + "\n")

    @classmethod
    def load(cls, path: str | Path) -> Graph:
        """Read a graph from a JSON file."""
        return cls.from_json(read_json(path, GraphError))


def _collect(roots: list[Tensor]) -> tuple[tuple[Op, ...], dict[Tensor, str]]:
    """Number the expressions reachable from the roots, parents first, without recursion."""
    order: list[Tensor] = []
    done: set[Tensor] = set()
    stack = [(root, False) for root in reversed(roots)]
    while stack:
        tensor, expanded = stack.pop()
        if tensor in done:
            continue
        if expanded:
            done.add(tensor)
            order.append(tensor)
            continue
        stack.append((tensor, True))
        stack.extend((parent, False) for parent in reversed(tensor.inputs) if parent not in done)
    names = _names(order)
    ops = tuple(Op(names[t], t.kind.name, tuple(names[x] for x in t.inputs), t.attrs, t.type, t.place) for t in order)
    return ops, names


def _names(order: list[Tensor]) -> dict[Tensor, str]:
    """Given names stay; the others are called after their table or kind and numbered where that is taken."""
    taken = {t.name for t in order if t.name}
    names: dict[Tensor, str] = {}
    tried: dict[str, int] = {}  # by base: numbers below are taken
    for t in order:
        base = t.attrs.get("table", t.kind.name)
        name, i = t.name or base, tried.get(base, 1)
        while not t.name and name in taken:
            name, i = f"{base}_{i}", i + 1
        if not t.name:
            tried[base] = i
        taken.add(name)
        names[t] = name
    return names


@dataclass(frozen=True)
class _Row:
    """An op as JSON has it."""

    name: str
    kind: str
    inputs: tuple[str, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    place: str | None = None


def _ops_from_json(found: Found) -> tuple[Op, ...]:
    rows = [(place, place.make(_Row)) for place in found]
    by_name = {row.name: (place, row) for place, row in rows}
    ops: dict[str, Op] = {}
    for name in found.built(legality.topological, {"inputs": [(row.name, row.inputs) for _, row in rows]}):
        ops[name] = _typed(*by_name[name], ops)
    return tuple(ops.values())


def _typed(place: Found, row: _Row, ops: Mapping[str, Op]) -> Op:
    try:
        known = kind(row.kind)
        attrs = known.complete({key: freeze(value) for key, value in row.attrs.items()})
        result = known.result(attrs, tuple(ops[name].type for name in row.inputs))
    except HeterpsError as error:
        raise type(error)(f"{place.place}: {row.kind} {row.name!r}: {error}") from None
    return Op(row.name, row.kind, row.inputs, attrs, result, row.place)
