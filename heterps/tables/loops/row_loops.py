"""The compiled loops over rows: find or create and copy out (pull), update (push).

Ids come in any order; ``order[lo:hi]`` picks those of the partition at hand. Each kind of memory has a loop of its own:
one looks at the index for some thousand ids, one asks for a block of rows, one works on the block that was asked for
before. Waits for lines, and for the page tables behind them, overlap only as far as the processor sees ahead, some
three hundred instructions: in a loop that asks and nothing else these are some forty rows, in one that also copies or
updates them three. A push is told where its rows are likely to be and needs no index.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.compiled import inline, row_loop
from heterps.lanes import copy_row, prefetch
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
from heterps.tables.loops.index import HIGH, SPILL, find, hash_of, home_of, homes, id_at, likely_row
from heterps.tables.loops.rule_calls import call_rule
from heterps.tables.loops.store import (
    BLOCK,
    NOTED,
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
#: Ids between asking for a place of the index and looking at it.
PLACES_AHEAD = 64
#: Ids whose rows are guessed before the first of them is used.
LEG = 4096

#: What a push reports.
APPLIED, SKIPPED, CREATED, MISSING = range(4)


@inline
def guess_rows(s: Store, ids: U64, order: I32, first: int, last: int, hi: int, rows: U32) -> None:
    """Write the likely rows of ids, the first with their hash, or NO_ROW. Nothing of a row is looked at."""
    entries, where = s.entries, homes(s.meta)
    for i in range(first, last):
        ahead = home_of(where, hash_of(ids[np.uint64(order[np.uint64(min(i + PLACES_AHEAD, hi - 1))])]))
        prefetch(entries, np.int64(ahead))
        prefetch(entries, np.int64(ahead) + SPILL)
        at = np.uint64(order[np.uint64(i)])
        h = hash_of(ids[at])
        rows[at] = likely_row(entries, home_of(where, h), h)


@inline
def copy_out(s: Store, half: bool, base: np.uint64, out: F32, to: np.uint64) -> None:
    """Copy the values of a row whose words begin at ``base``."""
    width, value = np.uint64(s.layout[WIDTH]), np.uint64(s.layout[VALUE])
    if half:
        decode(s.words, base + value, width, out, to * width)
    else:
        copy_row(s.floats, base + value, out, to * width, width)


@inline
def ask_for(s: Store, hints: U32, order: I32, first: int, last: int, end: int) -> None:
    """Ask for the first ``end`` words of a block of rows where hints say; NO_ROW asks for what is before the first."""
    words, stride = s.words, s.layout[STRIDE]
    for i in range(first, min(first + BLOCK, last)):
        row = np.int64(np.int32(hints[np.uint64(order[np.uint64(i)])])) * stride
        prefetch(words, row)
        prefetch(words, row + end - 1)
        for word in range(LINE, end - 2, LINE):  # rows begin at even words
            prefetch(words, row + word)


@inline
def take_likely(s: Store, ids: U64, order: I32, first: int, last: int, rows: U32, out: F32) -> None:
    """Copy out the likely rows of ids; those that are another's become NO_ROW.

    They are copied as well, since that takes less time than a branch.
    """
    words, stride, half = s.words, s.layout[STRIDE], s.layout[HALF] != 0
    for i in range(first, last):
        to = np.uint64(order[np.uint64(i)])
        row = rows[to]
        base = np.uint64(max(np.int64(np.int32(row)), 0) * stride)
        copy_out(s, half, base, out, to)
        rows[to] = row if id_at(words, base) == ids[to] else np.uint32(NO_ROW)


@inline
def find_others(s: Store, ids: U64, order: I32, first: int, last: int, rows: U32, out: F32, make: bool) -> Any:
    """Search for the rows of ids that were not where they were likely to be, or make them; return how many are new."""
    stride, width, half, created = s.layout[STRIDE], s.layout[WIDTH], s.layout[HALF] != 0, 0
    for i in range(first, last):
        to = np.int64(order[i])
        if rows[to] != NO_ROW:
            continue
        h = hash_of(ids[to])
        row = find(s.entries, s.meta, s.words, stride, ids[to], h)
        if row < 0 and make:
            row = create(s, ids[to], h)
            created += 1
        rows[to] = np.uint32(row)
        if row >= 0:
            copy_out(s, half, np.uint64(row * stride), out, np.uint64(to))
        else:
            for k in range(width):
                out[to * width + k] = np.float32(0)
    return created


@inline
def note_uses(s: Store, order: I32, first: int, last: int, rows: U32, tick: np.uint32) -> None:
    """Write when rows were used."""
    for i in range(first, last):
        row = np.int64(rows[order[i]])
        if row != NO_ROW:
            capture(s, row)
            note(s, row)
            s.words[row * s.layout[STRIDE] + s.layout[TICK]] = tick


@row_loop
def pull_rows(
    s: Store, ids: U64, order: I32, lo: int, hi: int, rows: U32, out: F32, make: bool, use: bool, tick: np.uint32
) -> Any:
    """Copy the values of rows to ``out`` (flat), creating absent ones if told; return how many were created.

    With ``use`` rows count as used now. An id without a row reads as zeros. Ids may get rows while others are on the
    way, so a row is a guess at first, and the id in the row decides.
    """
    created = 0
    for first in range(lo, hi, LEG):
        last = min(first + LEG, hi)
        guess_rows(s, ids, order, first, last, hi, rows)
        for start in range(first - BLOCK, last, BLOCK):
            ask_for(s, rows, order, start + BLOCK, last, s.layout[STATE])
            take_likely(s, ids, order, max(start, first), min(start + BLOCK, last), rows, out)
        created += find_others(s, ids, order, first, last, rows, out, make)
        if use and s.layout[TICK] >= 0:
            note_uses(s, order, first, last, rows, tick)
    return created


@row_loop
def find_rows(s: Store, ids: U64, order: I32, lo: int, hi: int, rows: U32) -> Any:
    """Write the rows of ids; return how many have none."""
    words, stride, missing = s.words, s.layout[STRIDE], np.int64(0)
    guess_rows(s, ids, order, lo, hi, hi, rows)
    for start in range(lo - BLOCK, hi, BLOCK):
        ask_for(s, rows, order, start + BLOCK, hi, 1)
        for i in range(max(start, lo), min(start + BLOCK, hi)):
            at = np.uint64(order[np.uint64(i)])
            id_, row = ids[at], np.int64(np.int32(rows[at]))
            if row < 0 or id_at(words, np.uint64(row * stride)) != id_:
                row = find(s.entries, s.meta, words, stride, id_, hash_of(id_))
            rows[at] = np.uint32(row)
            missing += np.int64(row < 0)
    return missing


@inline
def take_hinted(s: Store, g: GradientColumns, b: Block, order: I32, start: int, stop: int, noted: np.uint64) -> Any:
    """Take the rows of a block whose hints are right; return how many, and how many ids were left in ``b.odd``."""
    words, captured, hints, ids = s.words, s.captured, g.rows, g.ids
    stride, width, high = s.layout[STRIDE], np.uint64(s.layout[WIDTH]), s.meta[HIGH]
    m = odd = np.uint64(0)
    for i in range(start, stop):
        at = np.uint64(order[np.uint64(i)])
        row = np.int64(hints[at])
        good = row < high and (row >= captured.size or captured[row] != 0)
        if good and id_at(words, np.uint64(row * stride)) == ids[at] and all_finite(g.bits, at * width, width):
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
        h = hash_of(g.ids[at])
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
    width, half, n = layout[WIDTH], layout[HALF] != 0, np.uint64(layout[WIDTH])
    for j in range(m):
        b.value[j] = j * width if half else b.base[j] + layout[VALUE]
        if half:
            decode(words, np.uint64(b.base[j] + layout[VALUE]), n, scratch, np.uint64(j * width))
    if layout[COUNTER] >= 0:
        count_block(s, g, b, m)
    for k in range(segments.shape[0]):
        update_segment(s, g, b, k, scratch if half else floats, m)
    if half:
        for j in range(m):
            encode(scratch, np.uint64(j * width), n, words, np.uint64(b.base[j] + layout[VALUE]))


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
    for start in range(lo - BLOCK, hi, BLOCK):
        ask_for(s, g.rows, order, start + BLOCK, hi, layout[STRIDE])
        m, odd = take_hinted(s, g, b, order, max(start, lo), min(start + BLOCK, hi), noted)
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
