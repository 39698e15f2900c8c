"""The compiled loops over rows: find or create and copy out (pull), find and update (push).

Ids come in any order; ``order[lo:hi]`` picks those of the partition at hand. Work goes in blocks of a few dozen ids:
first all places in the index are asked for, then all rows, then they are used. So the misses of a block overlap.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from heterps.tables.half import decode, encode
from heterps.tables.hashing import mix, prefetch
from heterps.tables.index import HIGH, find, home, id_at
from heterps.tables.layout import CODE, COLUMN, COUNTER, GATED, HALF, SLOT, STATE, STRIDE, TICK, VALUE, WIDTH, N
from heterps.tables.store import BLOCK, Block, Gradients, Store, capture, create, start_segment
from heterps.tables.update import update_rows

__all__ = ["NO_ROW", "find_rows", "pull_rows", "push_rows"]

U64 = npt.NDArray[np.uint64]
U32 = npt.NDArray[np.uint32]
I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]
F32 = npt.NDArray[np.float32]

#: In an array of rows: the id has none.
NO_ROW = 2**32 - 1
LINE = 16

#: What a push reports.
APPLIED, SKIPPED, CREATED, MISSING, HINTED = range(5)


@njit(nogil=True, cache=True, inline="always")
def look_ahead(s: Store, ids: U64, order: I32, lo: int, hi: int, hashes: I64, rows: I64) -> None:
    """For the ids of a block: hash, likely row (or -1), and both cache lines on their way."""
    stride = s.layout[STRIDE]
    for i in range(lo, hi):
        h = np.int64(mix(ids[order[i]]) >> np.uint64(32))
        hashes[i - lo] = h
        place = home(s.meta, h)
        rows[i - lo] = place
        prefetch(s.entries, place)
    for i in range(lo, hi):
        place, h = rows[i - lo], hashes[i - lo]
        row = np.int64(-1)
        while True:
            entry = s.entries[place]
            hash_ = np.int64(entry >> np.uint64(32))
            if entry == np.uint64(0) or hash_ > h:
                break
            if hash_ == h:
                row = np.int64(entry & np.uint64(0xFFFFFFFF)) - 1
                break
            place += 1
        rows[i - lo] = row
        if row >= 0:
            for line in range(0, s.layout[STATE], LINE):
                prefetch(s.words, row * stride + line)


@njit(nogil=True, cache=True, inline="always")
def copy(source: F32, at: np.uint64, out: F32, to: np.uint64, n: np.uint64) -> None:
    """``out[to:to + n] = source[at:at + n]``, with unsigned positions so that it vectorises."""
    for i in range(n):
        out[to + i] = source[at + i]


@njit(nogil=True, cache=True)
def pull_rows(
    s: Store, ids: U64, order: I32, lo: int, hi: int, rows: U32, out: F32, make: bool, tick: np.uint32
) -> Any:
    """Copy the values of rows to ``out`` (flat), creating absent ones if told; return how many were created.

    An id without a row reads as zeros.
    """
    stride, width, value = s.layout[STRIDE], s.layout[WIDTH], s.layout[VALUE]
    half = s.layout[HALF] != 0
    hashes, likely = np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64)
    created = 0
    for start in range(lo, hi, BLOCK):
        stop = min(start + BLOCK, hi)
        look_ahead(s, ids, order, start, stop, hashes, likely)
        for i in range(start, stop):
            to = np.int64(order[i])
            row, h = likely[i - start], hashes[i - start]
            if row < 0 or id_at(s.words, row * stride) != ids[to]:
                row = find(s.entries, s.meta, s.words, stride, ids[to], h)
                if row < 0 and make:
                    row = create(s, ids[to], h)
                    created += 1
            if row < 0:
                rows[to] = np.uint32(NO_ROW)
                for j in range(width):
                    out[to * width + j] = np.float32(0)
                continue
            rows[to] = np.uint32(row)
            if make and s.layout[TICK] >= 0:
                capture(s, row)
                s.words[row * stride + s.layout[TICK]] = tick
            base = row * stride + value
            if half:
                decode(s.words, base, width, out, to * width)
            else:
                copy(s.floats, np.uint64(base), out, np.uint64(to * width), np.uint64(width))
    return created


@njit(nogil=True, cache=True)
def find_rows(s: Store, ids: U64, order: I32, lo: int, hi: int, rows: U32) -> Any:
    """Write the rows of ids; return how many have none."""
    missing = 0
    for i in range(lo, hi):
        id_ = ids[order[i]]
        h = np.int64(mix(id_) >> np.uint64(32))
        row = find(s.entries, s.meta, s.words, s.layout[STRIDE], id_, h)
        rows[order[i]] = np.uint32(row) if row >= 0 else np.uint32(NO_ROW)
        missing += row < 0
    return missing


@njit(nogil=True, cache=True, inline="always")
def all_finite(bits: U32, at: np.uint64, n: np.uint64) -> Any:
    """Whether none of the float32 with these bits is NaN or infinite."""
    bad = np.uint32(0)
    for i in range(n):
        bad |= np.uint32((bits[at + i] & np.uint32(0x7F800000)) == np.uint32(0x7F800000))
    return bad == np.uint32(0)


@njit(nogil=True, cache=True, inline="always")
def count_show(s: Store, base: np.int64, show: np.float32, click: np.float32) -> Any:
    """Add a show and click to a row's counters and return its score."""
    at = base + s.layout[COUNTER]
    s.floats[at] += show
    s.floats[at + 1] += click
    s.floats[at + 2] += (show - click) * s.score[0] + click * s.score[1]
    s.floats[at + 3] = np.float32(0)
    return (s.floats[at] - s.floats[at + 1]) * s.score[0] + s.floats[at + 1] * s.score[1]


