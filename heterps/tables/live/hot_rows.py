"""The rows of a partition beyond memory that are in memory: a partition, and what is known of each of its rows beside.

That is where on disk the same stands, if it does, and how often the row was used, by which those are chosen that leave.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from heterps.tables.hashing import RESERVED
from heterps.tables.live.partition import NO_BITS, NO_MARK, RowPartition
from heterps.tables.live.region import Region
from heterps.tables.live.row_layout import RowLayout
from heterps.tables.live.row_log import RowLog
from heterps.tables.loops import index
from heterps.tables.loops.row_loops import NO_ROW
from heterps.tables.loops.tier_loops import AGED, change_rows, choose_leaving, insert_rows, new_choice, use_rows
from heterps.tables.loops.upkeep import delete_rows

__all__ = ["BESIDE", "HotRows"]

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]
U32 = npt.NDArray[np.uint32]
U8 = npt.NDArray[np.uint8]
Flags = npt.NDArray[np.bool_]

#: Entries of the index per thousand places, and by how much it grows.
_LOAD, _GROW = 820, 1150
#: What a row takes beside its words: a place in the index, where it is on disk, a count, a bit.
BESIDE = 15


class HotRows(RowPartition):
    """Whoever calls holds the lock of the partition beyond memory.

    Parameters
    ----------
    most
        Rows that there will be at most.
    log
        Where the same as in a row may stand.
    """

    def __init__(self, layout: RowLayout, most: int, log: RowLog) -> None:
        super().__init__(layout, most=most)
        self._fit_index(most)
        self._log = log
        self._at: U32 = Region(np.uint32, most).array  # 1 + the position on disk where the same stands
        self._uses: U8 = Region(np.uint8, most).array
        self._choice = new_choice()

    def _fit_index(self, most: int) -> None:
        """Have the index end with as many places as it needs then, after so many steps of growth."""
        meta, places = self.meta, 1000 * most // _LOAD + 1
        while places * 1000 // _GROW > int(meta[index.CAP]):
            places = places * 1000 // _GROW + 1
        meta[index.CAP], meta[index.LOAD], meta[index.GROW] = max(places, int(meta[index.CAP])), _LOAD, _GROW

    @property
    def aged(self) -> int:
        """How often all counts were lowered."""
        return int(self._choice[AGED])

    def absent(self, ids: U64, order: I32, lo: int, hi: int) -> I32:
        """Return the positions of ids that have no row here. Without the lock these are those that seem to have none:
        memory of rows and index never moves, so a look at what others change meanwhile ends, with one answer or other.
        """
        rows, positions = np.empty(len(ids), np.uint32), order[lo:hi]
        self.find(ids, order, lo, hi, rows)
        found: I32 = positions[rows[positions] == NO_ROW]
        return found

    def use(self, rows: U32, order: I32, lo: int, hi: int) -> I32:
        """Count a use of rows; return the positions of ids without one."""
        absent = np.empty(hi - lo, np.int32)
        n = use_rows(rows, order, lo, hi, self._uses, self._choice, absent)
        return absent[: int(n)]

    def change(self, ids: U64, hints: U32, order: I32, lo: int, hi: int) -> I32:
        """Note that rows are about to differ from what is on disk; return the positions of ids without one.

        Without hints, where rows are likely to be, they are looked for.
        """
        if not len(hints):
            hints = np.empty(len(ids), np.uint32)
            self.find(ids, order, lo, hi, hints)
        absent, log = np.empty(hi - lo, np.int32), self._log
        n = change_rows(self.store, ids, hints, order, lo, hi, self._at, log.live, log.shift, absent)
        return absent[: int(n)]

    def changing(self, slots: I64) -> None:
        """Note the same of rows by number."""
        homes = self.homes(slots)
        self._log.release(homes[homes >= 0])
        self._at[slots] = 0

    def homes(self, slots: I64) -> I64:
        """Return where on disk the same stands as in rows, -1 for nowhere."""
        homes: I64 = self._at[slots].astype(np.int64) - 1
        return homes

    def take_in(self, words: U32, homes: I64, counts: U8) -> None:
        """Put rows here for which there is room."""
        slots = np.empty(len(words), np.int64)
        insert_rows(self.store, np.ascontiguousarray(words).reshape(-1), slots)
        self._at[slots], self._uses[slots] = homes + 1, counts

    def choose(self, n: int) -> tuple[I64, U8]:
        """Return rows that are to leave, with their counts; then :meth:`let_go` or :meth:`keep`."""
        slots, counts = np.empty(n, np.int64), np.empty(n, np.uint8)
        choose_leaving(self.store.words, self.layout.stride, self._uses, self.high, self._choice, slots, counts)
        return slots, counts

    def keep(self, slots: I64, counts: U8) -> None:
        """Let rows stay that were chosen."""
        self._uses[slots] = counts

    def let_go(self, slots: I64) -> None:
        """Forget rows."""
        delete_rows(self.store, slots)
        self._at[slots] = self._uses[slots] = 0

    def begin_noting(self) -> None:
        """Let loops set a bit of each row that changes from now on."""
        noted = Region(np.uint64, self.most // 64 + 1).array
        self.store = self.store._replace(changed=noted, mark=np.zeros(1, np.uint32))

    def end_noting(self) -> None:
        """Let them not."""
        self.store = self.store._replace(changed=NO_BITS, mark=NO_MARK)

    def end_stretch(self, mark: int) -> U64:
        """Return the ids of rows that changed since the last mark, and begin anew."""
        bits = self.store.changed[: -(-self.high // 64)]
        ids = self.ids(np.flatnonzero(np.unpackbits(bits.view(np.uint8), bitorder="little")))
        bits[:], self.store.mark[0] = 0, mark
        in_use: U64 = ids[ids != np.uint64(RESERVED)]
        return in_use

    def bits(self, slots: I64) -> Flags:
        """Tell which rows have changed since the last mark."""
        words = self.store.changed[slots >> 6]
        found: Flags = (words >> (slots & 63).astype(np.uint64)) & np.uint64(1) != 0
        return found

    def clear_bits(self, slots: I64) -> None:
        """Note that rows have not."""
        np.bitwise_and.at(self.store.changed, slots >> 6, ~(np.uint64(1) << (slots & 63).astype(np.uint64)))
