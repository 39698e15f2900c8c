"""The cut that labels alone give: io on one side, compute on the other, and what is free where fewer bytes cross.

Forced Layers (file and table access) and pins are fixed to the ``cpu`` side, compute-bound Layers to the ``gpu`` side.
The rest is an s-t minimum cut over the bytes that would cross, which is exact.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from heterps.graph import Graph
from heterps.stages.contract import UNIQUE_FRACTION, layers_of
from heterps.stages.layers import Bound, Layer, Layers

__all__ = ["Part", "Partition", "partition"]


@dataclass(frozen=True)
class Part:
    """A run of Layers on one side."""

    side: str
    layers: tuple[str, ...]
    ops: tuple[str, ...]


@dataclass(frozen=True)
class Partition:
    """The parts in the order of the forward pass, and the bytes that cross between them per batch."""

    layers: Layers
    parts: tuple[Part, ...]
    crossing_bytes: float

    @property
    def blocks(self) -> int:
        """Blocks of forward and backward together: the last part does both at once."""
        return 2 * len(self.parts) - 1


def partition(graph: Graph | Layers, *, batch_size: int = 4096, unique_fraction: float = UNIQUE_FRACTION) -> Partition:
    """Split a graph by its labels.

    Examples
    --------
    >>> from heterps.models import wide_deep
    >>> [part.side for part in partition(wide_deep()).parts]
    ['cpu', 'gpu']
    """
    pieces = graph
    if isinstance(pieces, Graph):
        pieces = layers_of(pieces, batch_size=batch_size, unique_fraction=unique_fraction)
    sides, crossing = _cut(pieces)
    levels: dict[int, list[int]] = {}
    for i, level in enumerate(_depths(pieces, sides)):
        levels.setdefault(level, []).append(i)
    parts = tuple(_part(sides[levels[level][0]], [pieces.layers[i] for i in levels[level]]) for level in sorted(levels))
    return Partition(pieces, parts, crossing)


def _part(side: str, layers: Sequence[Layer]) -> Part:
    return Part(side, tuple(layer.name for layer in layers), tuple(op for layer in layers for op in layer.ops))


def _cut(pieces: Layers) -> tuple[list[str], float]:
    """Sides of the Layers by minimum cut. A tensor has a point of its own, so that it is paid for once."""
    import networkx as nx  # slow to import, and only this cut needs it

    flow: nx.DiGraph[object] = nx.DiGraph()
    flow.add_nodes_from(["cpu", "gpu", *range(len(pieces.layers))])
    for i, layer in enumerate(pieces.layers):
        fixed = layer.place or ("gpu" if layer.bound is Bound.COMPUTE else None)
        if fixed == "cpu":
            flow.add_edge("cpu", i, capacity=math.inf)
        elif fixed == "gpu":
            flow.add_edge(i, "gpu", capacity=math.inf)
    for edge in pieces.edges:
        point = ("out", edge.tensor)
        flow.add_edge(edge.source, point, capacity=edge.forward_bytes + edge.backward_bytes)
        flow.add_edge(point, edge.target, capacity=math.inf)
        # A Layer on the gpu that feeds one pinned to the cpu crosses as well.
        flow.add_edge(edge.target, edge.source, capacity=edge.forward_bytes + edge.backward_bytes)
    if not any(True for _ in flow.predecessors("gpu")):
        return ["cpu"] * len(pieces.layers), 0.0
    crossing, (cpu, _) = nx.minimum_cut(flow, "cpu", "gpu")
    return ["cpu" if i in cpu else "gpu" for i in range(len(pieces.layers))], float(crossing)


def _depths(pieces: Layers, sides: list[str]) -> list[int]:
    """Number of side changes on the way to each Layer, evened out so that one level has one side."""
    depth = [0] * len(sides)
    for e in sorted(pieces.edges, key=lambda e: e.target):  # sources are lower, so theirs are final
        depth[e.target] = max(depth[e.target], depth[e.source] + (sides[e.source] != sides[e.target]))
    first = sides[0]
    return [d + ((d % 2 == 0) != (s == first)) for d, s in zip(depth, sides, strict=True)]
