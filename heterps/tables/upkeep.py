"""The compiled loops beside training: deleting rows, reading a cut, writing rows that were saved."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.tables.hashing import mix, prefetch
from heterps.tables.index import delete, find, home, id_at, insert
from heterps.tables.jit import entry_loop, inline
from heterps.tables.layout import STRIDE
from heterps.tables.store import Store, capture

__all__ = ["capture_rows", "delete_rows", "order_by_shard", "read_at_cut", "write_rows"]

U64 = npt.NDArray[np.uint64]
U32 = npt.NDArray[np.uint32]
I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]

#: Rows ahead of the one at hand whose cache lines are asked for, and words of a line.
AHEAD, LINE = 16, 16


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
def write_rows(s: Store, ids: U64, order: I32, lo: int, hi: int, records: U32) -> None:
    """Set whole rows, creating those that are absent."""
    entries, meta, words, captured = s.entries, s.meta, s.words, s.captured
    stride = s.layout[STRIDE]
    for i in range(lo, hi):
        ahead = np.int64(mix(ids[order[min(i + AHEAD, hi - 1)]]) >> np.uint64(32))
        prefetch(entries, home(meta, ahead))
        at = np.int64(order[i])
        h = np.int64(mix(ids[at]) >> np.uint64(32))
        row = find(entries, meta, words, stride, ids[at], h)
        if row < 0:
            row = insert(entries, meta, words, stride, ids[at], h)
            if row < captured.size and captured[row] == 0:
                captured[row] = -1  # free at the cut: not part of it
        else:
            capture(s, row)
        move(records, np.uint64(at * stride + 2), words, np.uint64(row * stride + 2), np.uint64(stride - 2))


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
