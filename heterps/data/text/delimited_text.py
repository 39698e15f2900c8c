"""CSV, TSV and other delimited text as datasets."""

from __future__ import annotations

import csv as stdlib_csv
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from heterps.data.core.bad import BadRows
from heterps.data.core.batch_buffers import RowBuffers
from heterps.data.core.dataset import Source
from heterps.data.core.files import about, expand, first_line
from heterps.data.core.schema import Schema, check_distinct
from heterps.data.core.split import Piece, Split
from heterps.data.sources.pipe import opener_of
from heterps.data.study.choices import Choices
from heterps.data.study.infer_schema import infer_text, remarks_on
from heterps.data.study.sampling import has_padding, sample_rows
from heterps.data.text.delimited import BAD, BAD_COLUMNS, OPEN_QUOTE, REASONS, ROOM, parse_rows
from heterps.data.text.line_files import PipedFiles
from heterps.data.text.line_records import TextBlock, line_marks, new_line_state
from heterps.data.text.lines import Lines, LineSource
from heterps.data.text.open_quotes import OpenQuotes
from heterps.data.text.recipe_steps import BoundSteps, RecipeSteps, compile_steps
from heterps.errors import DataError

__all__ = ["Text", "csv", "tsv"]

Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


@dataclass(frozen=True, kw_only=True)
class Text(PipedFiles):
    """Delimited text files; use :func:`csv`, :func:`tsv` or :class:`~heterps.data.text.criteo.Criteo` to make one.

    Parameters
    ----------
    columns
        Names of the source columns, in file order.
    delimiter, quote
        One ASCII character each; no quote means that quotes are ordinary characters. A record is always one line.
    header
        Whether each file starts with a line of column names (checked against ``columns``).
    trim
        Whether spaces around fields are dropped.
    """

    columns: tuple[str, ...] = ()
    delimiter: str = ","
    quote: str = '"'
    header: bool = False
    trim: bool = False

    def __post_init__(self) -> None:
        _check_marks(self.delimiter, self.quote)
        check_distinct(self.columns, "the columns of a text file")
        with about(self.paths[0] if self.paths else "the text"):
            compile_steps(self.fields, self.columns)

    def open(self, pieces: tuple[Piece, ...], bad: BadRows) -> Source:
        """Start parsing pieces."""
        return _TextSource(self, pieces, bad)

    @property
    def source_names(self) -> tuple[str, ...]:
        """Names of the source columns."""
        return self.columns

    def reading(self) -> dict[str, Any]:
        """Return how lines are cut, and the names of columns where no header says them."""
        named = {} if self.header else {"columns": list(self.columns)}
        return {"delimiter": self.delimiter, "quote": self.quote, "trim": self.trim} | named

    def cells(self, split: Split, names: Sequence[str]) -> Any:
        """Return cells as they stand in the files, as text; null in lines that cannot be cut into columns."""
        from heterps.data.text.cells import text_cells

        return text_cells(self, split.pieces, names)

    def open_quotes(self, lines: Lines | None = None) -> OpenQuotes:
        """Return what tells which lines belong to the record before, at the first of some lines."""
        found = OpenQuotes(self.delimiter, self.quote, len(self.columns))
        if self.quote and lines is not None and lines.piece.begin > 0:
            found.look_back(lines.piece.source, lines.offset)
        return found

    def select(self, *names: str) -> Text:
        """Keep some batch columns only: the others are not even parsed."""
        return replace(self, fields=self.fields.select(*names))


def _check_marks(delimiter: str, quote: str) -> None:
    for what, mark in (("delimiter", delimiter), ("quote", quote or ";")):
        if not isinstance(mark, str) or len(mark) != 1 or not 0 < ord(mark) < 128 or mark in "\r\n":
            raise DataError(f"the {what} must be one ASCII character, got {mark!r}")
    if delimiter == quote:
        raise DataError(f"delimiter and quote are both {quote!r}: they must differ")


class _TextSource(LineSource):
    def __init__(self, text: Text, pieces: tuple[Piece, ...], bad: BadRows) -> None:
        super().__init__(pieces, bad, text.block_bytes, opener_of(text.pipe_command, text.pipe_timeout))
        self.text = text
        self.steps: RecipeSteps = compile_steps(text.fields, text.columns, text.labels)
        self.marks = line_marks(text.delimiter, text.quote, text.trim)
        self.state = new_line_state(len(text.columns), len(self.steps.table))
        self.bound: tuple[RowBuffers, BoundSteps] | None = None
        self.open_quotes = text.open_quotes()

    def begin(self, lines: Lines) -> None:
        self.open_quotes = self.text.open_quotes(lines)
        if self.text.header and lines.piece.begin == 0 and lines.refill():
            line = bytes(lines.buffer[lines.pos : lines.end]).split(b"\n", 1)[0]
            _check_header(lines.piece.source, line, self.text)
            lines.pos += len(line) + 1

    def parse(self, lines: Lines, rows: RowBuffers, row: int, end: int) -> int:
        if self.open_quotes.is_open:
            lines.skip_while(self.open_quotes.takes)
        text = TextBlock(lines.buffer, lines.pos, lines.end)
        how, lines.pos, row = parse_rows(text, row, end, self.marks, self._bind(rows), rows.arrays(), self.state)
        if how == ROOM:
            rows.grow_lists()
        elif how == BAD:
            self._count_bad_line(int(row))
        return int(row)

    def _bind(self, rows: RowBuffers) -> BoundSteps:
        if self.bound is None or self.bound[0] is not rows:
            self.bound = (rows, self.steps.bind(rows))
        return self.bound[1]

    def _count_bad_line(self, row: int) -> None:
        code, begin, end, column = (int(v) for v in self.state.where[:4])
        self.open_quotes.is_open = code == OPEN_QUOTE
        reason = REASONS[code]
        if code == BAD_COLUMNS:
            detail = f"{reason} ({column} instead of {len(self.text.columns)})"
        else:
            detail = f"{reason} in column {self.text.columns[column]!r}" if column >= 0 else reason
        self.count_bad(begin, end, detail, reason, row)


