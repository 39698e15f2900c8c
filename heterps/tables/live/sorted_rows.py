"""Rows that come in any order and are asked for by logical shard; a file takes them where they are many."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from heterps.errors import TableError
from heterps.mixing import GOLDEN, finalise_array
from heterps.tables.hashing import shards_of
from heterps.tables.live.scratch_file import nameless
from heterps.tables.live.turns import TURN
from heterps.tables.loops.upkeep import copy_rows
from heterps.tables.snapshots.records import RowBuffer, ids_of

__all__ = ["SortedRows", "copied"]

I64 = npt.NDArray[np.int64]
U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]

#: Bytes that stay in memory: fewer need no file. A range of logical shards has about a quarter as many.
IN_MEMORY = 1 << 28


def hashes_of(ids: U64) -> U64:
    """Return the half of the hash of each id that rows of a snapshot are in order of."""
    hashes: U64 = finalise_array(ids + np.uint64(GOLDEN)) >> np.uint64(32)
    return hashes


def copied(words: U32, out: RowBuffer, done: int) -> Iterator[int]:
    """Copy rows in a snapshot's order behind the first ``done`` rows of a buffer; yield how many are there by now,
    after some. When it is full, go on from its beginning.
    """
    ids = ids_of(words)
    order = np.lexsort((ids, hashes_of(ids))).astype(np.uint32)
    while len(order):
        done = 0 if done == out.rows else done
        some, order = np.split(order, [min(TURN, out.rows - done)])
        copy_rows(words.reshape(-1), words.shape[1], some, out.pieces, out.words, done)
        done += len(some)
        yield done


class SortedRows:
    """All :meth:`add` come before the first :meth:`rows`, which several threads may call.

    Parameters
    ----------
    n
        How many rows will come, at most.
    folder
        Where a file without a name takes what does not fit into memory.
    """

    def __init__(self, stride: int, n_shards: int, n: int, folder: Path) -> None:
        self._stride, self._n_shards = stride, n_shards
        ranges = min(n_shards, max(1, -(-4 * stride * n // (IN_MEMORY // 4))))
        self._range_of = np.arange(n_shards) * ranges // n_shards
        self._waiting: list[list[U32]] = [[] for _ in range(ranges)]
        self._counts = np.zeros(n_shards, np.int64)
        self._runs: list[list[tuple[int, int]]] = [[] for _ in range(ranges)]  # of the file: offset, bytes
        self._file = _open(folder) if ranges > 4 else None
        self._end = self._held = 0
        self._lock = threading.Lock()
        self._loaded: tuple[int, U32, I64] | None = None  # range, its rows by shard, where each begins

    def add(self, words: U32) -> None:
        """Take rows."""
        shards = shards_of(ids_of(words), self._n_shards)
        self._counts += np.bincount(shards, minlength=self._n_shards)
        ranges = self._range_of[shards]
        order = np.argsort(ranges, kind="stable")
        words, edges = words[order], np.cumsum(np.bincount(ranges, minlength=len(self._waiting)))
        for number, some in enumerate(np.split(words, edges[:-1])):
            self._waiting[number].append(some)
        self._held += words.nbytes
        if self._file is not None and self._held > IN_MEMORY // 4:
            self._write()

    def _write(self) -> None:
        assert self._file is not None
        for number, some in enumerate(self._waiting):
            data = np.concatenate(some).tobytes() if some else b""
            try:
                if os.pwrite(self._file, data, self._end) < len(data):
                    raise TableError(f"no room on disk to sort {int(self._counts.sum())} rows of a cut")
            except OSError as error:
                raise TableError(f"cannot sort the rows of a cut on disk: {error.strerror}") from error
            self._runs[number].append((self._end, len(data)))
            self._end += len(data)
            some.clear()
        self._held = 0

    def count(self, shard: int) -> int:
        """Return how many rows of a logical shard came."""
        return int(self._counts[shard])

    def rows(self, shard: int) -> U32:
        """Return the rows of a logical shard."""
        number = int(self._range_of[shard])
        with self._lock:
            if self._loaded is None or self._loaded[0] != number:
                self._loaded = (number, *self._load(number))
            _, words, bounds = self._loaded
        return words[bounds[shard] : bounds[shard + 1]]

    def _load(self, number: int) -> tuple[U32, I64]:
        pieces = [np.empty((0, self._stride), np.uint32), *self._waiting[number]]
        for offset, size in self._runs[number]:
            assert self._file is not None
            data = os.pread(self._file, size, offset)
            pieces.append(np.frombuffer(data, np.uint32).reshape(-1, self._stride))
        words = np.concatenate(pieces)
        shards = shards_of(ids_of(words), self._n_shards)
        bounds = np.concatenate([[0], np.cumsum(np.bincount(shards, minlength=self._n_shards))])
        return words[np.argsort(shards, kind="stable")], bounds

    def __del__(self) -> None:
        if getattr(self, "_file", None) is not None:
            os.close(self._file)  # type: ignore[arg-type]


def _open(folder: Path) -> int:
    try:
        return nameless(folder)
    except OSError as error:
        raise TableError(f"cannot sort the rows of a cut in {folder}: {error}") from error
