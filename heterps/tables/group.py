"""The rows of one group on one shard host, in partitions that threads can work on side by side."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from heterps.errors import TableError
from heterps.tables.foreign import rebuilt_around
from heterps.tables.gradients import RowGradients
from heterps.tables.hashing import RESERVED, check_ids, mix
from heterps.tables.layout import Layout
from heterps.tables.partition import Partition
from heterps.tables.rows import NO_ROW, Gradients, push_rows, update_block, update_segment
from heterps.tables.spec import GroupSpec

__all__ = ["PushCounts", "RowGroup"]

U64 = npt.NDArray[np.uint64]
U32 = npt.NDArray[np.uint32]
F32 = npt.NDArray[np.float32]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

_NONE32: F32 = np.empty(0, np.float32)
_NO_ROWS: U32 = np.empty(0, np.uint32)


class PushCounts(NamedTuple):
    """Rows of a push: updated, skipped for NaN or Inf, created, and dropped because no entry admitted the id."""

    applied: int = 0
    skipped: int = 0
    created: int = 0
    dropped: int = 0

    def __add__(self, other: object) -> PushCounts:
        assert isinstance(other, PushCounts)
        return PushCounts(*(a + b for a, b in zip(self, other, strict=True)))


NOTHING = PushCounts()


@njit(nogil=True, cache=True)
def _split(ids: U64, part_of: I32, parts: I32, order: I32, bounds: I64) -> Any:
    """Sort positions by partition; return the first position whose id does not belong here, or -1."""
    shards, n_parts = np.uint64(part_of.size), bounds.size - 1
    mask = shards - np.uint64(1) if shards & (shards - np.uint64(1)) == np.uint64(0) else np.uint64(0)
    bounds[:] = 0
    for i in range(ids.size):
        h = mix(ids[i])
        part = part_of[np.int64(h & mask if mask else h % shards)]
        if part < 0 or ids[i] == np.uint64(RESERVED):
            return i
        parts[i] = part
        bounds[part + 1] += 1
    for p in range(n_parts):
        bounds[p + 1] += bounds[p]
    for i in range(ids.size):
        order[bounds[parts[i]]] = i
        bounds[parts[i]] += 1
    for p in range(n_parts, 0, -1):
        bounds[p] = bounds[p - 1]
    bounds[0] = 0
    return -1


class _Work(threading.local):
    """Buffers of one calling thread, grown as needed and kept."""

    def __init__(self) -> None:
        self.order = np.empty(0, np.int32)
        self.missing = np.empty(0, np.int32)

    def reserve(self, n: int) -> None:
        if len(self.order) < n:
            self.order, self.missing = np.empty(2 * n, np.int32), np.empty(2 * n, np.int32)


class RowGroup:
    """See :class:`~heterps.tables.spec.GroupSpec` for what a group is.

    Parameters
    ----------
    owned
        The logical shards held here.
    partitions
        Ranges of logical shards with a lock of their own; two threads seldom want the same one.
    """

    def __init__(
        self, spec: GroupSpec, *, seed: int, owned: Sequence[int], partitions: int = 4, folder: Path | None = None
    ) -> None:
        self.spec, self.layout = spec, Layout(spec, seed)
        self.owned = tuple(sorted(owned))
        count = max(1, min(partitions, len(self.owned)))
        self.part_of = np.full(spec.n_shards, -1, np.int32)
        self.part_of[list(self.owned)] = np.arange(len(self.owned)) * count // max(len(self.owned), 1)
        where = _folder(spec, folder)
        push = _push_for(self.layout)
        self.partitions = [Partition(self.layout, share=count, folder=where, push=push) for _ in range(count)]
        self._work = _Work()

    def __len__(self) -> int:
        return sum(map(len, self.partitions))

    @property
    def nbytes(self) -> int:
        """Bytes in use by indices and rows."""
        return sum(part.nbytes for part in self.partitions)

    def split(self, ids: U64) -> tuple[I32, I64]:
        """Return positions in order of partition, and where each partition's begin."""
        self._work.reserve(len(ids))
        order, bounds = self._work.order, np.empty(len(self.partitions) + 1, np.int64)
        bad = int(_split(ids, self.part_of, self._work.missing, order, bounds))
        if bad >= 0:
            self._complain(int(ids[bad]))
        return order, bounds

    def _complain(self, id_: int) -> None:
        if id_ == RESERVED:
            raise TableError(f"group {self.spec.name!r}: 2**64 - 1 is reserved and cannot be an id")
        raise TableError(f"group {self.spec.name!r}: id {id_} belongs to a logical shard that this host does not hold")

    def pull(self, ids: Any, *, train: bool, out: F32 | None = None) -> tuple[F32, U32]:
        """Return values and rows of ids, creating absent ones when training (if the group creates on pull)."""
        ids = check_ids(ids, f"group {self.spec.name!r}")
        order, bounds = self.split(ids)
        values = self._out(len(ids), out)
        rows = np.empty(len(ids), np.uint32)
        make = train and self.spec.create_on == "pull" and self.spec.entry is None
        for p, part in enumerate(self.partitions):
            with part.lock:
                part.pull(ids, order, bounds[p], bounds[p + 1], rows, values.reshape(-1), make)
        return values, rows

    def _out(self, n: int, out: F32 | None) -> F32:
        width = self.spec.width
        if out is None:
            return np.empty((n, width), np.float32)
        if out.dtype != np.float32 or out.shape[1:] != (width,) or len(out) < n or not out.flags.c_contiguous:
            raise TableError(f"group {self.spec.name!r}: out must be contiguous float32 of at least {(n, width)}")
        return out[:n]

    def push(self, grads: RowGradients, *, step: int = 0) -> PushCounts:
        """Apply gradients (each id once); ``step`` is what schedules and recency count by."""
        grads.check(self.spec.name, self.spec.width)
        g = self._gradients(grads)
        order, bounds = self.split(g.ids)
        numbers = self.layout.rule_numbers(step) if self.layout.scheduled else None
        total = NOTHING
        for p, part in enumerate(self.partitions):
            with part.lock:
                if numbers is not None:
                    part.set_numbers(numbers)
                stats = part.push(g, order, bounds[p], bounds[p + 1], True, step, self._work.missing)
                total += PushCounts(int(stats[0]), int(stats[1]), int(stats[2]), 0)
        return total

    def _gradients(self, grads: RowGradients) -> Gradients:
        values = np.ascontiguousarray(grads.values).reshape(-1)
        return Gradients(
            check_ids(grads.ids, f"group {self.spec.name!r}"),
            _NO_ROWS if grads.rows is None else grads.rows,
            values,
            values.view(np.uint32),
            _NONE32 if grads.show is None else np.ascontiguousarray(grads.show, np.float32),
            _NONE32 if grads.click is None else np.ascontiguousarray(grads.click, np.float32),
        )

    def find(self, ids: Any) -> U32:
        """Return the rows of ids within their partitions, :data:`NO_ROW` where there is none."""
        ids = check_ids(ids, f"group {self.spec.name!r}")
        order, bounds = self.split(ids)
        rows = np.full(len(ids), NO_ROW, np.uint32)
        for p, part in enumerate(self.partitions):
            with part.lock:
                part.find(ids, order, bounds[p], bounds[p + 1], rows)
        return rows


def _folder(spec: GroupSpec, folder: Path | None) -> Path | None:
    if spec.storage == "memory":
        return None
    if folder is None:
        raise TableError(f"group {spec.name!r} has storage 'ssd': give the shard a folder to keep its rows in")
    return folder


def _push_for(layout: Layout) -> Any:
    """Return the push loop for a group's rules: the cached one, or one built around a rule from outside."""
    rules = tuple(s.rule for s in layout.segments)
    return (
        push_rows
        if all(rule.code >= 0 for rule in rules)
        else rebuilt_around(rules, push_rows, update_segment, update_block)
    )
