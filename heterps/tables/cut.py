"""A cut: the state of a shard at one moment, read while training goes on.

The first change of a row after the cut saves what it was; reading takes rows that have not changed from where they
stand. So the cut costs no copy of the table and holds each lock only while a few thousand rows are copied.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType

import numpy as np
import numpy.typing as npt

from heterps.protocol import Window
from heterps.tables.dense import DenseBlock
from heterps.tables.group import RowGroup
from heterps.tables.partition import Partition
from heterps.tables.records import ids_of

__all__ = ["Cut", "GroupCut"]

U32 = npt.NDArray[np.uint32]
I64 = npt.NDArray[np.int64]
F32 = npt.NDArray[np.float32]


class GroupCut:
    """The rows of one group at the cut, by logical shard."""

    def __init__(self, group: RowGroup) -> None:
        self.group = group
        self._orders = [_begin(part, group.spec.n_shards) for part in group.partitions]

    def rows(self, shard: int) -> int:
        """Return how many rows a logical shard has."""
        return sum(int(bounds[shard + 1] - bounds[shard]) for _, bounds in self._orders)

    def read(self, shards: Sequence[int]) -> U32:
        """Return the records of logical shards, by shard and then by id, ``[rows, stride]`` words."""
        ends = np.cumsum([0, *map(self.rows, shards)])
        words = np.empty((int(ends[-1]), self.group.layout.stride), np.uint32)
        for shard, first, last in zip(shards, ends[:-1], ends[1:], strict=True):
            self._read(shard, words[first:last])
        ids, order = ids_of(words), np.empty(len(words), np.int64)
        for first, last in itertools.pairwise(ends):
            order[first:last] = first + np.argsort(ids[first:last])
        return words[order]

    def _read(self, shard: int, out: U32) -> None:
        """Copy the records of one logical shard; a lock is held for no more than these."""
        done = 0
        for part, (order, bounds) in zip(self.group.partitions, self._orders, strict=True):
            rows = order[bounds[shard] : bounds[shard + 1]]
            with part.lock:
                part.read_cut(rows, out[done : done + len(rows)])
            done += len(rows)

    def end(self) -> None:
        """Let changes be changes again."""
        for part in self.group.partitions:
            with part.lock:
                part.end_cut()


def _begin(part: Partition, n_shards: int) -> tuple[I64, I64]:
    with part.lock:
        part.begin_cut()
        return part.order_at_cut(n_shards)


class Cut:
    """What a shard held at one moment. Use as a context manager: it ends with the block.

    Attributes
    ----------
    groups
        Rows of each group, and under ``<group>/waiting`` what was counted of ids without a row.
    dense_values, dense_slots
        Copies of the dense parameters and their optimiser slots.
    window, version
        Which batches are in it, and how many.
    """

    def __init__(
        self, groups: Sequence[RowGroup], dense: DenseBlock, window: Window, version: int, done: Callable[[], None]
    ) -> None:
        rooms = [group.waiting for group in groups if group.waiting is not None]
        self.groups = {group.spec.name: GroupCut(group) for group in (*groups, *rooms)}
        self.dense = dense
        with dense.lock:
            self.dense_values, self.dense_slots = dense.values.copy(), dense.slots.copy()
        self.window, self.version = window.copy(), version
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

    def __enter__(self) -> Cut:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()
