"""Rows as an application has them: a dict, a list of dicts, a frame, lines of JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from heterps.data.columnar.tables_in_memory import Table
from heterps.data.columnar.views import without_views
from heterps.data.core.schema import Schema, check_distinct
from heterps.errors import DataError

__all__ = ["raw_rows"]

_WHAT = "give a Dataset, a path, a dict, a list of dicts, a pandas, polars or Arrow frame, or lines of JSON"


def raw_rows(rows: Any, fields: Schema) -> Table:
    """Make a dataset of rows whose source columns are found by name.

    Parameters
    ----------
    rows
        One row as a dict, several as a list of them (a key that a row lacks is missing in it), columns as a dict of
        sequences, a pandas, polars or Arrow frame, or JSON text with an object on each line.
    fields
        What the rows will be made into: tells a row whose cells are lists from columns.
    """
    table = _table(rows, fields)
    check_distinct(table.column_names, "the rows")
    return Table(table=table.combine_chunks(), guessed=True)


def _table(rows: Any, fields: Schema) -> pa.Table:
    if isinstance(rows, pa.Table):
        return rows
    if isinstance(rows, pa.RecordBatch):
        return pa.Table.from_batches([rows])
    if isinstance(rows, str | bytes):
        return _of_dicts(_parsed(rows))
    if isinstance(rows, Mapping):
        return _of_dicts([rows]) if _is_row(rows, fields) else _of_columns(rows)
    if hasattr(rows, "iloc") and hasattr(rows, "columns"):
        return _of_columns({str(name): rows.iloc[:, i] for i, name in enumerate(rows.columns)})
    if hasattr(rows, "__arrow_c_stream__"):
        return without_views(pa.table(rows))
    if isinstance(rows, Iterable) and not isinstance(rows, np.ndarray):
        return _of_dicts(rows)
    raise DataError(f"rows are of type {type(rows).__name__}; {_WHAT}")


def _parsed(text: str | bytes) -> Iterator[Any]:
    lines: list[Any] = list(text.splitlines())
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                yield json.loads(line)
            except (ValueError, RecursionError) as error:
                raise DataError(f"line {number} of the rows is not JSON: {error}") from error


def _is_row(rows: Mapping[str, Any], fields: Schema) -> bool:
    """Tell one row from columns: cells of a row are no sequences, but for those that are made into lists."""
    lists = {
        source for column in fields if column.kind == "ragged" for recipe in column.of for source in recipe.sources
    }
    shapes = {name: _is_sequence(value) for name, value in rows.items() if name not in lists}
    if len(set(shapes.values())) > 1:
        one, many = (next(name for name, is_many in shapes.items() if is_many is wanted) for wanted in (False, True))
        raise DataError(f"the dict is neither a row nor columns: {one!r} is one value, {many!r} several")
    return not any(shapes.values())


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence | np.ndarray | pa.Array | pa.ChunkedArray) and not isinstance(value, str | bytes)


def _of_dicts(rows: Iterable[Any]) -> pa.Table:
    found = list(rows)
    for number, row in enumerate(found, start=1):
        if not isinstance(row, Mapping):
            raise DataError(f"row {number} is of type {type(row).__name__}, expected a dict; {_WHAT}")
    if not found:
        raise DataError("there are no rows")
    names = dict.fromkeys(str(name) for row in found for name in row)
    return pa.table({name: _array(name, [row.get(name) for row in found]) for name in names})


def _of_columns(columns: Mapping[str, Any]) -> pa.Table:
    arrays = {str(name): _array(str(name), values) for name, values in columns.items()}
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        raise DataError(f"all columns need the same number of rows, got {lengths}")
    return pa.table(arrays)


def _array(name: str, values: Any) -> Any:
    """Return a column; one that holds values of several types is text."""
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    try:
        return pa.array(values, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, OverflowError):
        pass
    try:
        return pa.array([None if _is_missing(value) else str(value) for value in values], pa.string())
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise DataError(f"column {name!r} of the rows cannot be used: {error}") from error


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and value != value)
