"""Rows of a snapshot as files to look ids up in: sorted by id; float32, float16, or int8 with a factor for each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from heterps.later import later
from heterps.serving.manifest import DENSE, Encoding, FileFormat
from heterps.serving.row_files import dtypes_of, scale_of
from heterps.tables.snapshots.chain import Chain, read_rows
from heterps.tables.snapshots.disk import HashedFile
from heterps.tables.snapshots.manifest import StoredFile, deleted_of
from heterps.tables.snapshots.snapshot import DENSE as SAVED_DENSE
from heterps.tables.specs.spec import GroupSpec

__all__ = ["dense_of", "write_deleted", "write_dense", "write_rows"]

pq = later("pyarrow.parquet")

Columns = dict[str, npt.NDArray[Any]]
U64 = npt.NDArray[np.uint64]
#: Bytes of rows of one file: they are sorted in memory.
FILE_BYTES = 1 << 30


class RowWriter:
    """Writes the files of one generation.

    Parameters
    ----------
    folder
        Where they go.
    format, encoding
        How files hold rows, and rows numbers.
    """

    def __init__(self, folder: Path, format: FileFormat, encoding: Encoding) -> None:
        self.folder, self.format, self.encoding = folder, format, encoding

    def write(self, name: str, columns: Columns) -> tuple[str, int, str]:
        """Write columns as one file; return its name, size and hash."""
        table = pa.RecordBatch.from_arrays([_arrow(array) for array in columns.values()], schema=_schema(columns))
        with HashedFile(self.folder / f"{name}.{self.format}") as file:
            sink = pa.PythonFile(_Sink(file), mode="w")
            if self.format == "arrow":
                with pa.ipc.new_file(sink, table.schema) as writer:
                    writer.write_batch(table)
            else:
                pq.write_table(pa.Table.from_batches([table]), sink, compression="zstd")
        return file.path.name, file.size, file.sha256


class _Sink:
    """A hashed file as Arrow wants one."""

    closed = False

    def __init__(self, file: HashedFile) -> None:
        self._file = file

    def write(self, data: Any) -> int:
        return self._file.write(data)

    def tell(self) -> int:
        return self._file.size

    def writable(self) -> bool:
        return True

    def flush(self) -> None:
        """Nothing waits here."""

    def close(self) -> None:
        """The hashed file is closed by its own block."""


def _schema(columns: Columns) -> pa.Schema:
    return pa.schema([pa.field(name, _arrow(array[:0]).type, nullable=False) for name, array in columns.items()])


def _arrow(array: npt.NDArray[Any]) -> Any:
    if array.ndim == 1:
        return pa.array(array)
    element = pa.field("element", pa.from_numpy_dtype(array.dtype), nullable=False)
    return pa.FixedSizeListArray.from_arrays(
        pa.array(np.ascontiguousarray(array).reshape(-1)), type=pa.list_(element, array.shape[1])
    )


def write_rows(writer: RowWriter, number: int, spec: GroupSpec, chain: Chain) -> tuple[list[StoredFile], U64]:
    """Write the rows of a group, a file for some of its logical shards; return the files and the ids in them."""
    tables = {table.name: table.dim for table in spec.tables}
    size = chain.most_rows(spec.name) * (8 + 4 * sum(tables.values()))
    files, ids = [], [np.empty(0, np.uint64)]
    for part, (first, last) in enumerate(_ranges(spec.n_shards, max(1, -(-size // FILE_BYTES)))):
        rows = _sorted(_gathered(chain, spec, tables, first, last))
        made = writer.write(f"rows-{number:03d}-{part:04d}", _encoded(rows, tables, writer.encoding))
        files.append(_stored(made, spec.name, first, last, len(rows["id"])))
        ids.append(rows["id"])
    return files, np.concatenate(ids)


def _ranges(n: int, parts: int) -> Iterator[tuple[int, int]]:
    """Yield first and last of about equal runs of 0 to n - 1."""
    ends = [n * part // min(parts, n) for part in range(min(parts, n) + 1)]
    for first, stop in pairwise(ends):
        yield first, stop - 1


def _stored(made: tuple[str, int, str], group: str, first: int, last: int, rows: int) -> StoredFile:
    name, size, sha256 = made
    return StoredFile(name, group, first, last, rows, size, sha256)


def _gathered(chain: Chain, spec: GroupSpec, tables: Mapping[str, int], first: int, last: int) -> Columns:
    owned = np.zeros(spec.n_shards, np.bool_)
    owned[first : last + 1] = True
    parts: dict[str, list[npt.NDArray[Any]]] = {"id": [np.empty(0, np.uint64)]}
    parts |= {table: [np.empty((0, dim), np.float32)] for table, dim in tables.items()}

    def take(columns: Columns) -> None:
        for name, some in parts.items():
            if columns[name].shape[1:] != some[0].shape[1:] or columns[name].dtype != some[0].dtype:
                raise ValueError(f"column {name!r} is {columns[name].dtype}{list(columns[name].shape[1:])}")
            some.append(columns[name].copy())  # the buffer is used again for the next portion

    chain.for_each(spec, take, owned=owned, columns=list(parts), threads=1)
    return {name: np.concatenate(some) for name, some in parts.items()}


def _sorted(rows: Columns) -> Columns:
    order = np.argsort(rows["id"], kind="stable")
    return {name: array[order] for name, array in rows.items()}


def _encoded(rows: Columns, tables: Mapping[str, int], encoding: Encoding) -> Columns:
    """Turn numbers into what a file holds, column by column in the order in which they are written."""
    made: Columns = {}
    for name, (dtype, _) in dtypes_of(tables, encoding).items():
        if name in rows and encoding == "int8" and name != "id":
            made[name], made[scale_of(name)] = _eighths(rows[name])
        elif name in rows:
            with np.errstate(over="ignore"):  # beyond float16 a number is infinite: the loss of AUC will tell
                made[name] = rows[name].astype(dtype, copy=False)
    return made


def _eighths(values: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float32]]:
    """Return rows as int8 and the factor of each: the largest number of a row becomes 127."""
    scale = np.abs(values).max(axis=1, initial=0) / np.float32(127)
    whole = np.rint(values / np.where(scale > 0, scale, np.float32(1))[:, None])
    return np.clip(whole, -127, 127).astype(np.int8), scale.astype(np.float32)


def write_deleted(writer: RowWriter, number: int, spec: GroupSpec, chain: Chain, rows: U64) -> list[StoredFile]:
    """Write the ids that changes have deleted and that have no row again (``rows`` are those that have)."""
    gone = [
        read_rows(link.folder, file)["id"]
        for link in chain.links
        for file in link.manifest.files_of(deleted_of(spec.name))
    ]
    ids = np.setdiff1d(np.concatenate([np.empty(0, np.uint64), *gone]), rows)
    if not len(ids):
        return []
    made = writer.write(f"deleted-{number:03d}", {"id": ids})
    return [_stored(made, deleted_of(spec.name), 0, spec.n_shards - 1, len(ids))]


def dense_of(chain: Chain) -> dict[str, npt.NDArray[np.float32]]:
    """Return the dense parameters of a snapshot by name."""
    found: dict[str, npt.NDArray[np.float32]] = {}
    newest = chain.links[0]
    for file in newest.manifest.files_of(SAVED_DENSE):
        columns = read_rows(newest.folder, file)
        for name, shape, values in zip(columns["name"], columns["shape"], columns["values"], strict=True):
            found[str(name)] = np.asarray(values, np.float32).reshape(tuple(int(n) for n in shape))
    return found


def write_dense(writer: RowWriter, dense: Mapping[str, npt.NDArray[np.float32]]) -> StoredFile:
    """Write dense parameters, one row each."""
    columns = {
        "name": pa.array(list(dense), pa.string()),
        "shape": pa.array([list(value.shape) for value in dense.values()], pa.list_(pa.int64())),
        "values": pa.array([value.reshape(-1) for value in dense.values()], pa.list_(pa.float32())),
    }
    encoded = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), encoded, compression="none")
    with HashedFile(writer.folder / "dense.parquet") as file:
        file.write(encoded.getvalue())
    return StoredFile(file.path.name, DENSE, 0, 0, len(dense), file.size, file.sha256)
