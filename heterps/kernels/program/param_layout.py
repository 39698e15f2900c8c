"""All dense parameters of a graph as pieces of one flat vector: one pull, one push, one key."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from heterps.device.arrays import Array
from heterps.errors import GraphError
from heterps.graph import Graph

__all__ = ["ParamLayout", "ParamPiece"]


@dataclass(frozen=True)
class ParamPiece:
    """Where one parameter lies in the flat vector, how it starts, and its rule if it has one of its own."""

    op: str
    param: str
    offset: int
    shape: tuple[int, ...]
    init: Mapping[str, Any]
    rule: Mapping[str, Any] | None = None

    @property
    def name(self) -> str:
        """``op.param``."""
        return f"{self.op}.{self.param}"

    @property
    def size(self) -> int:
        """How many numbers."""
        return math.prod(self.shape)

    @property
    def span(self) -> slice:
        """The piece of the flat vector."""
        return slice(self.offset, self.offset + self.size)


class ParamLayout:
    """Pieces in the order of the ops, without gaps.

    Parameters
    ----------
    graph
        The model; lowering keeps op names and order, so a graph and its lowered form have one layout.
    ops
        Only these ops (the ops of a Stage); None takes all.
    """

    def __init__(self, graph: Graph, ops: Iterable[str] | None = None) -> None:
        wanted = None if ops is None else set(ops)
        pieces, at = [], 0
        for op in graph.ops:
            for param in graph.params(op) if wanted is None or op.name in wanted else ():
                pieces.append(ParamPiece(op.name, param.name, at, tuple(param.shape), param.init, param.rule))
                at += pieces[-1].size
        self.pieces: tuple[ParamPiece, ...] = tuple(pieces)
        self.size = at
        self._index = {piece.name: piece for piece in pieces}

    def __iter__(self) -> Iterator[ParamPiece]:
        return iter(self.pieces)

    def __len__(self) -> int:
        return len(self.pieces)

    def __getitem__(self, name: str) -> ParamPiece:
        if name not in self._index:
            raise GraphError(f"no dense parameter {name!r}; there are {', '.join(self._index) or 'none'}")
        return self._index[name]

    def views(self, flat: Array) -> dict[str, dict[str, Array]]:
        """Return views of a flat vector: op name -> parameter name -> array of its shape."""
        if flat.ndim != 1 or flat.shape[0] != self.size:
            raise GraphError(f"the flat parameter vector must have shape ({self.size},), got {flat.shape}")
        views: dict[str, dict[str, Array]] = {}
        for piece in self.pieces:
            views.setdefault(piece.op, {})[piece.param] = flat[piece.span].reshape(piece.shape)
        return views

    def spans(self, part: ParamLayout) -> list[tuple[slice, slice]]:
        """Return (here, there) slices that copy between this layout and that of a part of the graph."""
        return [(self[piece.name].span, piece.span) for piece in part]
