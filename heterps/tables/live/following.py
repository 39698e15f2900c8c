"""Those who keep rows of a shard host's tables and follow what others change: from which moment on, and what it was.

A moment is a plain value that travels: which tables (a host that was made anew has others), and a mark of each group.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from heterps.tables.live.gradients import RowGradients
from heterps.tables.live.readers import Changes
from heterps.tables.live.shard import Shard

__all__ = ["FollowedRows", "Moment", "begin_following", "changes_since", "stop_following", "without_deleted"]

U64 = npt.NDArray[np.uint64]
F32 = npt.NDArray[np.float32]


class Moment(NamedTuple):
    """A moment of a shard host's tables, as a follower names it."""

    incarnation: str
    marks: Mapping[str, int]

    @classmethod
    def from_json(cls, told: Any) -> Moment:
        """Read what came through a socket."""
        incarnation, marks = told
        return cls(str(incarnation), {str(name): int(mark) for name, mark in marks.items()})


class FollowedRows(NamedTuple):
    """What has changed in a group: values of rows, and ids that have no row any more."""

    ids: U64
    values: F32
    deleted: U64


def begin_following(shard: Shard, reader: str, names: Collection[str] | None = None) -> Moment:
    """Let a reader follow some groups, or all, from now on; what it reads later is at least as new."""
    marks = {name: shard.group(name).readers.begin(reader) for name in shard.groups if names is None or name in names}
    return Moment(shard.incarnation, marks)


def changes_since(shard: Shard, reader: str, since: Moment) -> tuple[Moment, dict[str, FollowedRows]] | None:
    """Return a new moment and what changed up to it in the groups it follows; None if that is not known here."""
    if since.incarnation != shard.incarnation:
        return None
    found: dict[str, Changes] = {}
    for name, mark in since.marks.items():
        changes = shard.group(name).readers.changed_if_known(reader, mark)
        if changes is None:
            return None
        found[name] = changes
    rows = {name: _values(shard, name, changes) for name, changes in found.items()}
    return Moment(shard.incarnation, {name: changes.mark for name, changes in found.items()}), rows


def _values(shard: Shard, group: str, changes: Changes) -> FollowedRows:
    tables = [changes.rows[table.name] for table in shard.group(group).spec.tables]
    values = tables[0] if len(tables) == 1 else np.concatenate(tables, axis=1)
    return FollowedRows(changes.ids, np.ascontiguousarray(values, np.float32), changes.deleted)


def without_deleted(shard: Shard, since: Moment, rows: Mapping[str, RowGradients]) -> dict[str, RowGradients]:
    """Leave out the rows that were deleted here after the sender last heard: its changes must not bring them back."""
    if since.incarnation != shard.incarnation:
        return dict(rows)
    deleted = {name: shard.group(name).readers.deleted_since(mark) for name, mark in since.marks.items()}
    return {name: _kept(given, deleted[name]) if name in deleted else given for name, given in rows.items()}


def _kept(given: RowGradients, deleted: U64) -> RowGradients:
    if not len(deleted):
        return given
    kept = np.flatnonzero(~np.isin(given.ids, deleted))
    return given if len(kept) == len(given) else given.take(kept)


def stop_following(shard: Shard, reader: str) -> None:
    """Note nothing more for a reader."""
    for group in shard.groups.values():
        group.readers.forget(reader)
