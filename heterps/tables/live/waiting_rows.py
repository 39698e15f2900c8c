"""A partition whose rows take room for their waiting columns (embedx) only when they get them.

1. A row is short, without room for columns that wait for its score, or whole; it is in one of two ordinary partitions,
   never in both, and all loops work on it there.
2. A new row is short. When a push lifts its score to the threshold it becomes whole at the end of that push: it gets
   the first values of its waiting columns, which no gradient has changed yet. Nobody sees the difference, since the
   columns of a row that waits read as zeros. A row that is whole stays so.
3. A row's number is that of a whole row, or of a short one with :data:`SHORT` set. It is good while the lock is held.
4. To everybody else rows have the words of whole ones (:class:`~heterps.tables.live.row_layout.RowLayout`).
"""

from __future__ import annotations

import threading
from collections.abc import Collection

import numpy as np
import numpy.typing as npt

from heterps.tables.live.changes import Stretch
from heterps.tables.live.partition import RowPartition
from heterps.tables.live.row_layout import RowLayout
from heterps.tables.live.short_words import ShortWords
from heterps.tables.live.turns import PULL_TURN
from heterps.tables.loops.row_loops import NO_ROW
from heterps.tables.loops.store import GradientColumns
from heterps.tables.loops.tier_loops import insert_rows
from heterps.tables.loops.upkeep import capture_rows, copy_rows, delete_rows, start_waiting
from heterps.tables.snapshots.records import RowBuffer
from heterps.tables.specs.accessor import LIVE

__all__ = ["SHORT", "WaitingPartition"]

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]
U32 = npt.NDArray[np.uint32]
F32 = npt.NDArray[np.float32]

#: Set in the number of a row that is short.
SHORT = 1 << 31


