"""Who reads the changes of a group: any number of named readers, each with marks of its own.

A mark is a number; the rows that changed after it are those whose change was not part of the answer that came with it.
So a reader that keeps the mark of its last good answer and asks again from there misses nothing, however often an
answer gets lost. Nothing is noted while there is no reader.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from heterps.tables.hashing import RESERVED
from heterps.tables.live.owners import Partition
from heterps.tables.snapshots.records import RowBuffer

if TYPE_CHECKING:
    from heterps.tables.live.group import RowGroup

__all__ = ["Changes", "Readers"]

U64 = npt.NDArray[np.uint64]
U32 = npt.NDArray[np.uint32]
Columns = dict[str, npt.NDArray[Any]]

_Some = U32 | U64  # what a partition calls rows by: numbers, or ids where those are good for a moment only
_Listed = tuple[list[tuple[Partition, _Some]], U64, int]  # rows by partition, ids without one, the mark

#: Rows copied before pulls and pushes have a turn.
TURN = 8192


@dataclass(frozen=True, eq=False)
class Changes:
    """What a reader has to do to be up to date: drop the deleted ids, then set the rows.

    Attributes
    ----------
    rows
        Ids and all that belongs to their rows, as :class:`~heterps.tables.snapshots.records.RowBuffer` names it.
    deleted
        Ids without a row now that had one since the mark; the reader may never have heard of some.
    mark
        What to ask from next time.
    everything
        What changed since is not known: these are all rows, and whatever the reader has beside them is gone.
    """

    rows: Columns
    deleted: U64
    mark: int
    everything: bool

    @property
    def ids(self) -> U64:
        """The ids whose rows are new or have changed."""
        return self.rows["id"]


class Readers:
    """The readers of one group."""

    def __init__(self, group: RowGroup) -> None:
        self._group: RowGroup = weakref.proxy(group)  # which holds this: large tables go without a collection
        self._lock = threading.Lock()  # marks come to all partitions in one order
        self._last = 0
        self._held: dict[str, tuple[int, ...]] = {}

    def __contains__(self, reader: str) -> bool:
        return reader in self._held

    @contextmanager
    def marking(self, reader: str, keep: Collection[int] = ()) -> Iterator[int]:
        """Yield a new mark, to be set in every partition, and let the reader ask for it and those to keep."""
        with self._lock:
            self._last += 1
            yield self._last
            self._held[reader] = (*keep, self._last)
            self._trim()

    def forget(self, reader: str) -> None:
        """Note nothing more for a reader."""
        with self._lock:
            if self._held.pop(reader, None) is not None:
                self._trim()

    def clear(self) -> None:
        """Forget all readers: the rows are others now."""
        with self._lock:
            self._held.clear()

    def _trim(self) -> None:
        marks = {mark for held in self._held.values() for mark in held}
        for part in self._group.partitions:
            with part.lock:
                part.keep_marks(marks)

    def changed(self, reader: str, since: int | None = None) -> Changes:
        """Return what changed since a mark of this reader's last answers, everything if that is not known.

        Rows are as they are now: what changes while they are copied is in this answer or the next, perhaps in both.
        """
        found = self.changed_if_known(reader, since)
        return found if found is not None else self._all(reader)

    def pieces(self, reader: str, since: int | None, rows: int) -> Iterator[Changes]:
        """Yield the same as :meth:`changed`, a limited number of rows at a time, each as it is when its turn comes.

        There is at least one piece; what was deleted, and that these are all rows, stands in the first. An id may come
        twice, then the later row counts.
        """
        found = self._list_changed(reader, since)
        listed, deleted, mark = found if found is not None else self._list_all(reader)
        for part, some in _shared_out(listed, rows):
            yield Changes(self._copied([(part, some)]), deleted, mark, found is None)
            found, deleted = (listed, deleted, mark), np.empty(0, np.uint64)

    def begin(self, reader: str) -> int:
        """Return a mark for a reader that has nothing yet, or reads rows one by one."""
        with self.marking(reader) as mark:
            for part in self._group.partitions:
                with part.lock:
                    part.close_stretch(mark, None)
            return mark

    def deleted_since(self, since: int) -> U64:
        """Return the ids without a row now that lost one after a mark, as far as that is known."""
        listed = [np.empty(0, np.uint64)]
        for part in self._group.partitions:
            with part.lock:
                listed.append(part.deleted_since(since))
        return np.concatenate(listed)

    def changed_if_known(self, reader: str, since: int | None) -> Changes | None:
        """Return what changed since a mark of this reader; None if that is not known."""
        found = self._list_changed(reader, since)
        return None if found is None else Changes(self._copied(found[0]), *found[1:], False)

    def _list_changed(self, reader: str, since: int | None) -> _Listed | None:
        if since not in self._held.get(reader, ()):  # another's, or of tables that were here before: numbers repeat
            return None
        assert since is not None
        listed = []
        with self.marking(reader, (since,)) as mark:
            for part in self._group.partitions:
                with part.lock:
                    listed.append((part, part.mark(mark, since)))
        known = [(part, rows, deleted) for part, (rows, deleted) in listed if rows is not None]
        if len(known) < len(listed):
            return None
        deleted = np.concatenate([deleted for _, _, deleted in known])
        return [(part, rows) for part, rows, _ in known], deleted, mark

    def _all(self, reader: str) -> Changes:
        listed, deleted, mark = self._list_all(reader)
        return Changes(self._copied(listed), deleted, mark, True)

    def _list_all(self, reader: str) -> _Listed:
        listed = []
        with self.marking(reader) as mark:
            for part in self._group.partitions:
                with part.lock:
                    part.mark(mark)
                    listed.append((part, part.listed()))
        return listed, np.empty(0, np.uint64), mark

    def _copied(self, listed: Sequence[tuple[Partition, _Some]]) -> Columns:
        layout = self._group.layout
        n = sum(len(rows) for _, rows in listed)
        buffer = RowBuffer(layout, np.empty(max(n, 1) * layout.stride, np.uint32))
        done = 0
        for part, rows in listed:
            for first in range(0, len(rows), TURN):
                some = rows[first : first + TURN]
                with part.lock:
                    part.copy_listed(some, buffer, done)  # type: ignore[arg-type]
                done += len(some)
        return _newest(buffer.columns(n))


def _shared_out(listed: Sequence[tuple[Partition, _Some]], most: int) -> Iterator[tuple[Partition, _Some]]:
    """Yield the same rows, so many at a time; at least once."""
    for n, (part, rows) in enumerate(listed):
        for first in range(0, len(rows), most):
            yield part, rows[first : first + most]
        if n == 0 and not len(rows):
            yield part, rows


def _newest(columns: Columns) -> Columns:
    """Leave out rows that were free when they were copied; of an id that moved meanwhile the later row counts."""
    ids = columns["id"]
    _, last = np.unique(ids[::-1], return_index=True)
    at = np.sort(len(ids) - 1 - last)
    at = at[ids[at] != np.uint64(RESERVED)]
    return columns if len(at) == len(ids) else {name: array[at] for name, array in columns.items()}
