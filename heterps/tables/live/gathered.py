"""Gradients of several batches, added up row by row until they are settled."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from heterps.tables.live.cached_rows import bare_group
from heterps.tables.live.group import RowGroup
from heterps.tables.live.local_rows import OwedRows
from heterps.tables.snapshots.records import ids_of
from heterps.tables.specs.spec import GroupSpec

__all__ = ["Gathered", "GatheredIds"]

U64 = npt.NDArray[np.uint64]
F32 = npt.NDArray[np.float32]
U32 = npt.NDArray[np.uint32]
Mask = npt.NDArray[np.bool_]


class GatheredIds:
    """Which rows of one group have a sum, in the order in which they came first, and what is counted of them.

    One thread calls it.
    """

    def __init__(self, index: RowGroup) -> None:
        self._group = index
        self._counts: F32 = np.zeros((0, 2), np.float32)  # by row: shows and clicks

    def __len__(self) -> int:
        return len(self._group)

    def place(self, ids: U64, show: F32 | None, click: F32 | None) -> tuple[U32, Mask]:
        """Count distinct ids; return where their sums are, and which of them are the first of a sum."""
        before = len(self)
        rows = self._group.create(ids)
        if len(self) > len(self._counts):
            more = np.zeros((len(self) - len(self._counts) + len(self), 2), np.float32)
            self._counts = np.concatenate([self._counts, more])
        for column, counts in enumerate((show, click)):
            if counts is not None:
                self._counts[rows, column] += counts
        return rows, rows >= before

    def _taken(self, sums: F32) -> OwedRows:
        """Return sums with what belongs to them, and begin anew."""
        n = len(self)
        show, click = self._counts[:n, 0].copy(), self._counts[:n, 1].copy()
        owed = OwedRows(ids_of(self._group.only.words), sums, show, click)
        self._group.clear()
        self._counts[:n] = 0
        return owed


class Gathered(GatheredIds):
    """And the sums, in memory."""

    def __init__(self, spec: GroupSpec) -> None:
        super().__init__(bare_group(spec))
        self._width = spec.width

    def add(self, ids: U64, gradients: F32, show: F32 | None, click: F32 | None) -> None:
        """Add what a batch has come to, each id once."""
        rows, first = self.place(ids, show, click)
        sums = self._sums
        sums[rows[first]] = gradients[first]  # not added to zeros: that would make a plus of a minus zero
        sums[rows[~first]] += gradients[~first]

    @property
    def _sums(self) -> F32:
        first = self._group.layout.value
        view: F32 = self._group.only.words.view(np.float32)[:, first : first + self._width]
        return view

    def take(self) -> OwedRows:
        """Return the sums, and begin anew."""
        return self._taken(self._sums.copy())
