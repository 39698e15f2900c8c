"""Reads a Parquet file as a whole, in the thread that asks.

Arrow's own threads let go of what they have read when they get to it, perhaps when the interpreter is ending. One that
holds a Python object then (an open file, bytes) asks for an interpreter that is no more, and the process aborts with
all its work done. So nothing here is read by ``pyarrow.parquet.read_table``, which gives its sources to threads.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from heterps.later import later

__all__ = ["read_parquet"]

pq = later("pyarrow.parquet")


def read_parquet(source: Path | Any) -> Any:
    """Return the table of a path, an open file or an Arrow reader."""
    with pq.ParquetFile(source) as file:
        return file.read(use_threads=False)
