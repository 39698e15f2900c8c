"""The rows of a group that a shard trains on a device: some of them up there, all of them in a RowGroup below.

A row goes up when a batch asks for it and stays until there is no room for another; then what has changed comes down
and the table is built anew from the batches that follow (a *turn*). What is up there is newer than what is below, so
whoever reads below calls :meth:`DeviceGroup.settle` first, and whoever changes it :meth:`DeviceGroup.leave`; a
:class:`~heterps.tables.live.shard.Shard` does so for all of its readers. New rows get their first values below: they
have the same bits wherever they are trained. Not run on a GPU yet.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from heterps.device.arrays import Array, Namespace, is_host, to_device, to_host
from heterps.tables.live.gradients import PushCounts, RowGradients
from heterps.tables.live.group import RowGroup
from heterps.tables.on_device.array_rows import rows_on
from heterps.tables.on_device.device_rows import rows_within
from heterps.tables.on_device.host_rows import give_words, take_words

__all__ = ["DeviceGroup", "RisenRows"]

U64 = npt.NDArray[np.uint64]
_FIRST = 1024  # rows to begin with where nobody sets a limit


class RisenRows(NamedTuple):
    """Where ids stand in a table on a device, as long as it is not built anew: a hint for the push."""

    rows: Array
    built: int

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the rows."""
        return tuple(self.rows.shape)

    def copy(self) -> RisenRows:
        """Return the same: nobody writes to it."""
        return self


class DeviceGroup:
    """Trains the rows of a group on a device. Safe to call from several threads: one works at a time.

    All kernels are queued on the current stream of the calling thread, in the order of the lock.

    Parameters
    ----------
    below
        All rows of the group, but for what was trained since they went up.
    xp
        Array library of the device.
    limit
        Bytes that may be used there, reserved at once; None to grow as rows come.

    Attributes
    ----------
    risen, fallen, turns
        Rows that went up so far, changed ones that came down, and how often all of them came down to make room.
    """

    def __init__(self, below: RowGroup, *, xp: Namespace, limit: int | None = None) -> None:
        self.below, self.xp = below, xp
        self.risen = self.fallen = self.turns = 0
        self._most = None if limit is None else max(rows_within(below.spec, limit), 1)  # rows that fit
        self._above = rows_on(xp, below.spec, seed=below.layout.seed, rows=self._most or _FIRST, limit=limit)
        self._built = 0  # how often the table was built anew: rows that were found before are others
        self._lock = threading.RLock()  # around the table above, and what goes up and comes down
        self._skipped: Array = xp.zeros(1, np.int32)  # gradients left out since somebody asked

    def set_rate(self, rate: float) -> None:
        """Multiply learning rates by a factor from now on."""
        self._above.layout.rate = rate

    def __len__(self) -> int:
        return len(self._above)

    @property
    def nbytes(self) -> int:
        """Bytes in use on the device."""
        return self._above.nbytes

    def pull(self, ids: U64) -> tuple[Array, RisenRows | None]:
        """Return the values of distinct ids, a copy on the device, and where they stand; new ids get their rows."""
        with self._lock:
            pieces = self._pieces(len(ids))
            if len(pieces) == 1:
                rows = self._risen(ids)
                return self._above.read(rows), RisenRows(rows, self._built)
            return self.xp.concatenate([self._above.read(self._risen(ids[piece])) for piece in pieces]), None

    @contextmanager
    def prepared(self, grads: RowGradients) -> Iterator[Callable[[int, int], PushCounts]]:
        """Have rows for gradients, below where not all fit up there; yield what applies them (as a RowGroup does)."""
        grads.check(self.below.spec.name, self.below.spec.width)
        hint: Any = grads.rows
        with self._lock:
            pieces = self._pieces(len(grads))
            first = None
            if len(pieces) > 1:
                self.below.create(grads.ids)  # refused here if at all
            elif isinstance(hint, RisenRows) and hint.built == self._built:
                first = hint.rows
            else:
                first = self._risen(grads.ids)

            def apply(step: int, key: int) -> PushCounts:
                values = to_device(grads.values, self.xp) if is_host(grads.values) else grads.values
                for piece in pieces:
                    rows = self._risen(grads.ids[piece]) if first is None else first
                    self._skipped += self._above.update(rows, values[piece], step=step)
                return PushCounts(applied=len(grads))

            yield apply

    def _pieces(self, n: int) -> list[slice]:
        """Divide so many ids into pieces that fit, one after another."""
        most = self._most or max(n, 1)
        return [slice(low, min(low + most, n)) for low in range(0, n, most)] or [slice(0, 0)]

    def _risen(self, ids: U64) -> Array:
        """Return the rows of distinct ids that fit, all of them up there."""
        there = to_device(ids, self.xp)
        rows, missing = self._above.find_all(there)
        if not missing:
            return rows
        if self._most is not None and len(self._above) + missing > self._most:
            self.leave()
            self.turns += 1
            self._raise(ids)
        else:
            self._raise(ids[to_host(rows) < 0])
        return self._above.find(there)

    def _raise(self, ids: U64) -> None:
        self._above.load(ids, take_words(self.below, ids))
        self.risen += len(ids)

    def settle(self) -> None:
        """Let everything that was trained come down; it stays up there as well."""
        with self._lock:
            ids, words = self._above.take_changed()
            give_words(self.below, ids, words)
            self.fallen += len(ids)

    def leave(self) -> None:
        """Let everything come down and nothing stay: what is below may be changed then."""
        with self._lock:
            self.settle()
            self.forget()

    def forget(self) -> None:
        """Let everything go that is up there: what is below is being replaced."""
        with self._lock:
            self._built += 1
            self._above.clear()

    def take_skipped(self) -> int:
        """Return how many gradients were left out since the last call; waits for the device."""
        with self._lock:
            skipped, self._skipped = self._skipped, self.xp.zeros(1, np.int32)
        return int(to_host(skipped)[0])
