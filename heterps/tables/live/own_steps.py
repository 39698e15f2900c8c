"""Steps that a worker takes itself on rows it keeps, until the shard hosts have taken them.

1. A row that is kept is shown as hosts had it, with the steps on top that they have not taken yet as far as is known:
   those of units (of batches) that were not in it when it was read.
2. The steps are a forecast. Hosts get the gradients and apply the rule to their sum; what they come to replaces it.
3. At most two units are under way at once, so a row has room for the changes of two.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from heterps.tables.live.group import RowGroup
from heterps.tables.specs.initialisers import Zeros
from heterps.tables.specs.spec import GroupSpec

__all__ = ["OwnMarks", "OwnSteps", "can_step", "ruled_group", "ruled_spec"]

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]
U32 = npt.NDArray[np.uint32]
Mask = npt.NDArray[np.bool_]

_UNITS = 2
_NEVER = np.int64(-(1 << 62))


def can_step(spec: GroupSpec) -> bool:
    """Say whether a worker can foretell what hosts do with a gradient: where they count nothing and admit every id."""
    return spec.entry is None and spec.accessor is None and spec.create_on == "pull"


def ruled_group(spec: GroupSpec) -> RowGroup:
    """Return rows with the rules of a group and nothing else, zeros to begin with."""
    return RowGroup(ruled_spec(spec), seed=0, owned=(0,))


def ruled_spec(spec: GroupSpec) -> GroupSpec:
    """Return what such rows are."""
    tables = tuple(replace(table, dtype="float32", init=Zeros()) for table in spec.tables)
    return GroupSpec(spec.name, tables, n_shards=1)


class OwnMarks:
    """By row, of which units under way it has changes, and in which of two rooms these are. One thread calls it."""

    def __init__(self) -> None:
        self._units: I64 = np.empty((_UNITS, 0), np.int64)  # by room and row: of which unit the changes are
        self._rooms: dict[int, int] = {}  # by unit, at most two

    def grow(self, room: int) -> None:
        """Have room for so many rows."""
        more = room - self._units.shape[1]
        if more > 0:
            self._units = np.concatenate([self._units, np.full((_UNITS, more), _NEVER)], axis=1)

    def forget(self, rows: U32 | I64) -> None:
        """Rows are others from now on."""
        self._units[:, rows] = _NEVER

    def mark(self, rows: U32, unit: int) -> tuple[int, Mask]:
        """A batch of a unit changes rows: return the room, and where the unit has changed them before.

        Units are known by the number of their first batch.
        """
        at = self._room(unit)
        same = self._units[at, rows] == unit
        self._units[at, rows] = unit
        return at, same

    def _room(self, unit: int) -> int:
        if unit not in self._rooms:
            self._rooms[unit] = self._rooms.pop(min(self._rooms)) if len(self._rooms) == _UNITS else len(self._rooms)
        return self._rooms[unit]

    def lacking(self, rows: U32, contained: int) -> list[tuple[int, Mask]]:
        """Return by room which rows have changes of units that were not in them when hosts sent them."""
        return [(at, self._units[at, rows] >= contained) for at in sorted(self._rooms.values())]


class OwnSteps(OwnMarks):
    """And what each unit has changed."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self._changes: F32 = np.empty((_UNITS, 0, width), np.float32)

    def grow(self, room: int) -> None:
        """Have room for so many rows."""
        more = room - self._changes.shape[1]
        if more > 0:
            changes = np.empty((_UNITS, more, self._changes.shape[2]), np.float32)
            self._changes = np.concatenate([self._changes, changes], axis=1)
        super().grow(room)

    def note(self, rows: U32, changes: F32, unit: int) -> None:
        """Add what a batch of a unit has changed."""
        at, same = self.mark(rows, unit)
        self._changes[at, rows[same]] += changes[same]
        self._changes[at, rows[~same]] = changes[~same]

    def put(self, values: F32, rows: U32, contained: int) -> None:
        """Add to the values of rows, as hosts had them, the steps of units that were not in them.

        Others are not touched: adding nothing would make a plus of a minus zero.
        """
        for at, open_ in self.lacking(rows, contained):
            values[rows[open_]] += self._changes[at, rows[open_]]
