"""Which ops are placed together: ops below the ridge join their producers or consumers until nothing moves any more.

Every op begins as a piece of its own (all columns of the data as one). Pieces are asked in the order of their ops,
round after round, but only those whose answer may have become another: when one is absorbed, itself and its neighbours.
Merging renames the edges of the piece with fewer of them, so that a graph of n edges takes n log n steps.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass, field

from heterps.graph import Form, Graph, Op
from heterps.stages.layers import Bound

__all__ = ["LayerPiece", "merged"]


@dataclass(eq=False)
class LayerPiece:
    """Ops that are placed together.

    Parameters
    ----------
    first
        The op that the piece is called after; it stays while others join.
    members
        Positions of its ops in the graph, ascending.
    settled
        It reads data, gathers, or lies above the ridge: others may join it, itself it joins nobody.
    reads
        Whether it is made of file or table access.
    stable
        Whether ``first`` reads or gathers: producers do not join such a piece.
    pins
        Where its ops are pinned.
    sources, targets
        Neighbours, never itself.
    free
        The neighbours that are not settled.
    """

    first: str
    members: list[int]
    settled: bool
    reads: bool
    stable: bool
    pins: set[str]
    sources: set[LayerPiece] = field(default_factory=set)
    targets: set[LayerPiece] = field(default_factory=set)
    free: set[LayerPiece] = field(default_factory=set)

    @property
    def degree(self) -> int:
        """Number of edges."""
        return len(self.sources) + len(self.targets)

    def host(self) -> LayerPiece | None:
        """Return the piece it joins: its only producer, else its only consumer, if both may share a place."""
        if self.settled:
            return None
        found = _only(self.sources)
        if found is None or found.reads:
            found = _only(self.targets)
            if found is None or found.stable:
                return None
        return found if len(self.pins | found.pins) <= 1 else None


def merged(graph: Graph, bounds: Sequence[Bound]) -> list[LayerPiece]:
    """Return the pieces of a lowered graph, in the order of their first ops, given what bounds each op."""
    owner = _pieces(graph, bounds)
    _Rounds(owner).run()
    return list(dict.fromkeys(owner))


def _pieces(graph: Graph, bounds: Sequence[Bound]) -> list[LayerPiece]:
    """Return the piece that each op begins with."""
    pieces: list[LayerPiece] = []
    by_name: dict[str, LayerPiece] = {}
    data: LayerPiece | None = None
    for i, op in enumerate(graph):
        if graph.kind(op).access == "file" and data is not None:
            data.members.append(i)
            data.pins |= {op.place} if op.place else set()
            piece = data
        else:
            piece = _piece(graph, op, i, bounds[i])
            data = piece if graph.kind(op).access == "file" else data
        for source in op.inputs:
            if by_name[source] is not piece:
                by_name[source].targets.add(piece)
                piece.sources.add(by_name[source])
        pieces.append(piece)
        by_name[op.name] = piece
    for piece in pieces:
        piece.free = {other for other in (*piece.sources, *piece.targets) if not other.settled}
    return pieces


def _piece(graph: Graph, op: Op, position: int, bound: Bound) -> LayerPiece:
    reads = graph.kind(op).access is not None
    stable = reads or op.kind == "gather_pool"
    above = bound is Bound.COMPUTE and op.type.form is not Form.SCALAR
    pins = {op.place} if op.place else set()
    return LayerPiece(op.name, [position], stable or above, reads, stable, pins)


class _Rounds:
    """Asks pieces in the order of their ops until none moves; ``owner`` is the piece of each op by position."""

    def __init__(self, owner: list[LayerPiece]) -> None:
        self.owner = owner
        self.now = list(range(len(owner)))  # a heap of positions still to be asked in this round
        self.next: set[int] = set()

    def run(self) -> None:
        """Go on until a round moves nothing."""
        while self.now:
            while self.now:
                position = heapq.heappop(self.now)
                self._ask(self.owner[position], position)
            self.now = sorted(self.next)
            self.next = set()

    def _ask(self, piece: LayerPiece, position: int) -> None:
        host = piece.host()
        if host is None:
            return
        touched = piece.free - {host}
        both = self._join(piece, host)
        for other in touched if both.settled else {*touched, both}:
            self._again(other, position)

    def _again(self, piece: LayerPiece, position: int) -> None:
        """Ask a piece at its next op in this round, else at its first in the next."""
        at = bisect_right(piece.members, position)
        if at < len(piece.members):
            heapq.heappush(self.now, piece.members[at])
        else:
            self.next.add(piece.members[0])

    def _join(self, piece: LayerPiece, host: LayerPiece) -> LayerPiece:
        """Make one of both, called after the host; the one with fewer edges and members is what moves."""
        small, large = sorted((piece, host), key=lambda one: one.degree + len(one.members))
        settles = host.settled and not large.settled
        large.first, large.stable, large.reads = host.first, host.stable, host.reads
        large.settled, large.pins = host.settled, host.pins | piece.pins
        for position in small.members:
            insort(large.members, position)
            self.owner[position] = large
        _rewire(small, large)
        if settles:
            for other in (*large.sources, *large.targets):
                other.free.discard(large)
        return large


def _rewire(small: LayerPiece, large: LayerPiece) -> None:
    """Let the neighbours of one piece be those of another."""
    for other in small.sources:
        other.targets.discard(small)
        if other is not large:
            other.targets.add(large)
            large.sources.add(other)
    for other in small.targets:
        other.sources.discard(small)
        if other is not large:
            other.sources.add(large)
            large.targets.add(other)
    for other in (*small.sources, *small.targets):
        other.free.discard(small)
        if other is not large and not large.settled:
            other.free.add(large)
    large.free |= small.free - {large}


def _only(pieces: set[LayerPiece]) -> LayerPiece | None:
    return next(iter(pieces)) if len(pieces) == 1 else None
