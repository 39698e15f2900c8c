"""The child side of :mod:`heterps.data.sources.generator`: run one shard, write its rows as an Arrow stream to stdout.

Run as a script and free of imports from this package: the child starts in a fraction of a second.
"""

from __future__ import annotations

import importlib
import itertools
import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

__all__ = ["main"]

CHUNK = 1024
RESERVED_ID = 2**64 - 1

Function = Callable[[int], Iterable[Mapping[str, Any]]]


def main() -> None:
    """Read a request from stdin (written by the parent that started this process), run it."""
    out = os.fdopen(os.dup(1), "wb")
    # What the generator prints must not mix with the rows.
    os.dup2(2, 1)
    request = json.loads(sys.stdin.buffer.readline())
    sys.path[:] = request["path"]
    columns = request["schema"]
    function = _function(request["function"], sys.stdin.buffer.read())
    schema = pa.schema([(column["name"], _type(column)) for column in columns])
    with pa.ipc.new_stream(out, schema) as writer:
        rows = iter(function(request["shard"]))
        while chunk := list(itertools.islice(rows, CHUNK)):
            arrays = [_array(column, [_value(column, row) for row in chunk]) for column in columns]
            writer.write_batch(pa.record_batch(arrays, schema=schema))
            out.flush()
    out.flush()


def _function(name: str, body: bytes) -> Function:
    if not name:
        import cloudpickle

        loaded: Function = cloudpickle.loads(body)
        return loaded
    module, _, attribute = name.partition(":")
    found: Function = getattr(importlib.import_module(module), attribute)
    return found


def _type(column: Mapping[str, Any]) -> Any:
    element = pa.uint64() if column["kind"] in ("sparse", "ragged") else pa.float32()
    if column["kind"] == "ragged":
        return pa.list_(element)
    return pa.list_(element, int(np.prod(column["shape"]))) if column["shape"] else element


def _value(column: Mapping[str, Any], row: Mapping[str, Any]) -> Any:
    if column["name"] not in row:
        raise ValueError(f"a row has no column {column['name']!r}; it has {', '.join(map(str, row))}")
    return row[column["name"]]


def _array(column: Mapping[str, Any], values: list[Any]) -> Any:
    if column["kind"] == "ragged":
        lists = [_ids(column["name"], list(value)) for value in values]
        offsets = np.concatenate([[0], np.cumsum([len(item) for item in lists])])
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(np.concatenate(lists), pa.uint64()))
    shape = tuple(column["shape"])
    stacked = _ids(column["name"], values) if column["kind"] == "sparse" else np.asarray(values, np.float32)
    if stacked.shape != (len(values), *shape):
        raise ValueError(f"column {column['name']!r}: rows of shape {stacked.shape[1:]} do not fit {shape}")
    flat = pa.array(stacked.reshape(-1))
    return pa.FixedSizeListArray.from_arrays(flat, int(np.prod(shape))) if shape else flat


def _ids(name: str, values: list[Any]) -> np.ndarray[Any, Any]:
    """Check before any cast; objects, because NumPy makes floats of integers on both sides of 2**63."""
    found = np.array(values, object)
    for value in found.flat:
        if not isinstance(value, (int, np.integer)) or not 0 <= value < RESERVED_ID:
            raise ValueError(f"column {name!r} holds {value!r}: ids are integers 0 .. 2**64 - 2")
    return found.astype(np.uint64)


if __name__ == "__main__":
    main()
