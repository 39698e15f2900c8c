"""A cut: the state of a shard at one moment, read while training goes on.

The first change of a row after the cut saves what it was; reading takes rows that have not changed from where they
stand. So the cut costs no copy of the table, and reading holds a lock only while it looks which of a few thousand rows
have changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from heterps.protocol import Window
from heterps.tables.live.dense import DenseBlock
from heterps.tables.live.group import RowGroup
from heterps.tables.live.owners import Partition
from heterps.tables.live.part_cut import PartCut
from heterps.tables.live.partition import RowPartition
from heterps.tables.live.tiered import TieredPartition
from heterps.tables.live.tiered_cut import TieredCut
from heterps.tables.live.waiting_cut import WaitingCut
from heterps.tables.snapshots.records import RowBuffer

if TYPE_CHECKING:
    from heterps.tables.on_device.device_dense import DeviceDense

__all__ = ["Follow", "GroupCut", "Marks", "ShardCut"]

F32 = npt.NDArray[np.float32]
_Cut = PartCut | WaitingCut | TieredCut


class GroupCut:
    """The rows of one group at the cut, by logical shard.

    Parameters
    ----------
    reader
        Who reads it, if it has a mark to be asked from later.
    since
        The reader's mark: only rows that changed since are in the cut.
    keep
        Other marks of the reader that it may still ask from.

    Attributes
    ----------
    mark
        What to ask from next time.
    deleted
        Ids that had a row since the mark and have none now.
    """

    def __init__(
        self, group: RowGroup, reader: str | None = None, since: int | None = None, keep: Sequence[int] = ()
    ) -> None:
        self.group, self.mark = group, 0
        if reader is None:
            self._parts = [_begin(part, group.spec.n_shards) for part in group.partitions]
        else:
            with group.readers.marking(reader, keep) as self.mark:
                self._parts = [_begin(part, group.spec.n_shards, self.mark, since) for part in group.partitions]
        self.deleted = np.concatenate([part.deleted for part in self._parts])

    @property
    def whole(self) -> list[int]:
        """The logical shards of which all rows are in the cut, because it was not known which had changed."""
        return [shard for shard in self.group.owned if self._of(shard).whole]

    def _of(self, shard: int) -> _Cut:
        return self._parts[self.group.partition_of(shard)]

    def rows(self, shard: int) -> int:
        """Return how many rows of a logical shard are in the cut."""
        return self._of(shard).rows(shard)

    def read(self, shards: Sequence[int], out: RowBuffer) -> Iterator[int]:
        """Copy rows of logical shards, by shard and hash of the id; yield how many are in ``out`` when it is full."""
        done = 0
        for shard in shards:
            for filled in self._of(shard).read(shard, out, done % out.rows):
                done = filled
                if done == out.rows:
                    yield done
        if done % out.rows:
            yield done

    def end(self) -> None:
        """Let changes be changes again."""
        for part in self._parts:
            part.end()


def _begin(part: Partition, n_shards: int, mark: int = 0, since: int | None = None) -> _Cut:
    if isinstance(part, RowPartition):
        return PartCut(part, n_shards, mark, since)
    if isinstance(part, TieredPartition):
        return TieredCut(part, n_shards, mark, since)
    return WaitingCut(part, n_shards, mark, since)


Marks = Mapping[str, int]
"""A moment of a whole shard: the mark of each group."""


class Follow(NamedTuple):
    """Who reads a cut, the marks it asks from (all rows if None), and others that it may still need."""

    reader: str | None = None
    since: Marks | None = None
    keep: tuple[Marks, ...] = ()

    def cut(self, group: RowGroup) -> GroupCut:
        """Cut one group."""
        name = group.spec.name
        since = None if self.since is None else self.since.get(name)
        return GroupCut(group, self.reader, since, [marks[name] for marks in self.keep if name in marks])


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
    partial
        Only what changed since an earlier moment is in it.
    """

    def __init__(
        self,
        groups: Sequence[RowGroup],
        dense: DenseBlock | DeviceDense,
        window: Window | None,
        version: int,
        done: Callable[[], None],
        follow: Follow | None = None,
    ) -> None:
        rooms = [group.waiting for group in groups if group.waiting is not None]
        follow = follow or Follow()
        self.groups = {group.spec.name: follow.cut(group) for group in (*groups, *rooms)}
        self.partial = follow.since is not None
        self.dense = dense
        with dense.lock:
            self.dense_values, self.dense_slots = dense.values.copy(), dense.slots.copy()
        self.window, self.version = window, version
        self._done: Callable[[], None] | None = done

    @property
    def marks(self) -> Marks:
        """The moment of the cut, to be asked from later."""
        return {name: group.mark for name, group in self.groups.items()}

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
