"""Graph to Layers: ops that are never worth separating are placed together.

1. All columns of the data come from one reader, which draws ids too: one Layer.
2. Every pull is a Layer; so is every gather (it may stand on either side of the cut).
3. An op below the ridge joins its producers if all of them lie in one Layer, else its consumers if all of those do.
   Either merge keeps the contracted graph free of cycles.
"""

from __future__ import annotations

from collections.abc import Mapping

import networkx as nx

from heterps.graph import Form, Graph, Op
from heterps.kernels.cost import OpCost
from heterps.stages.labels import RIDGE_FLOPS_PER_BYTE, Label, label
from heterps.stages.layers import Bound, Edge, Layer, Layers
from heterps.stages.lowering import lower

__all__ = ["UNIQUE_FRACTION", "crossing_bytes", "layers_of"]

# Share of a batch's ids that are distinct, on Zipf 1.1 data with batches of 1024 to 4096; measured data replaces it.
UNIQUE_FRACTION = 0.4
READ = "read"


def layers_of(
    graph: Graph,
    *,
    batch_size: int = 4096,
    unique_fraction: float = UNIQUE_FRACTION,
    ridge: float = RIDGE_FLOPS_PER_BYTE,
) -> Layers:
    """Contract a graph into its smallest legal pieces.

    Parameters
    ----------
    graph
        As written by the user; lookups are lowered first.
    batch_size
        Rows per batch, for costs and bytes.
    unique_fraction
        Distinct ids per id of a batch.
    ridge
        FLOP per byte above which an op is compute-bound.
    """
    low = lower(graph).graph
    labels = label(low, batch_size, unique_fraction, ridge)
    owner = _merge(low, labels)
    order = _order(low, owner, labels)
    members = {name: tuple(op for op in low if owner[op.name] == name) for name in order}
    layers = tuple(_layer(low, name, members[name], labels, batch_size, unique_fraction) for name in order)
    return Layers(layers, _edges(low, owner, order, batch_size, unique_fraction), batch_size, unique_fraction)


def _merge(graph: Graph, labels: Mapping[str, Label]) -> dict[str, str]:
    """Return the Layer that each op belongs to, as the name of its first op."""
    owner = {op.name: READ if graph.kind(op).access == "file" else op.name for op in graph}
    stable = {op.name for op in graph if labels[op.name].forced or op.kind == "gather_pool"}
    changed = True
    while changed:
        changed = False
        for op in graph:
            target = None if _settled(graph, op, owner, labels, stable) else _host(graph, op, owner, stable)
            if target is not None and target != owner[op.name] and _same_place(graph, op, owner, target):
                owner = {name: target if o == owner[op.name] else o for name, o in owner.items()}
                changed = True
    return owner


def _settled(graph: Graph, op: Op, owner: Mapping[str, str], labels: Mapping[str, Label], stable: set[str]) -> bool:
    """An op that reads data, gathers, or lies above the ridge keeps its Layer; so does whatever joined it."""
    return any(
        name in stable or (labels[name].bound is Bound.COMPUTE and graph[name].type.form is not Form.SCALAR)
        for name, o in owner.items()
        if o == owner[op.name]
    )


def _host(graph: Graph, op: Op, owner: Mapping[str, str], stable: set[str]) -> str | None:
    mine = owner[op.name]
    group = [name for name, o in owner.items() if o == mine]
    sources = {owner[s] for name in group for s in graph[name].inputs if owner[s] != mine}
    targets = {owner[c.name] for name in group for c in graph.consumers(name) if owner[c.name] != mine}
    if len(sources) == 1 and not _is_access(graph, owner, *sources):
        return next(iter(sources))
    if len(targets) == 1 and not any(c in stable for c in targets):
        return next(iter(targets))
    return None


def _is_access(graph: Graph, owner: Mapping[str, str], layer: str) -> bool:
    return any(graph.kind(graph[name]).access for name, o in owner.items() if o == layer)


def _same_place(graph: Graph, op: Op, owner: Mapping[str, str], target: str) -> bool:
    pins = {graph[name].place for name, o in owner.items() if o in (owner[op.name], target)} - {None}
    return len(pins) <= 1


def _order(graph: Graph, owner: Mapping[str, str], labels: Mapping[str, Label]) -> list[str]:
    """Topological, io before compute where both are free to come next."""
    view: nx.DiGraph[str] = nx.DiGraph()
    view.add_nodes_from(dict.fromkeys(owner.values()))
    view.add_edges_from((owner[s], owner[op.name]) for op in graph for s in op.inputs if owner[s] != owner[op.name])
    rank = {name: i for i, name in enumerate(dict.fromkeys(owner.values()))}
    io = {name: all(labels[n].bound is Bound.IO for n, o in owner.items() if o == name) for name in rank}
    return list(nx.lexicographical_topological_sort(view, key=lambda name: (not io[name], rank[name])))


def _layer(
    graph: Graph, name: str, ops: tuple[Op, ...], labels: Mapping[str, Label], batch_size: int, unique: float
) -> Layer:
    heaviest = max(ops, key=lambda op: (labels[op.name].cost.flops, op.kind == "gather_pool"))
    bound = Bound.COMPUTE if any(labels[op.name].bound is Bound.COMPUTE for op in ops) else Bound.IO
    reason = next(labels[op.name].reason for op in (heaviest, *ops) if labels[op.name].bound is bound)
    if name == READ:
        reason = f"reads the data, {sum(op.type.bytes for op in ops):.0f} B a sample"
    forced = any(labels[op.name].forced for op in ops)
    pins = {op.place for op in ops} - {None}
    pulls = [op for op in ops if op.kind == "pull"]
    return Layer(
        name=READ if name == READ else heaviest.name,
        ops=tuple(op.name for op in ops),
        bound=bound,
        reason=reason,
        place=next(iter(pins), "cpu" if forced else None),
        cost=sum((labels[op.name].cost for op in ops), OpCost()),
        groups=tuple(op.attrs["group"] for op in pulls),
        row_bytes=2 * sum(_row_bytes(op, batch_size, unique) for op in pulls),
    )


def _row_bytes(pull: Op, batch_size: int, unique: float) -> float:
    positions, width = pull.type.shape
    return positions * batch_size * unique * width * 4


def crossing_bytes(graph: Graph, tensor: Op, reader: Op, batch_size: int, unique: float) -> tuple[float, float]:
    """Bytes of one tensor for one batch, forward and backward, if its reader runs elsewhere."""
    if tensor.type.form is Form.ROWS:
        rows, index = _row_bytes(tensor, batch_size, unique), tensor.type.shape[0] * batch_size * 4
        return rows + index, rows
    if reader.kind == "gather_pool":  # the index that travels with the rows stands for the ids
        return 0.0, 0.0
    size = tensor.type.bytes * batch_size
    return size, size if graph.kind(tensor).access != "file" else 0.0


def _edges(
    graph: Graph, owner: Mapping[str, str], order: list[str], batch_size: int, unique: float
) -> tuple[Edge, ...]:
    place = {name: i for i, name in enumerate(order)}
    edges = {}
    for op in graph:
        for source in op.inputs:
            a, b = place[owner[source]], place[owner[op.name]]
            forward, backward = crossing_bytes(graph, graph[source], op, batch_size, unique)
            if a != b and forward:
                edges[a, b, source] = Edge(a, b, source, forward, backward)
    return tuple(edges[key] for key in sorted(edges))
