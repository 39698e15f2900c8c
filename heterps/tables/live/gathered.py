"""Gradients of several batches, added up row by row until they are settled."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from heterps.tables.live.cached_rows import bare_group
from heterps.tables.live.local_rows import OwedRows
from heterps.tables.snapshots.records import ids_of
from heterps.tables.specs.spec import GroupSpec

__all__ = ["Gathered"]

U64 = npt.NDArray[np.uint64]
F32 = npt.NDArray[np.float32]


class Gathered:
    """Sums for the rows of one group, in the order in which rows came first. One thread calls it."""

    def __init__(self, spec: GroupSpec) -> None:
        self._group = bare_group(spec)
        self._width = spec.width
        self._counts: F32 = np.zeros((0, 2), np.float32)  # by row: shows and clicks

    def __len__(self) -> int:
        return len(self._group)

    def add(self, ids: U64, gradients: F32, show: F32 | None, click: F32 | None) -> None:
        """Add what a batch has come to, each id once."""
        before = len(self)
        rows = self._group.create(ids)
        if len(self) > len(self._counts):
            more = np.zeros((len(self) - len(self._counts) + len(self), 2), np.float32)
            self._counts = np.concatenate([self._counts, more])
        first, sums = rows >= before, self._sums
        sums[rows[first]] = gradients[first]  # not added to zeros: that would make a plus of a minus zero
        sums[rows[~first]] += gradients[~first]
        for column, counts in enumerate((show, click)):
            if counts is not None:
                self._counts[rows, column] += counts

    @property
    def _sums(self) -> F32:
        first = self._group.layout.value
        view: F32 = self._group.only.words.view(np.float32)[:, first : first + self._width]
        return view

    def take(self) -> OwedRows:
        """Return the sums, and begin anew."""
        n, words = len(self), self._group.only.words
        owed = OwedRows(ids_of(words), self._sums.copy(), self._counts[:n, 0].copy(), self._counts[:n, 1].copy())
        self._group.clear()
        self._counts[:n] = 0
        return owed
