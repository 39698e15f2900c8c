"""Rows that a worker trains on itself: what they are now, and what the shard hosts have of them as far as it knows.

1. ``now - then`` of a row is what the worker has learned and not sent. Whatever is heard of a row moves both by the
   same amount, so that nothing learned is lost or sent twice by it.
2. What is settled is divided by the number of lanes and added to ``then``: the rest stays and goes with later ones.
3. A row that is in doubt (the host cannot say what changed) is used as it is known and asked for again.
4. A new row starts at the first values that hosts give it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from heterps.tables.live.gradients import RowGradients
from heterps.tables.live.group import RowGroup
from heterps.tables.loops.row_loops import NO_ROW
from heterps.tables.snapshots.records import ids_of
from heterps.tables.specs.spec import GroupSpec

__all__ = ["LocalRows", "OwedRows"]

U64 = npt.NDArray[np.uint64]
U32 = npt.NDArray[np.uint32]
U8 = npt.NDArray[np.uint8]
I64 = npt.NDArray[np.int64]
F32 = npt.NDArray[np.float32]

_HELD, _DOUBTED, _TOUCHED = np.uint8(1), np.uint8(2), np.uint8(4)


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
        self._room = 0
        self._then: F32 = np.empty((0, local.width), np.float32)
        self._flags: U8 = np.empty(0, np.uint8)
        self._used: U32 = np.empty(0, np.uint32)  # by row: in which stretch between settlements
        self._counts: F32 = np.empty((0, 2), np.float32)  # by row: shows and clicks since the last settlement
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
    def _now(self) -> F32:
        first = self._group.layout.value
        view: F32 = self._group.only.words.view(np.float32)[:, first : first + self.spec.width]
        return view

    @property
    def ids(self) -> U64:
        """The ids of all rows."""
        return self._ids(self._held())

    def _held(self) -> I64:
        return np.flatnonzero(self._flags & _HELD)

    def _ids(self, rows: I64) -> U64:
        return ids_of(self._group.only.words[rows])

    def _grow(self) -> None:
        high = self._group.only.high
        if high <= self._room:
            return
        room = max(2 * self._room, high, 1024)
        more = room - self._room
        self._then = np.concatenate([self._then, np.empty((more, self.spec.width), np.float32)])
        self._flags = np.concatenate([self._flags, np.zeros(more, np.uint8)])
        self._used = np.concatenate([self._used, np.zeros(more, np.uint32)])
        self._counts = np.concatenate([self._counts, np.zeros((more, 2), np.float32)])
        self._room = room

    def lacking(self, ids: U64) -> npt.NDArray[np.bool_]:
        """Say which of unique ids must be asked for; those that are there will be used and are not let go now."""
        rows = self._group.find(ids)
        lacking: npt.NDArray[np.bool_] = rows == NO_ROW
        there = rows[~lacking]
        self._used[there] = self._stretch
        lacking[~lacking] = self._flags[there] & _DOUBTED != 0
        return lacking

    def take(self, ids: U64, values: F32, *, doubted: bool = False) -> None:
        """Take rows that were asked for; ``doubted`` if something newer was heard from their host meanwhile."""
        rows = self._group.create(ids).astype(np.int64)
        self._grow()
        new = self._flags[rows] & _HELD == 0
        self._begin(rows[new], values[new])
        self._now[rows[new]] = values[new]
        if doubted:
            self._flags[rows[new]] |= _DOUBTED
        else:
            self._hear(rows[~new], values[~new])
        self._used[rows] = self._stretch

    def _begin(self, rows: I64, values: F32) -> None:
        self._then[rows] = values
        self._flags[rows], self._counts[rows] = _HELD, 0

    def _hear(self, rows: I64, values: F32) -> None:
        self._now[rows] += values - self._then[rows]
        self._then[rows] = values
        self._flags[rows] &= ~_DOUBTED

    def read(self, ids: U64, out: F32) -> U32:
        """Write the values of unique ids; return where they stand. One that is not there begins anew, in doubt."""
        values, rows = self._group.pull(ids, train=True, out=out)
        self._grow()
        new = self._flags[rows] & _HELD == 0
        if new.any():
            self._begin(rows[new].astype(np.int64), values[new])
            self._flags[rows[new]] |= _DOUBTED
        self._used[rows] = self._stretch
        return rows

    def learn(self, ids: U64, gradients: F32, rows: U32, step: int, show: F32 | None, click: F32 | None) -> int:
        """Apply the rules to rows just read; return how many were left as they are for a NaN or Inf."""
        done = self._group.push(RowGradients(ids, gradients, rows), step=step)
        self._flags[rows] |= _TOUCHED
        for column, counts in enumerate((show, click)):
            if counts is not None:
                self._counts[rows, column] += counts
        return done.skipped

    def settle(self, lanes: int) -> OwedRows:
        """Return what is owed for all rows that learned since the last time, then let the least recent go."""
        rows = np.flatnonzero(self._flags & _TOUCHED)
        owed = (self._now[rows] - self._then[rows]) / np.float32(lanes)
        self._then[rows] += owed
        counts = self._counts[rows]
        self._counts[rows] = 0
        self._flags[rows] &= ~_TOUCHED
        found = OwedRows(self._ids(rows), owed, counts[:, 0].copy(), counts[:, 1].copy())
        self._let_go()
        self._stretch += 1
        return found

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
        rows = self._group.find(ids)
        here = rows != NO_ROW
        self._hear(rows[here].astype(np.int64), values[here])

    def drop(self, ids: U64) -> None:
        """Drop rows that hosts have deleted, with what was learned of them."""
        rows = self._group.find(ids)
        self._delete(rows[rows != NO_ROW].astype(np.int64))

    def doubt(self, which: npt.NDArray[np.bool_]) -> None:
        """Ask again for some of the rows, in the order of :attr:`ids`, before they are used next."""
        self._flags[self._held()[which]] |= _DOUBTED
