"""Rows that a worker keeps because it meets them often, in the memory of the device it computes on.

1. Which rows are kept and how old they are is known on the host (:class:`~heterps.tables.live.cached_rows.KeptRows`):
   shard hosts have to be asked for what is lacking before a batch can go up, and nobody waits for the device to say it.
   Values, slots and own steps are on the device, by row number.
2. What came from hosts is put down there with the next batch that goes up, in the same copy
   (:class:`RowsThere`). No batch is computed in between, so the order is that of a cache in memory, and so are the bits
   where rules have theirs.
3. A batch's gradients stay there: they are added to those of its unit, and their steps are taken.

Not run on a GPU yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from heterps.device.arrays import Array, Namespace
from heterps.tables.live.cached_rows import KeptRows, bare_spec, index_group
from heterps.tables.live.own_steps import OwnMarks, can_step, ruled_spec
from heterps.tables.live.row_layout import RowLayout
from heterps.tables.on_device.array_rows import words_on
from heterps.tables.on_device.device_gathered import DeviceGathered
from heterps.tables.on_device.row_words import words_in
from heterps.tables.specs.spec import GroupSpec

__all__ = ["DeviceCachedRows", "OwnUnit", "RowsThere", "cache_bytes", "cached_within"]

F32 = npt.NDArray[np.float32]
I32 = npt.NDArray[np.int32]
U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]

_ROOMS = 2  # of own steps, see OwnMarks
_LEARNING = ("rows", "sums", "first", "at", "same", "numbers")  # arrays that gradients are taken with


def cache_bytes(spec: GroupSpec, rows: int) -> int:
    """Return what so many rows of a group take on a device."""
    words = words_in(RowLayout(_spec_there(spec), seed=0))
    return rows * 4 * (words + (_ROOMS * spec.width if can_step(spec) else 0))


def cached_within(spec: GroupSpec, limit: int) -> int:
    """Return how many rows fit into so many bytes."""
    return limit // cache_bytes(spec, 1)


def _spec_there(spec: GroupSpec) -> GroupSpec:
    return ruled_spec(spec) if can_step(spec) else bare_spec(spec.name, spec.width)


class _Came(NamedTuple):
    """Rows as hosts sent them, each once, and in which rooms are own steps that were not in them."""

    rows: U32
    values: F32
    lacking: npt.NDArray[np.bool_]  # by room and row


class OwnUnit(NamedTuple):
    """Own steps of a batch: its unit, and the step that schedules go by."""

    unit: int
    step: int


class DeviceCachedRows(KeptRows):
    """The rows of one group with their values on a device. One thread calls it.

    All kernels are queued on the current stream of the calling thread.

    Parameters
    ----------
    spec, most
        See :class:`~heterps.tables.live.cached_rows.KeptRows`.
    xp
        Array library of the device.
    """

    def __init__(self, spec: GroupSpec, most: int, xp: Namespace) -> None:
        self._words, self.xp = words_on(xp, _spec_there(spec)), xp
        marks = OwnMarks() if can_step(spec) else None
        super().__init__(spec, most, index_group(spec), self._words.layout.slots if marks else 0, marks)
        self._changes: Array = None  # by room and row: own steps
        self._came: list[_Came] = []  # and is not there yet
        self._came_slots: list[tuple[U32, F32]] = []
        self._make_room(most)

    def set_rate(self, rate: float) -> None:
        """Multiply learning rates by a factor from now on."""
        self._words.layout.rate = rate

    @property
    def device_bytes(self) -> int:
        """Bytes in use on the device."""
        return int(self._words.words.nbytes) + (0 if self._changes is None else int(self._changes.nbytes))

    @property
    def nbytes(self) -> int:
        """Bytes in use, here and on the device."""
        return super().nbytes + self.device_bytes

    def _make_room(self, rows: int) -> None:
        """Have room for so many rows there; those of batches under way may be more than are kept."""
        room = self._words.words.shape[0]
        if rows <= room:
            return
        rows = max(rows, room + room // 4)
        self._words.grow(rows, room)
        if self._marks is not None:
            changes = self.xp.zeros((_ROOMS, rows, self.width), np.float32)
            if room:
                changes[:, :room] = self._changes
            self._changes = changes

    def take(self, rows: U32, values: F32, moment: int, version: int, slots: F32 | None = None) -> None:
        """Take rows as they were at a moment, unless something newer came meanwhile; ``slots`` of the first ones."""
        if slots is not None and len(slots):
            self._came_slots.append((rows[: len(slots)], slots.copy()))
            self._stepping[rows[: len(slots)]] = True
        newer = self._newer(rows, moment, version)
        rows, lacking = rows[newer], np.zeros((_ROOMS, int(newer.sum())), np.bool_)
        for room, open_ in [] if self._marks is None else self._marks.lacking(rows, moment):
            lacking[room] = open_
        self._came.append(_Came(rows, values[newer], lacking))

    def lend(
        self, ids: U64, rows: U32, gathered: DeviceGathered, counts: tuple[F32 | None, F32 | None], own: OwnUnit | None
    ) -> RowsThere:
        """Let a batch have rows that are there or came; ``gathered`` takes its gradients, ``own`` its steps."""
        sent: dict[str, npt.NDArray[Any]] = {"rows": rows.astype(np.int32)}
        sent |= self._putting()
        places, first = gathered.place(ids, *counts)
        sent["sums"] = places.astype(np.int32)
        if not first.all():
            sent["first"] = first
        room = -1 if own is None else self._stepping_there(rows, own, sent)
        return RowsThere(self, gathered, sent, room, 0 if own is None else own.step)

    def _stepping_there(self, rows: U32, own: OwnUnit, sent: dict[str, npt.NDArray[Any]]) -> int:
        """Add what own steps need to what is sent; return the room they have, below 0 if none are taken."""
        if self._marks is None:
            return -1
        at = self._stepped(rows, own.unit)
        room, same = self._marks.mark(rows[at], own.unit)
        if not len(at):
            return -1
        sent |= {"at": at.astype(np.int32), "same": same}
        if self._words.takes_numbers:
            sent["numbers"] = self._words.layout.rule_numbers(own.step)
        return room

    def _putting(self) -> dict[str, npt.NDArray[Any]]:
        """Return what came and has to be put down there; of a row that came twice the newest."""
        sent: dict[str, npt.NDArray[Any]] = {}
        if self._came_slots:
            rows, slots = (np.concatenate(parts) for parts in zip(*self._came_slots, strict=True))
            at = _last(rows)
            sent |= {"slot_rows": rows[at].astype(np.int32), "slots": slots[at]}
        if self._came:
            rows = np.concatenate([came.rows for came in self._came])
            at = _last(rows)
            values = np.concatenate([came.values for came in self._came])[at]
            lacking = np.concatenate([came.lacking for came in self._came], axis=1)[:, at]
            sent |= {"came": rows[at].astype(np.int32), "values": values}
            sent |= {f"lacking{room}": lacking[room] for room in range(_ROOMS) if lacking[room].any()}
        self._came, self._came_slots = [], []
        return {name: array for name, array in sent.items() if len(array)}

    # --- on the device

    def put(self, there: dict[str, Array]) -> None:
        """Put down what came: values with the own steps on top that were not in them."""
        self._make_room(self._group.only.high)
        words, width = self._words.words, self.width
        if "slots" in there:
            words[there["slot_rows"], width:] = there["slots"]
        if "came" not in there:
            return
        rows, values = there["came"], there["values"]
        for room in range(_ROOMS):
            if f"lacking{room}" in there:
                stepped = values + self.xp.take(self._changes[room], rows, axis=0)
                values = self.xp.where(there[f"lacking{room}"].reshape(-1, 1), stepped, values)
        words[rows, :width] = values

    def read(self, rows: Array) -> Array:
        """Return the values of rows, a copy."""
        return self._words.read(rows)

    def step(self, there: dict[str, Array], gradients: Array, room: int, step: int) -> None:
        """Take a batch's steps on the rows that have their slots there."""
        xp = self.xp
        rows, gradients = xp.take(there["rows"], there["at"]), xp.take(gradients, there["at"], axis=0)
        before = self._words.read(rows)
        self._words.apply(rows, gradients, step, numbers=there.get("numbers"))
        changes = self._words.read(rows) - before
        added = xp.take(self._changes[room], rows, axis=0) + changes
        self._changes[room, rows] = xp.where(there["same"].reshape(-1, 1), added, changes)


