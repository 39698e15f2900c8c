"""Splits: what one worker reads in one go, as plain values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from heterps.data.core.permutation import permutation, seed_key

__all__ = ["MEMORY_SPLIT_ROWS", "Piece", "Split", "deal", "pack", "spread_rows"]

MEMORY_SPLIT_ROWS = 1 << 18  # of data in memory, where nobody says otherwise


@dataclass(frozen=True)
class Piece:
    """A range of one source: bytes of a file, rows of an array, row groups of a Parquet file.

    ``end`` -1 means "to the end" (streams whose length is not known). ``cost`` is the size used to balance Splits.
    """

    source: str
    begin: int
    end: int
    cost: int

    def to_json(self) -> list[Any]:
        """Return [source, begin, end, cost]."""
        return [self.source, self.begin, self.end, self.cost]


@dataclass(frozen=True)
class Split:
    """The pieces read under keys ``(pass_, index, n)``; every attempt reads the same rows in the same order."""

    pass_: int
    index: int
    pieces: tuple[Piece, ...]

    @property
    def cost(self) -> int:
        """Size of all pieces."""
        return sum(piece.cost for piece in self.pieces)

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-able description."""
        return {"pass": self.pass_, "index": self.index, "pieces": [piece.to_json() for piece in self.pieces]}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Split:
        """Inverse of :meth:`to_json`."""
        return cls(value["pass"], value["index"], tuple(Piece(*piece) for piece in value["pieces"]))


def pack(pieces: Sequence[Piece], cost: int) -> list[tuple[Piece, ...]]:
    """Group neighbouring pieces until a group costs about ``cost``; a bigger piece stands alone."""
    groups: list[tuple[Piece, ...]] = []
    group: list[Piece] = []
    filled = 0
    for piece in pieces:
        if group and filled + piece.cost > cost:
            groups.append(tuple(group))
            group, filled = [], 0
        group.append(piece)
        filled += piece.cost
    return [*groups, tuple(group)] if group else groups


def spread_rows(rows: int, parts: int, batch_size: int, most: int = MEMORY_SPLIT_ROWS) -> int:
    """Return how many rows a Split of data in memory takes: whole batches, ``most`` rows at most where a batch fits.

    >>> spread_rows(10_000, 4, 256)
    2560
    """
    batches = -(-rows // batch_size)
    return min(most, batch_size * -(-batches // parts)) if rows else most


def deal(pieces: Sequence[Piece], cost: int, seed: int, pass_: int) -> list[tuple[Piece, ...]]:
    """Permute all pieces by (seed, pass) and deal them out: neighbours in a file land in Splits far apart."""
    order = permutation(len(pieces), seed_key(seed, pass_))
    count = max(1, round(sum(piece.cost for piece in pieces) / cost))
    hands = [tuple(pieces[i] for i in order[hand::count]) for hand in range(count)]
    return [hand for hand in hands if hand]
