"""Graph to Layers: ops that are never worth separating are placed together.

1. All columns of the data come from one reader, which draws ids too: one Layer.
2. Every pull is a Layer; so is every gather (it may stand on either side of the cut).
3. An op below the ridge joins its producers if all of them lie in one Layer, else its consumers if all of those do.
   Either merge keeps the contracted graph free of cycles.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from heterps.errors import GraphError
from heterps.fields import Count, Found
from heterps.graph import Form, Graph, Op
from heterps.graph.order import needs_first
from heterps.kernels.cost import OpCost
from heterps.stages.labels import RIDGE_FLOPS_PER_BYTE, Label, label
from heterps.stages.layers import Bound, Edge, Layer, Layers
from heterps.stages.lowering import lower
from heterps.stages.merging import LayerPiece, merged

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
    Found(batch_size, GraphError, "", "batch_size").read(Count)
    low = lower(graph).graph
    labels = label(low, batch_size, unique_fraction, ridge)
    order = _joined(low, tuple(labels[op.name].bound for op in low))
    layers = tuple(_layer(low, ops, labels, batch_size, unique_fraction) for ops in order)
    return Layers(layers, _edges(low, order, batch_size, unique_fraction), batch_size, unique_fraction)


@lru_cache(maxsize=8)  # a model has the same Layers at every batch size, nearly always
def _joined(graph: Graph, bounds: tuple[Bound, ...]) -> tuple[tuple[Op, ...], ...]:
    """The ops of each Layer, in order, given what bounds each op."""
    return tuple(tuple(graph.ops[i] for i in piece.members) for piece in _order(graph, merged(graph, bounds), bounds))


def _order(graph: Graph, pieces: list[LayerPiece], bounds: tuple[Bound, ...]) -> list[LayerPiece]:
    """Topological, io before compute where both are free to come next."""
    rank = {piece: (any(bounds[i] is not Bound.IO for i in piece.members), place) for place, piece in enumerate(pieces)}
    return needs_first({piece: piece.sources for piece in pieces}, rank.__getitem__)


def _layer(graph: Graph, ops: tuple[Op, ...], labels: Mapping[str, Label], batch_size: int, unique: float) -> Layer:
    heaviest = max(ops, key=lambda op: (labels[op.name].cost.flops, op.kind == "gather_pool"))
    bound = Bound.COMPUTE if any(labels[op.name].bound is Bound.COMPUTE for op in ops) else Bound.IO
    reason = next(labels[op.name].reason for op in (heaviest, *ops) if labels[op.name].bound is bound)
    data = graph.kind(ops[0]).access == "file"
    if data:
        reason = f"reads the data, {sum(op.type.bytes for op in ops):.0f} B a sample"
    forced = any(labels[op.name].forced for op in ops)
    pins = {op.place for op in ops} - {None}
    pulls = [op for op in ops if op.kind == "pull"]
    return Layer(
        name=READ if data else heaviest.name,
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


def _edges(graph: Graph, order: tuple[tuple[Op, ...], ...], batch_size: int, unique: float) -> tuple[Edge, ...]:
    place = {op.name: i for i, ops in enumerate(order) for op in ops}
    edges = {}
    for op in graph:
        for source in op.inputs:
            a, b = place[source], place[op.name]
            forward, backward = crossing_bytes(graph, graph[source], op, batch_size, unique)
            if a != b and forward:
                edges[a, b, source] = Edge(a, b, source, forward, backward)
    return tuple(edges[key] for key in sorted(edges))
