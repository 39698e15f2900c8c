"""Rows from a Python generator that runs in a process of its own.

User code that yields rows would hold the interpreter lock of the process that trains; here it costs that process
only the copying of Arrow buffers from a pipe. It also cannot take the worker down with it: a crash is an error with the
generator's own traceback, silence is an error after ``timeout`` seconds.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pyarrow as pa

from heterps.data.core.bad import BadRows
from heterps.data.core.batch import Column
from heterps.data.core.chunks import ChunkSource
from heterps.data.core.dataset import Dataset, Source
from heterps.data.core.schema import Field, Schema
from heterps.data.core.split import Piece
from heterps.data.core.usable import Located, usable_chunks
from heterps.data.sources.pipe import PipeProgram
from heterps.errors import DataError
from heterps.ragged import Ragged

__all__ = ["Generated", "generator"]

Rows = Iterable[Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Generated(Dataset):
    """Rows that ``function(shard)`` yields, for each shard; use :func:`generator` to make one."""

    function: Callable[[int], Rows] | str = ""
    fields: Schema = field(default_factory=Schema)
    shards: int = 1
    timeout: float = 600.0
    split_cost: int = 1

    @property
    def schema(self) -> Schema:
        """The columns of a batch."""
        return self.fields

    def pieces(self, grain: int) -> tuple[Piece, ...]:
        """Return one piece a shard."""
        return tuple(Piece(self.name, shard, shard + 1, 1) for shard in range(self.shards))

    @property
    def name(self) -> str:
        """What the function is called."""
        if isinstance(self.function, str):
            return self.function
        return str(getattr(self.function, "__qualname__", type(self.function).__qualname__))

    def open(self, pieces: tuple[Piece, ...], bad: BadRows) -> Source:
        """Start the generators, one after another."""
        return ChunkSource(usable_chunks(_chunks(self, pieces), self.fields, self.labels, bad))


def generator(
    function: Callable[[int], Rows] | str, fields: Schema, *, shards: int = 1, timeout: float = 600.0, **options: Any
) -> Generated:
    """Make a dataset of what a Python generator yields.

    Parameters
    ----------
    function
        Called with the shard's number; yields rows as mappings from column name to value (a number, ids, a list).
        A callable, or ``"module:name"``. It must yield the same rows each time it is called.
    fields
        The schema, with shapes: ``dense("x", shape=(3,))``.
    shards
        How many independent parts there are: each can be read by another worker.
    timeout
        Seconds without a row after which the generator is given up.
    **options
        Fields of :class:`~heterps.data.core.dataset.Dataset`.
    """
    return Generated(function=function, fields=fields, shards=shards, timeout=timeout, **options)


def _chunks(data: Generated, pieces: tuple[Piece, ...]) -> Iterator[Located]:
    for piece in pieces:
        for shard in range(piece.begin, piece.end):
            yield from _shard_chunks(data, shard)


def _shard_chunks(data: Generated, shard: int) -> Iterator[Located]:
    # -P: the script's folder must not come before the standard library on the path.
    command = [sys.executable, "-P", str(Path(__file__).with_name("generate.py"))]
    program = PipeProgram(command, f"{data.name}({shard})", data.timeout, subprocess.PIPE)
    try:
        program.feed(io.BytesIO(_request(data, shard)))
        stream = pa.ipc.open_stream(pa.PythonFile(io.BufferedReader(_Raw(program), 1 << 20), mode="r"))
        row = 0
        for batch in stream:
            columns = {column.name: _column(column, batch.column(column.name)) for column in data.fields}
            yield Located(program.what, row, columns)
            row += batch.num_rows
        program.drain()
    except (pa.ArrowException, OSError) as error:
        program.drain()
        raise DataError(f"generator {data.name}({shard}) broke off: {error}") from error
    finally:
        program.close()


def _request(data: Generated, shard: int) -> bytes:
    by_name = data.function if isinstance(data.function, str) else ""
    header = {"function": by_name, "shard": shard, "schema": data.fields.to_json(), "path": sys.path}
    body = b"" if by_name else cloudpickle.dumps(data.function)
    return json.dumps(header).encode() + b"\n" + body


def _column(column: Field, array: Any) -> Column:
    if column.kind == "ragged":
        offsets = np.asarray(array.offsets, np.int64)
        return Ragged(np.asarray(array.values, np.uint64)[offsets[0] : offsets[-1]], offsets - offsets[0])
    flat = array.flatten() if column.shape else array
    values: np.ndarray[Any, Any] = flat.to_numpy(zero_copy_only=False)
    return values.reshape((len(array), *column.shape))


class _Raw(io.RawIOBase):
    """A program's output as a file Arrow can read."""

    def __init__(self, program: PipeProgram) -> None:
        self.program = program

    def readable(self) -> bool:
        return True

    def readinto(self, room: Any) -> int:
        return self.program.readinto(room)