@njit(nogil=True, cache=True, inline="always")
def choose(s: Store, g: Gradients, b: Block, order: I32, lo: int, hi: int, make: bool, missing: I32, stats: I64) -> int:
    """Find the rows of a block of gradients that can be applied; return how many."""
    stride, width = s.layout[STRIDE], s.layout[WIDTH]
    if g.rows.size > 0:
        for i in range(lo, hi):
            row = np.int64(g.rows[order[i]])
            b.rows[i - lo] = row if row < s.meta[HIGH] else np.int64(-1)
            for line in range(0, stride, LINE):
                prefetch(s.words, row * stride + line)
    else:
        look_ahead(s, g.ids, order, lo, hi, b.hashes, b.rows)
    m = 0
    for i in range(lo, hi):
        at, row = np.int64(order[i]), b.rows[i - lo]
        if not all_finite(g.bits, np.uint64(at * width), np.uint64(width)):
            stats[SKIPPED] += 1
            continue
        if row < 0 or id_at(s.words, row * stride) != g.ids[at]:
            h = np.int64(mix(g.ids[at]) >> np.uint64(32))
            row = find(s.entries, s.meta, s.words, stride, g.ids[at], h)
            if row < 0 and make:
                row = create(s, g.ids[at], h)
                stats[CREATED] += 1
            if row < 0:
                missing[stats[MISSING]] = at
                stats[MISSING] += 1
                continue
        if row < s.captured.size and s.captured[row] == 0:
            capture(s, row)
        b.at[m] = at
        b.base[m] = row * stride
        b.shows[m] = g.shows[at] if g.shows.size else np.float32(1)
        m += 1
    return m


@njit(nogil=True, cache=True, inline="always")
def count_block(s: Store, g: Gradients, b: Block, m: int) -> None:
    """Count the shows and clicks of a block; ``live`` becomes 0 (no embedx), 1 (has it) or 2 (gets it now)."""
    counter = s.layout[COUNTER]
    for j in range(m):
        click = g.clicks[b.at[j]] if g.clicks.size else np.float32(0)
        score = count_show(s, b.base[j], b.shows[j], click)
        live = b.base[j] + counter + 4
        b.live[j] = s.floats[live]
        if b.live[j] == np.float32(0) and score >= s.score[2]:
            s.floats[live] = np.float32(1)
            b.live[j] = np.float32(2)


@njit(nogil=True, cache=True, inline="always")
def update_segment(s: Store, g: Gradients, b: Block, k: int, out: F32, m: int) -> None:
    """Apply the rule of one segment to a block of rows whose values begin at ``out[value[j]]``."""
    column, slot, gated = s.segments[k, COLUMN], s.segments[k, SLOT], s.segments[k, GATED] != 0
    width = s.layout[WIDTH]
    c = np.int64(0)  # not a literal: that would be a second type of call to compile
    for j in range(m):
        if gated and b.live[j] != np.float32(1):
            if b.live[j] == np.float32(2):
                start_segment(s, k, g.ids[b.at[j]], out, b.value[j])
            continue
        b.ws[c] = b.value[j] + column
        b.ss[c] = b.base[j] + slot
        b.gs[c] = b.at[j] * width + column
        b.scales[c] = b.shows[j]
        c += 1
    code, n = s.segments[k, CODE], s.segments[k, N]
    update_rows(code, s.numbers, k, out, b.ws, s.floats, b.ss, g.values, b.gs, b.scales, c, np.uint64(n))


@njit(nogil=True, cache=True, inline="always")
def update_block(s: Store, g: Gradients, b: Block, m: int) -> None:
    """Update a block of rows that are in the cache by now."""
    width, half = s.layout[WIDTH], s.layout[HALF] != 0
    for j in range(m):
        b.value[j] = j * width if half else b.base[j] + s.layout[VALUE]
        if half:
            decode(s.words, b.base[j] + s.layout[VALUE], width, s.scratch, j * width)
    if s.layout[COUNTER] >= 0:
        count_block(s, g, b, m)
    for k in range(s.segments.shape[0]):
        update_segment(s, g, b, k, s.scratch if half else s.floats, m)
    if half:
        for j in range(m):
            encode(s.scratch, j * width, width, s.words, b.base[j] + s.layout[VALUE])


@njit(nogil=True, cache=True)
def push_rows(
    s: Store,
    g: Gradients,
    b: Block,
    order: I32,
    lo: int,
    hi: int,
    make: bool,
    tick: np.uint32,
    missing: I32,
    stats: I64,
) -> None:
    """Apply gradients to rows; positions of ids without a row go to ``missing`` unless ``make``."""
    for start in range(lo, hi, BLOCK):
        m = choose(s, g, b, order, start, min(start + BLOCK, hi), make, missing, stats)
        update_block(s, g, b, m)
        if s.layout[TICK] >= 0:
            for j in range(m):
                s.words[b.base[j] + s.layout[TICK]] = tick
        stats[APPLIED] += m
