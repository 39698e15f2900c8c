"""Which rows of a partition have changed, in the stretches of time between marks.

1. One bit a row says that it changed after the last mark. Loops set it beside the change itself, of rows with a stamp
   only the first time: the bits of many rows do not stay in the cache, a stamp comes with its row.
2. A mark closes a stretch: its bits and the ids deleted in it are put aside. A reader that names an earlier mark gets
   the union of all stretches after it.
3. Stretches that no reader can tell apart become one, so there are at most as many as marks are held.
4. What is kept is bounded: beyond :data:`STRETCHES`, or when more than a quarter of the rows were deleted, the oldest
   goes, and who asks for a mark before its end is told that the answer is not known.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from heterps.tables.live.region import Region

__all__ = ["STRETCHES", "ChangeLog", "Stretch"]

U64 = npt.NDArray[np.uint64]
U32 = npt.NDArray[np.uint32]

#: Stretches put aside at most: with the one that is open 4.2 bytes a row.
STRETCHES = 32
#: Deleted ids that are remembered: 2 bytes for each row there was, or this many if that is more.
LEAST_DELETED = 1 << 16


@dataclass
class Stretch:
    """What changed until a mark: a bit for each row, and the ids of deleted ones."""

    mark: int
    bits: U64
    deleted: U64

    def joined(self, later: Stretch) -> Stretch:
        """Return this stretch and the one after it as one."""
        bits = later.bits.copy()
        bits[: len(self.bits)] |= self.bits
        return Stretch(later.mark, bits, np.concatenate([self.deleted, later.deleted]))


class ChangeLog:
    """The changes of one partition. Whoever calls holds the partition's lock.

    Parameters
    ----------
    rows
        The most rows there can be.
    mark
        The mark at which it begins: of earlier ones nothing is known.

    Attributes
    ----------
    bits
        What loops write to: bit ``row % 64`` of element ``row // 64``.
    mark
        The last mark. Rows with a stamp (:mod:`~heterps.tables.live.row_layout`) have their bit if that is their stamp:
        marks only rise, and no bit goes before the next.
    """

    def __init__(self, rows: int, mark: int) -> None:
        self._region = Region(np.uint64, rows // 64 + 1)
        self.bits: U64 = self._region.array
        self.mark: U32 = np.zeros(1, np.uint32)
        self._known_from = mark
        self._closed: list[Stretch] = []
        self._deleted: list[U64] = []

    @property
    def nbytes(self) -> int:
        """Bytes of what is put aside."""
        return sum(each.bits.nbytes + each.deleted.nbytes for each in self._closed)

    def delete(self, ids: U64, high: int) -> None:
        """Note that ids lost their rows; too many, and the oldest are forgotten."""
        self._deleted.append(ids)
        room = max(LEAST_DELETED, high // 4) - sum(map(len, self._deleted))
        while self._closed and sum(len(each.deleted) for each in self._closed) > room:
            self._forget_first()
        if room < 0:
            self._deleted, self._known_from = [], -1  # until the next mark nothing is known

    def _forget_first(self) -> None:
        self._known_from = self._closed.pop(0).mark

    def close(self, mark: int, high: int) -> None:
        """End the stretch at a new mark."""
        used = -(-high // 64)
        if self._known_from < 0:
            self._known_from = mark
        else:
            deleted = np.concatenate([np.empty(0, np.uint64), *self._deleted])
            self._closed.append(Stretch(mark, self.bits[:used].copy(), deleted))
        self.bits[:used] = 0
        self.mark[0] = mark
        self._deleted = []
        if len(self._closed) > STRETCHES:
            self._forget_first()

    def since(self, mark: int) -> Stretch | None:
        """Return what changed between a mark and the newest one; None if that is not known."""
        if not 0 <= self._known_from <= mark:
            return None
        total = Stretch(mark, np.empty(0, np.uint64), np.empty(0, np.uint64))
        for each in self._closed:
            total = total.joined(each) if each.mark > mark else total
        return total

    def deleted_since(self, mark: int) -> U64:
        """Return the ids that lost their row after a mark, up to now; none if that is not known."""
        if not 0 <= self._known_from <= mark:
            return np.empty(0, np.uint64)
        closed = (each.deleted for each in self._closed if each.mark > mark)
        return np.concatenate([np.empty(0, np.uint64), *closed, *self._deleted])

    def keep(self, marks: Collection[int]) -> None:
        """Join or forget stretches so that only these marks can be asked for."""
        first = min(marks)
        while self._closed and self._closed[0].mark <= first:
            self._forget_first()
        kept: list[Stretch] = []
        for each in self._closed:
            kept.append(each if not kept or kept[-1].mark in marks else kept.pop().joined(each))
        self._closed = kept
