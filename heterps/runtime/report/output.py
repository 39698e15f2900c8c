"""Fetched tensors as a Parquet or CSV file, row groups in the order of the data."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from heterps.errors import DataError
from heterps.later import later
from heterps.ragged import Ragged
from heterps.runtime.report.lined_up import Placed
from heterps.writing import ending_of, whole_file

__all__ = ["BAD_ROW", "ENDINGS", "arrow_array", "write_parquet"]

pa_csv = later("pyarrow.csv")
pq = later("pyarrow.parquet")

BAD_ROW = "bad_row"
ENDINGS = (".parquet", ".csv")


def write_parquet(path: str | os.PathLike[str], parts: Iterable[Placed], names: Sequence[str]) -> Path:
    """Write parts one after another, columns in the order of ``names``; the file appears when it is whole.

    A number a row becomes a column of its type, a vector a fixed-size list, ids of any number a list. A row that could
    not be read is null in all of them, and the column ``bad_row`` says why; it is null elsewhere.
    """
    with whole_file(path, "wb") as file:
        writer, schema = None, None
        for part in parts:
            table = _table(part, names, schema)
            schema = table.schema
            writer = writer or _writer(path, file, schema)
            writer.write_table(table)
        if writer is None:
            raise DataError(f"nothing to write to {path}: the dataset has no rows")
        writer.close()
    return Path(path)


def _writer(path: str | os.PathLike[str], file: Any, schema: pa.Schema) -> Any:
    """Return what writes tables: Parquet, or CSV where the file is called so."""
    if ending_of(path) != ".csv":
        return pq.ParquetWriter(file, schema)
    for field in schema:
        if pa.types.is_nested(field.type):
            raise DataError(f"{field.name!r} has several values a row, for which CSV has no room: write .parquet")
    return pa_csv.CSVWriter(file, schema)


def _table(part: Placed, names: Sequence[str], schema: pa.Schema | None) -> pa.Table:
    """Return the rows of a part; one without values is of an earlier part's types."""
    size = len(part.where)
    texts: list[str | None] = [None] * size
    for row, bad in part.reasons.items():
        texts[row] = str(bad)
    columns = _computed(part, schema)
    if part.cells is not None:
        columns |= {name: part.cells[name] for name in part.cells.column_names}
    return pa.table({name: columns[name] for name in names} | {BAD_ROW: pa.array(texts, pa.string())})


def _computed(part: Placed, schema: pa.Schema | None) -> dict[str, Any]:
    if not part.values:
        assert schema is not None
        return {field.name: pa.nulls(len(part.where), field.type) for field in schema}
    columns = {name: arrow_array(values) for name, values in part.values.items()}
    if part.reasons:
        where = pa.array(part.where, mask=part.where < 0)
        columns = {name: array.take(where) for name, array in columns.items()}
    return columns


def arrow_array(values: Any) -> pa.Array:
    """Return rows of numbers as Arrow has them: a vector a row is a fixed-size list, ids of any number a list."""
    if isinstance(values, Ragged):
        return pa.LargeListArray.from_arrays(pa.array(values.offsets), pa.array(values.values))
    flat = pa.array(np.ascontiguousarray(values).reshape(-1))
    for width in reversed(values.shape[1:]):
        flat = pa.FixedSizeListArray.from_arrays(flat, width)
    return flat
