"""Parquet files: row groups are the pieces, only the needed columns are read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from heterps.data.columnar.record_batches import CHUNK_ROWS, ColumnarPart, ColumnarSource
from heterps.data.core.bad import BadRows
from heterps.data.core.dataset import Dataset, Source
from heterps.data.core.files import about, expand, is_url, open_raw, size_of
from heterps.data.core.fingerprint import digest
from heterps.data.core.schema import Schema, check_distinct
from heterps.data.core.split import Piece, Split
from heterps.data.study.infer_schema import schema_of_kinds
from heterps.data.text.delimited_text import Paths
from heterps.errors import DataError
from heterps.thrift import first_of_list

__all__ = ["Parquet", "parquet"]

# What Arrow raises for files that are not as they should be.
_BROKEN = (pa.ArrowException, OSError, ValueError, IndexError, OverflowError, MemoryError)


@dataclass(frozen=True, kw_only=True)
class Parquet(Dataset):
    """Parquet files; use :func:`parquet` to make one. A piece is a range of row groups of one file."""

    paths: tuple[str, ...] = ()
    fields: Schema = field(default_factory=Schema)

    @property
    def schema(self) -> Schema:
        """The columns of a batch."""
        return self.fields

    def pieces(self, grain: int) -> tuple[Piece, ...]:
        """Return row groups with their bytes, from the footers."""
        found: list[Piece] = []
        for path in self.paths:
            with _open(path) as file:
                groups = (file.metadata.row_group(i) for i in range(file.metadata.num_row_groups))
                found += [Piece(path, i, i + 1, max(1, g.total_byte_size)) for i, g in enumerate(groups) if g.num_rows]
        return tuple(found)

    def marks(self) -> dict[str, Any]:
        """Return names and footers of the files: a copy is the same data, whenever it was made."""
        return {"files": [_footer_mark(path) for path in self.paths]}

    def open(self, pieces: tuple[Piece, ...], bad: BadRows) -> Source:
        """Start reading row groups."""
        return ColumnarSource(self.fields, _parts(pieces, self.fields), bad, self.labels)

    @property
    def source_names(self) -> tuple[str, ...]:
        """Names of the columns in the first file."""
        with _open(self.paths[0]) as file:
            return tuple(file.schema_arrow.names)

    def cells(self, split: Split, names: Sequence[str]) -> Any:
        """Return columns of the row groups of a Split, of the types they have."""
        tables = []
        for piece in split.pieces:
            with _open(piece.source) as file:
                groups = list(range(piece.begin, piece.end))
                tables.append(file.read_row_groups(groups, columns=list(names), use_threads=False))
        return pa.concat_tables(tables).select(list(names))

    def select(self, *names: str) -> Parquet:
        """Keep some batch columns only: source columns of the others are not read."""
        return replace(self, fields=self.fields.select(*names))


def _open(path: str, dictionaries: Sequence[str] = ()) -> Any:
    try:
        if is_url(path):
            return pq.ParquetFile(open_raw(path), read_dictionary=list(dictionaries))
        open_raw(path).close()  # says what is there instead of a file that can be read
        return pq.ParquetFile(path, read_dictionary=list(dictionaries), memory_map=False)
    except DataError:
        raise
    except _BROKEN as error:
        raise DataError(f"{path} is no Parquet file, or a damaged one: {error}") from error


def _footer_mark(path: str) -> str:
    with _open(path) as file:
        rows, groups = file.metadata.num_rows, file.metadata.num_row_groups
    return f"{path.rsplit('/', 1)[-1]}: {rows} rows in {groups} row groups, footer {digest(_footer(path))}"


def _footer(path: str) -> bytes:
    """Return the bytes in which a file describes itself."""
    end = size_of(path) - 8
    with open_raw(path) as file:
        file.seek(max(end, 0))
        size = int.from_bytes(file.read(4), "little")
        file.seek(max(end - size, 0))
        return bytes(file.read(min(size, max(end, 0))))


def _text_columns(path: str, wanted: Sequence[str]) -> list[str]:
    """Return text columns with small dictionaries: hashed once per distinct value instead of once per row.

    Where a dictionary grew too large the writer gave up on it; reading such a column as a dictionary would make Arrow
    build one. Its size gives it away: an index takes two or three bytes a value, text more.
    """
    with _open(path) as file:
        schema = file.schema_arrow
        check_distinct(schema.names, path)
        missing = [name for name in wanted if name not in schema.names]
        if missing:
            raise DataError(f"{path} has no column {missing[0]!r}; it has {', '.join(schema.names)}")
        text = {name for name in wanted if pa.types.is_string(schema.field(name).type)}
    return [name for name in _with_small_dictionary(path) if name in text]


# Field numbers of Parquet's FileMetaData, RowGroup, ColumnChunk and ColumnMetaData.
_GROUPS, _COLUMNS, _ROWS, _META, _PATH, _BYTES, _DICTIONARY_AT = 4, 1, 3, 3, 3, 6, 11


def _with_small_dictionary(path: str) -> list[str]:
    """Look at the first row group as the file itself describes it: Arrow ends the process over some damaged ones."""
    try:
        group = first_of_list(_footer(path), _GROUPS) or {_COLUMNS: ()}
        chunks = [column[_META] for column in group[_COLUMNS]]
        small = [chunk for chunk in chunks if _DICTIONARY_AT in chunk and chunk[_BYTES] < 4 * group[_ROWS]]
        return [b".".join(chunk[_PATH]).decode() for chunk in small]
    except (pa.ArrowException, LookupError, TypeError, ValueError):
        return []  # how it is encoded matters for speed only; what is wrong is found when it is read


def _parts(pieces: tuple[Piece, ...], fields: Schema) -> Iterator[ColumnarPart]:
    wanted = list(fields.sources)
    for piece in pieces:
        with _open(piece.source, _text_columns(piece.source, wanted)) as file:
            if piece.end > file.metadata.num_row_groups:
                raise DataError(
                    f"{piece.source} became shorter while it was read: it has {file.metadata.num_row_groups} row "
                    f"groups, it had {piece.end} or more; files must stay as they are during a run"
                )
            row = sum(file.metadata.row_group(i).num_rows for i in range(piece.begin))
            groups = list(range(piece.begin, piece.end))
            try:
                for batch in file.iter_batches(CHUNK_ROWS, row_groups=groups, columns=wanted, use_threads=False):
                    yield ColumnarPart(piece.source, row, batch)
                    row += batch.num_rows
            except _BROKEN as error:
                where = f"row group {piece.begin} of {piece.source}"
                raise DataError(f"cannot read {where}: {error}; the file is damaged") from error


def parquet(paths: Paths, fields: Schema | None = None, *, label: str = "", **options: Any) -> Parquet:
    """Read Parquet files.

    Parameters
    ----------
    paths
        A path, glob, folder or URL, or several.
    fields
        The schema; without it, numeric columns are dense, text columns are categories, and ``label`` (or a column
        called y, label, click or target) is the label.
    label
        The label's column, for inference.
    **options
        Fields of :class:`~heterps.data.core.dataset.Dataset`.
    """
    files = expand(paths)
    options = {"guessed": fields is None} | options
    if fields is None:
        with _open(files[0]) as file, about(files[0]):
            fields = schema_of_arrow(file.schema_arrow, label)
    return Parquet(paths=files, fields=fields, **options)


def schema_of_arrow(schema: Any, label: str = "") -> Schema:
    """Infer a schema from Arrow types."""
    check_distinct(schema.names, "the columns of a table")
    numeric = tuple(not _is_text(item.type) for item in schema)
    return schema_of_kinds(tuple(schema.names), numeric, label)


def _is_text(kind: Any) -> bool:
    """Whoever made a dictionary, of text or numbers, said that the values are categories."""
    text = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, pa.types.is_binary)
    return pa.types.is_dictionary(kind) or any(check(kind) for check in text)
