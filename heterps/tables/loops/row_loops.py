"""The compiled loops over rows: find or create and copy out (pull), find and update (push).

Ids come in any order; ``order[lo:hi]`` picks those of the partition at hand. Ids pass in blocks as on a conveyor belt:
a block's places in the index are asked for, one block later its rows, one block later the rows are used. So misses
overlap with each other and with the work. A push that knows where its rows are needs no index and asks some rows ahead.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.compiled import inline, inner_loop, row_loop
from heterps.tables.hashing import mix, prefetch
from heterps.tables.live.row_layout import (
    COLUMN,
    COUNTER,
    GATED,
    HALF,
    SLOT,
    STAMP,
    STATE,
    STRIDE,
    TICK,
    UPDATE,
    VALUE,
    WIDTH,
    N,
)
from heterps.tables.loops.half import decode, encode
from heterps.tables.loops.index import HIGH, find, home, id_at
from heterps.tables.loops.rule_calls import call_rule
from heterps.tables.loops.store import (
    BLOCK,
    NOTED,
    RING,
    Block,
    GradientColumns,
    Store,
    capture,
    create,
    note,
    start_segment,
)
from heterps.tables.loops.vector_lanes import all_finite, copy_row

__all__ = ["NO_ROW", "find_rows", "pull_rows", "push_rows"]

U64 = npt.NDArray[np.uint64]
U32 = npt.NDArray[np.uint32]
I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]
F32 = npt.NDArray[np.float32]

#: In an array of rows: the id has none.
NO_ROW = 2**32 - 1
LINE = 16
#: Ids between asking for a hinted row and using it.
AHEAD = 16

#: What a push reports.
APPLIED, SKIPPED, CREATED, MISSING, HINTED = range(5)


@inner_loop
def look_ahead(
    s: Store, ids: U64, order: I32, lo: int, hi: int, start: int, hashes: I64, rows: I64, end: np.int64
) -> None:
    """Move the belt on: the block at ``start`` asks for its places in the index, the one before for its rows.

    ``hashes`` and ``rows`` are rings; ``rows`` has the place, then the likely row or -1. Ids may get and lose rows
    until it is used, so it is a guess, and the id in the row decides. Words from ``end`` on will not be used.
    """
    entries, meta, words, stride = s.entries, s.meta, s.words, s.layout[STRIDE]
    for i in range(start, min(start + BLOCK, hi)):
        h = np.int64(mix(ids[order[i]]) >> np.uint64(32))
        hashes[i & RING] = h
        place = home(meta, h)
        rows[i & RING] = place
        prefetch(entries, place)
    for i in range(max(start - BLOCK, lo), min(start, hi)):
        row, place, h = np.int64(-1), rows[i & RING], hashes[i & RING]
        while True:
            entry = entries[place]
            hash_ = np.int64(entry >> np.uint64(32))
            if entry == np.uint64(0) or hash_ > h:
                break
            if hash_ == h:
                row = np.int64(entry & np.uint64(0xFFFFFFFF)) - 1
                break
            place += 1
        rows[i & RING] = row
        if row >= 0:
            for word in range(0, end, LINE):
                prefetch(words, row * stride + word)


@row_loop
def pull_rows(
    s: Store, b: Block, ids: U64, order: I32, lo: int, hi: int, rows: U32, out: F32, make: bool, tick: np.uint32
) -> Any:
    """Copy the values of rows to ``out`` (flat), creating absent ones if told; return how many were created.

    An id without a row reads as zeros.
    """
    entries, meta, words, floats, layout = s.entries, s.meta, s.words, s.floats, s.layout
    stride, width, value, end = layout[STRIDE], layout[WIDTH], layout[VALUE], layout[STATE]
    half = layout[HALF] != 0
    hashes, likely = b.hashes, b.rows
    created = 0
    for start in range(lo - 2 * BLOCK, hi, BLOCK):
        look_ahead(s, ids, order, lo, hi, start + 2 * BLOCK, hashes, likely, end)
        for i in range(max(start, lo), min(start + BLOCK, hi)):
            to = np.int64(order[i])
            row, h = likely[i & RING], hashes[i & RING]
            if row < 0 or id_at(words, row * stride) != ids[to]:
                row = find(entries, meta, words, stride, ids[to], h)
                if row < 0 and make:
                    row = create(s, ids[to], h)
                    created += 1
            if row < 0:
                rows[to] = np.uint32(NO_ROW)
                for j in range(width):
                    out[to * width + j] = np.float32(0)
                continue
            rows[to] = np.uint32(row)
            if make and layout[TICK] >= 0:
                capture(s, row)
                note(s, row)
                words[row * stride + layout[TICK]] = tick
            base = row * stride + value
            if half:
                decode(words, base, width, out, to * width)
            else:
                copy_row(floats, np.uint64(base), out, np.uint64(to * width), np.uint64(width))
    return created


@row_loop
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


@inline
def count_show(s: Store, base: np.int64, show: np.float32, click: np.float32) -> Any:
    """Add a show and click to a row's counters and return its score."""
    floats, layout, score = s.floats, s.layout, s.score
    at = base + layout[COUNTER]
    floats[at] += show
    floats[at + 1] += click
    floats[at + 2] += (show - click) * score[0] + click * score[1]
    floats[at + 3] = np.float32(0)
    return (floats[at] - floats[at + 1]) * score[0] + floats[at + 1] * score[1]


