"""Rows as named columns and back: what a snapshot stores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from heterps.tables.live.row_layout import RowLayout
from heterps.tables.specs.accessor import Counters

__all__ = ["RowBuffer", "fill", "ids_of"]

U32 = npt.NDArray[np.uint32]
Columns = dict[str, npt.NDArray[Any]]


def ids_of(words: U32) -> npt.NDArray[np.uint64]:
    """Return the ids of records."""
    low, high = words[:, 0].astype(np.uint64), words[:, 1].astype(np.uint64)
    return low | (high << np.uint64(32))


class RowBuffer:
    """Room for some rows by column. A compiled loop copies words there, :meth:`columns` says what they mean.

    Parameters
    ----------
    memory
        Where the rows go: as many as there is room for.
    state
        Whether optimiser slots and last use belong to it.

    Attributes
    ----------
    rows
        How many fit.
    pieces
        Parts of a row: first word, number of words, where its column begins in :attr:`words`.
    """

    def __init__(self, layout: RowLayout, memory: U32, *, state: bool = True) -> None:
        self.words, self._layout = memory, layout
        self._pieces = _pieces(layout, state)
        sizes = [piece.stop - piece.first for piece in self._pieces]
        self.rows = len(memory) // sum(sizes)
        starts = self.rows * np.cumsum([0, *sizes[:-1]])
        self.pieces = np.stack([[piece.first for piece in self._pieces], sizes, starts], 1).astype(np.int64)

    def columns(self, n: int) -> Columns:
        """Return the first ``n`` rows as columns: id, values of each table, then slots, counters and last use.

        Values and slots are two-dimensional float32; a table's slots are called ``<table>.slots``.
        """
        out: Columns = {}
        for piece, (_, size, start) in zip(self._pieces, self.pieces.tolist(), strict=True):
            array = self.words[start : start + n * size].reshape(n, size).view(piece.dtype)
            if piece.dtype == np.float16:
                out |= _widened(self._layout, array)
            else:
                out[piece.name] = array if piece.lists else array[:, 0]
        return out


class _Stretch(NamedTuple):
    """Words of a row that make up a column."""

    name: str
    first: int
    stop: int
    dtype: Any = np.float32
    lists: bool = False


def _pieces(layout: RowLayout, state: bool) -> list[_Stretch]:
    out = [_Stretch("id", 0, 2, np.uint64), *_values(layout)]
    if state:
        out += [_Stretch(f"{name}.slots", at.start, at.stop, lists=True) for name, at in layout.slot_columns.items()]
    first = layout.counter
    out += [_Stretch(name, first + k, first + k + 1) for k, name in enumerate(Counters._fields[: layout.n_counters])]
    if state and layout.tick >= 0:
        out.append(_Stretch("last_use", layout.tick, layout.tick + 1, np.uint32))
    return out


def _values(layout: RowLayout) -> list[_Stretch]:
    """Return the values of each table; float16 ones are one piece, since a table may begin in the middle of a word."""
    if layout.half:
        return [_Stretch("", layout.value, layout.state, np.float16)]
    columns = [(table.name, layout.group.columns(table.name)) for table in layout.group.tables]
    return [_Stretch(name, layout.value + at.start, layout.value + at.stop, lists=True) for name, at in columns]


def _widened(layout: RowLayout, halves: npt.NDArray[np.float16]) -> Columns:
    group = layout.group
    return {table.name: halves[:, group.columns(table.name)].astype(np.float32) for table in group.tables}


def fill(layout: RowLayout, columns: Mapping[str, npt.NDArray[Any]], words: U32) -> None:
    """Inverse of :meth:`RowBuffer.columns`: set records from columns of a checkpoint. A new last use starts at 0."""
    floats = words.view(np.float32)
    words[:, 0] = columns["id"] & np.uint64(0xFFFFFFFF)
    words[:, 1] = columns["id"] >> np.uint64(32)
    _set_values(layout, words, columns)
    for name, where in layout.slot_columns.items():
        floats[:, where] = columns[f"{name}.slots"]
    for k in range(layout.n_counters):
        floats[:, layout.counter + k] = columns[Counters._fields[k]]
    if layout.tick >= 0:
        words[:, layout.tick] = columns.get("last_use", np.uint32(0))
    if layout.stamp >= 0:
        words[:, layout.stamp] = 0


def _set_values(layout: RowLayout, words: U32, columns: Mapping[str, npt.NDArray[Any]]) -> None:
    view, first = (words.view(np.float16), 2 * layout.value) if layout.half else (words.view(np.float32), layout.value)
    for table in layout.group.tables:
        where = layout.group.columns(table.name)
        view[:, first + where.start : first + where.stop] = columns[table.name]
