"""The compiled loops beside training: deleting rows and reading a cut."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.compiled import entry_loop, inline
from heterps.tables.hashing import RESERVED, mix, prefetch
from heterps.tables.live.row_layout import GATED, HALF, STRIDE, VALUE, WIDTH
from heterps.tables.loops.half import decode, encode
from heterps.tables.loops.index import delete, hash_of, home, id_at
from heterps.tables.loops.store import Store, capture, note, start_segment

__all__ = [
    "capture_rows",
    "copy_rows",
    "count_shards",
    "delete_rows",
    "ids_at_cut",
    "list_keys",
    "settle_rows",
    "start_waiting",
]

U64 = npt.NDArray[np.uint64]
U32 = npt.NDArray[np.uint32]
I64 = npt.NDArray[np.int64]

#: Rows ahead of the one at hand whose cache lines are asked for, and words of a line.
AHEAD, LINE = 24, 16


@inline
def move(source: U32, at: np.uint64, out: U32, to: np.uint64, n: np.uint64) -> None:
    """``out[to:to + n] = source[at:at + n]``, with unsigned positions so that it vectorises."""
    for i in range(n):
        out[to + i] = source[at + i]


@entry_loop
def delete_rows(s: Store, rows: I64) -> None:
    """Delete rows that exist."""
    stride = s.layout[STRIDE]
    for i in range(rows.size):
        coming = id_at(s.words, rows[min(i + AHEAD, rows.size - 1)] * stride)
        prefetch(s.entries, home(s.meta, hash_of(coming)))
        capture(s, rows[i])
        h = hash_of(id_at(s.words, rows[i] * stride))
        delete(s.entries, s.meta, s.words, stride, rows[i], h)


@entry_loop
def start_waiting(s: Store, rows: I64) -> None:
    """Give rows the first values of the columns that wait for their score."""
    stride, width = s.layout[STRIDE], np.uint64(s.layout[WIDTH])
    half = s.layout[HALF] != 0
    for i in range(rows.size):
        base = rows[i] * stride
        out, at = (s.scratch, 0) if half else (s.floats, base + s.layout[VALUE])
        if half:
            decode(s.words, np.uint64(base + s.layout[VALUE]), width, s.scratch, np.uint64(0))
        for k in range(s.segments.shape[0]):
            if s.segments[k, GATED] != 0:
                start_segment(s, k, id_at(s.words, base), out, at)
        if half:
            encode(s.scratch, np.uint64(0), width, s.words, np.uint64(base + s.layout[VALUE]))


@entry_loop
def capture_rows(s: Store, rows: I64) -> None:
    """Save and note rows that are about to be changed from outside the loops here."""
    for i in range(rows.size):
        capture(s, rows[i])
        note(s, rows[i])


@entry_loop
def copy_rows(words: U32, stride: int, rows: U32, pieces: I64, out: U32, done: int) -> None:
    """Copy rows to ``out``, piece by piece.

    A piece ``(first, n, start)`` of row ``i``, its ``n`` words from ``first`` on, goes to ``start + (done + i) * n``.
    """
    for i in range(rows.size):
        ahead = rows[min(i + AHEAD, rows.size - 1)] * stride
        for line in range(0, stride, LINE):
            prefetch(words, ahead + line)
        base = np.uint64(rows[i] * stride)
        for p in range(pieces.shape[0]):
            n = np.uint64(pieces[p, 1])
            to = np.uint64(pieces[p, 2]) + np.uint64(done + i) * n
            move(words, base + np.uint64(pieces[p, 0]), out, to, n)


@entry_loop
def settle_rows(s: Store, rows: U32, pieces: I64, out: U32, done: int) -> None:
    """Copy those of the rows again that have changed since the cut; the others need not be saved any more."""
    captured, stride = s.captured, np.uint64(s.layout[STRIDE])
    for i in range(rows.size):
        prefetch(captured, np.int64(rows[min(i + AHEAD, rows.size - 1)]))
        k = captured[rows[i]]
        if k <= 0:
            captured[rows[i]] = -1
            continue
        base = np.uint64(k - 1) * stride
        for p in range(pieces.shape[0]):
            n = np.uint64(pieces[p, 1])
            to = np.uint64(pieces[p, 2]) + np.uint64(done + i) * n
            move(s.saved, base + np.uint64(pieces[p, 0]), out, to, n)


@entry_loop
def ids_at_cut(s: Store, rows: U32, ids: U64) -> None:
    """Write the ids that rows had at the cut."""
    stride = s.layout[STRIDE]
    for i in range(rows.size):
        k = np.int64(s.captured[rows[i]])
        ids[i] = id_at(s.saved, (k - 1) * stride) if k > 0 else id_at(s.words, rows[i] * stride)


@inline
def shard_at(h: np.uint64, n: np.uint64) -> Any:
    """Return the logical shard of a hash; a division takes several times as long as the usual power of two."""
    power = n & (n - np.uint64(1)) == np.uint64(0)
    return np.int64(h & (n - np.uint64(1)) if power else h % n)


@inline
def counts_for(words: U32, stride: int, row: int, bits: U64) -> Any:
    """Tell whether a row is in use and, where bits are given, has its bit."""
    if bits.size > 0 and (bits[row >> 6] >> np.uint64(row & 63)) & np.uint64(1) == np.uint64(0):
        return False
    return id_at(words, row * stride) != np.uint64(RESERVED)


@entry_loop
def count_shards(words: U32, stride: int, lo: int, hi: int, bits: U64, counts: I64) -> None:
    """Count the rows of each logical shard among those from ``lo`` to ``hi``: all in use, or those with a bit."""
    n = np.uint64(counts.size)
    for row in range(lo, hi):
        if counts_for(words, stride, row, bits):
            id_ = id_at(words, row * stride)
            counts[shard_at(mix(id_), n)] += 1


@entry_loop
def list_keys(words: U32, stride: int, lo: int, hi: int, bits: U64, at: I64, keys: U64) -> None:
    """Write ``hash << 32 | row`` of the same rows, those of each logical shard from ``keys[at[shard]]`` on.

    The hash is the upper half of the id's, as in the index.
    """
    n = np.uint64(at.size)
    for row in range(lo, hi):
        if counts_for(words, stride, row, bits):
            h = mix(id_at(words, row * stride))
            shard = shard_at(h, n)
            keys[at[shard]] = (h & np.uint64(0xFFFFFFFF00000000)) | np.uint64(row)
            at[shard] += 1
