"""One partition of a group on a shard host: an index, its rows, and the lock that guards both."""

from __future__ import annotations

import threading
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt

from heterps.errors import TableError
from heterps.tables.live.changes import ChangeLog, Stretch
from heterps.tables.live.region import Region, physical_bytes
from heterps.tables.live.row_layout import UPDATE, RowLayout
from heterps.tables.live.turns import PULL_TURN
from heterps.tables.loops import index
from heterps.tables.loops.filling import fill_index
from heterps.tables.loops.row_loops import NO_ROW, find_rows, pull_rows, push_rows
from heterps.tables.loops.rule_calls import address_of, check_rules
from heterps.tables.loops.store import BLOCK, GradientColumns, Store, new_block
from heterps.tables.loops.upkeep import (
    capture_rows,
    copy_rows,
    count_shards,
    delete_rows,
    ids_at_cut,
    list_keys,
    settle_rows,
)
from heterps.tables.snapshots.records import RowBuffer, ids_of
from heterps.tables.specs.accessor import LIVE

__all__ = ["INDEX_BYTES", "NO_BITS", "NO_MARK", "RowPartition"]

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]
U32 = npt.NDArray[np.uint32]
F32 = npt.NDArray[np.float32]

#: Address space to reserve for a group, in machine memories (pages come with rows only).
_RESERVE = 2
#: What a row takes in an index, at most: an entry of eight bytes, while the index is doubled and a third full.
INDEX_BYTES = 24
_MOST_ROWS = 2**31 - 1
#: Threads that list the rows of a cut while training waits or build an index, and rows that one of them is worth.
UPKEEP_THREADS, WORTH_IT = 2, 1 << 16
NO_BITS: U64 = np.empty(0, np.uint64)
NO_MARK: U32 = np.zeros(1, np.uint32)


