"""Which rows go when a group is full, and what is said if none may."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Protocol

import numpy as np
import numpy.typing as npt

from heterps.errors import TableFullError
from heterps.tables.live.owners import Partition
from heterps.tables.live.partition import INDEX_BYTES
from heterps.tables.specs.accessor import Counters
from heterps.tables.specs.spec import GroupSpec

__all__ = ["SHARE", "MemoryLimit", "evict", "full_error", "worth"]

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]

#: Part of the budget that one eviction frees at least, so that its cost spreads over many inserts.
SHARE = 64
#: Rows that are looked at together.
_SOME = 1 << 18


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


def worth(spec: GroupSpec, part: Partition, rows: I64) -> F64:
    """Return what rows are worth keeping by the group's policy: their score, or the time of their last use."""
    if spec.when_full == "lowest_score":
        assert spec.accessor is not None
        counters = Counters(*part.counters(rows))
        return np.asarray(spec.accessor.score(counters.show, counters.click), np.float64)
    return np.asarray(part.last_uses(rows), np.float64)


def evict(spec: GroupSpec, partitions: Sequence[Partition], keep: U64, n: int) -> int:
    """Delete the ``n`` rows worth least (of equals, those with the smallest ids), sparing ids to keep."""
    with ExitStack() as locks:
        for part in partitions:  # rows of a table on disk have no number without the lock
            locks.enter_context(part.lock)
        rows = [part.live() for part in partitions]
        listed = [_listed(spec, part, mine, keep) for part, mine in zip(partitions, rows, strict=True)]
        values, ids = (np.concatenate(each) for each in zip(*listed, strict=True))
        n = min(n, int(np.isfinite(values).sum()))
        if n == 0:
            return 0
        gone = _lowest(values, ids, n)
        starts = np.cumsum([0, *map(len, rows)])
        for part, mine, start, stop in zip(partitions, rows, starts[:-1], starts[1:], strict=True):
            part.delete(mine[gone[(gone >= start) & (gone < stop)] - start])
    return n


def _listed(spec: GroupSpec, part: Partition, rows: I64, keep: U64) -> tuple[F64, U64]:
    """Return the worth of rows, infinite for those to keep, and their ids."""
    values, ids = np.empty(len(rows), np.float64), np.empty(len(rows), np.uint64)
    for first in range(0, len(rows), _SOME):
        some = slice(first, first + _SOME)
        values[some], ids[some] = worth(spec, part, rows[some]), part.ids(rows[some])
    values[np.isin(ids, keep)] = np.inf
    return values, ids


def _lowest(values: F64, ids: U64, n: int) -> I64:
    limit = np.partition(values, n - 1)[n - 1]
    below, equal = np.flatnonzero(values < limit), np.flatnonzero(values == limit)
    equal = equal[np.argsort(ids[equal])]
    return np.concatenate([below, equal[: n - len(below)]])