@inline
def take_hinted(
    s: Store, g: GradientColumns, b: Block, order: I32, start: int, stop: int, last: int, noted: np.uint64
) -> Any:
    """Take the rows of a block whose hints are right; return how many, and how many ids were left in ``b.odd``.

    This loop is kept short on purpose: in a longer one the samples of a profiler stood at the prefetch, as if it waited
    for the page table, and such waits can overlap only as far as the processor sees ahead.
    """
    words, captured, hints, ids = s.words, s.captured, g.rows, g.ids
    stride, width, high = s.layout[STRIDE], np.uint64(s.layout[WIDTH]), s.meta[HIGH]
    m = odd = np.uint64(0)
    for i in range(start, stop):
        ahead = np.int64(hints[np.uint64(order[np.uint64(min(i + AHEAD, last))])]) * stride
        for word in range(0, stride, LINE):
            prefetch(words, ahead + word)
        at = np.uint64(order[np.uint64(i)])
        row = np.int64(hints[at])
        good = row < high and (row >= captured.size or captured[row] != 0)
        if good and id_at(words, row * stride) == ids[at] and all_finite(g.bits, at * width, width):
            b.at[m], b.base[m], b.noted[noted + m] = at, row * stride, row
            m += np.uint64(1)
        else:
            b.odd[odd], b.rows[odd] = at, -1
            odd += np.uint64(1)
    return np.int64(m), np.int64(odd)


@inline
def choose(
    s: Store,
    g: GradientColumns,
    b: Block,
    order: I32,
    lo: int,
    hi: int,
    m: int,
    noted: np.uint64,
    make: bool,
    missing: I32,
    stats: I64,
) -> Any:
    """Find the rows of gradients that can be applied, behind the ``m`` that are known; return how many there are."""
    entries, meta, words, layout, captured = s.entries, s.meta, s.words, s.layout, s.captured
    stride, width = layout[STRIDE], layout[WIDTH]
    for i in range(lo, hi):
        at, row = np.int64(order[i]), b.rows[i & RING]
        if not all_finite(g.bits, np.uint64(at * width), np.uint64(width)):
            stats[SKIPPED] += 1
            continue
        if row < 0 or id_at(words, row * stride) != g.ids[at]:
            h = np.int64(mix(g.ids[at]) >> np.uint64(32))
            row = find(entries, meta, words, stride, g.ids[at], h)
            if row < 0 and make:
                row = create(s, g.ids[at], h)
                stats[CREATED] += 1
            if row < 0:
                missing[stats[MISSING]] = at
                stats[MISSING] += 1
                continue
        if row < captured.size and captured[row] == 0:
            capture(s, row)
        b.at[m], b.base[m], b.noted[noted + np.uint64(m)] = at, row * stride, row
        m += 1
    return m


@inline
def stamp_rows(s: Store, b: Block, noted: np.uint64, m: int) -> Any:
    """Keep of the ``m`` rows noted last those that change for the first time after the mark; return how many.

    A row's stamp is in the cache with it, its bit mostly is not.
    """
    words, rows, stamp, mark = s.words, b.noted, s.layout[STAMP], s.mark[0]
    if stamp < 0:
        return m
    n = np.int64(0)
    for j in range(m):
        at = b.base[j] + stamp
        rows[noted + np.uint64(n)] = rows[noted + np.uint64(j)]
        n += words[at] != mark
        words[at] = mark
    return n


