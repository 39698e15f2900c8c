"""Parquet files: row groups are the pieces, only the needed columns are read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from heterps.data.columnar.record_batches import CHUNK_ROWS, ColumnarPart, ColumnarSource
from heterps.data.core.bad import BadRows
from heterps.data.core.dataset import Dataset, Source
from heterps.data.core.files import about, expand, is_url, open_raw, size_of
from heterps.data.core.fingerprint import digest
from heterps.data.core.schema import Schema, check_distinct
from heterps.data.core.split import Piece, Split
from heterps.data.study.arrow_looks import study_table
from heterps.data.study.choices import Choices
from heterps.data.text.delimited_text import Paths
from heterps.errors import DataError
from heterps.later import later
from heterps.thrift import first_of_list

__all__ = ["Parquet", "parquet"]

pq = later("pyarrow.parquet")

_PLACES, _SAMPLED = 8, 2500  # row groups looked at for a schema, and rows of each
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
        The schema; without it, it is inferred from some rows (see :mod:`heterps.data.study.infer_schema`).
    label
        The label's column, for inference.
    **options
        Further choices for inference, as for :func:`~heterps.data.text.delimited_text.csv`; fields of
        :class:`~heterps.data.core.dataset.Dataset`.
    """
    files = expand(paths)
    options = {"guessed": fields is None, "label": label} | options
    choices = Choices.take(options)
    if fields is None:
        with about(files[0]):
            study = study_table(_sample(files), choices)
        fields, options = study.schema, {"study": study} | options
    return Parquet(paths=files, fields=fields, **options)


def _sample(files: Sequence[str]) -> Any:
    """Return the first rows of some row groups."""
    chosen = [files[len(files) * i // _PLACES] for i in range(_PLACES)]
    batches: list[Any] = []
    for path in dict.fromkeys(chosen):
        with _open(path) as file:
            count = file.metadata.num_row_groups
            wanted = max(1, _PLACES // len(set(chosen)))
            groups = dict.fromkeys(count * i // wanted for i in range(wanted)) if count else {}
            try:
                batches += [next(file.iter_batches(_SAMPLED, row_groups=[g], use_threads=False), None) for g in groups]
            except _BROKEN as error:
                raise DataError(f"cannot read the first rows of {path}: {error}; the file is damaged") from error
            schema = file.schema_arrow
    found = [batch for batch in batches if batch is not None]
    return pa.Table.from_batches([b for b in found if b.schema == found[0].schema]) if found else schema.empty_table()


def schema_of_arrow(schema: Any, label: str = "") -> Schema:
    """Infer a schema from Arrow types alone."""
    return study_table(schema.empty_table(), Choices(label=label)).schema
