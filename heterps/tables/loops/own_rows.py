"""Passes over the rows that a worker trains itself: one each for what is used, taken, heard and owed.

``then`` is what the hosts have of a row as far as the worker knows; ``words`` and ``floats`` are the rows as they are
now, ``first`` the place of the values in one.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from heterps.compiled import entry_loop
from heterps.tables.loops.row_loops import NO_ROW

__all__ = ["DOUBTED", "HELD", "TOUCHED", "hear_rows", "note_learned", "note_used", "settle_own", "take_new"]

U64 = npt.NDArray[np.uint64]
U32 = npt.NDArray[np.uint32]
U8 = npt.NDArray[np.uint8]
I64 = npt.NDArray[np.int64]
F32 = npt.NDArray[np.float32]

HELD, DOUBTED, TOUCHED = np.uint8(1), np.uint8(2), np.uint8(4)


@entry_loop
def note_used(rows: U32, flags: U8, used: U32, stretch: int, lacking: npt.NDArray[np.bool_]) -> None:
    """Note rows that will be used, and say which are not there or in doubt."""
    for i in range(rows.size):
        row = rows[i]
        lacking[i] = row == NO_ROW
        if row != NO_ROW:
            used[row] = stretch
            lacking[i] = flags[row] & DOUBTED != 0


@entry_loop
def take_new(
    rows: U32, values: F32, floats: F32, stride: int, first: int, then: F32, flags: U8, counts: F32, flag: int
) -> None:
    """Begin rows that were not held, with these values and flags; leave the others alone."""
    width = values.shape[1]
    for i in range(rows.size):
        row = np.int64(rows[i])
        if flags[row] & HELD == 0:
            for c in range(width):
                then[row, c] = values[i, c]
                floats[row * stride + first + c] = values[i, c]
            flags[row] = flag
            counts[row, 0] = counts[row, 1] = 0


@entry_loop
def hear_rows(rows: U32, values: F32, floats: F32, stride: int, first: int, then: F32, flags: U8) -> None:
    """Move rows that are there by what hosts have more than they had; they are in doubt no more."""
    width = values.shape[1]
    for i in range(rows.size):
        if rows[i] != NO_ROW:
            row = np.int64(rows[i])
            for c in range(width):
                floats[row * stride + first + c] += values[i, c] - then[row, c]
                then[row, c] = values[i, c]
            flags[row] &= ~DOUBTED


@entry_loop
def note_learned(rows: U32, flags: U8, counts: F32, column: int, seen: F32) -> None:
    """Note rows that learned, and add what was seen of them to a column of their counts."""
    for i in range(rows.size):
        flags[rows[i]] |= TOUCHED
    for i in range(seen.size):
        counts[rows[i], column] += seen[i]


@entry_loop
def settle_own(
    rows: I64,
    words: U32,
    floats: F32,
    stride: int,
    first: int,
    then: F32,
    flags: U8,
    counts: F32,
    lanes: np.float32,
    ids: U64,
    owed: F32,
    seen: F32,
) -> None:
    """Write what is owed for rows, divided by the lanes, and what was seen of them, which then begins anew."""
    width = then.shape[1]
    for i in range(rows.size):
        row = rows[i]
        at = row * stride
        ids[i] = np.uint64(words[at]) | np.uint64(words[at + 1]) << np.uint64(32)
        for c in range(width):
            part = (floats[at + first + c] - then[row, c]) / lanes
            then[row, c] += part
            owed[i, c] = part
        for c in range(2):
            seen[c, i] = counts[row, c]
            counts[row, c] = 0
        flags[row] &= ~TOUCHED
