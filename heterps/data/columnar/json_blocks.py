"""Blocks of lines of JSON as record batches: a row for each line, also for one that cannot be read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from heterps.data.columnar.json_cells import EXACT, columns_of, object_of
from heterps.data.columnar.record_batches import ColumnarPart
from heterps.data.core.split import Piece
from heterps.data.text.lines import Lines, line_number
from heterps.later import later

__all__ = ["json_parts", "skip_mark"]

pc = later("pyarrow.compute")
pj = later("pyarrow.json")

_MARK = b"\xef\xbb\xbf"
_ENDS = (b"}", b"}\r")


def json_parts(pieces: Sequence[Piece], types: Any, block_bytes: int) -> Iterator[ColumnarPart]:
    """Yield the lines of pieces that are not blank, a block at a time.

    Parameters
    ----------
    pieces
        Ranges of bytes.
    types
        An Arrow schema: the members wanted, of the types that most lines have.
    block_bytes
        A longer line cannot be used.
    """
    for piece in pieces:
        with closing(Lines(piece, block_bytes)) as lines:
            while lines.refill():
                if lines.too_long >= 0:
                    yield _too_long(lines, types)
                skip_mark(lines)
                block = _Block(lines, bytes(lines.buffer[lines.pos : lines.end]))
                if block.rows:
                    yield block.part(types)


def skip_mark(lines: Lines) -> None:
    """Pass over the mark with which some programs begin a text."""
    if lines.offset == 0 and bytes(lines.buffer[:3]) == _MARK:
        lines.pos = 3


def _too_long(lines: Lines, types: Any) -> ColumnarPart:
    offset, lines.too_long = lines.too_long, -1
    why = f"line longer than {lines.block} bytes"
    line = lines.lines_before if lines.is_stream else line_number(lines.piece.source, offset)
    return ColumnarPart(lines.piece.source, 0, _nulls(1, types), {0: why}, lambda row, numbered: (line, offset, ""))


def _nulls(count: int, types: Any) -> Any:
    return pa.RecordBatch.from_arrays([pa.nulls(count, kind) for kind in types.types], schema=types)


def _is_rounded(column: Any) -> bool:
    """Whether integers among floats may have lost digits."""
    if not pa.types.is_floating(column.type):
        return False
    values = column.to_numpy()
    return bool((np.isfinite(values) & (np.abs(values) >= EXACT)).any())


def _without_negative_zeros(column: Any) -> Any:
    """A zero counts as the integer 0 where its neighbours make a column text, so it does everywhere."""
    return pc.add(column, 0.0) if pa.types.is_float64(column.type) else column


@dataclass(frozen=True)
class _Block:
    """Whole lines at ``lines.buffer[lines.pos:lines.end]``, valid until the buffer is filled again."""

    lines: Lines
    text: bytes

    @cached_property
    def rows(self) -> list[bytes]:
        """The lines that are not blank."""
        return [line for line in self.text.split(b"\n") if line.strip()]

    @cached_property
    def starts(self) -> list[int]:
        """Where each of them begins in the buffer."""
        found, at = [], self.lines.pos
        for line in self.text.split(b"\n"):
            found += [at] if line.strip() else []
            at += len(line) + 1
        return found

    def part(self, types: Any) -> ColumnarPart:
        batch = self._parsed(types)
        unread: dict[int, str] = {}
        if batch is None:
            batch, unread = self._one_by_one(types)
        return ColumnarPart(self.lines.piece.source, 0, batch, unread, self._place)

    def _parsed(self, types: Any) -> Any:
        """Return the rows if Arrow takes all of them: objects of the known types, one on each line.

        Arrow alone would also take two objects on a line, or one on several. Where each line begins and ends as an
        object does no line can end inside one: behind a brace that closes comes no brace that opens.
        """
        if not all(row.startswith(b"{") and row.endswith(_ENDS) for row in self.rows):
            return None
        how = pj.ParseOptions(explicit_schema=types, unexpected_field_behavior="ignore")
        reading = pj.ReadOptions(use_threads=False, block_size=len(self.text) + 1)
        try:
            self.text.decode()  # Arrow does not look
            table = pj.read_json(pa.BufferReader(self.text), read_options=reading, parse_options=how)
        except (pa.ArrowException, UnicodeDecodeError):
            return None
        if table.num_rows != len(self.rows) or any(map(_is_rounded, table.columns)):
            return None
        wanted = table.select(types.names).combine_chunks().to_batches()[0]
        return pa.RecordBatch.from_arrays([_without_negative_zeros(each) for each in wanted.columns], schema=types)

    def _one_by_one(self, types: Any) -> tuple[Any, dict[int, str]]:
        found = [object_of(row) for row in self.rows]
        known = dict(zip(types.names, types.types, strict=True))
        batch, unread = columns_of([one for one, _ in found], types.names, known)
        return batch, unread | {row: why for row, (_, why) in enumerate(found) if why}

    def _place(self, row: int, numbered: bool) -> tuple[int, int, str]:
        start = self.starts[row]
        shown = self.rows[row][:80].decode("utf-8", "backslashreplace")
        return self.lines.line_at(start) if numbered else 0, self.lines.origin + start, shown
