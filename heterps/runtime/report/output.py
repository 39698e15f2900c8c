"""Fetched tensors as a Parquet file, row groups in the order of the data."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from heterps.errors import DataError
from heterps.ragged import Ragged
from heterps.writing import whole_file

__all__ = ["write_parquet"]


def write_parquet(path: str | os.PathLike[str], parts: Iterable[Mapping[str, Any]]) -> Path:
    """Write parts one after another; the file appears under its name when it is whole.

    A number a row becomes a column of its type, a vector a fixed-size list, ids of any number a list.
    """
    with whole_file(path, "wb") as file:
        writer = None
        for part in parts:
            table = pa.table({name: _array(values) for name, values in part.items()})
            writer = writer or pq.ParquetWriter(file, table.schema)
            writer.write_table(table)
        if writer is None:
            raise DataError(f"nothing to write to {path}: the dataset has no rows")
        writer.close()
    return Path(path)


def _array(values: Any) -> pa.Array:
    if isinstance(values, Ragged):
        return pa.LargeListArray.from_arrays(pa.array(values.offsets), pa.array(values.values))
    flat = pa.array(np.ascontiguousarray(values).reshape(-1))
    for width in reversed(values.shape[1:]):
        flat = pa.FixedSizeListArray.from_arrays(flat, width)
    return flat
