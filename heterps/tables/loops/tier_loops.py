"""The compiled loops of tables beyond memory: which rows are in memory, who leaves it, where the others are on disk.

Two indices of the same kind (:mod:`~heterps.tables.loops.index`): one of the rows in memory, as every table has it, and
one of the rows on disk, whose entries have a position in the log in place of a row. There the id cannot be compared
without reading, so a search gives all positions with the hash of an id, nearly always one or none.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.compiled import entry_loop, inline
from heterps.tables.hashing import RESERVED, mix, prefetch
from heterps.tables.live.row_layout import STRIDE
from heterps.tables.loops.index import COUNT, HIGH, find, home, id_at, insert, make_room, put
from heterps.tables.loops.store import Store

__all__ = [
    "TOUCHED",
    "bits_of_positions",
    "clock",
    "has_positions",
    "insert_rows",
    "list_candidates",
    "list_positions",
    "move_positions",
    "put_positions",
    "remove_positions",
    "touch_rows",
]

U64 = npt.NDArray[np.uint64]
U32 = npt.NDArray[np.uint32]
I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]

#: In the tag of a row in memory: used since the clock's hand passed. The rest of a tag is 1 + the row's position on
#: disk while what is there is the same, 0 once it is not.
TOUCHED = 0x80000000
_HOME = 0x7FFFFFFF
#: Ids between asking for a row and looking at it.
AHEAD = 8


@inline
def upper(id_: np.uint64) -> Any:
    """Return the half of an id's hash that stands in an index."""
    return np.int64(mix(id_) >> np.uint64(32))


@entry_loop
def touch_rows(
    s: Store,
    ids: U64,
    hints: U32,
    order: I32,
    lo: int,
    hi: int,
    tags: U32,
    live: I32,
    shift: int,
    changes: bool,
    absent: I32,
) -> Any:
    """Note that rows are used, and changed where ``changes``; list the positions of ids that are not in memory."""
    stride, high, n = s.layout[STRIDE], s.meta[HIGH], 0
    for i in range(lo, hi):
        if hints.size > 0:
            prefetch(s.words, np.int64(hints[order[min(i + AHEAD, hi - 1)]]) * stride)
        else:
            prefetch(s.entries, home(s.meta, upper(ids[order[min(i + AHEAD, hi - 1)]])))
        id_ = ids[order[i]]
        row = np.int64(hints[order[i]]) if hints.size > 0 else np.int64(-1)
        if row < 0 or row >= high or id_at(s.words, row * stride) != id_:
            row = find(s.entries, s.meta, s.words, stride, id_, upper(id_))
        if row < 0:
            absent[n] = order[i]
            n += 1
            continue
        tag = tags[row] & np.uint32(_HOME)
        if changes and tag > 0:
            live[np.int64(tag - np.uint32(1)) >> shift] -= 1
            tag = np.uint32(0)
        tags[row] = tag | np.uint32(TOUCHED)
    return n


@entry_loop
def clock(words: U32, stride: int, tags: U32, hand: int, high: int, victims: I64) -> Any:
    """List rows that were not used since the hand passed them last; return where it stands then.

    At most half of the rows may be asked for: one round takes the marks of the others away.
    """
    n = 0
    while n < victims.size:
        hand = hand if hand < high else 0
        if id_at(words, hand * stride) != np.uint64(RESERVED):
            if tags[hand] & np.uint32(TOUCHED):
                tags[hand] &= np.uint32(_HOME)
            else:
                tags[hand] |= np.uint32(TOUCHED)  # listed: not again in a second round
                victims[n] = hand
                n += 1
        hand += 1
    return hand


@entry_loop
def insert_rows(s: Store, rows: U32, slots: I64) -> None:
    """Put rows with their ids into memory; write where."""
    stride = s.layout[STRIDE]
    for i in range(slots.size):
        id_ = id_at(rows, i * stride)
        row = insert(s.entries, s.meta, s.words, stride, id_, upper(id_))
        if row < s.captured.size and s.captured[row] == 0:
            s.captured[row] = -1  # free at the cut: not part of it
        for word in range(2, stride):
            s.words[row * stride + word] = rows[i * stride + word]
        slots[i] = row


