"""Arrow tables and pandas data frames in memory as datasets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import pyarrow as pa

from heterps.data.columnar.record_batches import CHUNK_ROWS, ColumnarPart, ColumnarSource
from heterps.data.columnar.views import without_views
from heterps.data.core.bad import BadRows
from heterps.data.core.dataset import Dataset, Source
from heterps.data.core.fingerprint import digest
from heterps.data.core.schema import Schema, check_distinct
from heterps.data.core.split import MEMORY_SPLIT_ROWS, Piece, Split, spread_rows
from heterps.data.study.arrow_looks import study_table
from heterps.data.study.choices import Choices
from heterps.errors import DataError

__all__ = ["Table", "frame"]


@dataclass(frozen=True, kw_only=True)
class Table(Dataset):
    """An Arrow table in memory; rows are counted, not bytes, when cutting Splits. Use :func:`frame` to make one."""

    table: Any = field(default=None, repr=False)
    fields: Schema = field(default_factory=Schema)
    split_cost: int = MEMORY_SPLIT_ROWS

    @property
    def schema(self) -> Schema:
        """The columns of a batch."""
        return self.fields

    def pieces(self, grain: int) -> tuple[Piece, ...]:
        """Cut the rows into ranges."""
        rows = self.table.num_rows
        return tuple(Piece("memory", a, min(a + grain, rows), min(grain, rows - a)) for a in range(0, rows, grain))

    def spread(self, parts: int, batch_size: int) -> Self:
        """Cut into about so many Splits of whole batches, unless ``split_cost`` says otherwise."""
        if self.split_cost != MEMORY_SPLIT_ROWS:
            return self
        return replace(self, split_cost=spread_rows(self.table.num_rows, parts, batch_size))

    def marks(self) -> dict[str, Any]:
        """Return the number of rows and a digest of them."""
        return {"rows": self.table.num_rows, "digest": [digest(b.serialize().to_pybytes()) for b in self._batches()]}

    def _batches(self) -> Iterator[Any]:
        yield from self.table.select(list(self.fields.sources)).to_batches(max_chunksize=CHUNK_ROWS)

    def open(self, pieces: tuple[Piece, ...], bad: BadRows) -> Source:
        """Start evaluating ranges."""
        return ColumnarSource(self.fields, self._parts(pieces), bad, self.labels)

    @property
    def source_names(self) -> tuple[str, ...]:
        """Names of the table's columns."""
        return tuple(self.table.schema.names)

    @property
    def origin(self) -> str:
        """What messages call it."""
        return "the frame"

    def cells(self, split: Split, names: Sequence[str]) -> Any:
        """Return columns of the rows of a Split."""
        wanted = self.table.select(list(names))
        return pa.concat_tables([wanted.slice(piece.begin, piece.end - piece.begin) for piece in split.pieces])

    def _parts(self, pieces: tuple[Piece, ...]) -> Iterator[ColumnarPart]:
        wanted = self.table.select(list(self.fields.sources))
        for piece in pieces:
            row = piece.begin
            for batch in wanted.slice(row, piece.end - row).to_batches(max_chunksize=CHUNK_ROWS):
                yield ColumnarPart("memory", row, batch)
                row += batch.num_rows


def _as_table(data: Any) -> Any:
    if isinstance(data, pa.Table):
        check_distinct(data.column_names, "the frame")
        return data
    is_pandas = hasattr(data, "iloc") and hasattr(data, "columns")
    if not is_pandas and (hasattr(data, "iloc") or not hasattr(data, "__arrow_c_stream__")):
        raise DataError(f"the frame is a {type(data).__name__}: expected one of pandas, polars or Arrow")
    try:
        if not is_pandas:
            return without_views(pa.table(data))
        check_distinct([str(name) for name in data.columns], "the frame")
        return pa.Table.from_pandas(data, preserve_index=False)
    except (pa.ArrowException, ValueError, TypeError) as error:
        raise DataError(f"the frame cannot be used: {error}") from error


def frame(data: Any, fields: Schema | None = None, *, label: str = "", **options: Any) -> Table:
    """Make a dataset of a pandas or polars data frame or an Arrow table.

    Parameters
    ----------
    data
        ``pandas.DataFrame``, ``pyarrow.Table``, or what else gives its rows as Arrow does (polars).
    fields, label
        As for :func:`~heterps.data.columnar.parquet_files.parquet`.
    **options
        Fields of :class:`~heterps.data.core.dataset.Dataset`.
    """
    table = _as_table(data)
    options = {"guessed": fields is None, "label": label} | options
    choices = Choices.take(options)
    if fields is None:
        study = study_table(table, choices)
        fields, options = study.schema, {"study": study} | options
    missing = [name for name in fields.sources if name not in table.schema.names]
    if missing:
        raise DataError(f"the frame has no column {missing[0]!r}; it has {', '.join(table.schema.names)}")
    return Table(table=table.combine_chunks(), fields=fields, **options)
