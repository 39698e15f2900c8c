"""Bodies of requests and answers: JSON, lines of JSON, Arrow streams. Nothing in a body is believed."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from heterps.errors import DataError
from heterps.serving.needs import PREDICTION

__all__ = ["ARROW", "JSON", "LINES", "Asked", "answer_arrow", "answer_json", "asked"]

JSON, LINES, ARROW = "application/json", "application/x-ndjson", "application/vnd.apache.arrow.stream"
# Field numbers of Arrow's flatbuffers: the header of a Message and its type; compression in a RecordBatch.
_HEADER_TYPE, _HEADER, _COMPRESSION, _DICTIONARY_DATA = 1, 2, 3, 1
_DICTIONARY_BATCH, _RECORD_BATCH = 2, 3


class Asked(NamedTuple):
    """What a request wants: rows, how many, and names of tensors."""

    rows: Any
    size: int
    fetch: tuple[str, ...]


def asked(body: bytes, kind: str, fetch: tuple[str, ...], most_rows: int) -> Asked:
    """Read the body of a request.

    Parameters
    ----------
    body, kind
        Bytes, and their media type.
    fetch
        Tensors named in the address; a JSON body may name them too.
    most_rows
        More are refused.
    """
    if kind == ARROW:
        rows, count = _table(body)
    else:
        value: Any = _lines(body) if kind == LINES else _parsed(body)
        rows, named = (value["rows"], value.get("fetch")) if _is_envelope(value) else (value, None)
        fetch = _names(named) if named is not None else fetch
        rows = [rows] if isinstance(rows, dict) else rows
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise DataError('rows are objects: {"rows": [{...}, ...]}, a list of objects, or one object')
        count = len(rows)
    if not count:
        raise DataError("there are no rows")
    if count > most_rows:
        raise DataError(f"{count} rows in one request; this server takes {most_rows}")
    return Asked(rows, count, fetch or (PREDICTION,))


def _is_envelope(value: Any) -> bool:
    return isinstance(value, dict) and "rows" in value and value.keys() <= {"rows", "fetch"}


def _names(value: Any) -> tuple[str, ...]:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise DataError("fetch is a name or a list of names")
    return tuple(names)


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise DataError(f"the body is not JSON: {error}") from error


def _lines(body: bytes) -> list[Any]:
    return [_parsed(line) for line in body.splitlines() if line.strip()]


def _table(body: bytes) -> tuple[Any, int]:
    """Return an Arrow stream as a table; compressed ones could become any size, and are refused."""
    try:
        source = pa.BufferReader(body)
        while source.tell() < len(body):
            message = pa.ipc.read_message(source)
            if _is_compressed(bytes(message.metadata)):
                raise DataError("the Arrow stream is compressed; send it uncompressed, and let the connection compress")
    except EOFError:
        pass
    except (pa.ArrowException, struct.error, ValueError, OSError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"the body is no Arrow stream: {error}") from error
    try:
        table = pa.ipc.open_stream(body).read_all()
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise DataError(f"the body is no Arrow stream: {error}") from error
    return table, table.num_rows


def _is_compressed(data: bytes) -> bool:
    """Tell from the flatbuffer of a message whether its buffers are compressed."""
    root = struct.unpack_from("<I", data)[0]
    kind_at, header_at = _field(data, root, _HEADER_TYPE), _field(data, root, _HEADER)
    kind = data[kind_at] if kind_at else 0
    if not header_at or kind not in (_DICTIONARY_BATCH, _RECORD_BATCH):
        return False
    table = _follow(data, header_at)
    if kind == _DICTIONARY_BATCH:
        at = _field(data, table, _DICTIONARY_DATA)
        if not at:
            return False
        table = _follow(data, at)
    return bool(_field(data, table, _COMPRESSION))


def _field(data: bytes, table: int, number: int) -> int:
    """Return where a field of a flatbuffer's table lies; 0 if it is not there."""
    vtable = table - struct.unpack_from("<i", data, table)[0]
    size = struct.unpack_from("<H", data, vtable)[0]
    at = 4 + 2 * number
    offset = struct.unpack_from("<H", data, vtable + at)[0] if at + 2 <= size else 0
    return table + offset if offset else 0


def _follow(data: bytes, at: int) -> int:
    return at + int(struct.unpack_from("<I", data, at)[0])


def answer_json(values: Mapping[str, npt.NDArray[Any]], version: str) -> bytes:
    """Return tensors as JSON; what is no finite number is null."""
    made = {name: _listed(array) for name, array in values.items()}
    return json.dumps({**made, "version": version}, allow_nan=False).encode()


def _listed(array: npt.NDArray[Any]) -> Any:
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        return np.where(np.isfinite(array), array.astype(object), np.array(None)).tolist()
    return array.tolist()


def answer_arrow(values: Mapping[str, npt.NDArray[Any]], version: str) -> bytes:
    """Return tensors as an Arrow stream: a column each, lists where a row has several numbers."""
    columns = {name: _column(array) for name, array in values.items()}
    table = pa.table(columns).replace_schema_metadata({"version": version})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _column(array: npt.NDArray[Any]) -> Any:
    if array.ndim == 1:
        return pa.array(array)
    flat = np.ascontiguousarray(array).reshape(len(array), -1)
    return pa.FixedSizeListArray.from_arrays(pa.array(flat.reshape(-1)), flat.shape[1])