@inline
def place_of(entries: U64, meta: I64, id_: np.uint64, position: np.int64) -> Any:
    """Return the place of an id's entry with a position, or -1."""
    h = upper(id_)
    entry = (np.uint64(h) << np.uint64(32)) | np.uint64(position + 1)
    place = home(meta, h)
    while entries[place] != entry:
        if entries[place] == np.uint64(0) or np.int64(entries[place] >> np.uint64(32)) > h:
            return np.int64(-1)
        place += 1
    return place


@entry_loop
def list_candidates(entries: U64, meta: I64, ids: U64, at: I64, positions: I64) -> Any:
    """List all positions with the hash of an id, and whose; return how many there are, listed while there is room."""
    n = 0
    for i in range(ids.size):
        prefetch(entries, home(meta, upper(ids[min(i + AHEAD, ids.size - 1)])))
        h = upper(ids[i])
        place = home(meta, h)
        while entries[place] != np.uint64(0):
            hash_ = np.int64(entries[place] >> np.uint64(32))
            if hash_ > h:
                break
            if hash_ == h:
                if n < at.size:
                    at[n], positions[n] = i, np.int64(entries[place] & np.uint64(0xFFFFFFFF)) - 1
                n += 1
            place += 1
    return n


@entry_loop
def put_positions(entries: U64, meta: I64, rows: U32, stride: int, positions: I64) -> None:
    """Enter rows of which these are the words."""
    for i in range(positions.size):
        make_room(entries, meta)
        h = upper(id_at(rows, i * stride))
        put(entries, (np.uint64(h) << np.uint64(32)) | np.uint64(positions[i] + 1), home(meta, h))
        meta[COUNT] += 1


@entry_loop
def remove_positions(entries: U64, meta: I64, ids: U64, positions: I64) -> None:
    """Take out entries that are there."""
    for i in range(ids.size):
        place = place_of(entries, meta, ids[i], positions[i])
        following = entries[place + 1]
        while following != np.uint64(0) and home(meta, np.int64(following >> np.uint64(32))) <= place:
            entries[place] = following
            place += 1
            following = entries[place + 1]
        entries[place] = np.uint64(0)
        meta[COUNT] -= 1


@entry_loop
def has_positions(entries: U64, meta: I64, ids: U64, positions: I64, found: Flags) -> None:
    """Tell which ids have an entry with a position."""
    for i in range(ids.size):
        found[i] = place_of(entries, meta, ids[i], positions[i]) >= 0


@entry_loop
def move_positions(entries: U64, meta: I64, ids: U64, old: I64, new: I64) -> None:
    """Change the positions of entries that are there."""
    for i in range(ids.size):
        place = place_of(entries, meta, ids[i], old[i])
        entries[place] = (entries[place] >> np.uint64(32) << np.uint64(32)) | np.uint64(new[i] + 1)


@entry_loop
def list_positions(entries: U64, places: int, positions: U32) -> None:
    """List the positions of all entries, in these places and the run behind them."""
    n = place = 0
    while place < places or entries[place] != np.uint64(0):
        if entries[place] != np.uint64(0):
            positions[n] = np.uint32(entries[place] & np.uint64(0xFFFFFFFF)) - np.uint32(1)
            n += 1
        place += 1


@entry_loop
def bits_of_positions(entries: U64, places: int, bits: U64) -> None:
    """Set the bits of the positions of all entries, in these places and the run behind them."""
    place = 0
    while place < places or entries[place] != np.uint64(0):
        if entries[place] != np.uint64(0):
            position = (entries[place] & np.uint64(0xFFFFFFFF)) - np.uint64(1)
            bits[position >> np.uint64(6)] |= np.uint64(1) << (position & np.uint64(63))
        place += 1
