"""An index for rows that were restored, filled by two threads.

Entries are first brought into the order of the upper bits of their hash, their bucket: so each part of the index is
filled while it is in the cache, and each half by a thread of its own.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.compiled import entry_loop
from heterps.tables.hashing import mix
from heterps.tables.loops.index import CAP, HIGH, home, id_at, put

__all__ = ["fill_index"]

U64 = npt.NDArray[np.uint64]
U32 = npt.NDArray[np.uint32]
I64 = npt.NDArray[np.int64]

BUCKET_BITS = 11
BUCKETS = 1 << BUCKET_BITS
#: The bucket between the halves.
_MIDDLE = BUCKETS // 2


def fill_index(entries: U64, meta: I64, words: U32, stride: int, threads: int) -> int:
    """Enter all rows into an empty index; return a row whose id another one has too, or -1."""
    rows, cap = [int(meta[HIGH]) * t // threads for t in range(threads + 1)], int(meta[CAP])
    counts = np.zeros((threads, BUCKETS), np.int64)
    sorted_ = np.empty(rows[-1], np.uint64)
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda t: count_buckets(words, stride, rows[t], rows[t + 1], counts[t]), range(threads)))
        ends = np.cumsum(counts.T).reshape(BUCKETS, threads)
        starts = np.ascontiguousarray(ends.T) - counts
        list(pool.map(lambda t: list_entries(words, stride, rows[t], rows[t + 1], starts[t], sorted_), range(threads)))
        if threads > 1 and _halves_are_apart(counts.sum(0), cap):
            lo, hi = int(ends[_MIDDLE - 1, -1]), int(ends[_MIDDLE, -1])
            list(pool.map(lambda some: put_entries(entries, meta, some), (sorted_[:lo], sorted_[hi:])))
            put_entries(entries, meta, sorted_[lo:hi])
        else:
            put_entries(entries, meta, sorted_)
        places = [cap * t // threads for t in range(threads)] + [len(entries)]
        found = pool.map(
            lambda t: int(find_double(entries, words, stride, places[t], places[t + 1], cap)), range(threads)
        )
        return max(found)


def _halves_are_apart(counts: I64, cap: int) -> bool:
    """Tell whether no entry of a bucket before the middle one can get to where the first one after it begins.

    Entries of a bucket that stand behind its end, and behind all of the buckets before, stand there without a gap.
    """
    begins = np.arange(1, _MIDDLE + 2) * cap >> BUCKET_BITS
    reach = 0
    for end, count in zip(begins[:-1].tolist(), counts[:_MIDDLE].tolist(), strict=True):
        reach = max(reach, end) + count
    return reach <= int(begins[-1])


@entry_loop
def count_buckets(words: U32, stride: int, lo: int, hi: int, counts: I64) -> None:
    """Count the rows of each bucket among those from ``lo`` to ``hi``."""
    shift = np.uint64(64 - BUCKET_BITS)
    for row in range(lo, hi):
        counts[np.int64(mix(id_at(words, row * stride)) >> shift)] += 1


@entry_loop
def list_entries(words: U32, stride: int, lo: int, hi: int, at: I64, sorted_: U64) -> None:
    """Write the entries of the same rows, those of each bucket from ``sorted_[at[bucket]]`` on."""
    shift = np.uint64(64 - BUCKET_BITS)
    for row in range(lo, hi):
        hash_ = mix(id_at(words, row * stride))
        bucket = np.int64(hash_ >> shift)
        sorted_[at[bucket]] = (hash_ & np.uint64(0xFFFFFFFF00000000)) | np.uint64(row + 1)
        at[bucket] += 1


@entry_loop
def put_entries(entries: U64, meta: I64, some: U64) -> None:
    """Insert entries."""
    for i in range(some.size):
        put(entries, some[i], home(meta, np.int64(some[i] >> np.uint64(32))))


@entry_loop
def find_double(entries: U64, words: U32, stride: int, lo: int, hi: int, cap: int) -> Any:
    """Return a row at a place from ``lo`` to ``hi`` whose id a row before it has too, or -1."""
    place = lo
    while place < hi and (place < cap or entries[place] != np.uint64(0)):
        entry, before = entries[place], place - 1
        while entry and before >= 0 and entries[before] >> np.uint64(32) == entry >> np.uint64(32):
            row = np.int64(entry & np.uint64(0xFFFFFFFF)) - 1
            other = np.int64(entries[before] & np.uint64(0xFFFFFFFF)) - 1
            if id_at(words, row * stride) == id_at(words, other * stride):
                return row
            before -= 1
        place += 1
    return -1
