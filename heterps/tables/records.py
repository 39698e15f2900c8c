"""Rows as named columns and back: what a snapshot stores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.tables.accessor import Counters
from heterps.tables.layout import Layout

__all__ = ["fill", "ids_of", "unpack"]

U32 = npt.NDArray[np.uint32]
Columns = dict[str, npt.NDArray[Any]]


def ids_of(words: U32) -> npt.NDArray[np.uint64]:
    """Return the ids of records."""
    low, high = words[:, 0].astype(np.uint64), words[:, 1].astype(np.uint64)
    return low | (high << np.uint64(32))


def unpack(layout: Layout, words: U32, *, state: bool = True) -> Columns:
    """Return records as columns: id, values of each table, then (with ``state``) slots, counters and last use.

    Values and slots are two-dimensional float32; a table's slots are called ``<table>.slots``.
    """
    out: Columns = {"id": ids_of(words)}
    values = _values(layout, words)
    for table in layout.group.tables:
        out[table.name] = values[:, layout.group.columns(table.name)]
    floats = words.view(np.float32)
    if state:
        for name, where in layout.slot_columns.items():
            out[f"{name}.slots"] = floats[:, where]
    for k in range(layout.n_counters):
        out[Counters._fields[k]] = floats[:, layout.counter + k]
    if state and layout.tick >= 0:
        out["last_use"] = words[:, layout.tick]
    return out


def fill(layout: Layout, columns: Mapping[str, npt.NDArray[Any]], words: U32) -> None:
    """Inverse of :func:`unpack`: set records from the columns of a checkpoint. A new last use starts at 0."""
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


def _values(layout: Layout, words: U32) -> npt.NDArray[np.float32]:
    if not layout.half:
        return words.view(np.float32)[:, layout.value : layout.value + layout.width]
    return words.view(np.float16)[:, 2 * layout.value : 2 * layout.value + layout.width].astype(np.float32)


def _set_values(layout: Layout, words: U32, columns: Mapping[str, npt.NDArray[Any]]) -> None:
    view, first = (words.view(np.float16), 2 * layout.value) if layout.half else (words.view(np.float32), layout.value)
    for table in layout.group.tables:
        where = layout.group.columns(table.name)
        view[:, first + where.start : first + where.stop] = columns[table.name]
