"""CSV, TSV and other delimited text as datasets."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from heterps.data.bad import BadRow, BadRows
from heterps.data.dataset import Dataset, Source
from heterps.data.delimited import BAD, BAD_COLUMNS, DRAINED, REASONS, ROOM, byte_classes, byte_marks, parse_rows
from heterps.data.files import BLOCK_BYTES, Lines, cut, expand, open_bytes
from heterps.data.rows import Rows
from heterps.data.schema import Schema
from heterps.data.split import Piece
from heterps.data.steps import Steps, compile_steps
from heterps.errors import DataError

__all__ = ["Text", "csv", "tsv"]

Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


@dataclass(frozen=True, kw_only=True)
class Text(Dataset):
    """Delimited text files; use :func:`csv`, :func:`tsv` or :class:`~heterps.data.criteo.Criteo` to make one.

    Parameters
    ----------
    paths
        The files, already expanded.
    columns
        Names of the source columns, in file order.
    fields
        The schema of the batches.
    delimiter, quote
        One ASCII character each; no quote means that quotes are ordinary characters. A record is always one line.
    header
        Whether each file starts with a line of column names (checked against ``columns``).
    trim
        Whether spaces around fields are dropped.
    """

    paths: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    fields: Schema = field(default_factory=Schema)
    delimiter: str = ","
    quote: str = '"'
    header: bool = False
    trim: bool = False
    block_bytes: int = BLOCK_BYTES

    def __post_init__(self) -> None:
        for what, mark in (("delimiter", self.delimiter), ("quote", self.quote or ";")):
            if len(mark) != 1 or not 0 < ord(mark) < 128 or mark in "\r\n":
                raise DataError(f"the {what} must be one ASCII character, got {mark!r}")
        compile_steps(self.fields, self.columns)

    @property
    def schema(self) -> Schema:
        """The columns of a batch."""
        return self.fields

    def pieces(self, grain: int) -> tuple[Piece, ...]:
        """Cut the files into byte ranges."""
        return cut(self.paths, grain)

    def open(self, pieces: tuple[Piece, ...], bad: BadRows) -> Source:
        """Start parsing pieces."""
        return _TextSource(self, pieces, bad)

    def select(self, *names: str) -> Text:
        """Keep some batch columns only: the others are not even parsed."""
        return replace(self, fields=self.fields.select(*names))


class _TextSource(Source):
    def __init__(self, text: Text, pieces: tuple[Piece, ...], bad: BadRows) -> None:
        self.text, self.bad = text, bad
        self.todo = list(reversed(pieces))
        self.lines: Lines | None = None
        self.steps: Steps = compile_steps(text.fields, text.columns)
        self.classes = byte_classes(text.delimiter, text.quote)
        self.marks = byte_marks(text.delimiter, text.quote)
        self.starts, self.stops = np.zeros((2, max(len(text.columns), 1)), np.int64)
        self.made = np.zeros(len(self.steps.table), np.uint64)
        self.where = np.zeros(5, np.int64)
        self.bound: tuple[Rows, Any] | None = None

    def fill(self, rows: Rows, begin: int, end: int) -> int:
        row = begin
        while row < end:
            if (self.lines is None or self.lines.pos >= self.lines.end) and not self._refill():
                break
            row = self._parse(rows, row, end)
        return row - begin

    def _refill(self) -> bool:
        while True:
            if self.lines is None:
                if not self.todo:
                    return False
                self._start(self.todo.pop())
            assert self.lines is not None
            if self.lines.pos < self.lines.end:
                return True
            if self.lines.refill():
                self._count_long_line()
            else:
                self.close()

    def _start(self, piece: Piece) -> None:
        self.lines = Lines(piece, self.text.block_bytes)
        if self.text.header and piece.begin == 0 and self.lines.refill():
            lines = self.lines
            line = bytes(lines.buffer[lines.pos : lines.end]).split(b"\n", 1)[0]
            _check_header(piece.source, line, self.text)
            lines.pos += len(line) + 1

    def _parse(self, rows: Rows, row: int, end: int) -> int:
        lines = self.lines
        assert lines is not None
        steps = self.steps
        how, lines.pos, row = parse_rows(
            lines.buffer, lines.pos, lines.end, row, end, self.classes, self.marks, self.text.trim,
            self._bind(rows), steps.salts, steps.params, steps.links,
            rows.floats, rows.ids, rows.list_values, rows.list_offsets,
            self.starts, self.stops, self.made, self.where,
        )  # fmt: skip
        if how == ROOM:
            rows.grow_lists()
        elif how == BAD:
            self._count_bad_line()
        assert how != DRAINED or lines.pos >= lines.end
        return int(row)

    def _bind(self, rows: Rows) -> Any:
        if self.bound is None or self.bound[0] is not rows:
            self.bound = (rows, self.steps.bind(rows))
        return self.bound[1]

    def _count_bad_line(self) -> None:
        assert self.lines is not None
        code, begin, end, column = (int(v) for v in self.where[:4])
        text = bytes(self.lines.buffer[begin : min(end - 1, begin + 80)])
        reason = REASONS[code]
        if code == BAD_COLUMNS:
            detail = f"{reason} ({column} instead of {len(self.text.columns)})"
        else:
            detail = f"{reason} in column {self.text.columns[column]!r}" if column >= 0 else reason
        self._count(self.lines.origin + begin, detail, text, reason)

    def _count_long_line(self) -> None:
        assert self.lines is not None
        if self.lines.too_long >= 0:
            offset, self.lines.too_long = self.lines.too_long, -1
            reason = f"line longer than {self.text.block_bytes} bytes"
            self._count(offset, reason, b"", reason)

    def _count(self, offset: int, detail: str, text: bytes, reason: str) -> None:
        assert self.lines is not None
        source = self.lines.piece.source
        line = line_number(source, offset) if len(self.bad.first) < 10 else 0
        self.bad.add(BadRow(source, line, offset, detail, text.decode("utf-8", "backslashreplace")), reason)

    def close(self) -> None:
        if self.lines is not None:
            self.lines.close()
            self.lines = None


def line_number(path: str, offset: int, furthest: int = 1 << 30) -> int:
    """Return the number of the line at a byte offset by counting newlines before it; 0 if that would take too long."""
    if offset > furthest:
        return 0
    with open_bytes(path) as file:
        count, left = 1, offset
        while left > 0:
            block = file.read(min(left, 1 << 20))
            if not block:
                break
            count += block.count(b"\n")
            left -= len(block)
    return count


def _header_names(line: bytes, delimiter: str, quote: str) -> list[str]:
    names = line.rstrip(b"\r").decode("utf-8-sig", "backslashreplace").split(delimiter)
    return [name.strip().strip(quote) if quote else name.strip() for name in names]


def _check_header(path: str, line: bytes, text: Text) -> None:
    names = _header_names(line, text.delimiter, text.quote)
    if tuple(names) != text.columns:
        missing = [name for name in text.columns if name not in names]
        what = f"lacks {', '.join(missing)}" if missing else "has the columns in another order"
        raise DataError(f"{path} {what}: its header names {', '.join(names)}; expected {', '.join(text.columns)}")


def read_header(path: str, delimiter: str, quote: str) -> tuple[str, ...]:
    """Return the column names on the first line of a file."""
    with open_bytes(path) as file:
        line = file.read(1 << 16).split(b"\n", 1)[0]
    if not line.strip():
        raise DataError(f"{path} is empty: expected a header line with column names")
    return tuple(_header_names(line, delimiter, quote))


def csv(
    paths: Paths,
    fields: Schema | None = None,
    *,
    columns: Sequence[str] | None = None,
    delimiter: str = ",",
    quote: str = '"',
    trim: bool = False,
    label: str = "",
) -> Text:
    """Read CSV files.

    Parameters
    ----------
    paths
        A path, glob, folder or URL, or several; ``.gz`` and ``.zst`` are decompressed.
    fields
        The schema; without it, it is inferred from the first rows (see :func:`heterps.data.infer.infer_schema`).
    columns
        Column names for files without a header line.
    delimiter, quote, trim
        See :class:`Text`.
    label
        The label's source column, for inference.
    """
    files = expand(paths)
    header = columns is None
    names = read_header(files[0], delimiter, quote) if columns is None else tuple(columns)
    if fields is None:
        from heterps.data.infer import infer_schema

        fields = infer_schema(files[0], names, delimiter, quote, header, label)
    return Text(
        paths=files, columns=names, fields=fields, delimiter=delimiter, quote=quote, header=header, trim=trim
    )  # fmt: skip


def tsv(paths: Paths, fields: Schema | None = None, **options: Any) -> Text:
    """Read tab-separated files; quotes are ordinary characters. Options as for :func:`csv`."""
    return csv(paths, fields, **({"delimiter": "\t", "quote": ""} | options))
