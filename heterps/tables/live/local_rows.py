"""Rows that a worker trains on itself: what they are now, and what the shard hosts have of them as far as it knows.

1. ``now - then`` of a row is what the worker has learned and not sent. Whatever is heard of a row moves both by the
   same amount, so that nothing learned is lost or sent twice by it.
2. What is settled is divided by the number of lanes and added to ``then``: the rest stays and goes with later ones.
3. A row that is in doubt (the host cannot say what changed) is used as it is known and asked for again.
4. A new row starts at the first values that hosts give it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from heterps.errors import TableFullError
from heterps.tables.live.gradients import RowGradients
from heterps.tables.live.group import RowGroup
from heterps.tables.live.region import Region
from heterps.tables.loops.own_rows import (
    DOUBTED,
    HELD,
    TOUCHED,
    hear_rows,
    note_learned,
    note_used,
    settle_own,
    take_new,
)
from heterps.tables.loops.row_loops import NO_ROW
from heterps.tables.snapshots.records import ids_of
from heterps.tables.specs.spec import GroupSpec

__all__ = ["LocalRows", "OwedRows"]

U64 = npt.NDArray[np.uint64]
U32 = npt.NDArray[np.uint32]
I64 = npt.NDArray[np.int64]
F32 = npt.NDArray[np.float32]

_NOTHING: F32 = np.empty(0, np.float32)


class OwedRows(NamedTuple):
    """What a settlement owes: a change for each id, and what was counted of it."""

    ids: U64
    values: F32
    show: F32
    click: F32


class LocalRows:
    """The rows of one group. One thread calls it.

    Parameters
    ----------
    spec
        The group as hosts have it; its rules are applied here.
    seed
        Of first values.
    most
        Rows that are kept from one settlement to the next, the least recent go; None for all.
    """

    def __init__(self, spec: GroupSpec, seed: int, most: int | None = None) -> None:
        tables = tuple(replace(table, entry=None, accessor=None, dtype="float32") for table in spec.tables)
        local = GroupSpec(spec.name, tables, n_shards=1)
        self.spec, self._most = local, most
        self._group = RowGroup(local, seed=seed, owned=(0,))
        part = self._group.only
        self._then: F32 = _by_row(np.float32, part.most, local.width)
        self._flags = _by_row(np.uint8, part.most)
        self._used: U32 = _by_row(np.uint32, part.most)  # in which stretch between settlements
        self._counts: F32 = _by_row(np.float32, part.most, 2)  # shows and clicks since the last settlement
        self._stretch = 1

    def set_rate(self, rate: float) -> None:
        """Multiply learning rates by a factor from now on."""
        self._group.set_rate(rate)

    def __len__(self) -> int:
        return len(self._group)

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        return self._group.nbytes + len(self._group) * (4 * self.spec.width + 1 + 4 + 8)

    @property
    def ids(self) -> U64:
        """The ids of all rows."""
        return self._ids(self._held())

    def _held(self) -> I64:
        return np.flatnonzero(self._flags[: self._high] & HELD)

    @property
    def _high(self) -> int:
        """Rows ever used; every array by row has room for them."""
        high = self._group.only.high
        room = min(map(len, (self._then, self._flags, self._used, self._counts)))
        if high > room:
            raise TableFullError(
                f"group {self.spec.name!r}: a worker's own copy has room for {room} rows; give local_rows= a bound"
            )
        return high

    def _ids(self, rows: I64) -> U64:
        return ids_of(self._group.only.words[rows])

    def lacking(self, ids: U64) -> npt.NDArray[np.bool_]:
        """Say which of unique ids must be asked for; those that are there will be used and are not let go now."""
        lacking = np.empty(len(ids), np.bool_)
        note_used(self._group.find(ids), self._flags, self._used, self._stretch, lacking)
        return lacking

    def take(self, ids: U64, values: F32, *, doubted: bool = False) -> None:
        """Take rows that were asked for; ``doubted`` if something newer was heard from their host meanwhile."""
        rows = self._group.create(ids)
        if not doubted:
            there = self._flags[: self._high][rows] & HELD != 0
            self._hear(rows[there], values[there])
        self._begin(rows, values, HELD | DOUBTED if doubted else HELD)
        self._used[rows] = self._stretch

    def _begin(self, rows: U32, values: F32, flags: np.uint8) -> None:
        """Take values for rows that are new."""
        take_new(rows, values, *self._now, self._then, self._flags, self._counts, flags)

    def _hear(self, rows: U32, values: F32) -> None:
        hear_rows(rows, values, *self._now, self._then, self._flags)

    @property
    def _now(self) -> tuple[F32, int, int]:
        """All rows as they are, what one takes, and where its values begin."""
        layout = self._group.layout
        return self._group.only.store.floats, layout.stride, layout.value

    def read(self, ids: U64, out: F32) -> U32:
        """Write the values of unique ids; return where they stand. One that is not there begins anew, in doubt."""
        values, rows = self._group.pull(ids, train=True, out=out)
        if not (self._flags[: self._high][rows] & HELD).all():
            self._begin(rows, values, HELD | DOUBTED)
        self._used[rows] = self._stretch
        return rows

    def learn(self, ids: U64, gradients: F32, rows: U32, step: int, show: F32 | None, click: F32 | None) -> int:
        """Apply the rules to rows just read; return how many were left as they are for a NaN or Inf."""
        done = self._group.push(RowGradients(ids, gradients, rows), step=step)
        for column, seen in enumerate((show, click)):
            note_learned(rows, self._flags, self._counts, column, _NOTHING if seen is None else seen)
        return done.skipped

    def settle(self, lanes: int) -> OwedRows:
        """Return what is owed for all rows that learned since the last time, then let the least recent go."""
        rows = np.flatnonzero(self._flags[: self._high] & TOUCHED)
        ids, owed = np.empty(len(rows), np.uint64), np.empty((len(rows), self.spec.width), np.float32)
        seen = np.empty((2, len(rows)), np.float32)
        words = self._group.only.store.words
        settle_own(rows, words, *self._now, self._then, self._flags, self._counts, np.float32(lanes), ids, owed, seen)
        self._let_go()
        self._stretch += 1
        return OwedRows(ids, owed, seen[0], seen[1])

    def _let_go(self) -> None:
        if self._most is None or len(self) <= self._most:
            return
        held = self._held()
        held = held[self._used[held] < self._stretch]
        excess = min(len(self) - self._most, len(held))
        if excess > 0:
            self._delete(held[np.argsort(self._used[held], kind="stable")[:excess]])

    def _delete(self, rows: I64) -> None:
        self._group.delete(self._ids(rows))
        self._flags[rows] = 0

    def hear(self, ids: U64, values: F32) -> None:
        """Take what others changed; rows that are not here are nobody's concern."""
        self._hear(self._group.find(ids), values)

    def drop(self, ids: U64) -> None:
        """Drop rows that hosts have deleted, with what was learned of them."""
        rows = self._group.find(ids)
        self._delete(rows[rows != NO_ROW].astype(np.int64))

    def doubt(self, which: npt.NDArray[np.bool_]) -> None:
        """Ask again for some of the rows, in the order of :attr:`ids`, before they are used next."""
        self._flags[self._held()[which]] |= DOUBTED


def _by_row(dtype: npt.DTypeLike, rows: int, width: int | None = None) -> npt.NDArray[Any]:
    """Return zeros for as many rows as there will ever be, or as can be reserved: pages come with rows."""
    whole = Region(dtype, rows * (width or 1)).array
    return whole if width is None else whole[: len(whole) // width * width].reshape(-1, width)
