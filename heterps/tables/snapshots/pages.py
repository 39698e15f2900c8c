"""Columns of our own Parquet files where they stand in the file: no decoding, no copy.

Snapshots are written uncompressed and plain, so the values of a page are its last bytes as they are in memory. Arrow
decodes lists value by value, at a tenth of the speed of a disk. Whatever is not of that form is left to Arrow.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from heterps.later import later
from heterps.tables.snapshots.footer import ColumnChunk, read_footer
from heterps.thrift import Data, decode

__all__ = ["row_groups"]

pq = later("pyarrow.parquet")

Columns = dict[str, npt.NDArray[Any]]

# Field numbers of Parquet's PageHeader and the DataPageHeader in it, and two values of their enumerations.
_KIND, _SIZE, _DATA, _COUNT, _ENCODING = 1, 3, 5, 1, 2
_DATA_PAGE, _PLAIN = 0, 0
# Types whose plain form is the one they have in memory (on machines of today, which are little-endian).
_AS_IN_MEMORY = (pa.uint64(), pa.uint32(), pa.float32())


def row_groups(data: Data, columns: list[str] | None = None, rows: int | None = None) -> Iterator[Columns]:
    """Yield the columns of a file's row groups (at least one, perhaps empty); lists of one length are 2-D.

    Nothing the file says of itself is believed beyond the bytes that are there: what it yields is at most a few times
    its size. A number of ``rows`` that was expected is compared with the file's.
    """
    groups = read_footer(data)
    total = sum(group.rows for group in groups)
    if rows not in (None, total):
        raise pa.ArrowInvalid(f"it has {total} rows, {rows} were written")
    reader = pq.ParquetFile(pa.BufferReader(data))
    schema = reader.schema_arrow
    names = schema.names if columns is None else columns
    for k, group in enumerate(groups):
        found = {name: _in_place(data, schema.field(name), group.chunks[name]) for name in names}
        _check_rows(found, group.rows)
        rest = [name for name, array in found.items() if array is None]
        if rest:
            found |= _decoded(reader.read_row_group(k, columns=rest, use_threads=False))
        yield {name: array for name, array in found.items() if array is not None}
    if not groups:
        yield _decoded(reader.read(columns=names, use_threads=False))


def _check_rows(found: dict[str, npt.NDArray[Any] | None], rows: int) -> None:
    for name, array in found.items():
        if array is not None and len(array) != rows:
            raise pa.ArrowInvalid(f"column {name!r} has {len(array)} values for {rows} rows")


def _in_place(data: Data, field: Any, chunk: ColumnChunk) -> npt.NDArray[Any] | None:
    """Return the values of a column chunk, or None if they do not stand there as they are."""
    lists = pa.types.is_fixed_size_list(field.type)
    element = field.type.value_field if lists else field
    if field.nullable or element.nullable or element.type not in _AS_IN_MEMORY:
        return None
    if chunk.has_dictionary:
        return None
    pages = _pages(data, chunk, np.dtype(element.type.to_pandas_dtype()))
    if not pages:
        return None
    array = pages[0] if len(pages) == 1 else np.concatenate(pages)
    return array.reshape(-1, field.type.list_size) if lists else array


def _pages(data: Data, chunk: ColumnChunk, dtype: np.dtype[Any]) -> list[npt.NDArray[Any]]:
    """Return the values of each page of a chunk, or nothing if a page is of another form."""
    at, end = chunk.begin, chunk.begin + chunk.size
    pages: list[npt.NDArray[Any]] = []
    while at < end:
        header, start = decode(data, at)
        page = header.get(_DATA)
        if header[_KIND] != _DATA_PAGE or page is None or page[_ENCODING] != _PLAIN:
            return []
        count, at = page[_COUNT], start + header[_SIZE]
        if not start <= at <= end or not 0 <= count * dtype.itemsize <= at - start:
            raise pa.ArrowInvalid(f"a page at byte {start} claims {header[_SIZE]} bytes with {count} values")
        pages.append(np.frombuffer(data, dtype, count, at - count * dtype.itemsize))
    return pages


def _decoded(table: pa.Table) -> Columns:
    return {name: _to_numpy(table.column(name)) for name in table.column_names}


def _to_numpy(column: pa.ChunkedArray) -> npt.NDArray[Any]:
    array = column.combine_chunks()
    array = array.chunk(0) if isinstance(array, pa.ChunkedArray) else array
    if pa.types.is_fixed_size_list(array.type):
        width = array.type.list_size
        return np.asarray(array.flatten().to_numpy(zero_copy_only=False)).reshape(-1, width)
    return np.asarray(array.to_numpy(zero_copy_only=False))
