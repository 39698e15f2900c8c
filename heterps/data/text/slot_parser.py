"""The compiled parser of slot text: tokens that name their slot, or counted lists of values."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from heterps.compiled import inner_loop, row_loop
from heterps.data.core.batch_buffers import ListArrays, RowArrays
from heterps.data.core.value_hash import hash_bytes, hash_span, whole_end
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
from heterps.data.text.line_records import FieldSpans, LineState, TextBlock
from heterps.data.text.numeric import OK, parse_id
from heterps.data.text.recipe_steps import BoundSteps

__all__ = [
    "COUNTED",
    "NAME_VALUE",
    "REASONS",
    "VALUE_NAME",
    "SlotFeeds",
    "SlotNames",
    "parse_slots",
    "slot_feeds",
    "slot_names",
]

NAME_VALUE, VALUE_NAME, COUNTED = 0, 1, 2
BAD_TOKEN, BAD_COUNT, BAD_REPEAT = 16, 17, 18
REASONS = TEXT_REASONS | {
    BAD_TOKEN: "token without a colon",
    BAD_COUNT: "counts that do not fit the line",
    BAD_REPEAT: "more values than the schema has for slot",
}
_SPACE, _TAB, _RETURN, _NEWLINE, _COLON = 32, 9, 13, 10, 58


class SlotNames(NamedTuple):
    """How lines name slots: the style, and an open-addressed hash table from name to number (-1: empty)."""

    style: int
    keys: npt.NDArray[np.uint64]
    numbers: npt.NDArray[np.int64]


class SlotFeeds(NamedTuple):
    """What each slot feeds.

    ``places[slot]`` = first column, columns, list (-1: none), hashed; ``salts`` are for hashed lists. ``seen`` is used
    again by every line: the values of each slot so far.
    """

    places: npt.NDArray[np.int64]
    salts: npt.NDArray[np.uint64]
    seen: npt.NDArray[np.int64]


def slot_names(style: int, names: tuple[str, ...]) -> SlotNames:
    """Return the table of names for a style of line."""
    size = 1 << max(4, (2 * len(names)).bit_length())
    keys, numbers = np.zeros(size, np.uint64), np.full(size, -1, np.int64)
    for slot, name in enumerate(names):
        key = hash_bytes(name.encode())
        at = key & (size - 1)
        while numbers[at] >= 0:
            at = (at + 1) & (size - 1)
        keys[at], numbers[at] = key, slot
    return SlotNames(style, keys, numbers)


def slot_feeds(places: list[list[int]], salts: list[int]) -> SlotFeeds:
    """Return what slots feed, with nothing seen yet."""
    seen = np.zeros(max(1, len(places)), np.int64)
    return SlotFeeds(np.array(places, np.int64).reshape(-1, 4), np.array(salts, np.uint64), seen)


@inner_loop
def _find(keys: Any, numbers: Any, key: Any) -> Any:
    at = key & np.uint64(len(keys) - 1)
    while numbers[at] >= 0:
        if keys[at] == key:
            return numbers[at]
        at = (at + np.uint64(1)) & np.uint64(len(keys) - 1)
    return -1


@inner_loop
def _is_space(byte: Any) -> Any:
    return byte in (_SPACE, _TAB, _RETURN)


@inner_loop
def _next_token(buffer: Any, at: Any) -> Any:
    """Return start and stop of the next token; both at the newline if there is none."""
    while _is_space(buffer[at]):
        at += 1
    start = at
    while buffer[at] != _NEWLINE and not _is_space(buffer[at]):
        at += 1
    return start, at


@inner_loop
def _colon(buffer: Any, start: Any, stop: Any, style: Any) -> Any:
    """Return the colon that separates slot and value: the first for name:value, the last for value:name; -1: none."""
    found = -1
    for at in range(start, stop):
        if buffer[at] == _COLON:
            found = at
            if style == NAME_VALUE:
                break
    return found


@inner_loop
def _put(
    buffer: Any, slot: Any, start: Any, stop: Any, row: Any, feeds: SlotFeeds, lists: ListArrays, fields: FieldSpans
) -> Any:
    """Put one value of a slot: into its list, or into its next column; return the status."""
    places, salts, seen = feeds
    first, room, ragged, hashed = places[slot, 0], places[slot, 1], places[slot, 2], places[slot, 3]
    if ragged >= 0:
        values, offsets = lists
        at = offsets[ragged, row + 1]
        if at >= values.shape[1]:
            return NO_ROOM
        if hashed:
            values[ragged, at] = hash_span(buffer, start, whole_end(buffer, start, stop), salts[slot])
        else:
            status, values[ragged, at] = parse_id(buffer, start, stop)
            if status != OK:
                return status
        offsets[ragged, row + 1] = at + 1
    if room > 0:
        if seen[slot] >= room:
            return BAD_REPEAT
        fields.starts[first + seen[slot]], fields.stops[first + seen[slot]] = start, stop
        seen[slot] += 1
    return OK


@inner_loop
def _named_tokens(
    buffer: Any, at: Any, row: Any, names: SlotNames, feeds: SlotFeeds, lists: ListArrays, state: LineState
) -> Any:
    style, keys, numbers = names
    fields, _, where = state
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
            status = _put(buffer, slot, start, stop, row, feeds, lists, fields)
            if status != OK:
                return status


@inner_loop
def _counted_tokens(buffer: Any, at: Any, row: Any, feeds: SlotFeeds, lists: ListArrays, state: LineState) -> Any:
    """``n v1 .. vn`` for each slot in order."""
    fields, _, where = state
    for slot in range(len(feeds.places)):
        start, at = _next_token(buffer, at)
        status, count = parse_id(buffer, start, at)
        where[3] = slot
        if status != OK:
            return BAD_COUNT
        for _ in range(count):
            start, at = _next_token(buffer, at)
            if start == at:
                return BAD_COUNT
            status = _put(buffer, slot, start, at, row, feeds, lists, fields)
            if status != OK:
                return status
    start, stop = _next_token(buffer, at)
    return OK if start == stop else BAD_COUNT


@inner_loop
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


@row_loop
def parse_slots(
    text: TextBlock,
    row: int,
    row_end: int,
    names: SlotNames,
    feeds: SlotFeeds,
    steps: BoundSteps,
    rows: RowArrays,
    state: LineState,
) -> Any:
    """Parse the lines of ``text`` into rows; return (how, pos, row) as the parser of delimited text does.

    After BAD, ``state.where`` holds the reason, the line's start and end, and the slot (or -1); a column of the steps
    is turned into its slot by the caller (``where[4]`` = 1).
    """
    buffer, pos, end = text
    fields, _, where = state
    offsets = rows.lists.offsets
    while pos < end and row < row_end:
        line = pos
        feeds.seen[:] = 0
        fields.starts[:] = 0
        fields.stops[:] = 0
        for k in range(len(offsets)):
            offsets[k, row + 1] = offsets[k, row]
        where[3], where[4] = -1, 0
        first, stop = _next_token(buffer, line)
        error, pos = _line_end(buffer, line)
        if first == stop:
            continue
        if error != OK:
            pass
        elif names.style == COUNTED:
            error = _counted_tokens(buffer, line, row, feeds, rows.lists, state)
        else:
            error = _named_tokens(buffer, line, row, names, feeds, rows.lists, state)
        if error == OK:
            where[4] = 1
            error = run_steps(buffer, row, steps, rows, state)
        if error == NO_ROOM:
            return ROOM, line, row
        if error != OK:
            where[0], where[1], where[2] = error, line, pos
            return BAD, pos, row
        row += 1
    return (FULL if row == row_end else DRAINED), pos, row
