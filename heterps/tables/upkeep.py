"""The compiled loops beside training: deleting rows, reading a cut, writing rows that were saved."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.tables.hashing import mix
from heterps.tables.index import delete, find, id_at
from heterps.tables.jit import entry_loop
from heterps.tables.layout import STRIDE
from heterps.tables.store import Store, capture, create

__all__ = ["capture_rows", "delete_rows", "order_by_shard", "read_at_cut", "write_rows"]

U64 = npt.NDArray[np.uint64]
U32 = npt.NDArray[np.uint32]
I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]


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
    stride = s.layout[STRIDE]
    for i in range(rows.size):
        k = s.captured[rows[i]]
        for j in range(stride):
            out[i * stride + j] = s.saved[(k - 1) * stride + j] if k > 0 else s.words[rows[i] * stride + j]
        if k == 0:
            s.captured[rows[i]] = -1


@entry_loop
def write_rows(s: Store, ids: U64, order: I32, lo: int, hi: int, records: U32) -> None:
    """Set whole rows, creating those that are absent."""
    stride = s.layout[STRIDE]
    for i in range(lo, hi):
        at = np.int64(order[i])
        h = np.int64(mix(ids[at]) >> np.uint64(32))
        row = find(s.entries, s.meta, s.words, stride, ids[at], h)
        if row < 0:
            row = create(s, ids[at], h)
        capture(s, row)
        for j in range(2, stride):
            s.words[row * stride + j] = records[at * stride + j]


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
