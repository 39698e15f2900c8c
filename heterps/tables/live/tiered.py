"""A partition whose rows do not all fit into memory: those used most are there, the others in a log on disk.

1. A row is in memory or on disk, never in both indices. In memory it is a row of an ordinary partition, and all loops
   work on it there; so before a loop runs, the rows that it will look for are brought in.
2. Before rows are brought in or made, as many leave as need be, those used least. Rows in use are never among them,
   since room for a turn is made before its rows are touched.
3. A row that has changed is added to the log when it leaves; one that has not goes back to where it was read.
4. A row's number is a row in memory, or a position on disk with :data:`COLD` set. It is good while the lock is held.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.errors import TableError, TableFullError
from heterps.tables.live.changed_ids import ChangedIds, IdStretch
from heterps.tables.live.cold_rows import ColdRows, DiskTier
from heterps.tables.live.compaction import Compaction
from heterps.tables.live.hot_rows import BESIDE, HotRows
from heterps.tables.live.row_layout import RowLayout
from heterps.tables.live.turns import TURN
from heterps.tables.loops.cold_index import ABSENT
from heterps.tables.loops.row_loops import NO_ROW
from heterps.tables.loops.store import GradientColumns
from heterps.tables.loops.tier_loops import LEAST_USED
from heterps.tables.loops.upkeep import copy_rows
from heterps.tables.snapshots.records import RowBuffer, ids_of

__all__ = ["COLD", "TieredPartition"]

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]
U32 = npt.NDArray[np.uint32]
U8 = npt.NDArray[np.uint8]
F32 = npt.NDArray[np.float32]
Flags = npt.NDArray[np.bool_]

#: Set in the number of a row that is on disk.
COLD = 1 << 31
#: Rows in memory at least, and rows that leave it together where there is room on disk.
LEAST, LEAVING = 64, 16384
_NO_HINTS: U32 = np.empty(0, np.uint32)


class TieredPartition:
    """What a :class:`~heterps.tables.live.partition.RowPartition` is, beyond memory. Whoever calls holds :attr:`lock`,
    but where told.

    Parameters
    ----------
    hot_bytes
        Memory for rows.
    """

    def __init__(self, layout: RowLayout, tier: DiskTier, hot_bytes: int) -> None:
        self.layout, self.lock = layout, threading.Lock()
        self.capacity = max(LEAST, hot_bytes // (layout.row_bytes + BESIDE))
        self.turn = min(TURN, self.capacity // 4)
        most = self.capacity + self.turn  # room for new rows is asked for before free ones are used
        self.cold = ColdRows(layout.stride, tier, hot_bytes)
        self.hot = HotRows(layout, most, self.cold.log)
        self._changes: ChangedIds | None = None
        self._twice: int | None = None  # an id that was appended twice
        self._compaction = Compaction(self, tier.compaction)

    def __len__(self) -> int:
        return len(self.hot) + len(self.cold)

    @property
    def high(self) -> int:
        """Rows that take memory for their index."""
        return len(self)

    @property
    def nbytes(self) -> int:
        """Bytes in use by indices and rows, in memory and on disk."""
        return self.memory_bytes + len(self.cold) * self.layout.row_bytes

    @property
    def resident_bytes(self) -> int:
        """Bytes of them that are in memory now."""
        return self.hot.nbytes + self.cold.nbytes + self.cold.log.memory_bytes

    @property
    def memory_bytes(self) -> int:
        """Bytes in use that are not on disk, or will be when all rows fit in that may."""
        changes = 0 if self._changes is None else self._changes.nbytes
        hot = self.capacity * (self.layout.row_bytes + BESIDE)
        return hot + self.cold.nbytes + self.cold.log.memory_bytes + changes

    # --- into memory and out of it

    def bring(self, ids: U64, order: I32, lo: int, hi: int) -> None:
        """Bring rows on disk into memory, of at most half of what fits there. Takes the lock itself, but not while they
        are looked for and read.

        Some may have left again, or not have come: others may have moved them meanwhile.
        """
        log = self.cold.log
        wanted = ids[self.hot.absent(ids, order, lo, hi)]
        at, positions, places = self.cold.likely(wanted)
        with self.lock:
            there = self.cold.stand(positions, places)
            at, positions, places = at[there], positions[there], places[there]
            uses = log.uses(positions)
        words = log.read(positions)
        good = ids_of(words) == wanted[at]
        words, positions, places, uses = words[good], positions[good], places[good], uses[good]
        if len(words):
            with self.lock:
                self._make_room(len(words))  # before the look: room may be where a row was that was read
                same = log.uses(positions) == uses
                self._take_in(words[same], positions[same], places[same])

    def _present(self, ids: U64, absent: I32, changes: bool) -> None:
        """Make sure that rows on disk of positions without a row in memory come there; there is room."""
        if len(absent) and len(self.cold):
            wanted = ids[absent]
            at, positions, places = self.cold.candidates(wanted)
            words = self.cold.log.read(positions)
            good = ids_of(words) == wanted[at]
            self._take_in(words[good], positions[good], places[good], changes)

    def _take_in(self, words: U32, positions: I64, places: I64, changes: bool = False) -> None:
        """Put rows into memory that are at these positions still; ``places`` is where the index had them."""
        if not len(words):
            return
        counts = self.cold.remove(ids_of(words), positions, places)
        there = counts != ABSENT  # not listed twice, and not brought in by another thread meanwhile
        words, positions, counts = words[there], positions[there], counts[there]
        if changes:
            self.cold.log.release(positions)
        self.hot.take_in(words, np.full(len(positions), -1) if changes else positions, counts)

    def _make_room(self, n: int, promised: bool = False) -> None:
        """Let rows leave until so many fit in; perhaps there is room on disk that was promised."""
        short = n - (self.capacity - len(self.hot))
        if short <= 0:
            return
        hot, log, aged = self.hot, self.cold.log, self.hot.aged
        slots, counts = hot.choose(max(short, min(LEAVING, self.capacity // 8)))
        self.cold.age(hot.aged > aged)
        changed, due = hot.homes(slots) < 0, short if promised else 0
        try:
            log.reserve(int(changed.sum()) - due)
        except TableFullError:  # for so many; perhaps not for those that must go
            hot.keep(slots[short:], counts[short:])
            slots, counts = slots[:short], counts[:short]
            self._reserve_or_keep(int(changed[:short].sum()) - due, slots, counts)
        self._leave(slots, counts)
        self._compaction.wake()

    def _reserve_or_keep(self, n: int, slots: I64, counts: U8) -> None:
        try:
            self.cold.log.reserve(n)
        except TableFullError:
            self.hot.keep(slots, counts)
            raise

    def _leave(self, slots: I64, counts: U8) -> None:
        words, homes = self.hot.words[slots], self.hot.homes(slots)
        changed = homes < 0
        homes[changed] = self.cold.log.append(words[changed])
        self.cold.enter(words, homes, np.minimum(counts, LEAST_USED))
        self._note_left(slots, ids_of(words))
        self.hot.let_go(slots)

    def _note_left(self, slots: I64, ids: U64) -> None:
        """Remember which of the rows that leave have changed since the last mark."""
        if self._changes is not None:
            self._changes.change(ids[self.hot.bits(slots)], len(self))
            self.hot.clear_bits(slots)

    def promised(self, n: int) -> AbstractContextManager[None]:
        """Be a context in which the disk has room for so many rows to leave. Takes the lock itself."""
        return _Promise(self, n)

    # --- what loops do

    def pull(self, ids: U64, order: I32, lo: int, hi: int, rows: U32, out: F32, make: bool, tick: int) -> int:
        """Copy out values, as in memory. At most :attr:`turn` ids at a time."""
        self._make_room(hi - lo)
        absent = self.hot.absent(ids, order, lo, hi)
        self._present(ids, absent, False)
        if make and self.layout.tick >= 0:
            self.hot.change(ids, _NO_HINTS, order, lo, hi)
        created = self.hot.pull(ids, order, lo, hi, rows, out, make, tick)
        self.hot.use(rows, order, lo, hi)
        return created

    def pull_there(self, ids: U64, order: I32, lo: int, hi: int, rows: U32, out: F32, make: bool) -> I32:
        """Copy out values of rows in memory; return the positions of the others, for which there is :meth:`pull`."""
        if make and self.layout.tick >= 0:  # it changes rows
            return order[lo:hi].copy()
        self.hot.pull(ids, order, lo, hi, rows, out, False, 0)
        return self.hot.use(rows, order, lo, hi)

    def push(self, g: GradientColumns, order: I32, lo: int, hi: int, make: bool, tick: int, missing: I32) -> I64:
        """Apply gradients, as in memory. At most :attr:`turn` ids at a time, with room :meth:`promised`."""
        self._make_room(hi - lo, promised=True)
        self._present(g.ids, self.hot.change(g.ids, g.rows, order, lo, hi), True)
        return self.hot.push(g, order, lo, hi, make, tick, missing)

    def set_numbers(self, numbers: F32) -> None:
        """Set what the rules' loops take, for the next push."""
        self.hot.set_numbers(numbers)

    # --- rows by number

    def whole(self, rows: I64) -> I64:
        """Return where rows are that have room for all columns."""
        return rows

    def find(self, ids: U64, order: I32, lo: int, hi: int, rows: U32) -> int:
        """Write the rows of ids, return how many have none."""
        missing = self.hot.find(ids, order, lo, hi, rows)
        if not missing or not len(self.cold):
            return missing
        absent = order[lo:hi][rows[order[lo:hi]] == NO_ROW]
        at, positions = self.cold.find(ids[absent])
        rows[absent[at]] = (positions | COLD).astype(np.uint32)
        return int((rows[order[lo:hi]] == NO_ROW).sum())

    def live(self) -> I64:
        """Return the numbers of the rows in use."""
        return np.concatenate([self.hot.live(), self.cold.positions() | COLD])

    def words_of(self, rows: I64) -> U32:
        """Return a copy of the words of rows."""
        cold = rows >= COLD
        out = np.empty((len(rows), self.layout.stride), np.uint32)
        out[~cold] = self.hot.words[rows[~cold]]
        out[cold] = self.cold.log.read(rows[cold] & ~COLD)
        return out

    def ids(self, rows: I64) -> U64:
        """Return the ids of rows."""
        return ids_of(self.words_of(rows))

    def counters(self, rows: I64) -> F32:
        """Return the counters of rows, ``[counters, rows]``."""
        first = self.layout.counter
        floats = self.words_of(rows).view(np.float32)
        return np.ascontiguousarray(floats[:, first : first + self.layout.n_counters].T)

    def last_uses(self, rows: I64) -> U32:
        """Return when rows were used last."""
        return self.words_of(rows)[:, self.layout.tick]

    def set_counters(self, rows: I64, counters: npt.ArrayLike) -> None:
        """Replace the counters of rows. Those on disk have other numbers then."""
        first = self.layout.counter
        values = np.asarray(counters, np.float32)
        cold = rows >= COLD
        self.hot.changing(rows[~cold])
        self.hot.set_counters(rows[~cold], values[:, ~cold])
        positions = rows[cold] & ~COLD
        words = self.cold.log.read(positions)
        words.view(np.float32)[:, first : first + self.layout.n_counters] = values[:, cold].T
        self.cold.log.reserve(len(words))
        self.cold.rewrite(words, positions)
        if self._changes is not None:
            self._changes.change(ids_of(words), len(self))
        self._compaction.wake()

    def delete(self, rows: npt.ArrayLike) -> None:
        """Delete rows that exist."""
        rows = np.ascontiguousarray(rows, np.int64)
        if not len(rows):
            return
        ids = self.ids(rows)
        if self._changes is not None:
            self._changes.delete(ids, len(self))
        cold = rows >= COLD
        slots, positions = rows[~cold], rows[cold] & ~COLD
        self.hot.changing(slots)
        self.hot.let_go(slots)
        if self._changes is not None:
            self.hot.clear_bits(slots)
        self.cold.remove(ids[cold], positions)
        self.cold.log.release(positions)
        self._compaction.wake()

    def set_columns(self, rows: I64, columns: slice, values: F32) -> None:
        """Replace the values of rows in memory."""
        self.hot.changing(rows)
        self.hot.set_columns(rows, columns, values)

    def set_slots(self, rows: I64, where: slice, slots: F32) -> None:
        """Replace optimiser slots of rows in memory."""
        self.hot.changing(rows)
        self.hot.set_slots(rows, where, slots)

    def set_words(self, rows: I64, words: U32) -> None:
        """Replace whole rows in memory."""
        self.hot.changing(rows)
        self.hot.set_words(rows, words)

    # --- restored rows

    def append(self, n: int) -> U32:
        """Return room for rows of an empty partition, to be filled; then :meth:`appended`."""
        return np.empty((n, self.layout.stride), np.uint32)

    def appended(self, words: U32) -> None:
        """Take in rows that were filled, into memory while there is room."""
        n = min(len(words), max(0, self.capacity - len(self.hot)))
        self._note_twice(ids_of(words), n)
        self.hot.take_in(words[:n], np.full(n, -1), np.zeros(n, np.uint8))
        self.cold.log.reserve(len(words) - n)
        self.cold.add(words[n:])

    def _note_twice(self, ids: U64, n: int) -> None:
        """Note an id that has a row in memory, or is among these twice while the first ``n`` go there."""
        rows = np.empty(len(ids), np.uint32)
        self.hot.find(ids, np.arange(len(ids), dtype=np.int32), 0, len(ids), rows)
        found, counts = np.unique(ids, return_counts=True) if n else (ids[:0], np.zeros(0, np.int64))
        twice = np.concatenate([ids[rows != NO_ROW], found[counts > 1]])
        self._twice = int(twice[0]) if len(twice) else self._twice

    def build_index(self) -> None:
        """Make sure that no appended row has the id of another."""
        if self._twice is not None:
            raise TableError(f"id {self._twice} has two rows")
        self.cold.check_unique()

    # --- changes

    def close_stretch(self, mark: int, since: int | None) -> IdStretch | None:
        """Set a mark; return the ids whose rows changed since an earlier one, and the ids that lost their row."""
        if self._changes is None:
            self._changes = ChangedIds(mark)
            self.hot.begin_noting()
        self._changes.close(mark, self.hot.end_stretch(mark), len(self))
        found = None if since is None else self._changes.since(since)
        if found is not None:
            found.deleted = self._absent(found.deleted)
        return found

    def mark(self, mark: int, since: int | None = None) -> tuple[U64 | None, U64]:
        """Set a mark; return the ids whose rows changed since an earlier one and the ids that were deleted since.

        None for the former if what changed is not known.
        """
        found = self.close_stretch(mark, since)
        return (None, np.empty(0, np.uint64)) if found is None else (found.changed, found.deleted)

    def _absent(self, ids: U64) -> U64:
        rows = np.empty(len(ids), np.uint32)
        self.find(ids, np.arange(len(ids), dtype=np.int32), 0, len(ids), rows)
        absent: U64 = ids[rows == NO_ROW]
        return absent

    def deleted_since(self, mark: int) -> U64:
        """Return the ids without a row now that lost one after a mark."""
        return np.empty(0, np.uint64) if self._changes is None else self._absent(self._changes.deleted_since(mark))

    def keep_marks(self, marks: Collection[int]) -> None:
        """Note no more than these marks need; without any, nothing."""
        if self._changes is not None and marks:
            self._changes.keep(marks)
        elif not marks:
            self._changes = None
            self.hot.end_noting()

    def listed(self) -> U64:
        """Return what :meth:`copy_listed` takes, for all rows: their ids."""
        rows = self.live()
        pieces = [self.ids(rows[first : first + TURN]) for first in range(0, len(rows), TURN)]
        return np.concatenate([np.empty(0, np.uint64), *pieces])

    def copy_listed(self, ids: U64, out: RowBuffer, done: int) -> None:
        """Copy the rows of ids behind the first ``done`` rows of a buffer; without a row, as a free one."""
        rows = np.empty(len(ids), np.uint32)
        self.find(ids, np.arange(len(ids), dtype=np.int32), 0, len(ids), rows)
        words = np.full((len(ids), self.layout.stride), NO_ROW, np.uint32)
        there = rows != NO_ROW
        words[there] = self.words_of(rows[there].astype(np.int64))
        every = np.arange(len(ids), dtype=np.uint32)
        copy_rows(words.reshape(-1), self.layout.stride, every, out.pieces, out.words, done)

    # --- room on disk

    def compact(self, garbage: float) -> int:
        """Copy the rows of the emptiest segment to the end of the log, if so much of it is garbage.

        Return the bytes that were read and written. Takes the lock itself, for a few thousand rows at a time.
        """
        log = self.cold.log
        with self.lock:
            segment = log.emptiest(garbage)
            if segment is None or not log.live[segment]:
                log.reclaim()
                return 0
            positions, uses = log.positions_of(segment), log.uses(np.array([segment << log.shift]))
        words, moved = log.read(positions), 0
        for first in range(0, len(words), TURN):
            with self.lock:
                if log.uses(positions[:1]) != uses:
                    break
                moved += self._move(words[first : first + TURN], positions[first : first + TURN])
        with self.lock:
            if log.uses(positions[:1]) == uses:
                log.live[segment] = 0  # all that was meant is elsewhere
            log.reclaim()
        return words.nbytes + moved * self.layout.row_bytes

    def _move(self, words: U32, positions: I64) -> int:
        """Add those of the rows to the log that are meant; return how many."""
        ids = ids_of(words)
        meant = self.cold.has(ids, positions)
        self.cold.log.reserve(len(words))
        self.cold.rewrite(words[meant], positions[meant])
        others, rows = ids[~meant], np.empty(int((~meant).sum()), np.uint32)
        self.hot.find(others, np.arange(len(others), dtype=np.int32), 0, len(others), rows)
        there = rows != NO_ROW
        slots = rows[there].astype(np.int64)
        self.hot.changing(slots[self.hot.homes(slots) == positions[~meant][there]])  # they have nothing to go back to
        return int(meant.sum())


class _Promise:
    """Room on disk that is promised while a call needs it."""

    def __init__(self, part: TieredPartition, n: int) -> None:
        self._part, self._context = part, part.cold.log.promised(n)

    def __enter__(self) -> None:
        with self._part.lock:
            self._context.__enter__()

    def __exit__(self, *error: Any) -> None:
        with self._part.lock:
            self._context.__exit__(None, None, None)
