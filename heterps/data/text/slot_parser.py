"""The compiled parser of slot text: tokens that name their slot, or counted lists of values."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from heterps.data.core.value_hash import hash_bytes, hash_span
from heterps.data.text.delimited import (
    BAD,
    BAD_NUL,
    BAD_UTF8,
    DRAINED,
    FULL,
    NO_ROOM,
    REASONS as TEXT_REASONS,
    ROOM,
    run_steps,
    valid_utf8,
)
from heterps.data.text.numeric import OK, parse_id

__all__ = ["COUNTED", "NAME_VALUE", "REASONS", "VALUE_NAME", "parse_slots", "slot_table"]

NAME_VALUE, VALUE_NAME, COUNTED = 0, 1, 2
BAD_TOKEN, BAD_COUNT, BAD_REPEAT = 16, 17, 18
REASONS = TEXT_REASONS | {
    BAD_TOKEN: "token without a colon",
    BAD_COUNT: "counts that do not fit the line",
    BAD_REPEAT: "more values than the schema has for slot",
}
_SPACE, _TAB, _RETURN, _NEWLINE, _COLON = 32, 9, 13, 10, 58


def slot_table(names: tuple[str, ...]) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    """Return an open-addressed hash table from slot name to number (-1: empty)."""
    size = 1 << max(4, (2 * len(names)).bit_length())
    keys, slots = np.zeros(size, np.uint64), np.full(size, -1, np.int64)
    for slot, name in enumerate(names):
        key = hash_bytes(name.encode())
        at = key & (size - 1)
        while slots[at] >= 0:
            at = (at + 1) & (size - 1)
        keys[at], slots[at] = key, slot
    return keys, slots


@njit(nogil=True, cache=True)
def _find(keys: Any, slots: Any, key: Any) -> Any:
    at = key & np.uint64(len(keys) - 1)
    while slots[at] >= 0:
        if keys[at] == key:
            return slots[at]
        at = (at + np.uint64(1)) & np.uint64(len(keys) - 1)
    return -1


@njit(nogil=True, cache=True)
def _is_space(byte: Any) -> Any:
    return byte in (_SPACE, _TAB, _RETURN)


@njit(nogil=True, cache=True)
def _next_token(buffer: Any, at: Any) -> Any:
    """Return start and stop of the next token; both at the newline if there is none."""
    while _is_space(buffer[at]):
        at += 1
    start = at
    while buffer[at] != _NEWLINE and not _is_space(buffer[at]):
        at += 1
    return start, at


@njit(nogil=True, cache=True)
def _colon(buffer: Any, start: Any, stop: Any, style: Any) -> Any:
    """Return the colon that separates slot and value: the first for name:value, the last for value:name; -1: none."""
    found = -1
    for at in range(start, stop):
        if buffer[at] == _COLON:
            found = at
            if style == NAME_VALUE:
                break
    return found


@njit(nogil=True, cache=True)
def _put(
    buffer: Any, slot: Any, start: Any, stop: Any, row: Any, slots: Any, salts: Any, seen: Any, starts: Any, stops: Any,
    list_values: Any, list_offsets: Any,
) -> Any:  # fmt: skip
    """Put one value of a slot: into its list, or into its next column; return the status.

    ``slots[slot]`` = first column, columns, list (-1: none), hashed.
    """
    first, room, ragged, hashed = slots[slot, 0], slots[slot, 1], slots[slot, 2], slots[slot, 3]
    if ragged >= 0:
        at = list_offsets[ragged, row + 1]
        if at >= list_values.shape[1]:
            return NO_ROOM
        if hashed:
            list_values[ragged, at] = hash_span(buffer, start, stop, salts[slot])
        else:
            status, list_values[ragged, at] = parse_id(buffer, start, stop)
            if status != OK:
                return status
        list_offsets[ragged, row + 1] = at + 1
    if room > 0:
        if seen[slot] >= room:
            return BAD_REPEAT
        starts[first + seen[slot]], stops[first + seen[slot]] = start, stop
        seen[slot] += 1
    return OK


@njit(nogil=True, cache=True)
def _named_tokens(
    buffer: Any, at: Any, style: Any, row: Any, keys: Any, numbers: Any, slots: Any, salts: Any, seen: Any,
    starts: Any, stops: Any, list_values: Any, list_offsets: Any, where: Any,
) -> Any:  # fmt: skip
    while True:
        start, stop = _next_token(buffer, at)
        if start == stop:
            return OK
        at = stop
        colon = _colon(buffer, start, stop, style)
        if colon < 0:
            where[3] = -1
            return BAD_TOKEN
        if style == NAME_VALUE:
            slot = _find(keys, numbers, hash_span(buffer, start, colon, np.uint64(0)))
            start = colon + 1
        else:
            slot = _find(keys, numbers, hash_span(buffer, colon + 1, stop, np.uint64(0)))
            stop = colon
        if slot >= 0:
            where[3] = slot
            status = _put(buffer, slot, start, stop, row, slots, salts, seen, starts, stops, list_values, list_offsets)
            if status != OK:
                return status


@njit(nogil=True, cache=True)
def _counted_tokens(
    buffer: Any, at: Any, row: Any, slots: Any, salts: Any, seen: Any,
    starts: Any, stops: Any, list_values: Any, list_offsets: Any, where: Any,
) -> Any:  # fmt: skip
    """``n v1 .. vn`` for each slot in order."""
    for slot in range(len(slots)):
        start, at = _next_token(buffer, at)
        status, count = parse_id(buffer, start, at)
        where[3] = slot
        if status != OK:
            return BAD_COUNT
        for _ in range(count):
            start, at = _next_token(buffer, at)
            if start == at:
                return BAD_COUNT
            status = _put(buffer, slot, start, at, row, slots, salts, seen, starts, stops, list_values, list_offsets)
            if status != OK:
                return status
    start, stop = _next_token(buffer, at)
    return OK if start == stop else BAD_COUNT


@njit(nogil=True, cache=True)
def _line_end(buffer: Any, line: Any) -> Any:
    """Return (error, position behind the line): NUL bytes and invalid UTF-8 are found on the way."""
    at, highest, nul = line, np.uint8(0), False
    while buffer[at] != _NEWLINE:
        highest = max(highest, buffer[at])
        nul |= buffer[at] == 0
        at += 1
    if nul:
        return BAD_NUL, at + 1
    if highest >= 128 and not valid_utf8(buffer, line, at):
        return BAD_UTF8, at + 1
    return OK, at + 1


@njit(nogil=True, cache=True)
def parse_slots(
    buffer: Any, pos: Any, end: Any, row: Any, row_end: Any, style: Any, keys: Any, numbers: Any, slots: Any,
    slot_salts: Any, seen: Any, table: Any, salts: Any, params: Any, links: Any, floats: Any, ids: Any,
    list_values: Any, list_offsets: Any, starts: Any, stops: Any, made: Any, where: Any,
) -> Any:  # fmt: skip
    """Parse lines of ``buffer[pos:end]`` into rows; return (how, pos, row) as the parser of delimited text does.

    After BAD, ``where`` holds the reason, the line's start and end, and the slot (or -1); a column of the steps is
    turned into its slot by the caller (``where[4]`` = 1).
    """
    while pos < end and row < row_end:
        line = pos
        seen[:] = 0
        starts[:] = 0
        stops[:] = 0
        for k in range(len(list_offsets)):
            list_offsets[k, row + 1] = list_offsets[k, row]
        where[3], where[4] = -1, 0
        first, stop = _next_token(buffer, line)
        error, pos = _line_end(buffer, line)
        if first == stop:
            continue
        if error != OK:
            pass
        elif style == COUNTED:
            error = _counted_tokens(
                buffer, line, row, slots, slot_salts, seen, starts, stops, list_values, list_offsets, where
            )
        else:
            error = _named_tokens(
                buffer, line, style, row, keys, numbers, slots, slot_salts, seen, starts, stops, list_values,
                list_offsets, where,
            )  # fmt: skip
        if error == OK:
            where[4] = 1
            error = run_steps(
                buffer,
                row,
                table,
                salts,
                params,
                links,
                floats,
                ids,
                list_values,
                list_offsets,
                starts,
                stops,
                made,
                where,
            )
        if error == NO_ROOM:
            return ROOM, line, row
        if error != OK:
            where[0], where[1], where[2] = error, line, pos
            return BAD, pos, row
        row += 1
    return (FULL if row == row_end else DRAINED), pos, row
