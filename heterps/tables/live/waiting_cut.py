"""The rows of one partition at a cut, by logical shard: where some of them are short."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from heterps.tables.live.sorted_rows import copied
from heterps.tables.live.turns import TURN
from heterps.tables.live.waiting_rows import WaitingPartition
from heterps.tables.snapshots.records import RowBuffer

__all__ = ["WaitingCut"]

U32 = npt.NDArray[np.uint32]


class WaitingCut:
    """What a :class:`~heterps.tables.live.part_cut.PartCut` is, of a partition with rows that wait for columns.

    A row that becomes whole after the cut leaves the short ones, and what it was there is kept as of every row that is
    deleted; where it goes to there was none, so it is no part of the cut.
    """

    def __init__(self, part: WaitingPartition, n_shards: int, mark: int = 0, since: int | None = None) -> None:
        self._part = part
        with part.lock:
            found = part.close_stretch(mark, since) if mark else None
            self.whole = found is None
            self.deleted = np.empty(0, np.uint64) if found is None else found[0].deleted
            bits = (None, None) if found is None else (found[0].bits, found[1].bits)
            listed = [
                each.keys_at_cut(n_shards, some) for each, some in zip((part.long, part.short), bits, strict=True)
            ]
            self._rows = [keys.astype(np.uint32) for keys, _ in listed]
            self._bounds = [bounds for _, bounds in listed]
            part.begin_cut(None if found is None else (self._rows[0], self._rows[1]))

    def rows(self, shard: int) -> int:
        """Return how many rows of a logical shard there are."""
        return sum(int(bounds[shard + 1] - bounds[shard]) for bounds in self._bounds)

    def read(self, shard: int, out: RowBuffer, done: int) -> Iterator[int]:
        """Copy the rows of a logical shard behind the first ``done`` rows of a buffer; yield how many are there by now,
        after some. When it is full, go on from its beginning.
        """
        yield from copied(self._words(shard), out, done)

    def _words(self, shard: int) -> U32:
        """Return the rows of a logical shard as they were at the cut, whole."""
        long, short = (rows[b[shard] : b[shard + 1]] for rows, b in zip(self._rows, self._bounds, strict=True))
        pieces = [np.empty((0, self._part.layout.stride), np.uint32)]
        for first in range(0, max(len(long), len(short)), TURN):
            with self._part.lock:
                pieces.append(self._part.rows_at_cut(long[first : first + TURN], short[first : first + TURN]))
        return np.concatenate(pieces)

    def end(self) -> None:
        """Let changes be changes again."""
        with self._part.lock:
            self._part.end_cut()
