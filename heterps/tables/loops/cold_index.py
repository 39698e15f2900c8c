"""Where the rows on disk stand: chains of cells, about 6.8 bytes a row.

Rules the code relies on, at every moment between two calls:

1. Of a hash the low bits, FIRST at least, choose a chain; the 16 bits above the first FIRST stand in the entry. So
   FIRST + 16 bits of the hash of an entry are known; its id is on disk, and decides.
2. A cell is 32 words: for each of 20 entries a word (count << 30 | position + 1, or 0) and half a word (a part of
   the hash), a spare word, and 1 + the next cell of the chain or of the free ones. Of a chain only the first cell is
   not full, and its entries stand before its gaps.
3. Cells in no chain have no entries, so all entries can be listed cell by cell.
4. Chains below SPLIT are chosen by LEVEL + 1 bits, the others by LEVEL. One after another is split by the next bit as
   rows come, while there are more than FULL for each chain: nothing is read for it, and no row pays for more than one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.compiled import entry_loop, inline, inner_loop
from heterps.tables.hashing import mix, prefetch
from heterps.tables.loops.index import id_at

__all__ = [
    "ABSENT",
    "CELL",
    "CHAIN_ROWS",
    "COUNT",
    "FIRST",
    "FULL",
    "HIGH",
    "LEAST_BITS",
    "LEVEL",
    "MOST_BITS",
    "PLACES",
    "POSITION",
    "age_cells",
    "bits_of_positions",
    "chains_of",
    "has_positions",
    "hash_of",
    "list_alike",
    "list_candidates",
    "list_positions",
    "move_positions",
    "new_state",
    "put_positions",
    "remove_positions",
]

U64 = npt.NDArray[np.uint64]
U32 = npt.NDArray[np.uint32]
U8 = npt.NDArray[np.uint8]
I64 = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

#: Fields of the state array: rows, cells ever used, 1 + the first free cell, and rules 4 and 1.
COUNT, HIGH, FREE, LEVEL, SPLIT, FULL, FIRST = range(7)
#: Words of a cell, entries of it, where parts of hashes stand, and the next cell.
CELL, PLACES = 32, 20
_HASHES, _NEXT = 20, 31
#: Chains of an empty index, as bits: at least and at most; rows of a chain on average.
LEAST_BITS, MOST_BITS, CHAIN_ROWS = 16, 22, 160
#: Of an entry's word, the position + 1, and one of the count, which is 3 at most.
POSITION, _ONE = 0x3FFFFFFF, 1 << 30
#: In place of the count of an entry that is not there.
ABSENT = np.uint8(255)
#: Ids whose chains are gone through side by side.
AHEAD = 16


def new_state(chain_bits: int) -> I64:
    """Return the state of an empty index with so many chains."""
    state = np.zeros(7, np.int64)
    state[LEVEL] = state[FIRST] = chain_bits
    state[FULL] = CHAIN_ROWS
    return state


def chains_of(state: I64) -> int:
    """Return how many chains there are."""
    return (1 << int(state[LEVEL])) + int(state[SPLIT])


@inline
def hash_of(id_: np.uint64) -> Any:
    """Return 48 bits of an id's hash, those first that rows in memory are found by. The others say to which logical
    shard an id belongs: here they are the same for many.
    """
    h = mix(id_)
    return np.int64((h >> np.uint64(32)) | ((h & np.uint64(0xFFFF0000)) << np.uint64(16)))


@inline
def part_of(state: I64, h: np.int64) -> Any:
    """Return the bits of a hash that stand in an entry."""
    return np.uint32((h >> state[FIRST]) & np.int64(0xFFFF))


@inline
def chain_of(state: I64, h: np.int64) -> Any:
    """Return the chain of a hash."""
    level = state[LEVEL]
    chain = h & ((np.int64(1) << level) - 1)
    if chain < state[SPLIT]:
        chain = h & ((np.int64(2) << level) - 1)
    return chain


@inline
def part_at(cells: U32, cell: np.int64, i: np.int64) -> Any:
    """Return the part of the hash of entry ``i``."""
    word = cells[CELL * cell + _HASHES + (i >> 1)]
    return (word >> np.uint32(16 * (i & 1))) & np.uint32(0xFFFF)


@inline
def write(cells: U32, cell: np.int64, i: np.int64, word: np.uint32, part: np.uint32) -> None:
    """Write entry ``i`` of a cell."""
    cells[CELL * cell + i] = word
    at, shift = CELL * cell + _HASHES + (i >> 1), np.uint32(16 * (i & 1))
    cells[at] = (cells[at] & ~(np.uint32(0xFFFF) << shift)) | (part << shift)


@inline
def entries_of(cells: U32, cell: np.int64) -> Any:
    """Return how many entries the first cell of a chain has."""
    n = np.int64(0)
    while n < PLACES and cells[CELL * cell + n] != np.uint32(0):
        n += 1
    return n


@inline
def add(cells: U32, heads: U32, state: I64, chain: np.int64, word: np.uint32, part: np.uint32) -> None:
    """Add an entry to a chain."""
    cell = np.int64(heads[chain]) - 1
    if cell < 0 or cells[CELL * cell + PLACES - 1] != np.uint32(0):
        fresh = state[FREE] - 1
        if fresh >= 0:
            state[FREE] = np.int64(cells[CELL * fresh + _NEXT])
        else:
            fresh = state[HIGH]
            state[HIGH] += 1
        cells[CELL * fresh + _NEXT] = np.uint32(cell + 1)
        heads[chain] = np.uint32(fresh + 1)
        cell = fresh
    write(cells, cell, entries_of(cells, cell), word, part)


@inline
def set_free(cells: U32, state: I64, cell: np.int64) -> None:
    """Put a cell without entries on the list of free ones."""
    cells[CELL * cell + _NEXT] = np.uint32(state[FREE])
    state[FREE] = cell + 1


@inner_loop
def split(cells: U32, heads: U32, state: I64) -> None:
    """Divide the next chain by one bit more of the hash."""
    chain, level = state[SPLIT], state[LEVEL]
    twin, bit = chain + (np.int64(1) << level), np.uint32(level - state[FIRST])
    cell = np.int64(heads[chain]) - 1
    heads[chain] = heads[twin] = np.uint32(0)
    while cell >= 0:
        for i in range(PLACES):
            word = cells[CELL * cell + i]
            if word != np.uint32(0):
                part = part_at(cells, cell, i)
                add(cells, heads, state, twin if (part >> bit) & np.uint32(1) else chain, word, part)
                cells[CELL * cell + i] = np.uint32(0)
        following = np.int64(cells[CELL * cell + _NEXT]) - 1
        set_free(cells, state, cell)
        cell = following
    state[SPLIT] += 1
    if state[SPLIT] == np.int64(1) << level:
        state[LEVEL], state[SPLIT] = level + 1, 0


@inline
def place_of(cells: U32, heads: U32, state: I64, id_: np.uint64, position: np.int64) -> Any:
    """Return where the entry with an id's position stands, or -1: no two have the same position."""
    cell = np.int64(heads[chain_of(state, hash_of(id_))]) - 1
    while cell >= 0:
        for i in range(PLACES):
            if np.int64(cells[CELL * cell + i] & np.uint32(POSITION)) == position + 1:
                return CELL * cell + i
        cell = np.int64(cells[CELL * cell + _NEXT]) - 1
    return np.int64(-1)


