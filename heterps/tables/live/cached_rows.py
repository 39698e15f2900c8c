"""Rows that a worker keeps because it meets them often: what they were when it last heard, and how old that is.

1. A row has a value as of some moment (a number that only grows) and, while it is asked for, the moment of that.
2. Rows that a batch will use are not let go before it was computed. Beyond those, at most ``most`` are kept.
3. Those go that are met least, of equals the least recent. How often ids are met is counted by their hash, for a while
   and also of rows that went: a hot row comes back as a hot one. All counts are halved from time to time, so that what
   was hot long ago cools down.
4. Some go at once (``_SHARE``), so that looking for them costs little.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from heterps.errors import TableError
from heterps.tables.live.group import RowGroup
from heterps.tables.specs.initialisers import Zeros
from heterps.tables.specs.rules import SGD
from heterps.tables.specs.spec import GroupSpec, TableSpec

__all__ = ["CachedRows", "bare_group", "cached_row_bytes"]

U64 = npt.NDArray[np.uint64]
U32 = npt.NDArray[np.uint32]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
F32 = npt.NDArray[np.float32]

_NEVER = np.int64(-(1 << 62))
_SHARE = 8  # the part of the rows that goes when there are too many
_BESIDE = 4 * 8 + 4 + 16  # bytes of a row that are kept beside it, with what is remembered of uses
_INDEX = 12  # bytes of a row's place in the index
_MEMORY = 4  # ids whose uses are remembered, for each row that is kept
_FADING = 8  # uses of each after which all of them count half


def bare_group(spec: GroupSpec) -> RowGroup:
    """Return rows of a group's width with nothing but values, zeros to begin with."""
    table = TableSpec(spec.name, spec.width, SGD(), Zeros())
    return RowGroup(GroupSpec(spec.name, (table,), n_shards=1), seed=0, owned=(0,))


def cached_row_bytes(spec: GroupSpec) -> int:
    """Return what a row of a group takes in a cache."""
    return 4 * max(2 + spec.width, 3) + _BESIDE + _INDEX


class CachedRows:
    """The rows of one group. One thread calls it.

    Parameters
    ----------
    spec
        The group as hosts have it.
    most
        Rows that are kept beside those of batches under way.
    """

    def __init__(self, spec: GroupSpec, most: int) -> None:
        if most < 0:
            raise TableError(f"group {spec.name!r}: a cache of {most} rows")
        self.width, self.most = spec.width, most
        self._group = bare_group(spec)
        self._heard: I64 = np.empty(0, np.int64)  # by row: as of which moment its value is
        self._coming: I64 = np.empty(0, np.int64)  # by row: as of which it was last asked for
        self._version: I64 = np.empty(0, np.int64)  # by row: of the host, then
        self._needed: I64 = np.empty(0, np.int64)  # by row: the last batch that will use it, or did
        self._uses: I32 = np.empty(0, np.int32)  # by row: how often its id was met; below 0: no row
        # Uses by the hash of an id: those that share a place are taken for one.
        self._met: I32 = np.zeros(1 << max(16, (_MEMORY * most - 1).bit_length()), np.int32)
        self._meetings = 0  # since all of them were halved

    def __len__(self) -> int:
        return len(self._group)

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        return self._group.nbytes + len(self._heard) * (_BESIDE - 16) + self._met.nbytes

    @property
    def _values(self) -> F32:
        first = self._group.layout.value
        view: F32 = self._group.only.words.view(np.float32)[:, first : first + self.width]
        return view

    def _grow(self) -> None:
        room, high = len(self._heard), self._group.only.high
        if high > room:
            more = max(room, high - room, 1024)
            never, zeros = np.full(more, _NEVER), np.zeros(more, np.int64)
            self._heard, self._coming = np.concatenate([self._heard, never]), np.concatenate([self._coming, never])
            self._version, self._needed = np.concatenate([self._version, zeros]), np.concatenate([self._needed, never])
            self._uses = np.concatenate([self._uses, np.full(more, -1, np.int32)])

    def need(self, ids: U64, batch: int, needed: int, now: int) -> tuple[U32, npt.NDArray[np.bool_]]:
        """Say where the rows of unique ids stand or will stand, and which of them must be asked for now.

        Those are asked for as of the moment ``now`` by this call. Others are as new as ``needed``, or were asked for by
        an earlier batch and will be.
        """
        rows = self._group.create(ids)
        self._grow()
        new = rows[self._uses[rows] < 0]
        self._heard[new], self._coming[new] = _NEVER, _NEVER
        self._uses[rows] = self._meet(ids)
        self._needed[rows] = np.maximum(self._needed[rows], batch)
        lacking = np.maximum(self._heard[rows], self._coming[rows]) < needed
        self._coming[rows[lacking]] = now
        return rows, lacking

    def _meet(self, ids: U64) -> I32:
        """Count uses of ids; return how many there were."""
        if self._meetings > _FADING * len(self._met):
            self._met >>= 1
            self._uses >>= 1  # below 0 stays below 0
            self._meetings = 0
        self._meetings += len(ids)
        places = (ids * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(65 - len(self._met).bit_length())
        met: I32 = self._met[places] + np.int32(1)
        self._met[places] = met
        return met

    def take(self, rows: U32, values: F32, moment: int, version: int) -> None:
        """Take rows that were asked for at a moment, unless something newer came meanwhile."""
        newer = self._heard[rows] < moment
        rows, values = rows[newer], values[newer]
        self._values[rows] = values
        self._heard[rows], self._version[rows] = moment, version

    def read(self, rows: U32, out: F32) -> tuple[I64, I64]:
        """Write the values of rows; return as of which moments they are, and under which versions of their hosts."""
        np.take(self._values, rows, axis=0, out=out, mode="clip")
        return self._heard[rows], self._version[rows]

    def let_go(self, before: int) -> int:
        """Let rows go that are more than the most, and that no batch from ``before`` on needs; return how many went."""
        if len(self) <= self.most:
            return 0
        free = np.flatnonzero((self._uses >= 0) & (self._needed < before))
        going = len(self) - self.most + self.most // _SHARE
        if len(free) > going:
            worth = (self._uses[free].astype(np.int64) << 32) + np.maximum(self._needed[free] - before + (1 << 31), 0)
            free = free[np.argpartition(worth, going)[:going]]
        self._delete(free)
        return len(free)

    def _delete(self, rows: I64) -> None:
        part = self._group.only
        with part.lock:
            part.delete(rows)
        self._uses[rows] = -1
        self._needed[rows] = _NEVER
