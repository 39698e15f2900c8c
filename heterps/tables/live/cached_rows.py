"""Rows that a worker keeps because it meets them often: what they were when it last heard, and how old that is.

1. A row has a value as of some moment (a number that only grows) and, while it is asked for, the moment of that.
2. Rows that a batch will use are not let go before it was computed. Beyond those, at most ``most`` are kept.
3. Those go that are met least, of equals the least recent. How often ids are met is counted by their hash, for a while
   and also of rows that went: a hot row comes back as a hot one. All counts are halved from time to time, so that what
   was hot long ago cools down.
4. Some go at once (``_SHARE``), so that looking for them costs little.
5. A row that is met more often than those that went last will stay: with its value the slots of its rule are asked for,
   once. From then on a worker's own gradients change it here as well (:mod:`~heterps.tables.live.own_steps`).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from heterps.errors import TableError
from heterps.tables.live.gradients import RowGradients
from heterps.tables.live.group import RowGroup
from heterps.tables.live.own_steps import OwnMarks, OwnSteps, can_step, ruled_group
from heterps.tables.specs.initialisers import Zeros
from heterps.tables.specs.rules import SGD
from heterps.tables.specs.spec import GroupSpec, TableSpec

__all__ = ["CachedRows", "KeptRows", "bare_group", "bare_spec", "cached_row_bytes", "index_group"]

U64 = npt.NDArray[np.uint64]
U32 = npt.NDArray[np.uint32]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
F32 = npt.NDArray[np.float32]

_NEVER = np.int64(-(1 << 62))
_SHARE = 8  # the part of the rows that goes when there are too many
_BESIDE = 4 * 8 + 4 + 1 + 16  # bytes of a row that are kept beside it, with what is remembered of uses
_INDEX = 12  # bytes of a row's place in the index
_MEMORY = 4  # ids whose uses are remembered, for each row that is kept
_FADING = 8  # uses of each after which all of them count half


def bare_group(spec: GroupSpec) -> RowGroup:
    """Return rows of a group's width with nothing but values, zeros to begin with."""
    return RowGroup(bare_spec(spec.name, spec.width), seed=0, owned=(0,))


def index_group(spec: GroupSpec) -> RowGroup:
    """Return rows with hardly more than a number: what belongs to them is elsewhere."""
    return RowGroup(bare_spec(spec.name, 1), seed=0, owned=(0,))


def bare_spec(name: str, width: int) -> GroupSpec:
    """Return what rows are that have nothing but values."""
    return GroupSpec(name, (TableSpec(name, width, SGD(), Zeros()),), n_shards=1)


def cached_row_bytes(spec: GroupSpec) -> int:
    """Return what a row of a group takes in a cache."""
    own = 2 * (4 * spec.width + 8) + sum(4 * t.rule.slots(t.dim) for t in spec.tables) if can_step(spec) else 0
    return 4 * max(2 + spec.width, 3) + own + _BESIDE + _INDEX


