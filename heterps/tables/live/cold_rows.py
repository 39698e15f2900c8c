"""The rows of a partition that are on disk: a log, and an index of ids to positions in it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from heterps.errors import TableError
from heterps.tables.live.region import Region
from heterps.tables.live.row_log import MOST, RowLog
from heterps.tables.loops.cold_index import (
    CELL,
    CHAIN_ROWS,
    COUNT,
    FIRST,
    HIGH,
    LEAST_BITS,
    MOST_BITS,
    PLACES,
    POSITION,
    age_cells,
    bits_of_positions,
    chains_of,
    has_positions,
    list_alike,
    list_candidates,
    list_positions,
    move_positions,
    new_state,
    put_positions,
    remove_positions,
)
from heterps.tables.snapshots.records import ids_of

__all__ = ["ColdRows", "DiskTier"]

I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]
U32 = npt.NDArray[np.uint32]
U8 = npt.NDArray[np.uint8]
Flags = npt.NDArray[np.bool_]

#: Chains that are looked through at a time for ids with two rows, and cells that are aged at a time.
_CHECKED, _AGED = 1 << 13, 1 << 16
#: Cells of a chain that are looked at without the lock: a chain has 8 on average.
_LOOKED_AT = 64
#: Part of the memory for rows that the first cells of chains may take.
SHARE = 32


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
    """Whoever calls holds the lock of the partition.

    Parameters
    ----------
    stride
        Words of a row.
    memory_bytes
        What there is for rows in memory: where that is much, the index takes a little of it to tell more hashes apart.
    """

    def __init__(self, stride: int, tier: DiskTier, memory_bytes: int = 0) -> None:
        chains = max(1, memory_bytes // (SHARE * 4 * CELL))
        self._state = new_state(min(max(chains.bit_length() - 1, LEAST_BITS), MOST_BITS))
        chains = (1 << MOST_BITS) + MOST // CHAIN_ROWS
        self._heads: U32 = Region(np.uint32, chains).array
        self._cells: U32 = Region(np.uint32, CELL * (MOST // PLACES + chains)).array  # the first of each is not full
        self.log = RowLog(stride, tier.folder, tier.block_bytes, self._most_rows())
        self._ageing = 0  # cells that are still to be aged

    def _most_rows(self) -> int:
        """Return for how many rows there is address space."""
        cells = len(self._cells) // CELL - (1 << int(self._state[FIRST]))
        return min(MOST, CHAIN_ROWS * len(self._heads), cells * CHAIN_ROWS * PLACES // (CHAIN_ROWS + PLACES))

    def __len__(self) -> int:
        return int(self._state[COUNT])

    @property
    def nbytes(self) -> int:
        """Bytes of the index."""
        return 4 * (CELL * int(self._state[HIGH]) + chains_of(self._state))

    def candidates(self, ids: U64) -> tuple[I64, I64, I64]:
        """Return whose rows may stand where on disk, by number of the id, and the places in the index that say so.

        Perhaps it is the row of another id with the same hash.
        """
        return self._candidates(ids, int(self._state[HIGH]))

    def likely(self, ids: U64) -> tuple[I64, I64, I64]:
        """Return about the same, for those who do not hold the lock: the index is memory that never moves. Then, with
        the lock, :meth:`stand`.
        """
        return self._candidates(ids, _LOOKED_AT)

    def stand(self, positions: I64, places: I64) -> Flags:
        """Tell which positions stand at their places in the index still: rows are there."""
        found: Flags = (self._cells[places] & np.uint32(POSITION)) == positions + 1
        return found

    def _candidates(self, ids: U64, cells: int) -> tuple[I64, I64, I64]:
        room = 2 * len(ids) + 64
        while True:
            at, positions, places = (np.empty(room, np.int64) for _ in range(3))
            n = int(list_candidates(*self._index, ids, cells, at, positions, places))
            if n <= room:
                return at[:n], positions[:n], places[:n]
            room = n

    @property
    def _index(self) -> tuple[U32, U32, I64]:
        return self._cells, self._heads, self._state

    def find(self, ids: U64) -> tuple[I64, I64]:
        """Return the positions of rows of ids, and whose; reads the rows."""
        at, positions, _ = self.candidates(ids)
        good = ids_of(self.log.read(positions)) == ids[at]
        return at[good], positions[good]

    def enter(self, words: U32, positions: I64, counts: U8) -> None:
        """Make rows known that stand at positions, and were used so often."""
        put_positions(*self._index, np.ascontiguousarray(words).reshape(-1), self.log.stride, positions, counts)

    def add(self, words: U32) -> None:
        """Add rows for which there is room in the log."""
        self.enter(words, self.log.append(words), np.zeros(len(words), np.uint8))

    def remove(self, ids: U64, positions: I64, places: I64 | None = None) -> U8:
        """Take rows out of the index; what stands in the log stays until it is released. Return their counts, ABSENT
        where an id has no row at its position.

        With places, where entries were when positions were looked up, no other id has a row at these positions.
        """
        counts = np.empty(len(ids), np.uint8)
        places = np.full(len(ids), -1, np.int64) if places is None else places
        remove_positions(*self._index, ids, positions, places, counts)
        return counts

    def has(self, ids: U64, positions: I64) -> Flags:
        """Tell which ids have their rows at these positions."""
        found = np.empty(len(ids), np.bool_)
        has_positions(*self._index, ids, positions, found)
        return found

    def rewrite(self, words: U32, positions: I64) -> None:
        """Put other words in place of those of the same ids at positions; there is room in the log."""
        move_positions(*self._index, ids_of(words), positions, self.log.append(words))
        self.log.release(positions)

    def age(self, all_: bool) -> None:
        """Lower counts a little further, of some cells at a time; those of all by one where told."""
        self._ageing = int(self._state[HIGH]) if all_ else self._ageing
        first = max(0, self._ageing - _AGED)
        age_cells(self._cells, first, self._ageing)
        self._ageing = first

    def positions(self) -> I64:
        """Return the positions of all rows, ascending."""
        found = np.empty(len(self), np.uint32)
        list_positions(self._cells, self._state, found)
        found.sort()
        return found.astype(np.int64)

    def bits(self) -> U64:
        """Return the same as a bit for each position."""
        bits = np.zeros(-(-self.log.extent // 64), np.uint64)
        bits_of_positions(self._cells, self._state, bits)
        return bits

    def check_unique(self) -> None:
        """Refuse ids that have two rows: those whose hashes are the same are read and compared."""
        chains, marks = chains_of(self._state), np.zeros(1 << 16, np.uint8)
        for first in range(0, chains, _CHECKED):
            ids = ids_of(self.log.read(self._alike(first, min(first + _CHECKED, chains), marks)))
            found, counts = np.unique(ids, return_counts=True)
            if (counts > 1).any():
                raise TableError(f"id {found[counts > 1][0]} has two rows")

    def _alike(self, first: int, last: int, marks: U8) -> I64:
        """Return the positions of rows in chains whose hash another one has, too."""
        room = 1 << 12
        while True:
            positions = np.empty(room, np.int64)
            n = int(list_alike(self._cells, self._heads, first, last, marks, positions))
            if n <= room:
                return positions[:n]
            room = n
