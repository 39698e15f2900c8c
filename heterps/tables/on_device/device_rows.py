"""Rows of a group on a device: find or create, read, update, grow, give back. Launches ``device_rows.cu``.

Words (:mod:`~heterps.tables.on_device.row_words`) and an index by id. Row numbers go up in the order in which ids came,
ids of one batch ascending: they do not depend on the order of device threads.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.device.arrays import Array, Namespace, to_device, to_host
from heterps.device.memory import free_memory
from heterps.errors import TableError, TableFullError
from heterps.tables.hashing import RESERVED
from heterps.tables.live.row_layout import RowLayout
from heterps.tables.on_device.able import check_group
from heterps.tables.on_device.dedupe import DistinctIds, distinct
from heterps.tables.on_device.row_words import RowWords, words_in
from heterps.tables.specs.spec import GroupSpec

__all__ = ["DeviceRows", "device_bytes", "rows_within"]

#: Places of the index per row at least; at most twice as many, being a power of two.
PLACES = 2
#: What a place takes: an id and a row number.
PLACE_BYTES = 12
#: What a row takes beside its words: an id, and whether it has changed.
ROW_BYTES = 9


def device_bytes(group: GroupSpec, rows: int) -> int:
    """Return what the rows of a group take on a device, their index included."""
    layout = RowLayout(group, seed=0)
    return rows * (4 * words_in(layout) + ROW_BYTES) + _places(rows) * PLACE_BYTES


class DeviceRows(RowWords):
    """The rows of one group on one device.

    Parameters
    ----------
    group
        What the tables are. Counters, entries, eviction and half precision stay with the hosts and are refused here.
    seed
        Of the first values, as for a :class:`~heterps.tables.live.group.RowGroup`.
    xp
        Array library of the device; it has to run CUDA kernels.
    rows
        Rows to make room for at once; more are made room for as ids come, each time for twice as many.
    limit
        Bytes that may be used, what is free on the device unless given.
    """

    def __init__(
        self, group: GroupSpec, *, seed: int, xp: Namespace, rows: int = 1024, limit: int | None = None
    ) -> None:
        check_group(group)
        super().__init__(group, seed=seed, xp=xp)
        self._limit = free_memory(xp) if limit is None else limit
        self._used = 0
        self._ids: Array = None
        self._changed: Array = None  # by row: whether its words are others than those that a host has
        self._keys: Array = None
        self._places: Array = None
        self._make_room(max(rows, 1))

    def __len__(self) -> int:
        return self._used

    @property
    def nbytes(self) -> int:
        """Bytes in use on the device."""
        return sum(int(a.nbytes) for a in (self.words, self._ids, self._changed, self._keys, self._places))

    # rows of ids

    def find(self, ids: Array) -> Array:
        """Return the rows of ids, -1 where there is none."""
        return self._find(ids)[0]

    def find_or_create(self, ids: Array) -> Array:
        """Return the rows of distinct ids; absent ones get their first values. The host waits once."""
        rows, missing = self.find_all(ids)
        if missing:
            absent = rows < 0
            rows = self._number(ids, rows, missing)
            at = self.xp.flatnonzero(absent)
            self._start(self.xp.take(ids, at), self.xp.take(rows, at))
        return rows

    def find_all(self, ids: Array) -> tuple[Array, int]:
        """Return the rows of ids, -1 where there is none, and how many have none. The host waits once."""
        rows, counts = self._find(ids)
        missing, reserved, _ = (int(n) for n in to_host(counts))
        if reserved:
            raise TableError(f"group {self.group.name!r}: 2**64 - 1 is reserved and cannot be an id")
        return rows, missing

    def _number(self, ids: Array, rows: Array, missing: int) -> Array:
        """Enter the distinct ids that have no row; return the rows of all, the new ones to be filled."""
        self._make_room(self._used + missing)
        absent = rows < 0
        numbers = (self._used - 1 + self.xp.cumsum(absent)).astype(np.int32)
        self._enter(ids, self.xp.where(absent, numbers, np.int32(-1)))
        rows = self.xp.where(absent, numbers, rows)
        self._ids[rows] = ids
        self._used += missing
        return rows

    def _find(self, ids: Array) -> tuple[Array, Array]:
        n, xp = ids.shape[0], self.xp
        rows, counts = xp.empty(n, np.int32), xp.zeros(3, np.int32)
        self._kernels.launch("find_rows", n, (*self._index(), ids, rows, counts, np.int64(n)))
        return rows, counts

    def _index(self) -> tuple[Any, ...]:
        return self._keys, self._places, np.uint64(self._keys.shape[0] - 1)

    def _enter(self, ids: Array, rows: Array) -> None:
        n, counts = ids.shape[0], self.xp.zeros(3, np.int32)
        self._kernels.launch("insert_ids", n, (*self._index(), ids, rows, counts, np.int64(n)))

    def _start(self, ids: Array, rows: Array) -> None:
        """Give new rows their first values and slots."""
        words, stride, n = self.words, words_in(self.layout), ids.shape[0]
        template = to_device(self.layout.template[: self.layout.slots], self.xp)
        words[rows, self.group.width :] = template
        for k, s in enumerate(self.layout.segments):
            a, b = self.layout.init_numbers[k]
            numbers = (np.int32(s.column), np.int32(s.n), np.int32(s.init.code), np.float64(a), np.float64(b))
            args = (words, np.int64(stride), rows, ids, *numbers, np.uint64(self.layout.init_keys[k]), np.int64(n))
            self._kernels.launch("draw_values", n, args)

    # values out, gradients in

    def pull(self, ids: Array, *, train: bool) -> tuple[Array, DistinctIds, Array]:
        """Return values of the distinct ids of a batch, those ids, and their rows."""
        found = distinct(self.xp, ids)
        rows = self.find_or_create(found.ids) if train else self.find(found.ids)
        return self.read(rows), found, rows

    def push(self, ids: Array, gradients: Array, *, step: int = 0, shows: Array | None = None) -> Array:
        """Apply gradients ``[positions, width]`` of ids in any order, an id as often as it comes.

        Gradients of an id are added up in the order of the batch, shows too. A row whose gradient is not finite is left
        as it is. Returns a device array with the number of rows left out, so that nobody has to wait for it.
        """
        found = distinct(self.xp, ids)
        merged = self.merge(found, gradients)
        scales = None if shows is None else self.merge(found, shows.reshape(-1, 1)).reshape(-1)
        return self.update(self.find_or_create(found.ids), merged, step=step, shows=scales)

    def merge(self, found: DistinctIds, gradients: Array) -> Array:
        """Add up the gradients of each id, in the order of the batch."""
        n, width = len(found), gradients.shape[1]
        merged = self.xp.empty((n, width), np.float32)
        args = (gradients, np.int32(width), found.order, found.starts, merged, np.int64(n * width))
        self._kernels.launch("merge_gradients", n * width, args)
        return merged

    def update(self, rows: Array, gradients: Array, *, step: int = 0, shows: Array | None = None) -> Array:
        """Apply one gradient to each of distinct rows; see :meth:`push`."""
        self._changed[rows] = True
        return self.apply(rows, gradients, step, shows)

    # growth, and the way to and from hosts

    def _make_room(self, rows: int) -> None:
        """Make room for rows, twice as many as there were at least; the index is built anew."""
        room = 0 if self._ids is None else self._ids.shape[0]
        if rows <= room:
            return
        wanted = max(rows, 2 * room)
        if not self._fits(wanted):
            wanted = rows  # not twice as many, but what is asked for
        if not self._fits(wanted):
            raise self._full_error(wanted)
        xp = self.xp
        ids, changed = xp.full(wanted, RESERVED, dtype=np.uint64), xp.zeros(wanted, bool)
        self.grow(wanted, self._used)
        if self._used:
            ids[: self._used] = self._ids[: self._used]
            changed[: self._used] = self._changed[: self._used]
        self._ids, self._changed = ids, changed
        self._keys = self._places = None  # given back before the larger index is made
        self._clear_index(wanted)
        if self._used:
            self._enter(ids[: self._used], xp.arange(self._used, dtype=np.int32))

    def _clear_index(self, rows: int) -> None:
        """Begin an index without ids, with places for so many rows."""
        places = _places(rows)
        self._keys, self._places = self.xp.full(places, RESERVED, dtype=np.uint64), self.xp.zeros(places, np.int32)

    def _fits(self, rows: int) -> bool:
        """Whether the larger table fits; while rows are copied over, those that there are stay too."""
        kept = sum(0 if a is None else int(a.nbytes) for a in (self.words, self._ids, self._changed))
        return self._limit is None or kept + device_bytes(self.group, rows) <= self._limit

    def _full_error(self, rows: int) -> TableFullError:
        limit = self._limit or 0
        return TableFullError(
            f"group {self.group.name!r}: {rows} rows take {device_bytes(self.group, rows):,} bytes of the device, "
            f"which has {limit:,} for them, enough for {rows_within(self.group, limit)}: "
            "leave the table on the shard hosts, use more devices, or a smaller dim"
        )

    def load(self, ids: npt.NDArray[np.uint64], words: npt.NDArray[np.float32]) -> None:
        """Set rows from a host: values and slots of distinct ids. They count as unchanged."""
        there = to_device(ids, self.xp)
        rows, missing = self.find_all(there)
        rows = self._number(there, rows, missing) if missing else rows
        self.words[rows] = to_device(words, self.xp)
        self._changed[rows] = False

    def save(self) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.float32]]:
        """Return ids in ascending order with values and slots of their rows, on the host."""
        ids, words = to_host(self._ids[: self._used]), to_host(self.words[: self._used])
        order = np.argsort(ids, kind="stable")
        return ids[order], words[order]

    def take_changed(self) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.float32]]:
        """Return ids, values and slots of the rows that changed since they came, on the host; they count as unchanged.

        In the order of their numbers. The host waits twice.
        """
        at = self.xp.flatnonzero(self._changed[: self._used])
        ids, words = self.xp.take(self._ids, at), self.xp.take(self.words, at, axis=0)
        self._changed[: self._used] = False
        return to_host(ids), to_host(words)

    def clear(self) -> None:
        """Forget all rows; the memory stays."""
        self._used = 0
        self._changed[...] = False
        self._clear_index(int(self._ids.shape[0]))


def _places(rows: int) -> int:
    return 1 << max(PLACES * rows - 1, 1).bit_length()


def rows_within(group: GroupSpec, limit: int) -> int:
    """Return how many rows fit into so many bytes."""
    low, high = 0, max(limit // 20, 1)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if device_bytes(group, middle) <= limit else (low, middle - 1)
    return low
