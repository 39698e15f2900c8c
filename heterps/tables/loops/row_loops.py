"""The compiled loops over rows: find or create and copy out (pull), update (push).

Ids come in any order; ``order[lo:hi]`` picks those of the partition at hand. Ids pass in blocks as on a conveyor belt:
a block's places in the index are asked for, one block later its rows are known, one block later they are used. So
misses overlap with each other and with the work. What is asked for is asked for one at a time, between the work on
others: the processor has room for some twenty misses, and waits when it is asked for more. A push is told where its
rows are likely to be and needs no index.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.compiled import inline, row_loop
from heterps.lanes import copy_row
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
from heterps.tables.loops.vector_lanes import all_finite

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
AHEAD = 24

#: What a push reports.
APPLIED, SKIPPED, CREATED, MISSING = range(4)


@inline
def look_ahead(s: Store, b: Block, ids: U64, order: I32, lo: int, hi: int, start: int) -> None:
    """Move the belt on: ids of the block at ``start`` ask for their places in the index, those of the block before get
    their likely rows: the first with their hash, or -1. ``b.hashes`` and ``b.rows`` are rings; ``b.rows`` has the
    place, then the row.
    """
    entries, meta, hashes, rows = s.entries, s.meta, b.hashes, b.rows
    for i in range(start, start + BLOCK):
        if i < hi:
            h, at = np.int64(mix(ids[np.uint64(order[np.uint64(i)])]) >> np.uint64(32)), np.uint64(i) & RING
            hashes[at], rows[at] = h, home(meta, h)
            prefetch(entries, rows[at])
        if i - BLOCK >= lo and i - BLOCK < hi:
            at = np.uint64(i - BLOCK) & RING
            h, place, row = hashes[at], np.uint64(rows[at]), np.int64(-1)
            while entries[place] != np.uint64(0) and np.int64(entries[place] >> np.uint64(32)) <= h:
                if np.int64(entries[place] >> np.uint64(32)) == h:
                    row = np.int64(entries[place] & np.uint64(0xFFFFFFFF)) - 1
                    break
                place += np.uint64(1)
            rows[at] = row


@inline
def copy_out(s: Store, base: np.uint64, out: F32, to: np.uint64) -> None:
    """Copy the values of a row whose words begin at ``base``."""
    width, value = np.uint64(s.layout[WIDTH]), np.uint64(s.layout[VALUE])
    if s.layout[HALF] != 0:
        decode(s.words, np.int64(base + value), np.int64(width), out, np.int64(to * width))
    else:
        copy_row(s.floats, base + value, out, to * width, width)


@inline
def take_likely(s: Store, b: Block, ids: U64, order: I32, first: int, last: int, rows: U32, out: F32) -> Any:
    """Copy out the likely rows of ids; return how many positions, in ``b.odd``, were no good.

    Those are copied as well, from somewhere, since that takes less time than a branch.
    """
    words, stride, end, likely, odd = s.words, s.layout[STRIDE], s.layout[STATE], b.rows, b.odd
    m = np.uint64(0)
    for i in range(first, last):
        for word in range(0, end, LINE):
            prefetch(words, likely[np.uint64(i + AHEAD) & RING] * stride + word)
        to = np.uint64(order[np.uint64(i)])
        row = likely[np.uint64(i) & RING]
        base = np.uint64(max(row, 0) * stride)
        rows[to] = np.uint32(row)
        copy_out(s, base, out, to)
        odd[m] = i
        m += np.uint64(row < 0 or id_at(words, np.int64(base)) != ids[to])
    return np.int64(m)


@row_loop
def pull_rows(
    s: Store,
    b: Block,
    ids: U64,
    order: I32,
    lo: int,
    hi: int,
    rows: U32,
    out: F32,
    make: bool,
    use: bool,
    tick: np.uint32,
) -> Any:
    """Copy the values of rows to ``out`` (flat), creating absent ones if told; return how many were created.

    With ``use`` rows count as used now. An id without a row reads as zeros. Ids may get rows while others are on the
    belt, so a row on it is a guess, and the id in the row decides.
    """
    layout, stride, width, created = s.layout, s.layout[STRIDE], s.layout[WIDTH], 0
    ticking = use and layout[TICK] >= 0
    for start in range(lo - 2 * BLOCK, hi, BLOCK):
        look_ahead(s, b, ids, order, lo, hi, start + 2 * BLOCK)
        first, last = max(start, lo), min(start + BLOCK, hi)
        for j in range(take_likely(s, b, ids, order, first, last, rows, out)):
            to, h = np.int64(order[b.odd[j]]), b.hashes[np.uint64(b.odd[j]) & RING]
            row = find(s.entries, s.meta, s.words, stride, ids[to], h)
            if row < 0 and make:
                row = create(s, ids[to], h)
                created += 1
            rows[to] = np.uint32(row)
            if row >= 0:
                copy_out(s, np.uint64(row * stride), out, np.uint64(to))
            else:
                for k in range(width):
                    out[to * width + k] = np.float32(0)
        if ticking:
            for i in range(first, last):
                row = np.int64(rows[order[i]])
                if row != NO_ROW:
                    capture(s, row)
                    note(s, row)
                    s.words[row * stride + layout[TICK]] = tick
    return created


@row_loop
def find_rows(s: Store, b: Block, ids: U64, order: I32, lo: int, hi: int, rows: U32) -> Any:
    """Write the rows of ids; return how many have none."""
    words, stride, missing = s.words, s.layout[STRIDE], 0
    for start in range(lo - 2 * BLOCK, hi, BLOCK):
        look_ahead(s, b, ids, order, lo, hi, start + 2 * BLOCK)
        for i in range(max(start, lo), min(start + BLOCK, hi)):
            prefetch(words, b.rows[np.uint64(i + AHEAD) & RING] * stride)
            id_, row = ids[order[i]], b.rows[np.uint64(i) & RING]
            if row < 0 or id_at(words, row * stride) != id_:
                row = find(s.entries, s.meta, words, stride, id_, b.hashes[np.uint64(i) & RING])
            rows[order[i]] = np.uint32(row)
            missing += row < 0
    return missing


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
            b.odd[odd] = at
            odd += np.uint64(1)
    return np.int64(m), np.int64(odd)


@inline
def choose(
    s: Store, g: GradientColumns, b: Block, odd: int, m: int, noted: np.uint64, make: bool, missing: I32, stats: I64
) -> Any:
    """Search for rows that hints did not tell, behind the ``m`` that are known; return how many there are."""
    entries, meta, words, layout, captured = s.entries, s.meta, s.words, s.layout, s.captured
    stride, width = layout[STRIDE], layout[WIDTH]
    for i in range(odd):
        at = np.int64(b.odd[i])
        if not all_finite(g.bits, np.uint64(at * width), np.uint64(width)):
            stats[SKIPPED] += 1
            continue
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
        at = b.base[j] + counter
        floats[at] += show
        floats[at + 1] += click
        floats[at + 2] += (show - click) * score[0] + click * score[1]
        floats[at + 3] = np.float32(0)
        reached = (floats[at] - floats[at + 1]) * score[0] + floats[at + 1] * score[1]
        live = at + 4
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
    """Apply gradients to rows that ``g.rows`` says or a search finds; positions of ids without a row go to ``missing``
    unless ``make``.
    """
    words, layout, noting = s.words, s.layout, s.changed.size > 0
    noted = np.uint64(0)
    for start in range(lo, hi, BLOCK):
        m, odd = take_hinted(s, g, b, order, start, min(start + BLOCK, hi), hi - 1, noted)
        if odd > 0:
            m = choose(s, g, b, odd, m, noted, make, missing, stats)
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