@inline
def note_rows(bits: U64, rows: U32, n: np.uint64) -> None:
    """Set the bits of the first ``n`` rows.

    Many at once, long after their values were used: in this loop the misses of bits overlap, among others they wait.
    """
    for j in range(n):
        row = np.uint64(rows[j])
        bits[row >> np.uint64(6)] |= np.uint64(1) << (row & np.uint64(63))


@inline
def count_block(s: Store, g: GradientColumns, b: Block, m: int) -> None:
    """Count the shows and clicks of a block; ``live`` becomes 0 (no embedx), 1 (has it) or 2 (gets it now)."""
    floats, layout, score = s.floats, s.layout, s.score
    counter = layout[COUNTER]
    for j in range(m):
        click = g.clicks[b.at[j]] if g.clicks.size else np.float32(0)
        show = g.shows[b.at[j]] if g.shows.size else np.float32(1)
        reached = count_show(s, b.base[j], show, click)
        live = b.base[j] + counter + 4
        b.live[j] = floats[live]
        if b.live[j] == np.float32(0) and reached >= score[2]:
            floats[live] = np.float32(1)
            b.live[j] = np.float32(2)


@inline
def update_segment(s: Store, g: GradientColumns, b: Block, k: int, out: F32, m: int) -> None:
    """Apply the rule of one segment to a block of rows whose values begin at ``out[value[j]]``."""
    floats, layout, segments, numbers = s.floats, s.layout, s.segments, s.numbers
    column, slot, gated = segments[k, COLUMN], segments[k, SLOT], segments[k, GATED] != 0
    width = layout[WIDTH]
    c = 0
    for j in range(m):
        if gated and b.live[j] != np.float32(1):
            if b.live[j] == np.float32(2):
                start_segment(s, k, g.ids[b.at[j]], out, b.value[j])
            continue
        b.ws[c] = b.value[j] + column
        b.ss[c] = b.base[j] + slot
        b.gs[c] = b.at[j] * width + column
        b.scales[c] = g.shows[b.at[j]] if g.shows.size else np.float32(1)
        c += 1
    update, n = np.uint64(segments[k, UPDATE]), np.uint64(segments[k, N])
    call_rule(update, numbers, k, out, b.ws, floats, b.ss, g.values, b.gs, b.scales, c, n)


@inline
def update_block(s: Store, g: GradientColumns, b: Block, m: int) -> None:
    """Update a block of rows that are in the cache by now."""
    words, floats, layout, segments, scratch = s.words, s.floats, s.layout, s.segments, s.scratch
    width, half = layout[WIDTH], layout[HALF] != 0
    for j in range(m):
        b.value[j] = j * width if half else b.base[j] + layout[VALUE]
        if half:
            decode(words, b.base[j] + layout[VALUE], width, scratch, j * width)
    if layout[COUNTER] >= 0:
        count_block(s, g, b, m)
    for k in range(segments.shape[0]):
        update_segment(s, g, b, k, scratch if half else floats, m)
    if half:
        for j in range(m):
            encode(scratch, j * width, width, words, b.base[j] + layout[VALUE])


@row_loop
def push_rows(
    s: Store,
    g: GradientColumns,
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
    words, layout, noting = s.words, s.layout, s.changed.size > 0
    noted = np.uint64(0)
    hinted = g.rows.size > 0
    for start in range(lo if hinted else lo - 2 * BLOCK, hi, BLOCK):
        stop = min(start + BLOCK, hi)
        if hinted:
            m, odd = take_hinted(s, g, b, order, start, stop, hi - 1, noted)
            rest, first, stop = b.odd, np.int64(0), odd
        else:
            look_ahead(s, g.ids, order, lo, hi, start + 2 * BLOCK, b.hashes, b.rows, layout[STRIDE])
            m, rest, first = np.int64(0), order, np.int64(start)
        if first < stop and start >= lo:
            m = choose(s, g, b, rest, first, stop, m, noted, make, missing, stats)
        update_block(s, g, b, m)
        if layout[TICK] >= 0:
            for j in range(m):
                words[b.base[j] + layout[TICK]] = tick
        if noting:
            noted += np.uint64(stamp_rows(s, b, noted, m))
            if noted > np.uint64(NOTED - BLOCK) or start + BLOCK >= hi:
                note_rows(s.changed, b.noted, noted)
                noted = np.uint64(0)
        stats[APPLIED] += m
