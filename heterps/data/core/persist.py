"""Parsed rows kept in memory, on whichever worker read them."""

from __future__ import annotations

import threading
import uuid
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from heterps.data.core.bad import BadRows
from heterps.data.core.batch import Column
from heterps.data.core.batch_buffers import RowBuffers
from heterps.data.core.chunks import ChunkSource, Columns
from heterps.data.core.dataset import Dataset, Source
from heterps.data.core.over import Over
from heterps.data.core.schema import Schema
from heterps.data.core.split import Piece
from heterps.ragged import Ragged

__all__ = ["Persisted"]

CHUNK_ROWS = 1 << 14


@dataclass
class _Kept:
    """The rows of one piece, in chunks, and the account of those that were bad."""

    chunks: list[Columns]
    bad: BadRows
    nbytes: int
    rows: int


class _Memory:
    """Pieces kept by this process, the longest unused dropped first when a budget is exceeded."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.kept: OrderedDict[Any, _Kept] = OrderedDict()

    def get(self, key: Any) -> _Kept | None:
        with self.lock:
            if key in self.kept:
                self.kept.move_to_end(key)
            return self.kept.get(key)

    def put(self, key: Any, kept: _Kept, budget: int) -> None:
        with self.lock:
            self.kept[key] = kept
            while len(self.kept) > 1 and sum(item.nbytes for item in self.kept.values()) > budget:
                self.kept.popitem(last=False)

    def drop(self, owner: str) -> None:
        with self.lock:
            for key in [key for key in self.kept if key[0] == owner]:
                del self.kept[key]


_MEMORY = _Memory()


@dataclass(frozen=True, kw_only=True)
class Persisted(Over):
    """Another dataset whose pieces are parsed once per process and then read from memory.

    Each worker keeps the pieces it reads, so rows never travel; local and global shuffling work as before. Made by
    :meth:`~heterps.data.core.dataset.Dataset.persist`; ``owner`` tells the rows of one such call from those of others.
    """

    memory_bytes: int = 4 << 30
    owner: str = field(default_factory=lambda: uuid.uuid4().hex)

    def marks(self) -> dict[str, Any]:
        """Return those of the dataset below."""
        return {"of": self.of.fingerprint()}

    def open(self, pieces: tuple[Piece, ...], bad: BadRows) -> Source:
        """Read pieces from memory, parsing those not there yet."""
        return ChunkSource(self._chunks(pieces, bad))

    def _chunks(self, pieces: tuple[Piece, ...], bad: BadRows) -> Iterator[Columns]:
        rows = 0
        for piece in pieces:
            kept = self._kept(piece)
            bad.absorb(kept.bad.moved(rows))
            rows += kept.rows
            yield from kept.chunks

    def _kept(self, piece: Piece) -> _Kept:
        key = (self.owner, piece, self.labels)
        found = _MEMORY.get(key)
        if found is None:
            found = _parse(replace(self.of, labels=self.labels), piece)
            _MEMORY.put(key, found, self.memory_bytes)
        return found

    def with_fields(self, fields: Schema) -> Persisted:
        """Return the dataset below with other columns, to be parsed anew."""
        return replace(self, of=self.of.with_fields(fields), owner=uuid.uuid4().hex, guessed=False)

    def load(self, pass_: int = 0, seed: int = 0) -> None:
        """Parse everything now, in this process."""
        for split in self.splits(pass_, seed):
            for piece in split.pieces:
                self._kept(piece)

    def load_in_background(self, pass_: int = 0, seed: int = 0) -> threading.Thread:
        """Start :meth:`load` in a thread and return it; reading meanwhile is fine."""
        thread = threading.Thread(target=self.load, args=(pass_, seed), name="persist", daemon=True)
        thread.start()
        return thread

    def release(self) -> None:
        """Forget the rows kept by this process."""
        _MEMORY.drop(self.owner)


def _parse(data: Dataset, piece: Piece) -> _Kept:
    bad = BadRows(data.bad_input, keeps=True)
    total = 0
    chunks: list[Columns] = []
    with closing(data.open((piece,), bad)) as source:
        rows = RowBuffers(data.schema, CHUNK_ROWS)
        while (got := source.fill(rows, 0, CHUNK_ROWS)) > 0:
            total += got
            chunks.append({name: _copy(column) for name, column in rows.columns(got).items()})
    nbytes = sum(int(column.nbytes) for chunk in chunks for column in chunk.values())
    return _Kept(chunks, bad, nbytes, total)


def _copy(column: Column) -> Column:
    if isinstance(column, Ragged):
        return Ragged(column.values.copy(), column.offsets.copy())
    return np.array(column)