class KeptRows:
    """Which rows of one group are kept, and how old they are; where their values are is for others to say.

    One thread calls it.

    Parameters
    ----------
    spec
        The group as hosts have it.
    most
        Rows that are kept beside those of batches under way.
    index
        Where rows get their numbers.
    slots
        Of a row's rule, where own steps are taken.
    marks
        Of own steps; None where none are taken.
    """

    def __init__(self, spec: GroupSpec, most: int, index: RowGroup, slots: int, marks: OwnMarks | None) -> None:
        if most < 0:
            raise TableError(f"group {spec.name!r}: a cache of {most} rows")
        self.width, self.most = spec.width, most
        self._group, self._slots, self._marks = index, slots, marks
        self._heard: I64 = np.empty(0, np.int64)  # by row: as of which moment its value is
        self._coming: I64 = np.empty(0, np.int64)  # by row: as of which it was last asked for
        self._version: I64 = np.empty(0, np.int64)  # by row: of the host, then
        self._needed: I64 = np.empty(0, np.int64)  # by row: the last batch that will use it, or did
        self._uses: I32 = np.empty(0, np.int32)  # by row: how often its id was met; below 0: no row
        # Uses by the hash of an id: those that share a place are taken for one.
        self._met: I32 = np.zeros(1 << max(16, (_MEMORY * most - 1).bit_length()), np.int32)
        self._meetings = 0  # since all of them were halved
        self._stepping: npt.NDArray[np.bool_] = np.empty(0, np.bool_)  # by row: whether its slots are here
        self._seldom = 1  # as often those were met that went last

    def __len__(self) -> int:
        return len(self._group)

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        return self._group.nbytes + len(self._heard) * (_BESIDE - 16) + self._met.nbytes

    @property
    def slot_bytes(self) -> int:
        """Bytes of the slots of a row's rule."""
        return 4 * self._slots

    def _grow(self) -> None:
        room, high = len(self._heard), self._group.only.high
        if high > room:
            more = max(room, high - room, 1024)
            never, zeros = np.full(more, _NEVER), np.zeros(more, np.int64)
            self._heard, self._coming = np.concatenate([self._heard, never]), np.concatenate([self._coming, never])
            self._version, self._needed = np.concatenate([self._version, zeros]), np.concatenate([self._needed, never])
            self._uses = np.concatenate([self._uses, np.full(more, -1, np.int32)])
            self._stepping = np.concatenate([self._stepping, np.zeros(more, np.bool_)])
            if self._marks is not None:
                self._marks.grow(len(self._heard))

    def need(self, ids: U64, batch: int, needed: int, now: int) -> tuple[U32, npt.NDArray[np.bool_]]:
        """Say where the rows of unique ids stand or will stand, and which of them must be asked for now.

        Those are asked for as of the moment ``now`` by this call. Others are as new as ``needed``, or were asked for by
        an earlier batch and will be.
        """
        rows = self._group.create(ids)
        self._grow()
        new = rows[self._uses[rows] < 0]
        self._begin(new)
        self._uses[rows] = self._meet(ids)
        self._needed[rows] = np.maximum(self._needed[rows], batch)
        lacking = np.maximum(self._heard[rows], self._coming[rows]) < needed
        self._coming[rows[lacking]] = now
        return rows, lacking

    def _begin(self, rows: U32) -> None:
        """Nothing is known of rows."""
        self._heard[rows], self._coming[rows], self._stepping[rows] = _NEVER, _NEVER, False
        if self._marks is not None:
            self._marks.forget(rows)

    def wants_slots(self, rows: U32) -> npt.NDArray[np.bool_]:
        """Say which of the rows that are asked for will stay, so that the slots of their rule are worth asking for."""
        if not self._slots:
            return np.zeros(len(rows), np.bool_)
        wanted: npt.NDArray[np.bool_] = (self._uses[rows] > self._seldom) & ~self._stepping[rows]
        return wanted

    def _meet(self, ids: U64) -> I32:
        """Count uses of ids; return how many there were."""
        if self._meetings > _FADING * len(self._met):
            self._met >>= 1
            self._uses >>= 1  # below 0 stays below 0
            self._seldom = max(1, self._seldom >> 1)
            self._meetings = 0
        self._meetings += len(ids)
        places = (ids * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(65 - len(self._met).bit_length())
        met: I32 = self._met[places] + np.int32(1)
        self._met[places] = met
        return met

    def _newer(self, rows: U32, moment: int, version: int) -> npt.NDArray[np.bool_]:
        """Rows came as they were at a moment: say for which of them that is news."""
        newer: npt.NDArray[np.bool_] = self._heard[rows] < moment
        self._heard[rows[newer]], self._version[rows[newer]] = moment, version
        return newer

    def _stepped(self, rows: U32, unit: int) -> I64:
        """Say at which of the rows of a batch its own steps are taken; ``unit`` is that of the batch.

        Those that have their slots here, but where the host had the batch already, from an attempt that was lost.
        """
        lacking = self._heard[rows] <= unit
        return np.flatnonzero(lacking & self._stepping[rows] if self._slots else lacking)

    def ages(self, rows: U32) -> tuple[I64, I64]:
        """Return as of which moments rows are, and under which versions of their hosts."""
        return self._heard[rows], self._version[rows]

    def let_go(self, before: int) -> int:
        """Let rows go that are more than the most, and that no batch from ``before`` on needs; return how many went."""
        if len(self) <= self.most:
            return 0
        free = np.flatnonzero((self._uses >= 0) & (self._needed < before))
        going = len(self) - self.most + self.most // _SHARE
        if len(free) > going:
            worth = (self._uses[free].astype(np.int64) << 32) + np.maximum(self._needed[free] - before + (1 << 31), 0)
            free = free[np.argpartition(worth, going)[:going]]
            self._seldom = max(1, int(self._uses[free].max()))
        self._delete(free)
        return len(free)

    def _delete(self, rows: I64) -> None:
        part = self._group.only
        with part.lock:
            part.delete(rows)
        self._uses[rows] = -1
        self._needed[rows] = _NEVER


class CachedRows(KeptRows):
    """The rows of one group with their values, in memory.

    Parameters
    ----------
    spec, most
        See :class:`KeptRows`.
    """

    def __init__(self, spec: GroupSpec, most: int) -> None:
        self._own = OwnSteps(spec.width) if most and can_step(spec) else None
        group = bare_group(spec) if self._own is None else ruled_group(spec)
        super().__init__(spec, most, group, group.layout.slots if self._own else 0, self._own)

    def set_rate(self, rate: float) -> None:
        """Multiply learning rates by a factor from now on."""
        self._group.set_rate(rate)

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        return super().nbytes + (len(self._heard) * 2 * (4 * self.width + 8) if self._own else 0)

    @property
    def _values(self) -> F32:
        first = self._group.layout.value
        view: F32 = self._group.only.words.view(np.float32)[:, first : first + self.width]
        return view

    def take(self, rows: U32, values: F32, moment: int, version: int, slots: F32 | None = None) -> None:
        """Take rows as they were at a moment, unless something newer came meanwhile; ``slots`` of the first ones."""
        if slots is not None:
            self._set_slots(rows[: len(slots)], slots)
        newer = self._newer(rows, moment, version)
        rows, values = rows[newer], values[newer]
        self._values[rows] = values
        if self._own is not None:
            self._own.put(self._values, rows, moment)

    def _set_slots(self, rows: U32, slots: F32) -> None:
        first = self._group.layout.state
        where = slice(first, first + self._slots)
        self._group.partitions[0].set_slots(rows.astype(np.int64), where, slots)
        self._stepping[rows] = True

    def learn(self, ids: U64, rows: U32, gradients: F32, unit: int, step: int) -> None:
        """Take a batch's steps on the rows that have their slots here."""
        if self._own is None:
            return
        at = self._stepped(rows, unit)
        rows, before = rows[at], self._values[rows[at]]
        self._group.push(RowGradients(ids[at], gradients[at], rows), step=step)
        self._own.note(rows, self._values[rows] - before, unit)

    def read(self, rows: U32, out: F32) -> tuple[I64, I64]:
        """Write the values of rows; return how old they are, see :meth:`ages`."""
        np.take(self._values, rows, axis=0, out=out, mode="clip")
        return self.ages(rows)
