"""Rows over time: shrink, the end of a day, and which rows a delta or base save holds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from heterps.errors import TableError
from heterps.tables.live.group import RowGroup
from heterps.tables.live.owners import Partition
from heterps.tables.specs.accessor import Accessor, Counters

__all__ = ["KINDS", "Kind", "after_save", "select", "shrink"]

Columns = dict[str, npt.NDArray[Any]]
Kind = Literal["checkpoint", "changes", "delta", "base"]
#: What a save may hold: everything, exactly what changed, what was shown enough of late, what is worth serving.
KINDS: tuple[Kind, ...] = ("checkpoint", "changes", "delta", "base")
#: Rows whose counters are changed together.
_SOME = 1 << 16


def shrink(group: RowGroup) -> int:
    """Age the counters of a group once and delete rows that are not worth keeping; return how many went.

    Ids that wait for admission are forgotten: what was seen of them is as old as the rows that go.
    """
    accessor = _accessor(group)
    deleted = 0
    for part in group.partitions:
        with part.lock:
            for rows in _some(part):
                aged = np.stack(accessor.decay(Counters(*part.counters(rows))))
                dropped = accessor.drop(Counters(*aged))
                part.delete(rows[dropped])
                part.set_counters(rows[~dropped], aged[:, ~dropped])
                deleted += int(dropped.sum())
    if group.waiting is not None:
        for part in group.waiting.partitions:
            with part.lock:
                part.delete(part.live())
    return deleted


def select(accessor: Accessor | None, columns: Columns, kind: Kind) -> Columns:
    """Return the rows that a save of this kind holds."""
    if kind not in KINDS:
        raise TableError(f"a save is one of {KINDS}, not {kind!r}")
    if kind in ("checkpoint", "changes") or accessor is None:
        return columns
    counters = Counters(*(columns[name] for name in Counters._fields))
    kept = accessor.in_delta(counters) if kind == "delta" else accessor.in_base(counters)
    return {name: array[kept] for name, array in columns.items()}


def after_save(group: RowGroup, kind: Kind) -> None:
    """Note that a save has succeeded: saved rows start a new delta; a base save ends the day.

    Separate from writing, so that a save that failed can be repeated.
    """
    accessor = group.spec.accessor
    if kind in ("checkpoint", "changes") or accessor is None:
        return
    for part in group.partitions:
        with part.lock:
            _note(accessor, part, kind)


def _note(accessor: Accessor, part: Partition, kind: Kind) -> None:
    for rows in _some(part):
        c = Counters(*part.counters(rows))
        saved = accessor.in_delta(c) if kind == "delta" else accessor.in_base(c)
        days = c.unseen_days + np.float32(kind == "base")
        part.set_counters(rows, c._replace(delta_score=np.where(saved, np.float32(0), c.delta_score), unseen_days=days))


def _some(part: Partition) -> Iterator[npt.NDArray[np.int64]]:
    """Yield the rows in use, some at a time: those of a table on disk are read."""
    rows = part.live()
    for first in range(0, len(rows), _SOME):
        yield rows[first : first + _SOME]


def _accessor(group: RowGroup) -> Accessor:
    if group.spec.accessor is None:
        names = [table.name for table in group.spec.tables]
        raise TableError(f"group {group.spec.name!r} cannot shrink: none of its tables {names} has an accessor")
    return group.spec.accessor
