"""From id to row: a sorted array with gaps that grows in place, a few entries at a time.

Rules the code relies on, at every moment between two calls:

1. An entry is ``hash32 << 32 | row + 1``; 0 is an empty place. The id itself stands in the row, and decides.
2. ``home(h)`` grows with ``h``, and entries stand in order of their hash: open addressing with linear probing where a
   run of neighbours is sorted. So a search ends at the first larger hash, and a table read in order is in hash order.
3. An entry stands at or after its home with no empty place between. There is no wrap-around: the last run may reach
   past the capacity, where there is always room.
4. While the index grows from OLD to CAP places, hashes from FRONTIER up have their home by CAP, smaller ones by OLD.
   The frontier goes down by at most STEP entries (and equals) per inserted id, and the growth is over long before the
   next one is due, so no call ever pays for a whole rehash.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.compiled import entry_loop, inline, inner_loop
from heterps.tables.hashing import mix
from heterps.tables.loops.vector_lanes import first_of_hash

__all__ = ["CAP", "COUNT", "FREE", "FRONTIER", "HIGH", "LEAST", "META", "MOVED", "OLD", "STEP", "new_meta"]

U64 = npt.NDArray[np.uint64]
U32 = npt.NDArray[np.uint32]
I64 = npt.NDArray[np.int64]

#: Fields of the state array that every function here takes.
CAP, OLD, FRONTIER, COUNT, HIGH, FREE, MOVED, PEAK, LOAD, GROW = range(10)
META = 10
#: Places of an empty index.
LEAST = 1024
#: Entries per thousand places from which an index grows.
MIN_LOAD, MAX_LOAD = 500, 800
#: Places behind its home up to which an entry nearly always stands.
SPILL = 2
#: Entries moved at most per inserted id while the index grows.
STEP = 16


def new_meta(row_bytes: int) -> I64:
    """Return the state of an empty index: HIGH rows used so far, FREE the first free row or -1.

    A place takes 8 bytes. An emptier index is searched faster and grows less often, so wide rows have an emptier one:
    right after growing it takes at most 30 % of what the rows take, or where rows are short, its load is 2/3.
    """
    meta = np.zeros(META, np.int64)
    meta[CAP], meta[FREE] = LEAST, -1
    emptiest = 8000 * 10 // (3 * row_bytes)
    meta[LOAD] = min(max(emptiest * 5 // 4, MIN_LOAD), MAX_LOAD)
    meta[GROW] = min(max(1000 * meta[LOAD] // max(emptiest, 1), 1200), 1500)
    return meta


@inline
def home(meta: I64, h: np.int64) -> Any:
    """Return the first place where a hash may stand."""
    if meta[OLD] == 0 or h >= meta[FRONTIER]:
        return (h * meta[CAP]) >> 32
    return (h * meta[OLD]) >> 32


@inline
def hash_of(id_: np.uint64) -> Any:
    """Return the hash by which entries stand in order."""
    return np.int64(mix(id_) >> np.uint64(32))


@inline
def homes(meta: I64) -> Any:
    """Return what :func:`home_of` takes, good until the next id is inserted."""
    return meta[CAP], meta[OLD], meta[FRONTIER] if meta[OLD] != 0 else 0


@inline
def home_of(where: Any, h: np.int64) -> Any:
    """Return what :func:`home` does, without a branch: on which side of the frontier a hash is cannot be foreseen."""
    cap, old, frontier = where
    return np.uint64((h * (cap if h >= frontier else old)) >> 32)


@inline
def likely_row(entries: U64, place: np.uint64, h: np.int64) -> Any:
    """Return the row of the first entry with a hash whose home is known, as 32 bits, all set if there is none.

    Entries of one cache line are looked at together: how many stand before the one that is meant cannot be foreseen.
    """
    line = place & ~np.uint64(7)
    lane = first_of_hash(entries, line, np.uint64(h))
    if lane < np.uint64(8):
        place = line + lane
    else:
        while entries[place] != np.uint64(0) and np.int64(entries[place] >> np.uint64(32)) < h:
            place += np.uint64(1)
        if np.int64(entries[place] >> np.uint64(32)) != h:
            return np.uint32(0xFFFFFFFF)
    return np.uint32(entries[place] & np.uint64(0xFFFFFFFF)) - np.uint32(1)


@inline
def id_at(words: U32, at: np.uint64) -> Any:
    """Return the id in the first two words of a row that starts at ``at``."""
    return np.uint64(words[at]) | (np.uint64(words[at + np.uint64(1)]) << np.uint64(32))


@inner_loop
def find(entries: U64, meta: I64, words: U32, stride: np.int64, id_: np.uint64, h: np.int64) -> Any:
    """Return the row of an id, or -1."""
    place = home(meta, h)
    while True:
        entry = entries[place]
        hash_ = np.int64(entry >> np.uint64(32))
        if entry == np.uint64(0) or hash_ > h:
            return -1
        if hash_ == h:
            row = np.int64(entry & np.uint64(0xFFFFFFFF)) - 1
            if id_at(words, np.uint64(row * stride)) == id_:
                return row
        place += 1


@inline
def put(entries: U64, entry: np.uint64, place: np.int64) -> None:
    """Insert an entry at or after ``place``, keeping the order; larger neighbours move one place on."""
    h = entry >> np.uint64(32)
    while entries[place] != np.uint64(0) and (entries[place] >> np.uint64(32)) <= h:
        place += 1
    while entry != np.uint64(0):
        entries[place], entry = entry, entries[place]
        place += 1


@inline
def advance(entries: U64, meta: I64, budget: np.int64) -> None:
    """Move the frontier of a growing index down by about ``budget`` entries (equal hashes move together)."""
    frontier = meta[FRONTIER]
    place = (frontier * meta[OLD]) >> 32
    while entries[place] != np.uint64(0) and np.int64(entries[place] >> np.uint64(32)) < frontier:
        place += 1
    moved = 0
    while place > 0:
        entry = entries[place - 1]
        if entry != np.uint64(0):
            h = np.int64(entry >> np.uint64(32))
            if moved >= budget and h != frontier:
                break
            frontier = h
            target = (h * meta[CAP]) >> 32
            if target > place - 1:
                entries[place - 1] = np.uint64(0)
                put(entries, entry, target)
            moved += 1
        place -= 1
    meta[MOVED] += moved
    meta[PEAK] = max(meta[PEAK], moved)
    meta[FRONTIER] = frontier
    if place == 0:
        meta[OLD] = 0


@inline
def make_room(entries: U64, meta: I64) -> None:
    """Begin or continue to grow before one more id is inserted."""
    if meta[OLD] != 0:
        advance(entries, meta, STEP)
    elif meta[COUNT] * 1000 >= meta[CAP] * meta[LOAD]:
        meta[OLD] = meta[CAP]
        meta[CAP] = meta[CAP] * meta[GROW] // 1000
        meta[FRONTIER] = np.int64(1) << 32


@inline
def insert(entries: U64, meta: I64, words: U32, stride: np.int64, id_: np.uint64, h: np.int64) -> Any:
    """Give an absent id a row and return it; the rest of the row is left to the caller."""
    make_room(entries, meta)
    row = meta[FREE]
    if row >= 0:
        meta[FREE] = np.int64(words[row * stride + 2]) - 1
    else:
        row = meta[HIGH]
        meta[HIGH] += 1
    words[row * stride] = np.uint32(id_ & np.uint64(0xFFFFFFFF))
    words[row * stride + 1] = np.uint32(id_ >> np.uint64(32))
    put(entries, (np.uint64(h) << np.uint64(32)) | np.uint64(row + 1), home(meta, h))
    meta[COUNT] += 1
    return row


@entry_loop
def delete(entries: U64, meta: I64, words: U32, stride: np.int64, row: np.int64, h: np.int64) -> None:
    """Take out the entry of a row and put the row on the free list."""
    place = home(meta, h)
    while np.int64(entries[place] & np.uint64(0xFFFFFFFF)) - 1 != row:
        place += 1
    following = entries[place + 1]
    while following != np.uint64(0) and home(meta, np.int64(following >> np.uint64(32))) <= place:
        entries[place] = following
        place += 1
        following = entries[place + 1]
    entries[place] = np.uint64(0)
    words[row * stride] = np.uint32(0xFFFFFFFF)
    words[row * stride + 1] = np.uint32(0xFFFFFFFF)
    words[row * stride + 2] = np.uint32(meta[FREE] + 1)
    meta[FREE] = row
    meta[COUNT] -= 1
