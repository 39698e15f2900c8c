"""One partition of a group on a shard host: an index, its rows, and the lock that guards both."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.tables import index
from heterps.tables.layout import Layout
from heterps.tables.region import Region, physical_bytes
from heterps.tables.rows import BLOCK, Gradients, Store, delete_rows, find_rows, new_block, pull_rows, push_rows

__all__ = ["Partition"]

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]
U32 = npt.NDArray[np.uint32]
F32 = npt.NDArray[np.float32]

#: Share of the machine's memory for which one group reserves address space (pages come with rows only).
_RESERVE = 2
_MOST_ROWS = 2**31 - 1


class Partition:
    """Rows of a range of logical shards. Whoever calls holds :attr:`lock`; loops run without the interpreter lock."""

    def __init__(self, layout: Layout, *, share: int = 1, folder: Path | None = None, push: Any = push_rows) -> None:
        self.layout, self.lock = layout, threading.Lock()
        self._push = push
        room = physical_bytes() * _RESERVE // share if folder is None else 1 << 43
        most = max(min(room // layout.row_bytes, _MOST_ROWS), 1 << 12)
        self._rows = Region(np.uint32, most * layout.stride, folder)
        most = min(most, len(self._rows) // layout.stride)
        # Places for a full index at its lowest load, and for one run of everything behind it (rule 3 of the index).
        self._entries = Region(np.uint64, most * 5 // 2 + 2 * index.LEAST)
        self.most = min(most, len(self._entries) * 2 // 5)
        self.meta = index.new_meta(layout.row_bytes)
        self._scratch = np.zeros(BLOCK * layout.width if layout.half else 1, np.float32)
        self._block = new_block()
        self._stats = np.zeros(5, np.int64)
        self.store = self._new_store(layout.rule_numbers(0))

    def _new_store(self, numbers: F32) -> Store:
        layout = self.layout
        return Store(
            self._entries.array,
            self.meta,
            self._rows.array,
            self._rows.array.view(np.float32),
            layout.numbers,
            layout.segment_numbers,
            numbers,
            layout.init_numbers,
            layout.init_keys,
            layout.template,
            layout.score_numbers,
            self._scratch,
            np.empty(0, np.uint8),
            np.empty(0, np.uint32),
            np.zeros(1, np.int64),
        )

    def __len__(self) -> int:
        return int(self.meta[index.COUNT])

    @property
    def high(self) -> int:
        """Rows ever used: live and free ones."""
        return int(self.meta[index.HIGH])

    @property
    def words(self) -> U32:
        """The used rows as ``[high, stride]`` 32-bit words."""
        stride = self.layout.stride
        array: U32 = self._rows.array[: self.high * stride].reshape(self.high, stride)
        return array

    @property
    def nbytes(self) -> int:
        """Bytes in use by index and rows."""
        places = int(self.meta[index.CAP])
        return 8 * places + self.high * self.layout.row_bytes

    def make_room(self, n: int) -> None:
        """Make sure ``n`` more rows can be written."""
        rows = self.high + n
        self._rows.commit(min(rows, self.most + 1) * self.layout.stride)
        self._entries.commit(min(rows, self.most + 1))

    def set_numbers(self, numbers: F32) -> None:
        """Set what the rules' loops take, for the next push."""
        self.store = self.store._replace(numbers=numbers)

    def pull(self, ids: U64, order: I32, lo: int, hi: int, rows: U32, out: F32, make: bool) -> int:
        """Copy out values; see :func:`~heterps.tables.rows.pull_rows`."""
        if make:
            self.make_room(hi - lo)
        return int(pull_rows(self.store, ids, order, lo, hi, rows, out, make))

    def push(
        self, g: Gradients, order: I32, lo: int, hi: int, make: bool, tick: int, missing: I32
    ) -> npt.NDArray[np.int64]:
        """Apply gradients; return (applied, skipped, created, missing, ...), valid until the next push."""
        if make:
            self.make_room(hi - lo)
        self._stats[:] = 0
        self._push(self.store, g, self._block, order, lo, hi, make, np.uint32(tick), missing, self._stats)
        return self._stats

    def find(self, ids: U64, order: I32, lo: int, hi: int, rows: U32) -> int:
        """Write the rows of ids, return how many have none."""
        return int(find_rows(self.store, ids, order, lo, hi, rows))

    def delete(self, rows: I64) -> None:
        """Delete rows that exist."""
        delete_rows(self.store, np.ascontiguousarray(rows, np.int64))

    def live(self) -> I64:
        """Return the numbers of the rows in use."""
        words = self.words
        free = (words[:, 0] == 0xFFFFFFFF) & (words[:, 1] == 0xFFFFFFFF)
        return np.flatnonzero(~free)
