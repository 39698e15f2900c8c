"""Which rows go when a group is full, and what is said if none may."""

from __future__ import annotations

import weakref
from typing import Protocol

import numpy as np
import numpy.typing as npt

from heterps.errors import TableFullError
from heterps.tables.live.partition import RowPartition
from heterps.tables.specs.accessor import Counters
from heterps.tables.specs.spec import GroupSpec

__all__ = ["INDEX_BYTES", "SHARE", "MemoryLimit", "evict", "full_error", "worth"]

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]

#: Part of the budget that one eviction frees at least, so that its cost spreads over many inserts.
SHARE = 64
#: What a row takes in an index, at most: an entry of eight bytes, while the index is doubled and a third full.
INDEX_BYTES = 24


class _Counted(Protocol):
    @property
    def memory_bytes(self) -> int: ...


class MemoryLimit:
    """Bytes that all groups of a shard host may take together, so that none is killed for taking too many.

    Parameters
    ----------
    limit_bytes
        For indices, and rows that are kept in memory.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.fixed_bytes = 0
        """In use whatever rows there are."""
        self._groups: list[weakref.ref[_Counted]] = []  # which hold this: dropped tables must not wait for a collection

    def count(self, group: _Counted) -> None:
        """Count what a group takes from now on."""
        self._groups.append(weakref.ref(group))

    @property
    def taken(self) -> int:
        """Bytes in use."""
        groups = (group() for group in self._groups)
        return self.fixed_bytes + sum(group.memory_bytes for group in groups if group is not None)

    def rows(self, row_bytes: int) -> int:
        """Return how many rows of a size still fit."""
        return max(0, (self.limit_bytes - self.taken) // (row_bytes + INDEX_BYTES))


def full_error(spec: GroupSpec, memory: MemoryLimit | None, rows: int, wanted: int) -> TableFullError:
    """Say that a group with so many rows has no room for more, and what to do: memory ran out, or the budget."""
    if memory is not None and (spec.budget is None or rows + wanted <= spec.budget):
        return TableFullError(
            f"group {spec.name!r} has no memory for {wanted} new ids: the tables of this shard host take "
            f"{memory.taken:,} of at most {memory.limit_bytes:,} bytes. Give it more "
            "(launch(memory=...), --memory, or the --memory-limit of its worker), use more shard hosts, shrink the "
            "table, add an entry, or set storage to ssd"
        )
    return TableFullError(
        f"group {spec.name!r} holds {rows} of at most {spec.budget} rows and {wanted} new ids need "
        "one: raise budget, use more shard hosts, shrink the table, add an entry, or set when_full to an eviction"
    )


def worth(spec: GroupSpec, part: RowPartition, rows: I64) -> F64:
    """Return what rows are worth keeping by the group's policy: their score, or the time of their last use."""
    if spec.when_full == "lowest_score":
        assert spec.accessor is not None
        counters = Counters(*part.counters(rows))
        return np.asarray(spec.accessor.score(counters.show, counters.click), np.float64)
    return np.asarray(part.words[rows, part.layout.tick], np.float64)


def evict(spec: GroupSpec, partitions: list[RowPartition], keep: list[I64], n: int) -> int:
    """Delete the ``n`` rows worth least (of equals, those with the smallest ids), sparing rows to keep."""
    rows = [np.setdiff1d(part.live(), spared) for part, spared in zip(partitions, keep, strict=True)]
    values = np.concatenate([worth(spec, part, mine) for part, mine in zip(partitions, rows, strict=True)])
    n = min(n, len(values))
    if n == 0:
        return 0
    ids = np.concatenate([_ids(part, mine) for part, mine in zip(partitions, rows, strict=True)])
    gone = _lowest(values, ids, n)
    starts = np.cumsum([0, *map(len, rows)])
    for part, mine, start, stop in zip(partitions, rows, starts[:-1], starts[1:], strict=True):
        chosen = gone[(gone >= start) & (gone < stop)]
        with part.lock:
            part.delete(mine[chosen - start])
    return n


def _lowest(values: F64, ids: npt.NDArray[np.uint64], n: int) -> I64:
    limit = np.partition(values, n - 1)[n - 1]
    below, equal = np.flatnonzero(values < limit), np.flatnonzero(values == limit)
    equal = equal[np.argsort(ids[equal])]
    return np.concatenate([below, equal[: n - len(below)]])


def _ids(part: RowPartition, rows: I64) -> npt.NDArray[np.uint64]:
    words = part.words[rows, :2].astype(np.uint64)
    return words[:, 0] | (words[:, 1] << np.uint64(32))
