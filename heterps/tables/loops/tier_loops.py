"""The compiled loops of tables beyond memory: which rows are in memory, and who leaves it.

Uses are counted, roughly where they are many, and a row takes its count along to the disk and back. A hand goes round
the rows; those leave that were used no more often than a threshold. After a round in which they were hard to find it
rises, and falls after one in which they were at every step; where it would rise further, all counts are lowered
instead, so that old uses count less.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.compiled import entry_loop, inline
from heterps.tables.hashing import RESERVED, prefetch
from heterps.tables.live.row_layout import STRIDE
from heterps.tables.loops.index import HIGH, find, hash_of, home, id_at, insert
from heterps.tables.loops.row_loops import NO_ROW
from heterps.tables.loops.store import Store

__all__ = ["AGED", "LEAST_USED", "change_rows", "choose_leaving", "insert_rows", "new_choice", "use_rows"]

U64 = npt.NDArray[np.uint64]
U32 = npt.NDArray[np.uint32]
I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]
U8 = npt.NDArray[np.uint8]

#: Fields of the choice's state: where the hand stands, rows with at most so many uses leave, rows looked at and found
#: since it was changed last, how often counts were lowered, and random bits.
HAND, BELOW, SEEN, FOUND, AGED, RANDOM = range(6)
#: Counts are at most it; from EXACT on only some uses count. Rows leave with at most LEAST_USED.
MOST_USED, EXACT, LEAST_USED = 7, 4, 2
#: In place of the count of a row that was chosen and has not left.
CHOSEN = 255
#: Rows of a round for each that leaves, at most and at least, or another threshold is tried.
SCARCE, PLENTY = 16, 2
#: Ids between asking for a row and looking at it.
AHEAD = 16


def new_choice() -> I64:
    """Return the state of a choice that has not begun."""
    state = np.zeros(6, np.int64)
    state[RANDOM] = 1
    return state


@inline
def one_more(uses: np.uint8, state: I64) -> Any:
    """Return a count after one more use."""
    if uses < EXACT:
        return np.uint8(uses + 1)
    if uses >= MOST_USED:
        return uses
    state[RANDOM] = state[RANDOM] * 6364136223846793005 + 1442695040888963407
    chance = (state[RANDOM] >> 33) & ((1 << (uses - EXACT + 1)) - 1)
    return np.uint8(uses + 1) if chance == 0 else uses


@entry_loop
def use_rows(rows: U32, order: I32, lo: int, hi: int, uses: U8, choice: I64, absent: I32) -> Any:
    """Count a use of each row; list the positions of ids that have none in memory, and return how many."""
    n = 0
    for i in range(lo, hi):
        prefetch(uses, np.int64(rows[order[min(i + AHEAD, hi - 1)]]))
        row = np.int64(rows[order[i]])
        if row == NO_ROW:
            absent[n] = order[i]
            n += 1
        else:
            uses[row] = one_more(uses[row], choice)
    return n


@entry_loop
def change_rows(
    s: Store, ids: U64, hints: U32, order: I32, lo: int, hi: int, homes: U32, live: I32, shift: int, absent: I32
) -> Any:
    """Note that the rows of ids change; list the positions of ids not in memory, and return how many.

    ``homes`` has 1 + the position on disk of a row in memory while what is there is the same, 0 once it is not.
    """
    stride, high, n = s.layout[STRIDE], s.meta[HIGH], 0
    for i in range(lo, hi):
        hint = np.int64(hints[order[min(i + AHEAD, hi - 1)]])
        prefetch(s.words, hint * stride)
        prefetch(homes, hint)
        id_, row = ids[order[i]], np.int64(hints[order[i]])
        if row >= high or id_at(s.words, row * stride) != id_:
            row = find(s.entries, s.meta, s.words, stride, id_, hash_of(id_))
        if row < 0:
            absent[n] = order[i]
            n += 1
        elif homes[row] > 0:
            live[np.int64(homes[row] - np.uint32(1)) >> shift] -= 1
            homes[row] = np.uint32(0)
    return n


@inline
def reconsider(uses: U8, high: int, state: I64) -> None:
    """After a round, try another threshold if rows were too hard or too easy to find; or lower all counts."""
    if SCARCE * state[FOUND] < high:
        if state[BELOW] < LEAST_USED:
            state[BELOW] += 1
        else:
            state[AGED] += 1
            for row in range(high):
                uses[row] -= np.uint8(0 < uses[row] < CHOSEN)
    elif PLENTY * state[FOUND] > high and state[BELOW] > 0:
        state[BELOW] -= 1
    state[SEEN] = state[FOUND] = 0


@entry_loop
def choose_leaving(words: U32, stride: int, uses: U8, high: int, state: I64, chosen: I64, counts: U8) -> None:
    """List rows that were used least, and their counts. At most half of the rows may be asked for."""
    n, hand = 0, state[HAND]
    while n < chosen.size:
        hand = hand if hand < high else 0
        state[SEEN] += 1
        if uses[hand] <= state[BELOW] and id_at(words, hand * stride) != np.uint64(RESERVED):
            chosen[n], counts[n] = hand, uses[hand]
            uses[hand] = np.uint8(CHOSEN)
            state[FOUND] += 1
            n += 1
        hand += 1
        if state[SEEN] >= high:
            reconsider(uses, high, state)
    state[HAND] = hand


@entry_loop
def insert_rows(s: Store, rows: U32, slots: I64) -> None:
    """Put rows with their ids into memory; write where."""
    stride = s.layout[STRIDE]
    for i in range(slots.size):
        coming = id_at(rows, min(i + AHEAD, slots.size - 1) * stride)
        prefetch(s.entries, home(s.meta, hash_of(coming)))
        id_ = id_at(rows, i * stride)
        row = insert(s.entries, s.meta, s.words, stride, id_, hash_of(id_))
        if row < s.captured.size and s.captured[row] == 0:
            s.captured[row] = -1  # free at the cut: not part of it
        for word in range(2, stride):
            s.words[row * stride + word] = rows[i * stride + word]
        slots[i] = row
