"""What compiled parsers of lines take: a block of text, how its lines are cut, and what is known of one line."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = [
    "DELIMITER",
    "HIGH",
    "NEWLINE",
    "NUL",
    "PLAIN",
    "QUOTE",
    "FieldSpans",
    "LineMarks",
    "LineState",
    "TextBlock",
    "line_marks",
    "new_line_state",
]

U8 = npt.NDArray[np.uint8]
I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]

PLAIN, DELIMITER, NEWLINE, NUL, HIGH, QUOTE = 0, 1, 2, 3, 4, 5


class TextBlock(NamedTuple):
    """Where the text is: whole lines at ``buffer[pos:end]``, with spare bytes behind."""

    buffer: U8
    pos: int
    end: int


class LineMarks(NamedTuple):
    """How a line is cut into fields.

    ``classes`` says what each byte means to the tokeniser; ``marks`` are the delimiter, newline and quote bytes
    (without quoting NUL, which is looked for anyway); with ``trim`` spaces around fields are dropped.
    """

    classes: U8
    marks: U8
    trim: bool


class FieldSpans(NamedTuple):
    """Where the text of each source column is on the line being parsed."""

    starts: I64
    stops: I64


class LineState(NamedTuple):
    """What is known of the line being parsed; arrays that every line uses again.

    ``made`` has one element a step: the id it made. ``where`` says what was bad: the reason, the line's start and end,
    its source column or slot, and a word that each parser keeps for itself.
    """

    fields: FieldSpans
    made: U64
    where: I64


def line_marks(delimiter: str, quote: str = "", trim: bool = False) -> LineMarks:
    """Return how lines with a delimiter and perhaps quotes are cut."""
    classes = np.zeros(256, np.uint8)
    classes[128:] = HIGH
    classes[0], classes[10] = NUL, NEWLINE
    classes[ord(delimiter)] = DELIMITER
    if quote:
        classes[ord(quote)] = QUOTE
    return LineMarks(classes, np.array([ord(delimiter), 10, ord(quote or "\0")], np.uint8), trim)


def new_line_state(columns: int, steps: int) -> LineState:
    """Return the arrays for lines of some source columns."""
    starts, stops = np.zeros((2, max(columns, 1)), np.int64)
    return LineState(FieldSpans(starts, stops), np.zeros(steps, np.uint64), np.zeros(5, np.int64))
