"""The compiled loops beside training: deleting rows, reading a cut, an index for rows that were restored."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.tables.hashing import mix, prefetch
from heterps.tables.index import CAP, HIGH, delete, home, id_at, put
from heterps.tables.jit import entry_loop, inline, inner_loop
from heterps.tables.layout import STRIDE
from heterps.tables.store import Store, capture

__all__ = ["capture_rows", "delete_rows", "fill_index", "order_by_shard", "read_at_cut"]

U64 = npt.NDArray[np.uint64]
U32 = npt.NDArray[np.uint32]
I64 = npt.NDArray[np.int64]

#: Rows ahead of the one at hand whose cache lines are asked for, and words of a line.
AHEAD, LINE = 16, 16
#: Upper bits of a hash by which entries are ordered before they go into an empty index.
BUCKET_BITS = 11


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
        capture(s, rows[i])
        h = np.int64(mix(id_at(s.words, rows[i] * stride)) >> np.uint64(32))
        delete(s.entries, s.meta, s.words, stride, rows[i], h)


@entry_loop
def capture_rows(s: Store, rows: I64) -> None:
    """Save rows that are about to be changed from outside the loops here."""
    for i in range(rows.size):
        capture(s, rows[i])


@entry_loop
def read_at_cut(s: Store, rows: I64, out: U32) -> None:
    """Copy rows as they were at the cut to ``out`` (flat); they need not be saved any more."""
    words, saved, captured = s.words, s.saved, s.captured
    stride = s.layout[STRIDE]
    for i in range(rows.size):
        ahead = rows[min(i + AHEAD, rows.size - 1)] * stride
        for line in range(0, stride, LINE):
            prefetch(words, ahead + line)
        k = captured[rows[i]]
        if k > 0:
            move(saved, np.uint64((k - 1) * stride), out, np.uint64(i * stride), np.uint64(stride))
        else:
            move(words, np.uint64(rows[i] * stride), out, np.uint64(i * stride), np.uint64(stride))
            captured[rows[i]] = -1


@entry_loop
def fill_index(entries: U64, meta: I64, words: U32, stride: int, sorted_: U64) -> Any:
    """Enter all rows into an empty index; return a row whose id another one has too, or -1.

    Entries are first brought into the order of the upper bits of their hash: so each part of the index is filled while
    it is in the cache.
    """
    ends = np.zeros((1 << BUCKET_BITS) + 1, np.int64)
    shift = np.uint64(64 - BUCKET_BITS)
    for row in range(meta[HIGH]):
        ends[np.int64(mix(id_at(words, row * stride)) >> shift) + 1] += 1
    for k in range(1, ends.size):
        ends[k] += ends[k - 1]
    for row in range(meta[HIGH]):
        hash_ = mix(id_at(words, row * stride))
        bucket = np.int64(hash_ >> shift)
        sorted_[ends[bucket]] = (hash_ & np.uint64(0xFFFFFFFF00000000)) | np.uint64(row + 1)
        ends[bucket] += 1
    for i in range(sorted_.size):
        put(entries, sorted_[i], home(meta, np.int64(sorted_[i] >> np.uint64(32))))
    return find_double(entries, meta, words, stride)


@inner_loop
def find_double(entries: U64, meta: I64, words: U32, stride: int) -> Any:
    """Return a row whose id an earlier one has too, or -1."""
    place = 0
    while place < meta[CAP] or entries[place] != np.uint64(0):
        entry, before = entries[place], place - 1
        while entry and before >= 0 and entries[before] >> np.uint64(32) == entry >> np.uint64(32):
            row = np.int64(entry & np.uint64(0xFFFFFFFF)) - 1
            other = np.int64(entries[before] & np.uint64(0xFFFFFFFF)) - 1
            if id_at(words, row * stride) == id_at(words, other * stride):
                return row
            before -= 1
        place += 1
    return -1


@entry_loop
def order_by_shard(words: U32, stride: int, rows: I64, n_shards: int, bounds: I64) -> Any:
    """Return rows grouped by the logical shard of their id; ``bounds[k]`` is where shard ``k`` begins."""
    bounds[:] = 0
    shards = np.empty(rows.size, np.int32)
    for i in range(rows.size):
        shards[i] = np.int32(mix(id_at(words, rows[i] * stride)) % np.uint64(n_shards))
        bounds[shards[i] + 1] += 1
    for k in range(n_shards):
        bounds[k + 1] += bounds[k]
    out = np.empty(rows.size, np.int64)
    for i in range(rows.size):
        out[bounds[shards[i]]] = rows[i]
        bounds[shards[i]] += 1
    for k in range(n_shards, 0, -1):
        bounds[k] = bounds[k - 1]
    bounds[0] = 0
    return out
