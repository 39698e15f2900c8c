"""Which ids of a partition beyond memory have changed, in the stretches of time between marks.

The same promises as :mod:`~heterps.tables.live.changes`, for rows that have no number of their own: in memory a bit a
row is set by the loops, as there; a row that leaves memory, or is changed on disk, has its id noted here.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from heterps.tables.live.changes import LEAST_DELETED, STRETCHES

__all__ = ["ChangedIds", "IdStretch"]

U64 = npt.NDArray[np.uint64]
_NONE: U64 = np.empty(0, np.uint64)


@dataclass
class IdStretch:
    """What changed until a mark: ids of rows, and of deleted ones; both ascending."""

    mark: int
    changed: U64
    deleted: U64

    def joined(self, later: IdStretch) -> IdStretch:
        """Return this stretch and the one after it as one."""
        return IdStretch(later.mark, np.union1d(self.changed, later.changed), np.union1d(self.deleted, later.deleted))

    def __len__(self) -> int:
        return len(self.changed) + len(self.deleted)


class ChangedIds:
    """The changes of one partition. Whoever calls holds the partition's lock.

    At most one id for four rows is remembered, in two bytes a row: beyond that the oldest goes, and who asks for a mark
    before its end is told that the answer is not known.
    """

    def __init__(self, mark: int) -> None:
        self._known_from = mark
        self._closed: list[IdStretch] = []
        self._changed: list[U64] = []
        self._deleted: list[U64] = []
        self._open = 0  # ids in the two lists
        self._sorted = 0  # ids that were left when they were last made unique

    @property
    def nbytes(self) -> int:
        """Bytes of what is remembered."""
        return 8 * (self._open + sum(map(len, self._closed)))

    def change(self, ids: U64, rows: int) -> None:
        """Note that rows have changed and are not in memory."""
        self._note(self._changed, ids, rows)

    def delete(self, ids: U64, rows: int) -> None:
        """Note that ids lost their rows."""
        self._note(self._deleted, ids, rows)

    def _note(self, where: list[U64], ids: U64, rows: int) -> None:
        if self._known_from < 0 or not len(ids):
            return
        where.append(ids)
        self._open += len(ids)
        if self._open > max(LEAST_DELETED, 2 * self._sorted):
            self._changed, self._deleted = [_union(self._changed)], [_union(self._deleted)]
            self._open = self._sorted = len(self._changed[0]) + len(self._deleted[0])
        self._forget_beyond(max(LEAST_DELETED, rows // 4))

    def _forget_beyond(self, room: int) -> None:
        while self._closed and self._open + sum(map(len, self._closed)) > room:
            self._forget_first()
        if self._open > room:
            self._reset()
            self._known_from = -1  # until the next mark nothing is known

    def _forget_first(self) -> None:
        self._known_from = self._closed.pop(0).mark

    def _reset(self) -> None:
        self._changed, self._deleted, self._open, self._sorted = [], [], 0, 0

    def close(self, mark: int, in_memory: U64, rows: int) -> None:
        """End the stretch at a new mark; these ids have changed in memory."""
        if self._known_from < 0:
            self._known_from = mark
        else:
            self._closed.append(IdStretch(mark, _union([*self._changed, in_memory]), _union(self._deleted)))
        self._reset()
        if len(self._closed) > STRETCHES:
            self._forget_first()
        # What changed in memory has no limit of its own: it is no more than fits there.
        while len(self._closed) > 1 and sum(map(len, self._closed)) > max(LEAST_DELETED, rows):
            self._forget_first()

    def since(self, mark: int) -> IdStretch | None:
        """Return what changed between a mark and the newest one; None if that is not known."""
        if not 0 <= self._known_from <= mark:
            return None
        total = IdStretch(mark, _NONE, _NONE)
        for each in self._closed:
            total = total.joined(each) if each.mark > mark else total
        return total

    def deleted_since(self, mark: int) -> U64:
        """Return the ids that lost their row after a mark, up to now; none if that is not known."""
        if not 0 <= self._known_from <= mark:
            return _NONE
        return _union([*(each.deleted for each in self._closed if each.mark > mark), *self._deleted])

    def keep(self, marks: Collection[int]) -> None:
        """Join or forget stretches so that only these marks can be asked for."""
        first = min(marks)
        while self._closed and self._closed[0].mark <= first:
            self._forget_first()
        kept: list[IdStretch] = []
        for each in self._closed:
            kept.append(each if not kept or kept[-1].mark in marks else kept.pop().joined(each))
        self._closed = kept


def _union(lists: list[U64]) -> U64:
    return np.unique(np.concatenate([_NONE, *lists]))
