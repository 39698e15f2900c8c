"""Plain Parquet at the speed of the disk: the values of a column go to the file as they stand in memory.

Arrow encodes lists value by value. Here every list of a column has the same length and nothing is null, so the levels
that Parquet keeps beside the values depend on the number of rows alone. Files are uncompressed, with one page for a
column of a row group; :mod:`~heterps.tables.snapshots.pages` reads them without decoding, other readers as any Parquet
file.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from functools import lru_cache
from itertools import starmap
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from heterps.later import later
from heterps.thrift import I64, decode, encode, varint
from heterps.version import __version__

__all__ = ["PlainWriter", "schema_of"]

pq = later("pyarrow.parquet")

Columns = Mapping[str, npt.NDArray[Any]]

_MAGIC = b"PAR1"
# Values of Parquet's enumerations.
_PHYSICAL = {np.dtype(np.uint32): 1, np.dtype(np.uint64): 2, np.dtype(np.float32): 4}
_DATA_PAGE, _PLAIN, _RLE, _UNCOMPRESSED = 0, 0, 3, 0


class Sink(Protocol):
    """Where bytes go."""

    def write(self, data: Any, /) -> int:
        """Take all of ``data``."""


def schema_of(columns: Columns) -> pa.Schema:
    """Return the schema of columns; two-dimensional ones are lists of one length."""
    return pa.schema([pa.field(name, _type(array), nullable=False) for name, array in columns.items()])


def _type(array: npt.NDArray[Any]) -> pa.DataType:
    element = pa.from_numpy_dtype(array.dtype)
    return element if array.ndim == 1 else pa.list_(pa.field("element", element, nullable=False), array.shape[1])


class PlainWriter:
    """A Parquet file being written, row group by row group.

    Parameters
    ----------
    columns
        Columns like those to come, for their types: uint64, uint32 or float32.
    statistics
        Names of one-dimensional columns whose least and greatest value readers may skip row groups by.
    """

    def __init__(self, sink: Sink, columns: Columns, *, statistics: tuple[str, ...] = ()) -> None:
        self._sink, self._statistics = sink, statistics
        self._footer = _empty_footer(schema_of(columns))
        self._groups: list[dict[int, Any]] = []
        self.rows = 0
        self._at = sink.write(_MAGIC)

    def write(self, columns: Columns) -> None:
        """Write one row group."""
        start, rows = self._at, len(next(iter(columns.values())))
        chunks = list(starmap(self._write_column, columns.items()))
        size = I64(self._at - start)
        self._groups.append({1: chunks, 2: size, 3: I64(rows), 5: I64(start), 6: size})
        self.rows += rows

    def _write_column(self, name: str, array: npt.NDArray[Any]) -> dict[int, Any]:
        """Write a column as one page; return the ColumnChunk for the footer."""
        start, lists = self._at, array.ndim == 2
        levels = _levels(*array.shape) if lists else b""
        self._at += self._sink.write(_page_header(array, len(levels)) + levels)
        self._at += self._sink.write(np.ascontiguousarray(array).reshape(-1))
        size = I64(self._at - start)
        path = [name.encode(), b"list", b"element"] if lists else [name.encode()]
        about = {1: _PHYSICAL[array.dtype], 2: [_RLE, _PLAIN], 3: path, 4: _UNCOMPRESSED, 5: I64(array.size)}
        about |= {6: size, 7: size, 9: I64(start)}
        if name in self._statistics:
            about[12] = {3: I64(0), 5: array.max().tobytes(), 6: array.min().tobytes(), 7: True, 8: True}
        return {2: I64(0), 3: about}

    def close(self) -> None:
        """Write the footer."""
        footer = encode(self._footer | {3: I64(self.rows), 4: self._groups})
        self._sink.write(footer + len(footer).to_bytes(4, "little") + _MAGIC)


def _empty_footer(schema: pa.Schema) -> dict[int, Any]:
    """Return the footer Arrow gives a file without rows: how it writes a schema, so that it will read the same one."""
    sink = io.BytesIO()
    pq.ParquetWriter(sink, schema, compression="none", use_dictionary=False).close()
    data = sink.getvalue()
    footer, _ = decode(data, len(data) - 8 - int.from_bytes(data[-8:-4], "little"))
    return footer | {6: f"heterps version {__version__}".encode()}


def _page_header(array: npt.NDArray[Any], levels: int) -> bytes:
    size = levels + array.nbytes
    return encode({1: _DATA_PAGE, 2: size, 3: size, 5: {1: array.size, 2: _PLAIN, 3: _RLE, 4: _RLE}})


@lru_cache(maxsize=32)
def _levels(rows: int, width: int) -> bytes:
    """Return the levels of ``rows`` lists of ``width`` values: repetition is 0 where a list begins, definition is 1.

    They are runs of one-bit levels, with the length of the run before it: a bit-packed one, and one of equal levels.
    """
    repetition = np.ones((rows, width), np.uint8)
    repetition[:, 0] = 0
    packed = np.packbits(repetition, bitorder="little").tobytes()
    runs = varint(len(packed) << 1 | 1) + packed, varint(rows * width << 1) + b"\1"
    return b"".join(len(run).to_bytes(4, "little") + run for run in runs)
