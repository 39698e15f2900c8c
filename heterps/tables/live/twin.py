"""Rows on their way to another shard, which becomes the twin of this one while both go on.

:class:`RowsOut` reads everything, then what changed since, as often as it is asked; :func:`take_rows` takes that in.
Whoever stops pushes for the last, short reading has a twin that is equal in all that belongs to a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from heterps.errors import TableError
from heterps.tables.hashing import shards_of
from heterps.tables.live.group import RowGroup
from heterps.tables.live.shard import Shard

__all__ = ["RowsOut", "SomeRows", "take_rows"]

U64 = npt.NDArray[np.uint64]
Columns = Mapping[str, npt.NDArray[Any]]


class SomeRows(NamedTuple):
    """Rows of one group: forget all there is if ``anew``, drop the deleted ids, then set the rows."""

    group: str
    rows: Columns
    deleted: U64
    anew: bool

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return self.deleted.nbytes + sum(array.nbytes for array in self.rows.values())


class RowsOut:
    """Reads a shard for a twin, some rows at a time, while pulls and pushes go on.

    Parameters
    ----------
    shard
        What is read.
    reader
        A name of its own among those who read changes there.
    only
        Logical shards whose rows are wanted; by default all.
    """

    def __init__(self, shard: Shard, reader: str, only: Sequence[int] | None = None) -> None:
        self._shard, self._reader = shard, reader
        self._only = None if only is None else np.asarray(sorted(only))
        self._marks: dict[str, int] = {}

    def read(self, rows: int) -> Iterator[SomeRows]:
        """Yield what has changed since the reading before, so many rows at a time; everything at first."""
        for name, group in _rooms(self._shard).items():
            for piece in group.readers.pieces(self._reader, self._marks.get(name), rows):
                self._marks[name] = piece.mark
                yield SomeRows(name, *self._wanted(group, piece.rows, piece.deleted), piece.everything)

    def _wanted(self, group: RowGroup, rows: Columns, deleted: U64) -> tuple[Columns, U64]:
        if self._only is None:
            return rows, deleted
        kept = [np.isin(shards_of(ids, group.spec.n_shards), self._only) for ids in (rows["id"], deleted)]
        return {name: array[kept[0]] for name, array in rows.items()}, deleted[kept[1]]

    def end(self) -> None:
        """Note no more changes for this reader."""
        for group in _rooms(self._shard).values():
            group.readers.forget(self._reader)


def take_rows(shard: Shard, some: SomeRows) -> None:
    """Take rows in; nobody else may change these rows meanwhile."""
    group = _rooms(shard).get(some.group)
    if group is None:
        raise TableError(f"rows of group {some.group!r} came, which this shard host does not have")
    if some.anew:
        group.clear()
    elif len(some.deleted):
        group.delete(some.deleted)
    if len(some.rows["id"]):
        group.put(some.rows)


def _rooms(shard: Shard) -> dict[str, RowGroup]:
    """Return all groups by name, with those that count what has no row yet."""
    waiting = {group.waiting.spec.name: group.waiting for group in shard.groups.values() if group.waiting is not None}
    return {**shard.groups, **waiting}