class RowsThere:
    """The rows of one batch on a device: goes up with the batch, takes its gradients.

    Attributes
    ----------
    arrays
        What has to go up, here.
    """

    def __init__(
        self, cached: DeviceCachedRows, gathered: DeviceGathered, sent: dict[str, Any], room: int, step: int
    ) -> None:
        self._cached, self._gathered, self._names = cached, gathered, list(sent)
        self._room, self._step = room, step
        self._there: dict[str, Array] = {}
        self.arrays: list[npt.NDArray[Any]] = list(sent.values())

    def arrive(self, arrays: Sequence[Array]) -> Array:
        """Put down what came with them; return the values of the rows."""
        there = dict(zip(self._names, arrays, strict=True))
        self._cached.put(there)
        # What a batch went up in is free for another one as soon as its results are here: gradients come after that.
        self._there = {name: there[name].copy() for name in _LEARNING if name in there}
        return self._cached.read(there["rows"])

    def learn(self, gradients: Array) -> None:
        """Take the batch's gradients, one a row, where they are."""
        self._gathered.add(self._there["sums"], self._there.get("first"), gradients)
        if self._room >= 0:
            self._cached.step(self._there, gradients, self._room, self._step)


def _last(rows: U32) -> npt.NDArray[np.int64]:
    """Return where each of some rows comes for the last time."""
    at = np.unique(rows[::-1], return_index=True)[1]
    return len(rows) - 1 - at