class WaitingPartition:
    """What a :class:`~heterps.tables.live.partition.RowPartition` is, of a group with columns that wait. Whoever calls
    holds :attr:`lock`.
    """

    turn = PULL_TURN

    def __init__(self, layout: RowLayout, *, share: int = 1) -> None:
        self.layout, self.lock = layout, threading.Lock()
        self._words = ShortWords(layout)
        self.long = RowPartition(layout, share=share)
        self.short = RowPartition(self._words.short, share=share)
        self._both = (self.long, self.short)

    def __len__(self) -> int:
        return len(self.long) + len(self.short)

    @property
    def high(self) -> int:
        """Rows ever used: live and free ones."""
        return self.long.high + self.short.high

    @property
    def nbytes(self) -> int:
        """Bytes in use by indices and rows."""
        return self.long.nbytes + self.short.nbytes

    @property
    def resident_bytes(self) -> int:
        """Bytes of them that are in memory now."""
        return self.nbytes

    @property
    def memory_bytes(self) -> int:
        """Bytes in use, or that will be when the indices of these rows have doubled next."""
        return self.long.memory_bytes + self.short.memory_bytes

    def set_numbers(self, numbers: F32) -> None:
        """Set what the rules' loops take, for the next push."""
        self.long.set_numbers(numbers)
        self.short.set_numbers(numbers[self._words.segments])

    # --- what loops do

    def pull(self, ids: U64, order: I32, lo: int, hi: int, rows: U32, out: F32, make: bool, tick: int) -> int:
        """Copy out values; waiting columns of short rows are zeros."""
        self.long.pull_there(ids, order, lo, hi, rows, out, make, tick)
        at = order[lo:hi][rows[order[lo:hi]] == NO_ROW]
        if not len(at):
            return 0
        width, n = self._words.short.width, len(at)
        values, found = np.empty(n * width, np.float32), np.empty(n, np.uint32)
        created = self.short.pull(ids[at], _every(n), 0, n, found, values, make, tick)
        rows[at] = _tagged(found)
        out.reshape(-1, self.layout.width)[at[:, None], self._words.columns] = values.reshape(n, width)
        return created

    def push(self, g: GradientColumns, order: I32, lo: int, hi: int, make: bool, tick: int, missing: I32) -> I64:
        """Apply gradients; return (applied, skipped, created, missing), valid until the next push."""
        stats = self.long.push(g, order, lo, hi, False, tick, missing)
        at = missing[: int(stats[3])].copy()  # those with gradients that are not finite are skipped already
        if len(at):
            stats[3] = 0
            some = self._of_short(g, at)
            late = np.empty(len(at), np.int32)
            stats += self.short.push(some, _every(len(at)), 0, len(at), make, tick, late)
            missing[: int(stats[3])] = at[late[: int(stats[3])]]
            self._lengthen_reached(some.ids)
        return stats

    def _of_short(self, g: GradientColumns, at: I32) -> GradientColumns:
        """Return the gradients of short rows."""
        values = g.values.reshape(-1, self.layout.width)[at[:, None], self._words.columns].reshape(-1)
        rows = g.rows[at] & np.uint32(SHORT - 1) if g.rows.size else g.rows
        shows, clicks = (each[at] if each.size else each for each in (g.shows, g.clicks))
        return GradientColumns(g.ids[at], rows, values, values.view(np.uint32), shows, clicks)

    def _lengthen_reached(self, ids: U64) -> None:
        """Make those rows whole whose score has reached the threshold."""
        rows = _found(self.short, ids)
        rows = rows[rows != NO_ROW].astype(np.int64)
        live = self.short.words.view(np.float32)[rows, self._words.short.counter + LIVE]
        start_waiting(self.long.store, self._lengthen(rows[live != 0]))

    def _lengthen(self, rows: I64) -> I64:
        """Move short rows, by their numbers there, to where whole ones are; return where."""
        made = np.empty(len(rows), np.int64)
        if len(rows):
            words = self._words.lengthened(self.short.words_of(rows))
            self.long.make_room(len(rows))
            insert_rows(self.long.store, words.reshape(-1), made)
            capture_rows(self.long.store, made)
            delete_rows(self.short.store, rows)
        return made

    # --- rows by number

    def find(self, ids: U64, order: I32, lo: int, hi: int, rows: U32) -> int:
        """Write the rows of ids, return how many have none."""
        if not self.long.find(ids, order, lo, hi, rows):
            return 0
        at = order[lo:hi][rows[order[lo:hi]] == NO_ROW]
        rows[at] = _tagged(_found(self.short, ids[at]))
        return int((rows[at] == NO_ROW).sum())

    def whole(self, rows: I64) -> I64:
        """Return where rows are that have room for all columns; whether they have values there is as it was."""
        rows = rows.copy()
        short = rows >= SHORT
        rows[short] = self._lengthen(rows[short] & ~SHORT)
        return rows

    def live(self) -> I64:
        """Return the numbers of the rows in use."""
        return np.concatenate([self.long.live(), self.short.live() | SHORT])

    def words_of(self, rows: I64) -> U32:
        """Return a copy of the words of rows."""
        short = rows >= SHORT
        out = np.empty((len(rows), self.layout.stride), np.uint32)
        out[~short] = self.long.words_of(rows[~short])
        out[short] = self._words.lengthened(self.short.words_of(rows[short] & ~SHORT))
        return out

    def ids(self, rows: I64) -> U64:
        """Return the ids of rows."""
        short = rows >= SHORT
        out = np.empty(len(rows), np.uint64)
        out[~short], out[short] = self.long.ids(rows[~short]), self.short.ids(rows[short] & ~SHORT)
        return out

    def last_uses(self, rows: I64) -> U32:
        """Return when rows were used last."""
        short = rows >= SHORT
        out = np.empty(len(rows), np.uint32)
        out[~short] = self.long.last_uses(rows[~short])
        out[short] = self.short.last_uses(rows[short] & ~SHORT)
        return out

    def counters(self, rows: I64) -> F32:
        """Return the counters of rows, ``[counters, rows]``."""
        short = rows >= SHORT
        out = np.empty((self.layout.n_counters, len(rows)), np.float32)
        out[:, ~short] = self.long.counters(rows[~short])
        out[:, short] = self.short.counters(rows[short] & ~SHORT)
        return out

    def set_counters(self, rows: I64, counters: npt.ArrayLike) -> None:
        """Replace the counters of rows; that a row has its waiting columns cannot be said by them."""
        short, values = rows >= SHORT, np.asarray(counters, np.float32)
        assert not values[LIVE, short].any()
        self.long.set_counters(rows[~short], values[:, ~short])
        self.short.set_counters(rows[short] & ~SHORT, values[:, short])

    def set_columns(self, rows: I64, columns: slice, values: F32) -> None:
        """Replace the values of :meth:`whole` rows in some columns; waiting ones count as there from now on."""
        self.long.set_columns(rows, columns, values)

    def set_slots(self, rows: I64, where: slice, slots: F32) -> None:
        """Replace optimiser slots of :meth:`whole` rows."""
        self.long.set_slots(rows, where, slots)

    def set_words(self, rows: I64, words: U32) -> None:
        """Replace the words of rows; their ids must be those that they have."""
        rows, live = rows.copy(), self._live(words)
        rows[live] = self.whole(rows[live])
        short = rows >= SHORT
        self.long.set_words(rows[~short], words[~short])
        self.short.set_words(rows[short] & ~SHORT, self._words.shortened(words[short]))

    def _live(self, words: U32) -> npt.NDArray[np.bool_]:
        live: npt.NDArray[np.bool_] = words.view(np.float32)[:, self.layout.counter + LIVE] != 0
        return live

    def delete(self, rows: npt.ArrayLike) -> None:
        """Delete rows that exist."""
        rows = np.ascontiguousarray(rows, np.int64)
        self.long.delete(rows[rows < SHORT])
        self.short.delete(rows[rows >= SHORT] & ~SHORT)

    # --- restored rows

    def append(self, n: int) -> U32:
        """Return room for rows of an empty partition, to be filled; then :meth:`appended`."""
        return np.empty((n, self.layout.stride), np.uint32)

    def appended(self, words: U32) -> None:
        """Take in rows that were filled."""
        live = self._live(words)
        self.long.append(int(live.sum()))[:] = words[live]
        self.short.append(len(words) - int(live.sum()))[:] = self._words.shortened(words[~live])

    def build_index(self) -> None:
        """Make the appended rows known."""
        for part in self._both:
            part.build_index()

    # --- changes

    def close_stretch(self, mark: int, since: int | None) -> tuple[Stretch, Stretch] | None:
        """Set a mark; return the bits of whole and short rows that changed since an earlier one, and the ids that lost
        their row.
        """
        long, short = (part.close_stretch(mark, since) for part in self._both)
        if long is None or short is None:
            return None
        long.deleted = self._absent(np.union1d(long.deleted, short.deleted))
        short.deleted = np.empty(0, np.uint64)
        return long, short

    def mark(self, mark: int, since: int | None = None) -> tuple[U64 | None, U64]:
        """Set a mark; return the ids whose rows changed since an earlier one and the ids that were deleted since.

        None for the former if what changed is not known.
        """
        found = self.close_stretch(mark, since)
        if found is None:
            return None, np.empty(0, np.uint64)
        keys = [
            part.keys_at_cut(1, each.bits)[0].astype(np.uint32) for part, each in zip(self._both, found, strict=True)
        ]
        ids = [part.ids(np.sort(rows).astype(np.int64)) for part, rows in zip(self._both, keys, strict=True)]
        return np.concatenate(ids), found[0].deleted

    def _absent(self, ids: U64) -> U64:
        rows = np.empty(len(ids), np.uint32)
        self.find(ids, _every(len(ids)), 0, len(ids), rows)
        absent: U64 = ids[rows == NO_ROW]
        return absent

    def deleted_since(self, mark: int) -> U64:
        """Return the ids without a row now that lost one after a mark."""
        return self._absent(np.union1d(*(part.deleted_since(mark) for part in self._both)))

    def keep_marks(self, marks: Collection[int]) -> None:
        """Note no more than these marks need; without any, nothing."""
        for part in self._both:
            part.keep_marks(marks)

    def listed(self) -> U64:
        """Return what :meth:`copy_listed` takes, for all rows: their ids, since rows move when they become whole."""
        return self.ids(self.live())

    def copy_listed(self, ids: U64, out: RowBuffer, done: int) -> None:
        """Copy the rows of ids behind the first ``done`` rows of a buffer; without a row, as a free one."""
        rows = np.empty(len(ids), np.uint32)
        self.find(ids, _every(len(ids)), 0, len(ids), rows)
        words = np.full((len(ids), self.layout.stride), NO_ROW, np.uint32)
        there = rows != NO_ROW
        words[there] = self.words_of(rows[there].astype(np.int64))
        copy_rows(
            words.reshape(-1), self.layout.stride, _every(len(ids)).astype(np.uint32), out.pieces, out.words, done
        )

    # --- cuts

    def begin_cut(self, rows: tuple[U32, U32] | None = None) -> None:
        """From now on, save what a row (one of these, or any) was before its first change."""
        for part, some in zip(self._both, rows or (None, None), strict=True):
            part.begin_cut(some)

    def rows_at_cut(self, long: U32, short: U32) -> U32:
        """Return the words that rows had at the cut, those of short ones as whole ones."""
        lengthened = self._words.lengthened(self.short.rows_at_cut(short))
        return np.concatenate([self.long.rows_at_cut(long), lengthened])

    def end_cut(self) -> None:
        """Stop saving."""
        for part in self._both:
            part.end_cut()


def _every(n: int) -> I32:
    return np.arange(n, dtype=np.int32)


def _found(part: RowPartition, ids: U64) -> U32:
    rows = np.empty(len(ids), np.uint32)
    part.find(ids, _every(len(ids)), 0, len(ids), rows)
    return rows


def _tagged(rows: U32) -> U32:
    """Return numbers of short rows as others know them."""
    return np.where(rows == NO_ROW, rows, rows | np.uint32(SHORT))
