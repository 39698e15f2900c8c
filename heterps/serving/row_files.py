"""Rows of one file, looked up by id where they lie on disk: ids ascend, so a search needs no index of its own.

Arrow files are mapped: nothing is read before it is asked for, and all processes share what was. Parquet files, which
are for other programs, are read into memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from heterps.errors import CheckpointError
from heterps.parquet import read_parquet
from heterps.serving.manifest import Encoding, FileFormat
from heterps.tables.snapshots.disk import guarded, read_checked
from heterps.tables.snapshots.manifest import StoredFile

__all__ = ["RowFile", "Values", "columns_of", "dtypes_of", "open_rows", "scale_of"]

U64 = npt.NDArray[np.uint64]
Values = npt.NDArray[np.float32]
_NUMBERS = {"float32": np.float32, "float16": np.float16, "int8": np.int8}


def scale_of(table: str) -> str:
    """Return the name of the column with what a row's int8 numbers are multiplied by."""
    return f"{table}.scale"


def dtypes_of(tables: Mapping[str, int], encoding: Encoding) -> dict[str, tuple[Any, int | None]]:
    """Return dtype and list length (None for single numbers) of each column of a file with rows."""
    wanted: dict[str, tuple[Any, int | None]] = {"id": (np.uint64, None)}
    for table, dim in tables.items():
        wanted[table] = (_NUMBERS[encoding], dim)
        if encoding == "int8":
            wanted[scale_of(table)] = (np.float32, None)
    return wanted


class RowFile(NamedTuple):
    """Ids in ascending order, and of each table its rows, with a factor for each where they are int8."""

    ids: U64
    tables: Mapping[str, npt.NDArray[Any]]
    scales: Mapping[str, Values]

    def find(self, ids: U64) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.bool_]]:
        """Return for each id where its row is, and whether there is one."""
        if not len(self.ids):
            return np.zeros(len(ids), np.intp), np.zeros(len(ids), np.bool_)
        at = np.searchsorted(self.ids, ids)
        np.minimum(at, len(self.ids) - 1, out=at)
        return at, self.ids[at] == ids

    def take(self, table: str, at: npt.NDArray[np.intp]) -> Values:
        """Return rows of a table as float32."""
        rows: Values = self.tables[table][at].astype(np.float32, copy=False)
        scales = self.scales.get(table)
        return rows if scales is None else rows * scales[at][:, None]


def open_rows(
    folder: Path, file: StoredFile, tables: Mapping[str, int], encoding: Encoding, format_: FileFormat
) -> RowFile:
    """Open a file with rows of a group; ``tables`` are the numbers of a row by table. One without tables holds ids."""
    wanted = dtypes_of(tables, encoding)
    columns = columns_of(folder, file, wanted, format_)
    scales = {table: columns[scale_of(table)] for table in tables if scale_of(table) in columns}
    return RowFile(columns["id"], {table: columns[table] for table in tables}, scales)


def columns_of(
    folder: Path, file: StoredFile, wanted: Mapping[str, tuple[Any, int | None]], format_: FileFormat
) -> dict[str, npt.NDArray[Any]]:
    """Return the columns of a file as arrays, after checking that it has just these, as many rows, and no nulls."""
    path = folder / file.name
    with guarded(path):
        table = _mapped(path, file) if format_ == "arrow" else _read(path, file)
        table.validate()
        if table.num_rows != file.rows:
            raise CheckpointError(f"{path} is damaged: it has {table.num_rows} rows, {file.rows} were written")
        _check_names(path, table.schema.names, wanted)
        return {name: _array(path, table, name, *form) for name, form in wanted.items()}


def _mapped(path: Path, file: StoredFile) -> Any:
    """Return the only record batch of an Arrow file, without reading it."""
    if path.is_symlink() or not path.is_file():
        raise CheckpointError(f"cannot read {path}: it is no regular file")
    if (found := path.stat().st_size) != file.size:
        raise CheckpointError(f"{path} is damaged: it has {found} bytes, {file.size} were written")
    reader = pa.ipc.open_file(pa.memory_map(str(path)))
    if reader.num_record_batches != 1:
        raise CheckpointError(f"{path} is damaged: it has {reader.num_record_batches} record batches, not one")
    return reader.get_batch(0)


def _read(path: Path, file: StoredFile) -> Any:
    table = read_parquet(pa.BufferReader(read_checked(path, file.sha256, file.size)))
    batches = table.combine_chunks().to_batches()
    return (
        batches[0]
        if batches
        else pa.RecordBatch.from_arrays([pa.array([], field.type) for field in table.schema], schema=table.schema)
    )


def _check_names(path: Path, names: Iterable[str], wanted: Iterable[str]) -> None:
    if sorted(names) != sorted(wanted):
        raise CheckpointError(f"{path} has the columns {sorted(names)}, not {sorted(wanted)}")


def _array(path: Path, table: Any, name: str, dtype: Any, length: int | None) -> npt.NDArray[Any]:
    """Return a column where it lies; a list column is two-dimensional."""
    column = table.column(name)
    element = column.type.value_type if pa.types.is_fixed_size_list(column.type) else column.type
    size = column.type.list_size if pa.types.is_fixed_size_list(column.type) else None
    if element != pa.from_numpy_dtype(dtype) or size != length or column.null_count:
        raise CheckpointError(f"{path}: column {name!r} is {column.type}, not {np.dtype(dtype)} x {length or 1}")
    flat = column if length is None else column.flatten()
    if flat.null_count or len(flat) != len(column) * (length or 1):
        raise CheckpointError(f"{path} is damaged: column {name!r} has {len(flat)} numbers in {len(column)} rows")
    if not len(flat):
        array = np.empty(0, dtype)
    else:
        array = np.frombuffer(flat.buffers()[1], dtype)[flat.offset : flat.offset + len(flat)]
    return array if length is None else array.reshape(-1, length)
