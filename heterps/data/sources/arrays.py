"""Datasets over arrays already in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from heterps.data.core.bad import BadRows
from heterps.data.core.batch import Column
from heterps.data.core.chunks import ChunkSource, Columns
from heterps.data.core.dataset import Dataset, Source
from heterps.data.core.fingerprint import digest
from heterps.data.core.schema import Field, Kind, Schema
from heterps.data.core.split import MEMORY_SPLIT_ROWS, Piece, spread_rows
from heterps.data.core.usable import Located, usable_chunks
from heterps.data.core.value_hash import RESERVED_ID
from heterps.errors import DataError
from heterps.ragged import Ragged

__all__ = ["Arrays", "arrays"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Arrays(Dataset):
    """Columns in memory; rows are counted, not bytes, when cutting Splits. Use :func:`arrays` to make one."""

    columns: Mapping[str, Column] = field(default_factory=dict, repr=False)
    fields: Schema = field(default_factory=Schema)
    split_cost: int = MEMORY_SPLIT_ROWS

    @property
    def schema(self) -> Schema:
        """The columns of a batch."""
        return self.fields

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def pieces(self, grain: int) -> tuple[Piece, ...]:
        """Cut the rows into ranges."""
        return tuple(
            Piece("memory", a, min(a + grain, len(self)), min(grain, len(self) - a)) for a in range(0, len(self), grain)
        )

    def spread(self, parts: int, batch_size: int) -> Self:
        """Cut into about so many Splits of whole batches, unless ``split_cost`` says otherwise."""
        if self.split_cost != MEMORY_SPLIT_ROWS:
            return self
        return replace(self, split_cost=spread_rows(len(self), parts, batch_size))

    def marks(self) -> dict[str, Any]:
        """Return the number of rows and a digest of each column."""
        return {"rows": len(self), "digest": {name: _digest(column) for name, column in self.columns.items()}}

    def open(self, pieces: tuple[Piece, ...], bad: BadRows) -> Source:
        """Start copying ranges."""
        return ChunkSource(usable_chunks(_ranges(self.columns, pieces), self.fields, self.labels, bad))


def _digest(column: Column) -> str:
    if isinstance(column, Ragged):
        return digest(np.ascontiguousarray(column.values).tobytes()) + digest(column.offsets.tobytes())
    return digest(np.ascontiguousarray(column).tobytes())


def _ranges(columns: Columns, pieces: tuple[Piece, ...]) -> Iterator[Located]:
    for piece in pieces:
        found = {name: column[piece.begin : piece.end] for name, column in columns.items()}
        yield Located(piece.source, piece.begin, found)


def arrays(columns: Mapping[str, Any], kinds: Mapping[str, Kind] | None = None, **options: Any) -> Arrays:
    """Make a dataset of arrays.

    Parameters
    ----------
    columns
        Name -> array ``[n, ...]`` or :class:`~heterps.ragged.Ragged`. Floats become float32, integers ids (uint64); a
        one-dimensional column called ``y`` or ``label`` is the label.
    kinds
        Overrides what is inferred.

    Examples
    --------
    >>> data = arrays({"x": np.zeros((8, 3)), "ids": np.arange(16).reshape(8, 2), "y": np.ones(8)})
    >>> [batch.size for batch in data.read(data.splits()[0], batch_size=5)]
    [5, 3]
    """
    chosen = {name: _column(name, column, (kinds or {}).get(name)) for name, column in columns.items()}
    lengths = {name: len(column) for name, (_, column) in chosen.items()}
    if len(set(lengths.values())) != 1:
        raise DataError(f"all columns need the same number of rows, got {lengths}")
    fields = Schema(tuple(item for item, _ in chosen.values()))
    return Arrays(columns={name: column for name, (_, column) in chosen.items()}, fields=fields, **options)


def _column(name: str, column: Any, kind: Kind | None) -> tuple[Field, Column]:
    if isinstance(column, Ragged):
        return Field(name, kind or "ragged"), Ragged(as_ids(name, column.values), column.offsets)
    values = np.asarray(column)
    kind = kind or _kind(name, values)
    if kind == "sparse":
        return Field(name, kind, values.shape[1:]), as_ids(name, values)
    return Field(name, kind, values.shape[1:]), np.ascontiguousarray(values, np.float32)


def _kind(name: str, values: np.ndarray[Any, Any]) -> Kind:
    if name in ("y", "label") and values.ndim == 1:
        return "label"
    if values.dtype.kind in "iu":
        return "sparse"
    if values.dtype.kind in "fb":
        return "dense"
    raise DataError(f"column {name!r} has type {values.dtype}: expected numbers (hash strings with hash_strings first)")


def as_ids(name: str, values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Check and cast ids: negative, fractional and reserved values are refused by name, before any cast."""
    if values.dtype == object:
        return _object_ids(name, values)
    if values.dtype.kind not in "iu":
        raise DataError(f"column {name!r} has type {values.dtype}: ids must be integers")
    if values.dtype.kind == "i" and values.size and int(values.min()) < 0:
        raise DataError(f"column {name!r} holds the negative id {int(values.min())}: ids are 0 .. 2**64 - 2")
    if values.dtype == np.uint64 and values.size and int(values.max()) == RESERVED_ID:
        raise DataError(f"column {name!r} holds the id 2**64 - 1, which is reserved")
    return np.ascontiguousarray(values, np.uint64)


def _object_ids(name: str, values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Check Python integers, which may mix both halves of the uint64 range (NumPy would make floats of them)."""
    for value in values.flat:
        if not isinstance(value, (int, np.integer)) or not 0 <= value < RESERVED_ID:
            raise DataError(f"column {name!r} holds {value!r}: ids are integers 0 .. 2**64 - 2")
    return values.astype(np.uint64)
