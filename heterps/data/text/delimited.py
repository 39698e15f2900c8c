"""The compiled parser of delimited text: whole lines in, rows of batch buffers out."""

from __future__ import annotations

from typing import Any

import numpy as np

from heterps.compiled import inner_loop, njit, row_loop
from heterps.data.core.batch_buffers import RowArrays
from heterps.data.core.value_hash import finish, fold, hash_span, whole_end
from heterps.data.text.line_records import (
    DELIMITER,
    HIGH,
    NEWLINE,
    NUL,
    PLAIN,
    QUOTE,
    FieldSpans,
    LineMarks,
    LineState,
    TextBlock,
)
from heterps.data.text.numeric import (
    BAD_ID,
    BAD_LABEL,
    BAD_NUMBER,
    MISSING,
    NO_LABEL,
    OK,
    RESERVED,
    bucket_id,
    parse_id,
    parse_number,
    scale,
)
from heterps.data.text.recipe_steps import (
    BUCKET,
    CATEGORIES,
    CATEGORY,
    CROSS,
    ID,
    IDS,
    MATCH,
    NUMBER,
    SALTED,
    BoundSteps,
)
from heterps.data.text.words import WIDTH, count_bits, equal64, high64, lowest_bit

__all__ = ["BAD", "DRAINED", "FULL", "REASONS", "ROOM", "parse_rows", "run_steps"]

# How parse_rows came back: block used up, rows filled, a bad line, no room for lists.
DRAINED, FULL, BAD, ROOM = 0, 1, 2, 3

BAD_COLUMNS, BAD_NUL, BAD_UTF8, BAD_QUOTE, OPEN_QUOTE = 4, 5, 6, 7, 30
NO_ROOM = -1
REASONS = {
    BAD_NUMBER: "not a finite number",
    BAD_ID: "not an id",
    RESERVED: "id of 2**64 - 1 or more",
    BAD_COLUMNS: "wrong number of columns",
    BAD_NUL: "NUL byte",
    BAD_UTF8: "invalid UTF-8",
    BAD_QUOTE: "unbalanced quote",
    OPEN_QUOTE: "quote open at the end of the line (a record must be one line)",
    NO_LABEL: "no label",
    BAD_LABEL: "label out of bounds",
}

_U8 = np.uint64(8)
_RESERVED_ID = np.uint64(2**64 - 1)
_ZERO, _ONE = np.uint64(0), np.uint64(1)


@njit(nogil=True, cache=True)
def valid_utf8(buffer: Any, start: Any, stop: Any) -> Any:
    """Whether the bytes are well-formed UTF-8 (no overlong forms, no surrogates)."""
    at = start
    while at < stop:
        c = buffer[at]
        if c < 0x80:
            at += 1
            continue
        low, high = 0x80, 0xBF
        if 0xC2 <= c <= 0xDF:
            more = 1
        elif 0xE0 <= c <= 0xEF:
            more = 2
            low = 0xA0 if c == 0xE0 else 0x80
            high = 0x9F if c == 0xED else 0xBF
        elif 0xF0 <= c <= 0xF4:
            more = 3
            low = 0x90 if c == 0xF0 else 0x80
            high = 0x8F if c == 0xF4 else 0xBF
        else:
            return False
        if at + more >= stop or buffer[at + 1] < low or buffer[at + 1] > high:
            return False
        for k in range(2, more + 1):
            if buffer[at + k] < 0x80 or buffer[at + k] > 0xBF:
                return False
        at += more + 1
    return True


@inner_loop
def _unquote(buffer: Any, at: Any, classes: Any) -> Any:
    """Undo a quoted field, in place, from its opening quote; return (end of text, position behind, NUL?, high bytes?).

    Doubled quotes become one. The text moves one byte to the left, onto the opening quote. End -1: no closing quote.
    """
    quote = buffer[at]
    write = at
    at += 1
    nul, high = False, False
    while buffer[at] != 10:
        kind = classes[buffer[at]]
        if kind == QUOTE:
            if buffer[at + 1] != quote:
                return write, at + 1, nul, high
            at += 1
        nul |= kind == NUL
        high |= kind == HIGH
        buffer[write] = buffer[at]
        write += 1
        at += 1
    return -1, at, nul, high


