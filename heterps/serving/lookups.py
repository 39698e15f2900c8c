"""From ids to what lookups yield: rows put to their positions and pooled, by whole-array functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.errors import DataError
from heterps.graph import Graph, Op
from heterps.graph.types import Form
from heterps.kernels.ops.rows import Lists
from heterps.ragged import Ragged
from heterps.serving.mapped_rows import MappedRows
from heterps.serving.row_files import Values

__all__ = ["looked_up"]

U64 = npt.NDArray[np.uint64]
Column = npt.NDArray[Any] | Ragged


def looked_up(
    graph: Graph, gathers: Iterable[Op], rows: Mapping[str, MappedRows], columns: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the results of lookups by op name: arrays, or :class:`Lists` of ragged ids that are not pooled.

    Parameters
    ----------
    graph
        Lowered.
    gathers
        Its ``gather_pool`` ops that are wanted.
    rows
        By row group.
    columns
        Of a batch: uint64 ids.
    """
    ops = list(gathers)
    asked: dict[tuple[str, str], U64] = {}
    for op in ops:
        asked[graph[op.inputs[0]].attrs["group"], op.inputs[1]] = flat_ids(op.inputs[1], columns[op.inputs[1]])
    found = {place: values for group in rows for place, values in _of_group(group, rows[group], asked)}
    return {
        op.name: _yielded(op, found[graph[op.inputs[0]].attrs["group"], op.inputs[1]], columns[op.inputs[1]])
        for op in ops
    }


def _of_group(name: str, rows: MappedRows, asked: Mapping[tuple[str, str], U64]) -> Iterable[tuple[Any, Values]]:
    """Look all id columns of a group up at once; yield the rows of each."""
    places = [place for place in asked if place[0] == name]
    if len(places) == 1:
        yield places[0], rows(asked[places[0]])
    elif places:
        ends = np.cumsum([len(asked[place]) for place in places])
        yield from zip(places, np.split(rows(np.concatenate([asked[p] for p in places])), ends[:-1]), strict=True)


def flat_ids(name: str, column: Column) -> U64:
    """Return the ids of a column one after another."""
    values = column.values if isinstance(column, Ragged) else column
    if values.dtype != np.uint64:
        raise DataError(f"column {name!r} has {values.dtype}, the model looks rows up by uint64 ids")
    return np.ascontiguousarray(values).reshape(-1)


def _yielded(op: Op, rows: Values, column: Column) -> Any:
    low, high = op.attrs["columns"]
    values = rows[:, low:high]
    padding = op.attrs["padding_id"]
    kept = None if padding is None else flat_ids(op.inputs[1], column) != np.uint64(padding)
    if kept is not None:
        values = np.where(kept[:, None], values, np.float32(0))
    if isinstance(column, Ragged):
        return _of_lists(op, values, column.offsets, kept)
    return _of_slots(op, values, len(column), kept)


def _of_slots(op: Op, values: Values, n: int, kept: npt.NDArray[np.bool_] | None) -> Values:
    """Pool a fixed number of rows for each sample."""
    pooling, dim = op.attrs["pooling"], values.shape[1]
    if pooling == "none":
        return np.ascontiguousarray(values).reshape(n, *op.type.shape)
    each = values.reshape(n, -1, dim)
    if pooling == "max":
        return _largest(each, None if kept is None else kept.reshape(n, -1))
    total: Values = each.sum(axis=1)
    if pooling == "sum":
        return total
    count = each.shape[1] if kept is None else np.maximum(kept.reshape(n, -1).sum(axis=1), 1)[:, None]
    return (total / count).astype(np.float32)


def _largest(each: Values, kept: npt.NDArray[np.bool_] | None) -> Values:
    if kept is None:
        largest: Values = each.max(axis=1)
        return largest
    top = np.where(kept[:, :, None], each, -np.inf).max(axis=1)
    return np.where(kept.any(axis=1, keepdims=True), top, 0).astype(np.float32)


def _of_lists(op: Op, values: Values, offsets: npt.NDArray[np.int64], kept: npt.NDArray[np.bool_] | None) -> Any:
    if op.type.form is Form.RAGGED:
        return Lists(np.ascontiguousarray(values), offsets)
    lengths = np.diff(offsets)
    owner = np.repeat(np.arange(len(lengths)), lengths)
    out = np.zeros((len(lengths), values.shape[1]), np.float32)
    if op.attrs["pooling"] == "max":
        out[...] = -np.inf
        np.maximum.at(out, owner, values if kept is None else np.where(kept[:, None], values, np.float32(-np.inf)))
        out[np.isneginf(out)] = 0
        return out
    np.add.at(out, owner, values)
    if op.attrs["pooling"] == "mean":
        counts = lengths if kept is None else np.bincount(owner[kept], minlength=len(lengths))
        out /= np.maximum(counts, 1).astype(np.float32)[:, None]
    return out
