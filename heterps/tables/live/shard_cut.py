"""A cut: the state of a shard at one moment, read while training goes on.

The first change of a row after the cut saves what it was; reading takes rows that have not changed from where they
stand. So the cut costs no copy of the table, and reading holds a lock only while it looks which of a few thousand rows
have changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import TracebackType

import numpy as np
import numpy.typing as npt

from heterps.protocol import Window
from heterps.tables.live.dense import DenseBlock
from heterps.tables.live.group import RowGroup
from heterps.tables.live.owners import TURN
from heterps.tables.live.partition import RowPartition
from heterps.tables.snapshots.records import RowBuffer

__all__ = ["GroupCut", "ShardCut"]

U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]
F32 = npt.NDArray[np.float32]


class GroupCut:
    """The rows of one group at the cut, by logical shard."""

    def __init__(self, group: RowGroup) -> None:
        self.group = group
        self._keys = [_begin(part, group.spec.n_shards) for part in group.partitions]

    def rows(self, shard: int) -> int:
        """Return how many rows a logical shard has."""
        _, bounds = self._keys[self.group.partition_of(shard)]
        return int(bounds[shard + 1] - bounds[shard])

    def read(self, shards: Sequence[int], out: RowBuffer) -> Iterator[int]:
        """Copy rows of logical shards, by shard and hash of the id; yield how many are in ``out`` when it is full."""
        done = 0
        for shard in shards:
            part, rows = self._ordered(shard)
            while len(rows):
                n = min(TURN, out.rows - done)
                some, rows = rows[:n], rows[n:]
                part.copy_rows(some, out, done)
                with part.lock:
                    part.settle(some, out, done)
                done += len(some)
                if done == out.rows:
                    yield done
                    done = 0
        if done:
            yield done

    def _ordered(self, shard: int) -> tuple[RowPartition, U32]:
        """Return the rows of a logical shard: by hash, and by id where that is the same."""
        at = self.group.partition_of(shard)
        part, (keys, bounds) = self.group.partitions[at], self._keys[at]
        mine = np.sort(keys[bounds[shard] : bounds[shard + 1]])
        hashes, rows = mine >> np.uint64(32), mine.astype(np.uint32)
        if (hashes[1:] == hashes[:-1]).any():
            rows = rows[np.lexsort((_ids(part, rows), hashes))]
        return part, rows

    def end(self) -> None:
        """Let changes be changes again."""
        for part in self.group.partitions:
            with part.lock:
                part.end_cut()


def _begin(part: RowPartition, n_shards: int) -> tuple[U64, I64]:
    with part.lock:
        part.begin_cut()
        return part.keys_at_cut(n_shards)


def _ids(part: RowPartition, rows: U32) -> U64:
    ids = np.empty(len(rows), np.uint64)
    for first in range(0, len(rows), TURN):
        with part.lock:
            part.ids_at_cut(rows[first : first + TURN], ids[first : first + TURN])
    return ids


class ShardCut:
    """What a shard held at one moment. Use as a context manager: it ends with the block.

    Attributes
    ----------
    groups
        Rows of each group, and under ``<group>/waiting`` what was counted of ids without a row.
    dense_values, dense_slots
        Copies of the dense parameters and their optimiser slots.
    version
        How many pushes are in it.
    window
        Which ones, of tables that keep their own ledger; in a run it stands in the protocol's part of the cut.
    """

    def __init__(
        self,
        groups: Sequence[RowGroup],
        dense: DenseBlock,
        window: Window | None,
        version: int,
        done: Callable[[], None],
    ) -> None:
        rooms = [group.waiting for group in groups if group.waiting is not None]
        self.groups = {group.spec.name: GroupCut(group) for group in (*groups, *rooms)}
        self.dense = dense
        with dense.lock:
            self.dense_values, self.dense_slots = dense.values.copy(), dense.slots.copy()
        self.window, self.version = window, version
        self._done: Callable[[], None] | None = done

    def __iter__(self) -> Iterator[GroupCut]:
        return iter(self.groups.values())

    def end(self) -> None:
        """Release the cut."""
        if self._done is not None:
            for group in self.groups.values():
                group.end()
            self._done()
            self._done = None

    def __enter__(self) -> ShardCut:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()