@inner_loop
def _scan(buffer: Any, line: Any, marks: Any, starts: Any, stops: Any) -> Any:
    """Find the fields of a line, 64 bytes at a time; return (fields, position behind the line, suspicious).

    Suspicious: the line holds a quote, NUL or high byte, so look again byte by byte.
    """
    n, at, start = 0, line, line
    unusual = _ZERO
    while True:
        newline = equal64(buffer, at, marks[1])
        inside = newline ^ (newline - _ONE)  # the bits up to the first newline; all if there is none
        unusual |= (high64(buffer, at) | equal64(buffer, at, np.uint8(0)) | equal64(buffer, at, marks[2])) & inside
        found = (equal64(buffer, at, marks[0]) | newline) & inside
        count = count_bits(found)
        if n + count <= len(stops):
            for i in range(n, n + count):
                stop = at + lowest_bit(found)
                starts[i] = start
                stops[i] = stop
                start = stop + 1
                found &= found - _ONE
        n += count
        if newline != _ZERO:
            return n, at + lowest_bit(newline) + 1, unusual != _ZERO
        at += WIDTH


@inner_loop
def _tokenise(buffer: Any, at: Any, classes: Any, starts: Any, stops: Any) -> Any:
    """Find the fields of the line at ``at``; return (error, fields, position behind the line, high bytes seen)."""
    n, error, high = 0, OK, False
    while True:
        start, stop = at, -1
        if classes[buffer[at]] == QUOTE:
            stop, at, nul, above = _unquote(buffer, at, classes)
            high |= above
            if nul:
                error = BAD_NUL
            behind = at + 1 if buffer[at] == 13 else at
            if stop < 0:
                error = OPEN_QUOTE
            elif classes[buffer[at]] != DELIMITER and buffer[behind] != 10:
                error = BAD_QUOTE
        while True:
            kind = classes[buffer[at]]
            if kind == PLAIN:
                at += 1
                continue
            if kind in (DELIMITER, NEWLINE):
                break
            if kind == NUL:
                error = BAD_NUL
            elif kind == HIGH:
                high = True
            at += 1
        if n < len(starts):
            starts[n] = start
            stops[n] = at if stop < 0 else stop
        n += 1
        if kind == NEWLINE:
            break
        at += 1
    return error, n, at + 1, high


@inner_loop
def _trim(buffer: Any, starts: Any, stops: Any, n: Any) -> None:
    for i in range(n):
        while starts[i] < stops[i] and buffer[starts[i]] == 32:
            starts[i] += 1
        while starts[i] < stops[i] and buffer[stops[i] - 1] == 32:
            stops[i] -= 1


@inner_loop
def _put_lists(buffer: Any, start: Any, stop: Any, separator: Any, hashed: Any, salt: Any, values: Any, at: Any) -> Any:
    """Put the ids of a cell's parts into ``values[at:]``; return (status, new end)."""
    begin = start
    for i in range(start, stop + 1):
        if i == stop or buffer[i] == separator:
            if i > begin:
                if at >= len(values):
                    return NO_ROOM, at
                if hashed:
                    values[at] = hash_span(buffer, begin, whole_end(buffer, begin, i), salt)
                else:
                    status, values[at] = parse_id(buffer, begin, i)
                    if status != OK:
                        return status, at
                at += 1
            begin = i + 1
    return OK, at


@row_loop
def parse_rows(
    text: TextBlock, row: int, row_end: int, marks: LineMarks, steps: BoundSteps, rows: RowArrays, state: LineState
) -> Any:
    """Parse the lines of ``text`` into rows ``row .. row_end``; return (how, pos, row).

    After BAD, ``state.where`` holds the reason, the line's start and end, and the source column (or the number of
    fields found); ``pos`` is behind the line. ``where[4]`` must be 0 on the first call.
    """
    buffer, pos, end = text
    fields, _, where = state
    columns = len(fields.starts)
    while pos < end and row < row_end:
        line = pos
        if where[4] > 0:
            # The line was tokenised (and unquoted in place) before room ran out: only its steps are run again.
            error, found, pos = OK, columns, where[4]
            where[4] = 0
        else:
            error, found, pos = _fields(buffer, line, marks, fields)
            if found == 0:
                continue
        where[3] = found if error == BAD_COLUMNS else -1
        if error == OK:
            error = run_steps(buffer, row, steps, rows, state)
        if error == NO_ROOM:
            where[4] = pos
            return ROOM, line, row
        if error != OK:
            where[0], where[1], where[2] = error, line, pos
            return BAD, pos, row
        row += 1
    return (FULL if row == row_end else DRAINED), pos, row


