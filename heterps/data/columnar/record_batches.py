"""Rows out of Arrow record batches: what Parquet files, Arrow tables and data frames share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from heterps.data.columnar.arrow_recipes import Chunk
from heterps.data.core.bad import SHOWN, BadRow, BadRows
from heterps.data.core.batch_buffers import RowBuffers
from heterps.data.core.dataset import Source
from heterps.data.core.files import about
from heterps.data.core.labels import Labels
from heterps.data.core.schema import Schema
from heterps.data.text.delimited import REASONS

__all__ = ["CHUNK_ROWS", "ColumnarPart", "ColumnarSource"]

# Rows evaluated at a time: large enough to amortise calls, small enough that a chunk's columns stay in the cache.
CHUNK_ROWS = 1 << 16


@dataclass(frozen=True)
class ColumnarPart:
    """A record batch and where its first row lies.

    ``unread`` says of rows why they could not be read; the batch has something in their places. Where rows are lines
    of text ``place`` returns a row's line (0 unless it is asked for: counting takes time), byte and beginning.
    """

    source: str
    first_row: int
    batch: Any
    unread: Mapping[int, str] = field(default_factory=dict)
    place: Callable[[int, bool], tuple[int, int, str]] | None = None


class ColumnarSource(Source):
    """Fill batches from parts, leaving out and counting rows that cannot be used."""

    def __init__(
        self, schema: Schema, parts: Iterator[ColumnarPart], bad: BadRows, labels: Labels | None = None
    ) -> None:
        self.schema, self.parts, self.bad, self.labels = schema, parts, bad, labels or Labels()
        self.done = 0  # good rows of the chunks so far
        self.chunk: Chunk | None = None
        self.at = 0

    def fill(self, rows: RowBuffers, begin: int, end: int) -> int:
        """Write the next good rows."""
        row = begin
        while row < end and self._ready():
            assert self.chunk is not None
            take = min(end - row, self.chunk.size - self.at)
            self.chunk.put(self.at, self.at + take, rows, row)
            self.at += take
            row += take
        return row - begin

    def skip(self, count: int, scratch: RowBuffers) -> None:
        """Pass over good rows: bad ones are found as in a whole read, so that both count the same."""
        while count > 0 and self._ready():
            assert self.chunk is not None
            take = min(count, self.chunk.size - self.at)
            self.at += take
            count -= take

    def _ready(self) -> bool:
        while self.chunk is None or self.at >= self.chunk.size:
            part = next(self.parts, None)
            if part is None:
                return False
            self.chunk, self.at = self._good(part), 0
        return True

    def _good(self, part: ColumnarPart) -> Chunk:
        with about(part.source):
            chunk = Chunk(self.schema, part.batch, self.labels)
        if not chunk.faults and not part.unread:
            self.done += chunk.size
            return chunk
        worst = np.zeros(chunk.size, bool)
        worst[list(part.unread)] = True
        for _, codes in chunk.faults:
            worst |= codes != 0
        for n, i in enumerate(np.flatnonzero(worst)):
            self._count(part, chunk, int(i), self.done + int(i) - n)
        self.done += chunk.size - int(worst.sum())
        return Chunk(self.schema, part.batch.filter(pa.array(~worst)), self.labels)

    def _count(self, part: ColumnarPart, chunk: Chunk, i: int, before: int) -> None:
        reason, detail, text = _why(part, chunk, i)
        row = part.first_row + i
        line, offset = row + 1, row
        if part.place is not None:
            line, offset, text = part.place(i, len(self.bad.first) < SHOWN)
        self.bad.add(BadRow(part.source, line, offset, detail, text, before), reason)

    def close(self) -> None:
        """Close the file being read."""
        close = getattr(self.parts, "close", None)
        if close is not None:
            close()


def _why(part: ColumnarPart, chunk: Chunk, i: int) -> tuple[str, str, str]:
    """Return why a row is bad, the same with its column, and what it holds there."""
    if i in part.unread:
        return part.unread[i], part.unread[i], ""
    recipe, codes = next(fault for fault in chunk.faults if fault[1][i])
    reason = REASONS[int(codes[i])]
    values = {source: _shown(part.batch.column(source)[i]) for source in recipe.sources}
    return reason, f"{reason} in column {recipe.sources[0]!r}", str(values)[:80]


def _shown(value: Any) -> Any:
    try:
        return value.as_py()
    except (UnicodeDecodeError, ValueError, OverflowError):  # text that is no UTF-8, a time out of range
        return "unreadable"
