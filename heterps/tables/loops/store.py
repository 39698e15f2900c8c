"""What compiled loops know of one partition, and the acts they share: creating, noting and saving a row."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from heterps.compiled import inline, inner_loop
from heterps.tables.live.row_layout import COLUMN, GATED, HALF, INIT, STATE, STRIDE, VALUE, WIDTH, N
from heterps.tables.loops.half import encode
from heterps.tables.loops.index import insert
from heterps.tables.specs.initialisers import draw

__all__ = [
    "BLOCK",
    "NOTED",
    "Block",
    "GradientColumns",
    "Store",
    "capture",
    "create",
    "new_block",
    "note",
    "start_segment",
]

U64 = npt.NDArray[np.uint64]
U32 = npt.NDArray[np.uint32]
I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]
F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]

#: Rows that loops work on at a time.
BLOCK = 64
#: Changed rows of a push that are noted together.
NOTED = 1024


class Store(NamedTuple):
    """Everything a loop needs to know about one partition of a group."""

    entries: U64
    meta: I64
    words: U32
    floats: F32
    layout: I64
    segments: I64
    numbers: F32
    init_numbers: F64
    init_keys: U64
    template: F32
    score: F32
    scratch: F32
    captured: I32
    saved: U32
    n_saved: I64
    changed: U64
    mark: U32


class GradientColumns(NamedTuple):
    """The gradients of a push: ``values`` is flat, ``shows`` and ``clicks`` may be empty, ``rows`` are hints."""

    ids: U64
    rows: U32
    values: F32
    bits: U32
    shows: F32
    clicks: F32


class Block(NamedTuple):
    """Scratch of a push: what an update takes of a block of rows."""

    odd: I32
    at: I64
    base: I64
    value: I64
    ws: U64
    ss: U64
    gs: U64
    scales: F32
    live: F32
    noted: U32


def new_block() -> Block:
    """Return scratch for one thread."""
    kinds = [np.int32, *[np.int64] * 3, *[np.uint64] * 3, *[np.float32] * 2]
    return Block._make([*(np.zeros(BLOCK, kind) for kind in kinds), np.zeros(NOTED, np.uint32)])


@inline
def start_segment(s: Store, k: int, id_: np.uint64, out: F32, at: int) -> None:
    """Write the first values of a segment to ``out``, whose element ``at`` is the row's first value."""
    a, b = s.init_numbers[k, 0], s.init_numbers[k, 1]
    to, n = at + s.segments[k, COLUMN], s.segments[k, N]
    draw(s.segments[k, INIT], a, b, s.init_keys[k], id_, out, to, n)


@inline
def note(s: Store, row: np.int64) -> None:
    """Note that a row changes, if anybody wants to know."""
    if s.changed.size > 0:
        s.changed[row >> 6] |= np.uint64(1) << np.uint64(row & 63)


@inner_loop
def create(s: Store, id_: np.uint64, h: np.int64) -> Any:
    """Give an absent id a row at its first values."""
    stride = s.layout[STRIDE]
    row = insert(s.entries, s.meta, s.words, stride, id_, h)
    note(s, row)
    if row < s.captured.size and s.captured[row] == 0:
        s.captured[row] = -1  # free at the cut: not part of it
    base = row * stride
    half = s.layout[HALF] != 0
    out, at = (s.scratch, 0) if half else (s.floats, base + s.layout[VALUE])
    for i in range(s.layout[WIDTH]):
        out[at + i] = np.float32(0)
    for k in range(s.segments.shape[0]):
        if s.segments[k, GATED] == 0:
            start_segment(s, k, id_, out, at)
    if half:
        width, value = np.uint64(s.layout[WIDTH]), np.uint64(base + s.layout[VALUE])
        encode(s.scratch, np.uint64(0), width, s.words, value)
    for i in range(s.template.size):
        s.floats[base + s.layout[STATE] + i] = s.template[i]
    return row


@inner_loop
def capture(s: Store, row: np.int64) -> None:
    """Save a row that a cut in progress still needs, before it changes for the first time.

    ``captured`` has an element for each row there was at the cut: 0 as it was then, k saved as number k - 1, -1 not
    needed (any more).
    """
    if row >= s.captured.size or s.captured[row] != 0:
        return
    stride = s.layout[STRIDE]
    to = s.n_saved[0] * stride
    for i in range(stride):
        s.saved[to + i] = s.words[row * stride + i]
    s.n_saved[0] += 1
    s.captured[row] = s.n_saved[0]
