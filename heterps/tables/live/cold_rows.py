"""The rows of a partition that are on disk: a log, and an index of ids to positions in it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from heterps.errors import TableError
from heterps.tables.live.region import Region
from heterps.tables.live.row_log import MOST, RowLog
from heterps.tables.loops import index
from heterps.tables.loops.tier_loops import (
    bits_of_positions,
    has_positions,
    list_candidates,
    list_positions,
    move_positions,
    put_positions,
    remove_positions,
)
from heterps.tables.snapshots.records import ids_of

__all__ = ["ColdRows", "DiskTier"]

I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]
U32 = npt.NDArray[np.uint32]
Flags = npt.NDArray[np.bool_]

#: Entries per thousand places from which the index grows, and to how many per thousand: 10 to 12 bytes a row.
_LOAD, _GROW = 800, 1200
#: Places that are looked through at a time for ids with two rows, and entries of one hash that are compared for sure.
_CHECKED, _ALIKE = 1 << 22, 64


@dataclass(frozen=True)
class DiskTier:
    """How rows of groups with storage "ssd" are kept.

    Parameters
    ----------
    folder
        Where files without a name hold the rows that are not in memory.
    hot_bytes
        Memory of one group for the rows used most.
    block_bytes
        What is written to the disk at once, at least.
    compaction
        Bytes a second that may be read and written to free room of rows that were changed or deleted.
    """

    folder: Path
    hot_bytes: int
    block_bytes: int = 4 << 20
    compaction: float = 64e6


class ColdRows:
    """Whoever calls holds the lock of the partition."""

    def __init__(self, stride: int, tier: DiskTier) -> None:
        self.log = RowLog(stride, tier.folder, tier.block_bytes)
        self._meta = index.new_meta(4 * stride)
        self._meta[index.LOAD], self._meta[index.GROW] = _LOAD, _GROW
        places = _GROW * 1000 // _LOAD + 1000  # a thousand rows, at its emptiest and with one run of all behind it
        self._region = Region(np.uint64, MOST // 1000 * places + 2 * index.LEAST)
        self._entries: U64 = self._region.array
        self.most = min(MOST, (len(self._entries) - 2 * index.LEAST) // places * 1000)

    def __len__(self) -> int:
        return int(self._meta[index.COUNT])

    @property
    def nbytes(self) -> int:
        """Bytes of the index."""
        return 8 * int(self._meta[index.CAP])

    def candidates(self, ids: U64) -> tuple[I64, I64]:
        """Return the positions at which rows of ids may stand, and whose: of another id with the same hash, perhaps."""
        room = 2 * len(ids) + 64
        while True:
            at, positions = np.empty(room, np.int64), np.empty(room, np.int64)
            n = int(list_candidates(self._entries, self._meta, ids, at, positions))
            if n <= room:
                return at[:n], positions[:n]
            room = n

    def find(self, ids: U64) -> tuple[I64, I64]:
        """Return the positions of rows of ids, and whose; reads the rows."""
        at, positions = self.candidates(ids)
        good = ids_of(self.log.read(positions)) == ids[at]
        return at[good], positions[good]

    def enter(self, words: U32, positions: I64) -> None:
        """Make rows known that stand at positions."""
        put_positions(self._entries, self._meta, np.ascontiguousarray(words).reshape(-1), self.log.stride, positions)

    def add(self, words: U32) -> None:
        """Add rows for which there is room in the log."""
        self.enter(words, self.log.append(words))

    def remove(self, ids: U64, positions: I64) -> None:
        """Take rows out of the index; what stands in the log stays until it is released."""
        remove_positions(self._entries, self._meta, ids, positions)

    def has(self, ids: U64, positions: I64) -> Flags:
        """Tell which ids have their rows at these positions."""
        found = np.empty(len(ids), np.bool_)
        has_positions(self._entries, self._meta, ids, positions, found)
        return found

    def rewrite(self, words: U32, positions: I64) -> None:
        """Put other words in place of those of the same ids at positions; there is room in the log."""
        move_positions(self._entries, self._meta, ids_of(words), positions, self.log.append(words))
        self.log.release(positions)

    def positions(self) -> I64:
        """Return the positions of all rows, ascending."""
        found = np.empty(len(self), np.uint32)
        list_positions(self._entries, int(self._meta[index.CAP]), found)
        found.sort()
        return found.astype(np.int64)

    def bits(self) -> U64:
        """Return the same as a bit for each position."""
        bits = np.zeros(-(-self.log.extent // 64), np.uint64)
        bits_of_positions(self._entries, int(self._meta[index.CAP]), bits)
        return bits

    def check_unique(self) -> None:
        """Refuse ids that have two rows: those whose hashes are the same are read and compared."""
        end = int(self._meta[index.CAP])
        while self._entries[end]:
            end += 1
        for first in range(0, end, _CHECKED):
            self._check_places(self._entries[first : min(first + _CHECKED + _ALIKE, end)])

    def _check_places(self, entries: U64) -> None:
        entries = entries[entries != 0]
        hashes = entries >> np.uint64(32)
        alike = np.flatnonzero(hashes[1:] == hashes[:-1])
        some = entries[np.union1d(alike, alike + 1)]
        ids, counts = np.unique(
            ids_of(self.log.read((some & np.uint64(0xFFFFFFFF)).astype(np.int64) - 1)), return_counts=True
        )
        if (counts > 1).any():
            raise TableError(f"id {ids[counts > 1][0]} has two rows")
