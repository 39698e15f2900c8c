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
import pyarrow.parquet as pq

from heterps.tables.snapshots.thrift import Data, decode

__all__ = ["row_groups"]

Columns = dict[str, npt.NDArray[Any]]

# Field numbers of Parquet's PageHeader and the DataPageHeader in it, and two values of their enumerations.
_KIND, _SIZE, _DATA, _COUNT, _ENCODING = 1, 3, 5, 1, 2
_DATA_PAGE, _PLAIN = 0, 0
# Types whose plain form is the one they have in memory (on machines of today, which are little-endian).
_AS_IN_MEMORY = (pa.uint64(), pa.uint32(), pa.float32())


def row_groups(data: Data, columns: list[str] | None = None) -> Iterator[Columns]:
    """Yield the columns of a file's row groups (at least one, perhaps empty); lists of one length are 2-D."""
    reader = pq.ParquetFile(pa.BufferReader(data))
    schema = reader.schema_arrow
    names = schema.names if columns is None else columns
    for k in range(reader.num_row_groups):
        chunks = _chunks(reader.metadata.row_group(k))
        found = {name: _in_place(data, schema.field(name), chunks[name]) for name in names}
        rest = [name for name, array in found.items() if array is None]
        if rest:
            found |= _decoded(reader.read_row_group(k, columns=rest, use_threads=False))
        yield {name: array for name, array in found.items() if array is not None}
    if reader.num_row_groups == 0:
        yield _decoded(reader.read(columns=names))


def _chunks(group: Any) -> dict[str, Any]:
    """Return the column chunks of a row group by the name of the top-level column."""
    chunks = [group.column(c) for c in range(group.num_columns)]
    return {chunk.path_in_schema.split(".list.")[0]: chunk for chunk in chunks}


def _in_place(data: Data, field: Any, chunk: Any) -> npt.NDArray[Any] | None:
    """Return the values of a column chunk, or None if they do not stand there as they are."""
    lists = pa.types.is_fixed_size_list(field.type)
    element = field.type.value_field if lists else field
    if field.nullable or element.nullable or element.type not in _AS_IN_MEMORY:
        return None
    if chunk.compression != "UNCOMPRESSED" or chunk.has_dictionary_page:
        return None
    pages = _pages(data, chunk, np.dtype(element.type.to_pandas_dtype()))
    if not pages:
        return None
    array = pages[0] if len(pages) == 1 else np.concatenate(pages)
    return array.reshape(-1, field.type.list_size) if lists else array


def _pages(data: Data, chunk: Any, dtype: np.dtype[Any]) -> list[npt.NDArray[Any]]:
    """Return the values of each page of a chunk, or nothing if a page is of another form."""
    at, end = chunk.data_page_offset, chunk.data_page_offset + chunk.total_compressed_size
    pages: list[npt.NDArray[Any]] = []
    while at < end:
        header, at = decode(data, at)
        at += header[_SIZE]
        page = header.get(_DATA)
        if header[_KIND] != _DATA_PAGE or page is None or page[_ENCODING] != _PLAIN:
            return []
        pages.append(np.frombuffer(data, dtype, page[_COUNT], at - page[_COUNT] * dtype.itemsize))
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