@inner_loop
def _fields(buffer: Any, line: Any, marks: LineMarks, fields: FieldSpans) -> Any:
    """Tokenise a line and check its fields; return (error, fields, position behind it), no fields for a blank line."""
    starts, stops = fields
    error, high = OK, False
    found, pos, suspicious = _scan(buffer, line, marks.marks, starts, stops)
    if suspicious:
        error, found, pos, high = _tokenise(buffer, line, marks.classes, starts, stops)
    columns = len(starts)
    if pos - line == 1 or (pos - line == 2 and buffer[line] == 13):
        return OK, 0, pos
    if error != OK:
        return error, found, pos
    if found != columns:
        return BAD_COLUMNS, found, pos
    last = columns - 1
    if stops[last] > starts[last] and buffer[stops[last] - 1] == 13:
        stops[last] -= 1
    if marks.trim:
        _trim(buffer, starts, stops, columns)
    if high:
        for i in range(columns):
            if not valid_utf8(buffer, starts[i], stops[i]):
                return BAD_UTF8, found, pos
    return OK, found, pos


@inner_loop
def run_steps(buffer: Any, row: Any, steps: BoundSteps, rows: RowArrays, state: LineState) -> Any:
    """Make the elements of one row from its tokens; return the status, with the source column in ``state.where[3]``."""
    table, salts, params, links = steps
    floats, ids, (list_values, list_offsets) = rows
    (starts, stops), made, where = state
    for s in range(len(table)):
        code = table[s, 0]
        column = table[s, 1]
        base = table[s, 2]
        start = starts[column]
        stop = stops[column]
        if code == CATEGORY:
            made[s] = hash_span(buffer, start, whole_end(buffer, start, stop), salts[s])
        elif code == NUMBER:
            a = table[s, 4]
            status, value = parse_number(buffer, start, stop) if start < stop else (MISSING, 0.0)
            if status == OK:
                value = scale(value, params[a + 1], params[a + 2], params[a + 3])
                if value < params[a + 5] or value > params[a + 6]:
                    where[3] = column
                    return BAD_LABEL
            elif status != MISSING or params[a + 4] != 0.0:
                where[3] = column
                return NO_LABEL if status == MISSING else status
            else:
                value = params[a]
            floats[base + row * table[s, 3]] = np.float32(value)
            continue
        elif code == MATCH:
            a = table[s, 4]
            value = params[a]
            if start < stop:
                value = 1.0 if hash_span(buffer, start, whole_end(buffer, start, stop), _ZERO) == salts[s] else 0.0
            elif params[a + 1] != 0.0:
                where[3] = column
                return NO_LABEL
            floats[base + row * table[s, 3]] = np.float32(value)
            continue
        elif code == ID:
            if start == stop and table[s, 5] == 1:
                made[s] = salts[s]
            else:
                status, made[s] = parse_id(buffer, start, stop)
                if status != OK:
                    where[3] = column
                    return status
        elif code == SALTED:
            status, value_id = (OK, _RESERVED_ID) if start == stop else parse_id(buffer, start, stop)
            if status != OK:
                where[3] = column
                return status
            made[s] = finish(fold(salts[s], value_id))
        elif code == BUCKET:
            status, value = parse_number(buffer, start, stop) if start < stop else (MISSING, 0.0)
            if status == MISSING:
                made[s] = finish(fold(salts[s], np.uint64(table[s, 5] + 1)))
            elif status == OK:
                made[s] = bucket_id(value, params, table[s, 4], table[s, 5], salts[s])
            else:
                where[3] = column
                return status
        elif code == CROSS:
            a, b = table[s, 4], table[s, 5]
            h = salts[s]
            for k in range(a, a + b):
                h = fold(h, made[links[k]])
            made[s] = finish(h ^ (_U8 * np.uint64(b)))
        elif code in (CATEGORIES, IDS):
            at = list_offsets[base, row] if table[s, 3] == 1 else list_offsets[base, row + 1]
            hashed = code == CATEGORIES
            status, at = _put_lists(buffer, start, stop, table[s, 4], hashed, salts[s], list_values[base], at)
            if status != OK:
                where[3] = column
                return status
            list_offsets[base, row + 1] = at
            continue
        if base >= 0:
            ids[base + row * table[s, 3]] = made[s]
    return OK