@inline
def begin(cells: U32, heads: U32, state: I64, ids: U64, first: int, last: int, walks: I64) -> None:
    """Ask for the first cells of the chains of some ids; write which they are."""
    for i in range(first, last):
        walks[i - first] = min(chain_of(state, hash_of(ids[i])), heads.size - 1)  # without the lock, it may be odd
        prefetch(heads, walks[i - first])
    for i in range(first, last):
        walks[i - first] = np.int64(heads[walks[i - first]]) - 1
        ask(cells, walks[i - first])


@inline
def ask(cells: U32, cell: np.int64) -> None:
    """Ask for a cell, if it is one."""
    if cell >= 0:
        prefetch(cells, CELL * cell)
        prefetch(cells, CELL * cell + 16)


@inline
def has_part(cells: U32, cell: np.int64, part: np.uint32) -> Any:
    """Tell whether a cell may have an entry with such a hash: all are looked at, without a branch."""
    twice, found = part | (part << np.uint32(16)), np.uint32(0)
    for k in range(PLACES // 2):
        x = cells[CELL * cell + _HASHES + k] ^ twice
        found |= np.uint32((x & np.uint32(0xFFFF)) == np.uint32(0)) | np.uint32((x >> np.uint32(16)) == np.uint32(0))
    return found != np.uint32(0)


@entry_loop
def list_candidates(
    cells: U32, heads: U32, state: I64, ids: U64, cells_at_most: int, at: I64, positions: I64, places: I64
) -> Any:
    """List all positions with the hash of an id, whose, and where they stand here; return how many there are, listed
    while there is room.

    The chains of some ids are gone through side by side: nobody waits for memory. No more than so many cells of each
    are looked at: who has no lock may get from a chain to the free cells.
    """
    n, walks = 0, np.empty(AHEAD, np.int64)
    for first in range(0, ids.size, AHEAD):
        last = min(first + AHEAD, ids.size)
        begin(cells, heads, state, ids, first, last, walks)
        on_the_way, seen = True, 0
        while on_the_way and seen < cells_at_most:
            on_the_way, seen = False, seen + 1
            for i in range(first, last):
                cell = walks[i - first]
                if cell < 0:
                    continue
                part = part_of(state, hash_of(ids[i]))
                for k in range(PLACES if has_part(cells, cell, part) else 0):
                    word = cells[CELL * cell + k] & np.uint32(POSITION)
                    if part_at(cells, cell, k) == part and word != np.uint32(0):
                        if n < at.size:
                            at[n], positions[n], places[n] = i, np.int64(word) - 1, CELL * cell + k
                        n += 1
                walks[i - first] = np.int64(cells[CELL * cell + _NEXT]) - 1
                ask(cells, walks[i - first])
                on_the_way = True
    return n


@entry_loop
def put_positions(cells: U32, heads: U32, state: I64, rows: U32, stride: int, positions: I64, counts: U8) -> None:
    """Enter rows of which these are the words, with a count each."""
    for i in range(positions.size):
        if state[COUNT] > state[FULL] * ((np.int64(1) << state[LEVEL]) + state[SPLIT]):
            split(cells, heads, state)
        h = hash_of(id_at(rows, i * stride))
        word = np.uint32(positions[i] + 1) | (np.uint32(counts[i]) << np.uint32(30))
        add(cells, heads, state, chain_of(state, h), word, part_of(state, h))
        state[COUNT] += 1


@inline
def take_out(cells: U32, heads: U32, state: I64, chain: np.int64, place: np.int64) -> None:
    """Take out the entry at a place: the last one of the chain's first cell comes there."""
    head = np.int64(heads[chain]) - 1
    last = entries_of(cells, head) - 1
    write(cells, place // CELL, place % CELL, cells[CELL * head + last], part_at(cells, head, last))
    cells[CELL * head + last] = np.uint32(0)
    if last == 0:
        heads[chain] = cells[CELL * head + _NEXT]
        set_free(cells, state, head)
    state[COUNT] -= 1


@entry_loop
def remove_positions(cells: U32, heads: U32, state: I64, ids: U64, positions: I64, places: I64, counts: U8) -> None:
    """Take out entries, which are likely to be at ``places``; write their counts, ABSENT where there is none."""
    walks = np.empty(AHEAD, np.int64)
    for first in range(0, ids.size, AHEAD):
        last = min(first + AHEAD, ids.size)
        begin(cells, heads, state, ids, first, last, walks)
        for i in range(first, last):
            prefetch(cells, max(places[i], 0))
        for i in range(first, last):
            place = places[i]
            if place < 0 or np.int64(cells[place] & np.uint32(POSITION)) != positions[i] + 1:
                place = place_of(cells, heads, state, ids[i], positions[i])
            counts[i] = ABSENT if place < 0 else np.uint8(cells[place] >> np.uint32(30))
            if place >= 0:
                take_out(cells, heads, state, chain_of(state, hash_of(ids[i])), place)


@entry_loop
def has_positions(cells: U32, heads: U32, state: I64, ids: U64, positions: I64, found: Flags) -> None:
    """Tell which ids have an entry with a position."""
    for i in range(ids.size):
        found[i] = place_of(cells, heads, state, ids[i], positions[i]) >= 0


@entry_loop
def move_positions(cells: U32, heads: U32, state: I64, ids: U64, old: I64, new: I64) -> None:
    """Change the positions of entries that are there."""
    for i in range(ids.size):
        place = place_of(cells, heads, state, ids[i], old[i])
        cells[place] = (cells[place] & ~np.uint32(POSITION)) | np.uint32(new[i] + 1)


@entry_loop
def list_positions(cells: U32, state: I64, positions: U32) -> None:
    """List the positions of all entries."""
    n = 0
    for cell in range(state[HIGH]):
        for i in range(PLACES):
            word = cells[CELL * cell + i] & np.uint32(POSITION)
            if word != np.uint32(0):
                positions[n] = word - np.uint32(1)
                n += 1


@entry_loop
def bits_of_positions(cells: U32, state: I64, bits: U64) -> None:
    """Set the bits of the positions of all entries."""
    for cell in range(state[HIGH]):
        for i in range(PLACES):
            word = cells[CELL * cell + i] & np.uint32(POSITION)
            if word != np.uint32(0):
                position = np.uint64(word) - np.uint64(1)
                bits[position >> np.uint64(6)] |= np.uint64(1) << (position & np.uint64(63))


@entry_loop
def list_alike(cells: U32, heads: U32, first: int, last: int, marks: U8, positions: I64) -> Any:
    """List the positions of entries in these chains whose hash another entry has, too.

    ``marks`` has 65,536 zeros. Return how many there are, listed while there is room.
    """
    n = 0
    for chain in range(first, last):
        for round_ in range(3):  # count, list, clear
            cell = np.int64(heads[chain]) - 1
            while cell >= 0:
                for i in range(PLACES):
                    word = cells[CELL * cell + i] & np.uint32(POSITION)
                    if word == np.uint32(0):
                        continue
                    part = np.int64(part_at(cells, cell, i))
                    if round_ == 0:
                        marks[part] = min(marks[part] + 1, 2)
                    elif round_ == 2:
                        marks[part] = 0
                    elif marks[part] > 1:
                        if n < positions.size:
                            positions[n] = np.int64(word) - 1
                        n += 1
                cell = np.int64(cells[CELL * cell + _NEXT]) - 1
    return n


@entry_loop
def age_cells(cells: U32, first: int, last: int) -> None:
    """Lower all counts in these cells by one."""
    for cell in range(first, last):
        for i in range(PLACES):
            word = cells[CELL * cell + i]
            cells[CELL * cell + i] = word - np.uint32(_ONE) if word >= np.uint32(_ONE) else word
