"""The short way to a reader of one's own: say where the rows are, and yield them as arrays."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from heterps.data.core.bad import BadRows
from heterps.data.core.batch import Column
from heterps.data.core.chunks import ChunkSource
from heterps.data.core.dataset import Dataset, Source
from heterps.data.core.schema import Field, Schema
from heterps.data.core.split import Piece
from heterps.data.core.usable import Located, usable_chunks
from heterps.data.sources.arrays import as_ids
from heterps.errors import DataError
from heterps.ragged import Ragged

__all__ = ["Chunked"]


@dataclass(frozen=True, kw_only=True)
class Chunked(Dataset):
    """Base of readers that have rows as arrays; one of your own gives ``schema``, ``pieces`` and ``chunks``.

    Splits, shuffling, resuming, reading ahead, bad rows and persisting come with it. A reader whose parser is compiled
    does without the copy and derives from :class:`~heterps.data.core.dataset.Dataset` itself.
    ``heterps.testing.ReaderContract`` tests it.
    """

    @abstractmethod
    def chunks(self, piece: Piece) -> Iterable[Mapping[str, Any]]:
        """Yield the rows of a piece in order, some at a time: an array ``[rows, *shape]`` for each column.

        NaN is a missing number; rows with an infinite one, or without a label, are counted as bad.
        """

    def open(self, pieces: tuple[Piece, ...], bad: BadRows) -> Source:
        """Start reading pieces."""
        return ChunkSource(usable_chunks(self._located(pieces), self.schema, self.labels, bad))

    def _located(self, pieces: tuple[Piece, ...]) -> Iterator[Located]:
        for piece in pieces:
            row = 0
            for chunk in self.chunks(piece):
                columns = _columns(chunk, self.schema, piece.source)
                size = len(next(iter(columns.values())))
                if size:
                    yield Located(piece.source, row, columns)
                row += size


def _columns(chunk: Mapping[str, Any], schema: Schema, source: str) -> dict[str, Column]:
    """Check what a reader of somebody else's gave: a wrong shape would be written over other rows."""
    lacking = [name for name in schema.names if name not in chunk]
    if lacking:
        raise DataError(f"{source}: a chunk lacks the column {lacking[0]!r}; it has {', '.join(chunk) or 'none'}")
    columns = {field.name: _column(chunk[field.name], field, source) for field in schema}
    sizes = {name: len(column) for name, column in columns.items()}
    if len(set(sizes.values())) > 1:
        raise DataError(f"{source}: the columns of a chunk have different numbers of rows: {sizes}")
    return columns


def _column(values: Any, field: Field, source: str) -> Column:
    if field.kind == "ragged":
        if not isinstance(values, Ragged):
            raise DataError(f"{source}: column {field.name!r} is ragged: give a heterps.Ragged of values and offsets")
        return Ragged(as_ids(field.name, values.values), values.offsets)
    found = as_ids(field.name, np.asarray(values)) if field.kind == "sparse" else np.asarray(values, np.float32)
    if found.ndim == 0 or found.shape[1:] != field.shape:
        raise DataError(f"{source}: column {field.name!r} has the shape {found.shape}, expected (rows, *{field.shape})")
    return found