class RowPartition:
    """Rows of a range of logical shards. Whoever calls holds :attr:`lock`; loops run without the interpreter lock.

    Parameters
    ----------
    share
        Partitions that the machine's memory is for.
    most
        Rows that there will be at most, if that is known.
    """

    turn = PULL_TURN
    """Positions to work on at a time."""

    def __init__(self, layout: RowLayout, *, share: int = 1, most: int | None = None) -> None:
        self.layout, self.lock = layout, threading.Lock()
        check_rules(layout.rules)
        self._block, self._has_updates = new_block(), False
        room = physical_bytes() * _RESERVE // share
        most = max(min(room // layout.row_bytes, _MOST_ROWS), 1 << 12) if most is None else most
        self._rows = Region(np.uint32, most * layout.stride)
        most = min(most, len(self._rows) // layout.stride)
        # Places for an index at its emptiest, and for one run of all entries behind it (rule 3 of the index).
        self.meta = index.new_meta(layout.row_bytes - 8 * (layout.stamp >= 0))  # it pays for the word more
        places = 1000 * int(self.meta[index.GROW]) // int(self.meta[index.LOAD]) + 1000
        self._entries = Region(np.uint64, most * places // 1000 + 2 * index.LEAST)
        self.most = min(most, (len(self._entries) - 2 * index.LEAST) * 1000 // places)
        self._stats = np.zeros(4, np.int64)
        self._changes: ChangeLog | None = None  # there while somebody reads changes; its bits are the store's
        self.store = self._new_store()

    def _new_store(self) -> Store:
        layout = self.layout
        return Store(
            entries=self._entries.array,
            meta=self.meta,
            words=self._rows.array,
            floats=self._rows.array.view(np.float32),
            layout=layout.numbers,
            segments=layout.segment_numbers,
            numbers=layout.rule_numbers(0),
            init_numbers=layout.init_numbers,
            init_keys=layout.init_keys,
            template=layout.template,
            score=layout.score_numbers,
            scratch=np.zeros(BLOCK * layout.width if layout.half else 1, np.float32),
            captured=np.empty(0, np.int32),
            saved=np.empty(0, np.uint32),
            n_saved=np.zeros(1, np.int64),
            changed=NO_BITS,
            mark=NO_MARK,
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
        changes = 0 if self._changes is None else self._changes.nbytes
        return 8 * int(self.meta[index.CAP]) + self.high * self.layout.row_bytes + changes

    @property
    def resident_bytes(self) -> int:
        """Bytes of them that are in memory now."""
        return self.nbytes

    @property
    def memory_bytes(self) -> int:
        """Bytes in use, or that will be when the index of these rows has doubled next."""
        return max(self.nbytes, self.high * (self.layout.row_bytes + INDEX_BYTES))

    def make_room(self, n: int) -> None:
        """Make sure ``n`` more rows can be written."""
        rows = self.high + n
        self._rows.commit(rows * self.layout.stride if rows <= self.most else len(self._rows) + 1)

    def append(self, n: int) -> U32:
        """Return ``n`` new rows of an empty partition to be filled, ids included; then :meth:`build_index`."""
        self.make_room(n)
        self.meta[[index.HIGH, index.COUNT]] += n
        return self.words[self.high - n :]

    def appended(self, words: U32) -> None:
        """Take in rows that were filled."""

    def build_index(self) -> None:
        """Make the appended rows known."""
        self.meta[index.CAP] = max(index.LEAST, len(self) * 1050 // int(self.meta[index.LOAD]))
        threads = min(UPKEEP_THREADS, 1 + self.high // WORTH_IT)
        double = fill_index(self._entries.array, self.meta, self._rows.array, self.layout.stride, threads)
        if double >= 0:
            raise TableError(f"id {ids_of(self.words[double : double + 1])[0]} has two rows")

    def set_numbers(self, numbers: F32) -> None:
        """Set what the rules' loops take, for the next push."""
        self.store = self.store._replace(numbers=numbers)

    def pull(self, ids: U64, order: I32, lo: int, hi: int, rows: U32, out: F32, make: bool, tick: int) -> int:
        """Copy out values; see :func:`~heterps.tables.loops.row_loops.pull_rows`."""
        if make:
            self.make_room(hi - lo)
        return self._pull(ids, order, lo, hi, rows, out, make, make, tick)

    def pull_there(self, ids: U64, order: I32, lo: int, hi: int, rows: U32, out: F32, use: bool, tick: int) -> None:
        """Copy out values of rows that there are; with ``use`` they count as used now."""
        self._pull(ids, order, lo, hi, rows, out, False, use, tick)

    def _pull(
        self, ids: U64, order: I32, lo: int, hi: int, rows: U32, out: F32, make: bool, use: bool, tick: int
    ) -> int:
        return int(pull_rows(self.store, ids, order, lo, hi, rows, out, make, use, np.uint32(tick)))

    def whole(self, rows: I64) -> I64:
        """Return where rows are that have room for all columns."""
        return rows

    def push(self, g: GradientColumns, order: I32, lo: int, hi: int, make: bool, tick: int, missing: I32) -> I64:
        """Apply gradients; return (applied, skipped, created, missing), valid until the next push."""
        if make:
            self.make_room(hi - lo)
        if not self._has_updates:  # who only reads needs no rule
            self._find_updates()
        self._stats[:] = 0
        if g.rows.size == 0:
            g = g._replace(rows=np.empty(len(g.ids), np.uint32))
            self.find(g.ids, order, lo, hi, g.rows)
        push_rows(self.store, g, self._block, order, lo, hi, make, np.uint32(tick), missing, self._stats)
        return self._stats

    def _find_updates(self) -> None:
        segments = self.store.segments.copy()
        segments[:, UPDATE] = [address_of(rule) for rule in self.layout.rules]
        self.store, self._has_updates = self.store._replace(segments=segments), True

    def find(self, ids: U64, order: I32, lo: int, hi: int, rows: U32) -> int:
        """Write the rows of ids, return how many have none."""
        return int(find_rows(self.store, ids, order, lo, hi, rows))

    def delete(self, rows: npt.ArrayLike) -> None:
        """Delete rows that exist."""
        rows = np.ascontiguousarray(rows, np.int64)
        if self._changes is not None and len(rows):
            self._changes.delete(ids_of(self.words[rows]), self.high)
        delete_rows(self.store, rows)

    def mark(self, mark: int, since: int | None = None) -> tuple[U32 | None, U64]:
        """Set a mark; return the rows in use that changed since an earlier one and the ids that were deleted since.

        None for the rows if what changed is not known.
        """
        found = self.close_stretch(mark, since)
        if found is None:
            return None, np.empty(0, np.uint64)
        keys, _ = self.keys_at_cut(1, found.bits)
        return np.sort(keys.astype(np.uint32)), found.deleted

    def close_stretch(self, mark: int, since: int | None) -> Stretch | None:
        """Set a mark; return the bits of rows that changed since an earlier one, and the ids that lost their row."""
        if self._changes is None:
            self._changes = ChangeLog(self.most, mark)
            self.store = self.store._replace(changed=self._changes.bits, mark=self._changes.mark)
        self._changes.close(mark, self.high)
        found = None if since is None else self._changes.since(since)
        if found is not None:
            found.deleted = self._absent(np.unique(found.deleted))
            found.bits = np.concatenate([found.bits, np.zeros(-(-self.high // 64) - len(found.bits), np.uint64)])
        return found

    def _absent(self, ids: U64) -> U64:
        rows = np.empty(len(ids), np.uint32)
        self.find(ids, np.arange(len(ids), dtype=np.int32), 0, len(ids), rows)
        absent: U64 = ids[rows == NO_ROW]
        return absent

    def deleted_since(self, mark: int) -> U64:
        """Return the ids without a row now that lost one after a mark."""
        if self._changes is None:
            return np.empty(0, np.uint64)
        return self._absent(np.unique(self._changes.deleted_since(mark)))

    def keep_marks(self, marks: Collection[int]) -> None:
        """Note no more than these marks need; without any, nothing."""
        if self._changes is not None and marks:
            self._changes.keep(marks)
        elif not marks:
            self._changes = None
            self.store = self.store._replace(changed=NO_BITS, mark=NO_MARK)

    def live(self) -> I64:
        """Return the numbers of the rows in use."""
        words = self.words
        free = (words[:, 0] == 0xFFFFFFFF) & (words[:, 1] == 0xFFFFFFFF)
        return np.flatnonzero(~free)

    def words_of(self, rows: I64) -> U32:
        """Return a copy of the words of rows."""
        return self.words[rows]

    def ids(self, rows: I64) -> U64:
        """Return the ids of rows."""
        return ids_of(self.words[rows, :2])

    def last_uses(self, rows: I64) -> U32:
        """Return when rows were used last."""
        uses: U32 = self.words[rows, self.layout.tick]
        return uses

    def listed(self) -> U32:
        """Return what :meth:`copy_listed` takes, for all rows."""
        return self.live().astype(np.uint32)

    def copy_listed(self, rows: U32, out: RowBuffer, done: int) -> None:
        """Copy rows behind the first ``done`` rows of a buffer; those that are free by now, too."""
        self.copy_rows(rows, out, done)

    def counters(self, rows: I64) -> F32:
        """Return the counters of rows, ``[counters, rows]``."""
        first = self.layout.counter
        return np.ascontiguousarray(self.words.view(np.float32)[rows, first : first + self.layout.n_counters].T)

    def set_counters(self, rows: I64, counters: npt.ArrayLike) -> None:
        """Replace the counters of rows."""
        capture_rows(self.store, np.ascontiguousarray(rows, np.int64))
        first = self.layout.counter
        self.words.view(np.float32)[rows, first : first + self.layout.n_counters] = np.asarray(counters).T

    def set_columns(self, rows: I64, columns: slice, values: F32) -> None:
        """Replace the values of rows in some columns; gated ones count as live from now on."""
        capture_rows(self.store, rows)
        layout = self.layout
        view, first = self.words.view(np.float32), layout.value
        if layout.half:
            view, first = self.words.view(np.float16), 2 * layout.value
        view[rows, first + columns.start : first + columns.stop] = values
        if layout.counter >= 0:
            self.words.view(np.float32)[rows, layout.counter + LIVE] = 1

    def set_words(self, rows: I64, words: U32) -> None:
        """Replace whole rows; their ids must be those that they have."""
        capture_rows(self.store, rows)
        self.words[rows] = words

    def set_slots(self, rows: I64, where: slice, slots: F32) -> None:
        """Replace optimiser slots of rows."""
        capture_rows(self.store, rows)
        self.words.view(np.float32)[rows, where] = slots

    def begin_cut(self, rows: U32 | None = None) -> None:
        """From now on, save what a row (one of these, or any) was before its first change."""
        captured = np.zeros(self.high, np.int32) if rows is None else np.full(self.high, -1, np.int32)
        if rows is not None:
            captured[rows] = 0
        self.store = self.store._replace(
            captured=captured,
            saved=Region(np.uint32, (self.high if rows is None else len(rows)) * self.layout.stride).array,
            n_saved=np.zeros(1, np.int64),
        )

    def keys_at_cut(self, n_shards: int, bits: U64 | None = None) -> tuple[U64, I64]:
        """Return ``hash << 32 | row`` of rows by logical shard, and where each shard begins: of all, or those with a
        bit.
        """
        bits = NO_BITS if bits is None else bits
        words, stride = self._rows.array, self.layout.stride
        threads = min(UPKEEP_THREADS, 1 + self.high // WORTH_IT)
        edges = [self.high * t // threads for t in range(threads + 1)]
        counts = np.zeros((threads, n_shards), np.int64)
        with ThreadPoolExecutor(threads) as pool:
            list(
                pool.map(lambda t: count_shards(words, stride, edges[t], edges[t + 1], bits, counts[t]), range(threads))
            )
            ends = np.cumsum(counts.T).reshape(n_shards, threads)
            starts = np.ascontiguousarray(ends.T) - counts
            keys = np.empty(int(counts.sum()), np.uint64)
            list(
                pool.map(
                    lambda t: list_keys(words, stride, edges[t], edges[t + 1], bits, starts[t], keys), range(threads)
                )
            )
        return keys, np.concatenate([[0], ends[:, -1]])

    def ids_at_cut(self, rows: U32, ids: U64) -> None:
        """Write the ids that rows had at the cut."""
        ids_at_cut(self.store, rows, ids)

    def copy_rows(self, rows: U32, out: RowBuffer, done: int) -> None:
        """Copy rows as they are behind the first ``done`` rows of a buffer. Without the lock; then :meth:`settle`."""
        copy_rows(self._rows.array, self.layout.stride, rows, out.pieces, out.words, done)

    def rows_at_cut(self, rows: U32) -> U32:
        """Return the words that rows had at the cut; they need not be saved any more."""
        words, captured = self.words[rows], self.store.captured
        saved = captured[rows]
        kept = self.store.saved[: int(self.store.n_saved[0]) * self.layout.stride].reshape(-1, self.layout.stride)
        words[saved > 0] = kept[saved[saved > 0] - 1]
        captured[rows[saved == 0]] = -1
        return words

    def settle(self, rows: U32, out: RowBuffer, done: int) -> None:
        """Make rows that were copied what they were at the cut.

        A row that is not marked as changed now, with the lock held, was the same all the time it was being copied.
        """
        settle_rows(self.store, rows, out.pieces, out.words, done)

    def end_cut(self) -> None:
        """Stop saving."""
        self.store = self.store._replace(captured=np.empty(0, np.int32), saved=np.empty(0, np.uint32))
