"""The rows of one partition at a cut, by logical shard: where they are in memory."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from heterps.tables.live.partition import RowPartition
from heterps.tables.live.turns import TURN
from heterps.tables.snapshots.records import RowBuffer

__all__ = ["PartCut"]

U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]


class PartCut:
    """Begins when it is made. The mark is set at the same moment, so that every change belongs to this cut or the next.

    Attributes
    ----------
    deleted
        Ids that had a row since the earlier mark and have none now.
    whole
        Whether these are all rows: it is not known which have changed since, or nobody has asked.
    """

    def __init__(self, part: RowPartition, n_shards: int, mark: int = 0, since: int | None = None) -> None:
        self._part = part
        with part.lock:
            found = part.close_stretch(mark, since) if mark else None
            self.whole = found is None
            self.deleted = np.empty(0, np.uint64) if found is None else found.deleted
            if found is None:
                part.begin_cut()
                self._keys, self._bounds = part.keys_at_cut(n_shards)
            else:
                self._keys, self._bounds = part.keys_at_cut(n_shards, found.bits)
                part.begin_cut(self._keys.astype(np.uint32))

    def rows(self, shard: int) -> int:
        """Return how many rows of a logical shard there are."""
        return int(self._bounds[shard + 1] - self._bounds[shard])

    def read(self, shard: int, out: RowBuffer, done: int) -> Iterator[int]:
        """Copy the rows of a logical shard behind the first ``done`` rows of a buffer; yield how many are there by now,
        after some. When it is full, go on from its beginning.
        """
        rows = self._ordered(shard)
        while len(rows):
            done = 0 if done == out.rows else done
            some, rows = np.split(rows, [min(TURN, out.rows - done)])
            self._part.copy_rows(some, out, done)
            with self._part.lock:
                self._part.settle(some, out, done)
            done += len(some)
            yield done

    def _ordered(self, shard: int) -> U32:
        """Return the rows of a logical shard: by hash, and by id where that is the same."""
        mine = np.sort(self._keys[self._bounds[shard] : self._bounds[shard + 1]])
        hashes, rows = mine >> np.uint64(32), mine.astype(np.uint32)
        if (hashes[1:] == hashes[:-1]).any():
            rows = rows[np.lexsort((self._ids(rows), hashes))]
        return rows

    def _ids(self, rows: U32) -> U64:
        ids = np.empty(len(rows), np.uint64)
        for first in range(0, len(rows), TURN):
            with self._part.lock:
                self._part.ids_at_cut(rows[first : first + TURN], ids[first : first + TURN])
        return ids

    def end(self) -> None:
        """Let changes be changes again."""
        with self._part.lock:
            self._part.end_cut()