_MAGIC = {
    b"\x1f\x8b": "compressed with gzip: call it .gz",
    b"\x28\xb5\x2f\xfd": "compressed with zstd: call it .zst",
    b"BZh": "compressed with bzip2: unpack it, or compress it with gzip or zstd",
    b"\xfd7zXZ": "compressed with xz: unpack it, or compress it with gzip or zstd",
    b"PK\x03\x04": "a ZIP archive (or a workbook of a spreadsheet program): unpack it, or save it as CSV",
    b"ARROW1": "an Arrow file: write it as Parquet (pyarrow.parquet.write_table)",
    b"PAR1": "a Parquet file: read it with parquet(...), --format parquet",
    b"\xff\xfe": "UTF-16: convert it to UTF-8 (iconv -f utf-16 -t utf-8)",
    b"\xfe\xff": "UTF-16: convert it to UTF-8 (iconv -f utf-16 -t utf-8)",
}


def _header_names(path: str, line: bytes, delimiter: str, quote: str) -> tuple[str, ...]:
    """Return the column names of a header line, or say what kind of file this is instead."""
    line = line.rstrip(b"\r")
    for magic, what in _MAGIC.items():
        if line.startswith(magic):
            raise DataError(f"{path}, line 1: expected a header line, but the file is {what}")
    if b"\0" in line:
        raise DataError(f"{path}, line 1: it holds a NUL byte, so this is no text file; expected column names")
    if b"\r" in line:
        raise DataError(f"{path}, line 1: lines end with CR alone; convert them (tr '\\r' '\\n' < old > new)")
    try:
        text = line.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}, line 1: byte {error.start} of the header is not UTF-8; convert it (iconv -f latin1 -t utf-8)"
        ) from error
    found = tuple(_header_cells(text, delimiter, quote))
    try:
        check_distinct(found, f"the header of {path}")
    except DataError as error:
        raise DataError("; ".join([str(error), *remarks_on(found)])) from None
    return found


def _header_cells(text: str, delimiter: str, quote: str) -> list[str]:
    """Return the names on a line; inside quotes a delimiter is part of the name."""
    if not quote or quote not in text:
        return [name.strip() for name in text.split(delimiter)]
    how: dict[str, Any] = {"delimiter": delimiter, "quotechar": quote, "skipinitialspace": True}
    return [name.strip() for name in next(stdlib_csv.reader([text], **how))]


def _check_header(path: str, line: bytes, text: Text) -> None:
    names = _header_names(path, line, text.delimiter, text.quote)
    if names != text.columns:
        missing = [name for name in text.columns if name not in names]
        what = f"lacks {', '.join(missing)}" if missing else "has the columns in another order"
        raise DataError(f"{path} {what}: its header names {', '.join(names)}; expected {', '.join(text.columns)}")


def read_header(path: str, delimiter: str, quote: str) -> tuple[str, ...]:
    """Return the column names on the first line of a file."""
    line = first_line(path)
    if not line.strip():
        raise DataError(f"{path}, line 1: it is empty; expected a header line with column names")
    return _header_names(path, line, delimiter, quote)


def csv(
    paths: Paths,
    fields: Schema | None = None,
    *,
    columns: Sequence[str] | None = None,
    delimiter: str | None = None,
    quote: str = '"',
    trim: bool | None = None,
    label: str = "",
    **options: Any,
) -> Text:
    """Read CSV files.

    Parameters
    ----------
    paths
        A path, glob, folder or URL, or several; ``.gz`` and ``.zst`` are decompressed.
    fields
        The schema; without it, it is inferred from some rows (see :mod:`heterps.data.study.infer_schema`).
    columns
        Column names for files without a header line.
    delimiter, quote, trim
        See :class:`Text`; without a delimiter it is the comma, or where a header line has none the semicolon, tab
        or bar that it has. Where the schema is inferred, spaces are trimmed if all cells of a column have them.
    label
        The label's source column, for inference.
    **options
        Further choices for inference, names of source columns: ``weight``, ``categorical``, ``numeric``, ``ignore``;
        and fields of :class:`Text`, such as ``pipe_command``.
    """
    files = expand(paths)
    if delimiter is None:
        delimiter = _delimiter_of(first_line(files[0])) if columns is None else ","
    _check_marks(delimiter, quote)
    header, guessed = columns is None, fields is None
    names = read_header(files[0], delimiter, quote) if columns is None else tuple(columns)
    options |= {"label": label}
    choices = Choices.take(options)
    if fields is None:
        with about(files[0]):
            rows = sample_rows(files, header, delimiter, quote)
            study = infer_text(rows, names, files[0], choices, remarks_on(names) if header else ())
        fields, options = study.schema, {"study": study} | options
        trim = has_padding(rows) if trim is None else trim
    settings: dict[str, Any] = {"delimiter": delimiter, "quote": quote, "header": header, "trim": bool(trim)}
    settings |= {"guessed": guessed} | options
    return Text(paths=files, columns=names, fields=fields, **settings)


def _delimiter_of(line: bytes) -> str:
    return next((mark for mark in ",;\t|" if mark.encode() in line), ",")


def tsv(paths: Paths, fields: Schema | None = None, *, label: str = "", **options: Any) -> Text:
    """Read tab-separated files; quotes are ordinary characters. Options as for :func:`csv`."""
    return csv(paths, fields, label=label, **({"delimiter": "\t", "quote": ""} | options))
