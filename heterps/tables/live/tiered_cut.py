"""The rows of one partition at a cut, by logical shard: where most of them are on disk.

Rows in memory are kept as they were by what every cut uses. Those on disk stand where they stood, since nothing is ever
changed there and the log is pinned. They are read once, in the order of the log, and sorted by ranges of logical shards
on the way: in memory while they are few, else through a file.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from heterps.tables.hashing import shards_of
from heterps.tables.live.sorted_rows import SortedRows, copied
from heterps.tables.live.tiered import TieredPartition
from heterps.tables.live.turns import TURN
from heterps.tables.loops.row_loops import NO_ROW
from heterps.tables.snapshots.records import RowBuffer, ids_of

__all__ = ["TieredCut"]

I64 = npt.NDArray[np.int64]
U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]

#: Rows on disk that are read together.
_SOME = 1 << 16


class TieredCut:
    """What a :class:`~heterps.tables.live.part_cut.PartCut` is, of a partition beyond memory."""

    def __init__(self, part: TieredPartition, n_shards: int, mark: int = 0, since: int | None = None) -> None:
        self._part, self._n_shards = part, n_shards
        self._lock = threading.Lock()
        self._sorted: SortedRows | None = None  # of rows on disk, once they were read
        with part.lock:
            found = part.close_stretch(mark, since) if mark else None
            self.whole = found is None
            self.deleted = np.empty(0, np.uint64) if found is None else found.deleted
            if found is None:
                self._begin_whole()
            else:
                self._begin_changed(found.changed)
            part.cold.log.pin()

    def _begin_whole(self) -> None:
        hot = self._part.hot
        self._bits: U64 | None = self._part.cold.bits()
        self._n_cold = len(self._part.cold)
        hot.begin_cut()
        self._by_shard(hot.live())

    def _begin_changed(self, ids: U64) -> None:
        part, rows = self._part, np.empty(len(ids), np.uint32)
        part.hot.find(ids, np.arange(len(ids), dtype=np.int32), 0, len(ids), rows)
        there = rows != NO_ROW
        part.hot.begin_cut(rows[there])
        self._by_shard(rows[there].astype(np.int64))
        absent = ids[~there]
        at, positions, _ = part.cold.candidates(absent)
        order = np.argsort(positions)
        self._bits, self._n_cold = None, len(order)
        self._positions, self._wanted = positions[order], absent[at[order]]

    def _by_shard(self, slots: I64) -> None:
        """List rows in memory by logical shard."""
        shards = shards_of(self._part.hot.ids(slots), self._n_shards)
        self._slots = slots[np.argsort(shards, kind="stable")].astype(np.uint32)
        self._bounds = np.concatenate([[0], np.cumsum(np.bincount(shards, minlength=self._n_shards))])

    def _cold(self) -> SortedRows:
        """Return the rows on disk by logical shard; the first who asks reads them."""
        with self._lock:
            if self._sorted is None:
                part = self._part
                made = SortedRows(part.layout.stride, self._n_shards, self._n_cold, part.cold.log.folder)
                for positions, wanted in self._pieces():
                    words = part.cold.log.read(positions)
                    made.add(words if wanted is None else words[ids_of(words) == wanted])
                self._sorted, self._bits = made, None
            return self._sorted

    def _pieces(self) -> Iterator[tuple[I64, U64 | None]]:
        if self._bits is None:
            for first in range(0, len(self._positions), _SOME):
                some = slice(first, first + _SOME)
                yield self._positions[some], self._wanted[some]
            return
        for first in range(0, len(self._bits), _SOME // 64):
            bits = self._bits[first : first + _SOME // 64]
            found = np.flatnonzero(np.unpackbits(bits.view(np.uint8), bitorder="little"))
            if len(found):
                yield found + 64 * first, None

    def rows(self, shard: int) -> int:
        """Return how many rows of a logical shard there are."""
        return int(self._bounds[shard + 1] - self._bounds[shard]) + self._cold().count(shard)

    def read(self, shard: int, out: RowBuffer, done: int) -> Iterator[int]:
        """Copy the rows of a logical shard behind the first ``done`` rows of a buffer; yield how many are there by now,
        after some. When it is full, go on from its beginning.
        """
        yield from copied(np.concatenate([self._hot_rows(shard), self._cold().rows(shard)]), out, done)

    def _hot_rows(self, shard: int) -> U32:
        """Return the rows of a logical shard that were in memory, as they were at the cut."""
        slots = self._slots[self._bounds[shard] : self._bounds[shard + 1]]
        pieces = [np.empty((0, self._part.layout.stride), np.uint32)]
        for first in range(0, len(slots), TURN):
            with self._part.lock:
                pieces.append(self._part.hot.rows_at_cut(slots[first : first + TURN]))
        return np.concatenate(pieces)

    def end(self) -> None:
        """Let changes be changes again."""
        with self._part.lock:
            self._part.hot.end_cut()
            self._part.cold.log.unpin()
        self._sorted = None
