"""What a Parquet file says of its parts, checked against the bytes that are there before anybody believes it.

Arrow's own view of a footer ends the process for some that are damaged, so this comes first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from heterps.tables.snapshots.thrift import Data, decode

__all__ = ["ColumnChunk", "GroupOfRows", "read_footer"]

_MAGIC = b"PAR1"
# Field numbers of Parquet's FileMetaData, SchemaElement, RowGroup, ColumnChunk and ColumnMetaData.
_SCHEMA, _ROWS, _GROUPS = 2, 3, 4
_CHILDREN = 5
_COLUMNS, _GROUP_ROWS = 1, 3
_ELSEWHERE, _META, _OF_META = 1, 3, (8, 9)
_PATH, _CODEC, _VALUES, _SIZE, _DATA_AT, _DICTIONARY_AT = 3, 4, 5, 7, 9, 11


@dataclass(frozen=True)
class ColumnChunk:
    """A column of a row group: its top-level name, number of values, where its pages lie."""

    name: str
    values: int
    begin: int
    size: int
    has_dictionary: bool


@dataclass(frozen=True)
class GroupOfRows:
    """A row group and its column chunks by name."""

    rows: int
    chunks: dict[str, ColumnChunk]


def read_footer(data: Data) -> tuple[GroupOfRows, ...]:
    """Return the row groups of a file, none of which claims what the file cannot hold."""
    footer = _footer(data)
    leaves = sum(1 for element in footer[_SCHEMA] if not element.get(_CHILDREN))
    groups = tuple(_group(group, leaves, len(data)) for group in footer[_GROUPS])
    if sum(group.rows for group in groups) != footer[_ROWS]:
        raise pa.ArrowInvalid(f"it says that it has {footer[_ROWS]} rows, its row groups have others")
    if sum(chunk.values for group in groups for chunk in group.chunks.values()) > len(data):
        raise pa.ArrowInvalid(f"it claims more values than its {len(data)} bytes can hold")
    return groups


def _footer(data: Data) -> dict[int, Any]:
    if len(data) < 12 or data[:4] != _MAGIC or data[-4:] != _MAGIC:
        raise pa.ArrowInvalid("it is no Parquet file")
    size = int.from_bytes(data[-8:-4], "little")
    begin = len(data) - 8 - size
    if begin < 4:
        raise pa.ArrowInvalid(f"its footer is said to have {size} bytes of {len(data)}")
    fields, end = decode(data[:-8], begin)
    if end != len(data) - 8:
        raise pa.ArrowInvalid("its footer ends too early")
    return fields


def _group(group: dict[int, Any], leaves: int, size: int) -> GroupOfRows:
    columns = [_chunk(column, size) for column in group[_COLUMNS]]
    chunks = {chunk.name: chunk for chunk in columns}
    if len(columns) != leaves or len(chunks) != leaves:
        raise pa.ArrowInvalid(f"a row group has {len(columns)} columns, the schema {leaves}")
    return GroupOfRows(_count(group[_GROUP_ROWS], size), chunks)


def _chunk(column: dict[int, Any], size: int) -> ColumnChunk:
    if _ELSEWHERE in column or any(key in column for key in _OF_META):
        raise pa.ArrowInvalid("a column lies in another file or is encrypted, which no snapshot's does")
    meta = column[_META]
    if meta[_CODEC] != 0:
        raise pa.ArrowInvalid("it is compressed, which no snapshot is")
    path = b".".join(meta[_PATH]).decode()
    begin, length = _count(meta[_DATA_AT], size), _count(meta[_SIZE], size)
    if begin + length > size:
        raise pa.ArrowInvalid(f"column {path} is said to lie at bytes {begin} to {begin + length} of {size}")
    values, dictionary = _count(meta[_VALUES], size), _DICTIONARY_AT in meta
    return ColumnChunk(path.split(".list.")[0], values, begin, length, dictionary)


def _count(value: Any, most: int) -> int:
    """Return a number of rows, values or bytes; there are at most as many as the file has bytes."""
    if not isinstance(value, int) or not 0 <= value <= most:
        raise pa.ArrowInvalid(f"it claims {value} of something, in {most} bytes")
    return int(value)
