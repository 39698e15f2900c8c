"""Batch buffers: readers write rows into them, batches are views of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from heterps.compiled import njit
from heterps.data.core.batch import Column
from heterps.data.core.schema import Schema
from heterps.ragged import Ragged

__all__ = ["ListArrays", "RowArrays", "RowBuffers"]


class ListArrays(NamedTuple):
    """Where lists of ids go: ``[lists, room]`` ids, and ``[lists, capacity + 1]`` offsets."""

    values: npt.NDArray[np.uint64]
    offsets: npt.NDArray[np.int64]


class RowArrays(NamedTuple):
    """Where compiled parsers put rows: the arrays of :class:`RowBuffers` as they are now (lists may get wider ones)."""

    floats: npt.NDArray[np.float32]
    ids: npt.NDArray[np.uint64]
    lists: ListArrays


@njit(nogil=True, cache=True)
def _take_lists(values: Any, offsets: Any, order: Any, out: Any, out_offsets: Any) -> None:
    at = 0
    out_offsets[0] = 0
    for i in range(len(order)):
        begin, end = offsets[order[i]], offsets[order[i] + 1]
        out[at : at + end - begin] = values[begin:end]
        at += end - begin
        out_offsets[i + 1] = at


class RowBuffers:
    """Room for ``capacity`` rows of a schema.

    All float columns lie one after another in one flat float32 array and all id columns in one flat uint64 array, each
    column C-contiguous: compiled parsers take two arrays whatever the schema, and kernels get plain contiguous columns.
    Lists of ids lie in one ``[lists, room]`` array that doubles when a parser runs out of room.

    Attributes
    ----------
    floats, ids
        The flat arrays.
    bases
        Position of each fixed column's first element in its flat array.
    list_values, list_offsets
        ``[lists, room]`` ids and ``[lists, capacity + 1]`` offsets of ragged columns.
    """

    def __init__(self, schema: Schema, capacity: int) -> None:
        self.schema, self.capacity = schema, capacity
        self.bases: dict[str, int] = {}
        sizes = {"float": 0, "id": 0}
        for column in schema:
            if column.kind != "ragged":
                family = "id" if column.kind == "sparse" else "float"
                self.bases[column.name] = sizes[family]
                sizes[family] += column.width * capacity
        self.floats: npt.NDArray[np.float32] = np.zeros(sizes["float"], np.float32)
        self.ids: npt.NDArray[np.uint64] = np.zeros(sizes["id"], np.uint64)
        self.lists = {column.name: i for i, column in enumerate(c for c in schema if c.kind == "ragged")}
        self.list_values: npt.NDArray[np.uint64] = np.empty((len(self.lists), 4 * capacity), np.uint64)
        self.list_offsets: npt.NDArray[np.int64] = np.zeros((len(self.lists), capacity + 1), np.int64)
        self._views = {column.name: self._view(column.name) for column in schema if column.kind != "ragged"}

    def _view(self, name: str) -> npt.NDArray[Any]:
        column = self.schema[name]
        flat: npt.NDArray[Any] = self.ids if column.kind == "sparse" else self.floats
        base = self.bases[name]
        return flat[base : base + column.width * self.capacity].reshape((self.capacity, *column.shape))

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        """Return the whole buffer of a fixed column, for writing."""
        return self._views[name]

    def arrays(self) -> RowArrays:
        """Return the arrays for a compiled parser; take them anew after :meth:`grow_lists`."""
        return RowArrays(self.floats, self.ids, ListArrays(self.list_values, self.list_offsets))

    def grow_lists(self, room: int = 0) -> None:
        """Make room for at least ``room`` ids a ragged column, and twice as many as now, keeping what is there."""
        room = max(room, 2 * self.list_values.shape[1], 16)
        wider = np.empty((len(self.lists), room), np.uint64)
        wider[:, : self.list_values.shape[1]] = self.list_values
        self.list_values = wider

    def put_lists(self, name: str, begin: int, lists: Ragged) -> None:
        """Write lists as rows ``begin``, ``begin + 1``, ... of a ragged column; rows are written in order."""
        self._copy_lists(name, begin, lists, 0, len(lists))

    def _copy_lists(self, name: str, row: int, lists: Ragged, lo: int, hi: int) -> None:
        """Write lists ``lo .. hi`` as rows ``row ..``."""
        i = self.lists[name]
        at, first, last = self.list_offsets.item(i, row), lists.offsets.item(lo), lists.offsets.item(hi)
        end = at + last - first
        if end > self.list_values.shape[1]:
            self.grow_lists(2 * end)
        self.list_values[i, at:end] = lists.values[first:last]
        np.add(lists.offsets[lo : hi + 1], at - first, out=self.list_offsets[i, row : row + hi - lo + 1])

    def put_columns(self, row: int, columns: Mapping[str, Column], lo: int, hi: int) -> None:
        """Copy rows ``lo .. hi`` of ready-made columns as rows ``row ..``."""
        for column in self.schema:
            values = columns[column.name]
            if isinstance(values, Ragged):
                self._copy_lists(column.name, row, values, lo, hi)
            else:
                self._views[column.name][row : row + hi - lo] = values[lo:hi]

    def columns(self, size: int) -> Mapping[str, Column]:
        """Return the first ``size`` rows as batch columns (views)."""
        return {column.name: self._column(column.name, size) for column in self.schema}

    def _column(self, name: str, size: int) -> Column:
        if name not in self.lists:
            return self._views[name][:size]
        i = self.lists[name]
        offsets = self.list_offsets[i, : size + 1]
        return Ragged(self.list_values[i, : offsets[-1]], offsets)

    def take(self, order: npt.NDArray[np.int64], out: RowBuffers) -> None:
        """Gather rows ``order`` into the first rows of ``out``."""
        for name, view in self._views.items():
            np.take(view, order, axis=0, out=out._views[name][: len(order)], mode="clip")
        for i in self.lists.values():
            offsets = self.list_offsets[i]
            needed = int((offsets[order + 1] - offsets[order]).sum())
            if needed > out.list_values.shape[1]:
                out.grow_lists(needed)
            _take_lists(self.list_values[i], offsets, order, out.list_values[i], out.list_offsets[i])
