"""Cells of delimited text as they stand: what is fetched beside predictions, a row for each line, bad ones too."""

from __future__ import annotations

import csv as stdlib_csv
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from heterps.data.core.split import Piece
from heterps.data.sources.pipe import opener_of
from heterps.data.text.lines import Lines

if TYPE_CHECKING:
    from heterps.data.text.delimited_text import Text

__all__ = ["text_cells"]


def text_cells(text: Text, pieces: Sequence[Piece], names: Sequence[str]) -> Any:
    """Return columns of the lines of some pieces as an Arrow table of strings.

    A line that has another number of cells, or that is too long, is null in all of them.
    """
    wanted = [text.columns.index(name) for name in names]
    found: list[list[str | None]] = [[] for _ in names]
    for piece in pieces:
        for cells in _rows(text, piece):
            for column, at in zip(found, wanted, strict=True):
                column.append(None if cells is None else cells[at])
    return pa.table({name: pa.array(column, pa.string()) for name, column in zip(names, found, strict=True)})


def _rows(text: Text, piece: Piece) -> Iterator[list[str] | None]:
    with closing(Lines(piece, text.block_bytes, opener_of(text.pipe_command, text.pipe_timeout))) as lines:
        skip = text.header and piece.begin == 0
        quotes = text.open_quotes(lines)
        while lines.pos < lines.end or lines.refill():
            if lines.too_long >= 0:
                lines.too_long = -1
                yield None
            block = bytes(lines.buffer[lines.pos : lines.end])
            lines.pos = lines.end
            for line in block.split(b"\n")[int(skip) : -1]:
                if line not in (b"", b"\r") and not quotes.takes(line):  # blank lines are no rows
                    quotes.begins(line)
                    yield _cells(text, line)
            skip = skip and not block


def _cells(text: Text, line: bytes) -> list[str] | None:
    try:
        decoded = line.removesuffix(b"\r").decode()
        if text.quote and text.quote in decoded:
            cells = next(stdlib_csv.reader([decoded], delimiter=text.delimiter, quotechar=text.quote, strict=True))
        else:
            cells = decoded.split(text.delimiter)
    except (UnicodeDecodeError, stdlib_csv.Error):
        return None
    if len(cells) != len(text.columns):
        return None
    return [cell.strip() for cell in cells] if text.trim else cells
