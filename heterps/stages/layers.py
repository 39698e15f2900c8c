"""Layers: the smallest legal pieces of a graph, in an order in which every prefix is a legal cut."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from itertools import accumulate

from heterps.kernels.cost import OpCost

__all__ = ["Bound", "Edge", "Layer", "Layers"]


class Bound(StrEnum):
    """What limits an op: moving data, or arithmetic."""

    IO = "io"
    COMPUTE = "compute"


@dataclass(frozen=True)
class Layer:
    """A smallest legal piece: its ops are always placed together.

    Parameters
    ----------
    name
        Unique; the name of the op that gives the piece its character.
    ops
        Names of ops of the lowered graph, in topological order.
    bound, reason
        The label and why, as text with figures.
    place
        ``"cpu"``, ``"gpu"`` or None (free): pinned by hand, or forced by table and file access.
    cost
        Forward and backward work of one batch of ``Layers.batch_size`` rows.
    groups
        Row groups that the Layer pulls and pushes.
    row_bytes
        Bytes of unique rows pulled plus gradients pushed per batch (zero without table access).
    """

    name: str
    ops: tuple[str, ...]
    bound: Bound
    reason: str
    place: str | None
    cost: OpCost
    groups: tuple[str, ...] = ()
    row_bytes: float = 0.0


@dataclass(frozen=True)
class Edge:
    """A tensor that flows from one Layer to a later one: forward its values, backward its gradient, per batch."""

    source: int
    target: int
    tensor: str
    forward_bytes: float
    backward_bytes: float


@dataclass(frozen=True)
class Layers:
    """The pieces of a graph in convex order, and what crosses between them.

    ``layers[:i]`` is closed under dependencies for every i, so cutting between any two neighbours is legal.
    """

    layers: tuple[Layer, ...]
    edges: tuple[Edge, ...]
    batch_size: int
    unique_fraction: float

    def cut_bytes(self, i: int) -> float:
        """Bytes per batch, both directions, over the cut before ``layers[i]``.

        A tensor that several later Layers read crosses once.
        """
        return self._cuts[i]

    @cached_property
    def _cuts(self) -> tuple[float, ...]:
        """Bytes over every cut. Sums are exact: what is added when a tensor begins goes away whole when it ends."""
        last: dict[str, Edge] = {}
        for edge in self.edges:
            if edge.tensor not in last or edge.target > last[edge.tensor].target:
                last[edge.tensor] = edge
        change = [Fraction(0)] * (len(self.layers) + 1)
        for edge in last.values():
            size = Fraction(edge.forward_bytes + edge.backward_bytes)
            change[edge.source + 1] += size
            change[edge.target + 1] -= size
        return tuple(map(float, accumulate(change)))

    @cached_property
    def _places(self) -> Mapping[str, int]:
        return {op: i for i, layer in enumerate(self.layers) for op in layer.ops}

    def index(self, op: str) -> int:
        """Return the position of the Layer that holds an op."""
        return self._places[op]
