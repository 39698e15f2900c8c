"""Does a dataset have what a graph reads? Asked before anything runs, so that a wrong column costs no training time."""

from __future__ import annotations

from collections.abc import Iterable

from heterps.data import Field, Schema
from heterps.errors import DataError
from heterps.graph import Graph, Op
from heterps.graph.types import Form

__all__ = ["check_columns", "describe"]


def check_columns(graph: Graph, schema: Schema, names: Iterable[str] | None = None) -> None:
    """Raise a DataError naming the first input of the graph that the dataset cannot give.

    Parameters
    ----------
    graph
        The model.
    schema
        The columns of the data.
    names
        Inputs that are needed; None for all.
    """
    needed = None if names is None else set(names)
    for op in graph.inputs:
        if needed is None or op.name in needed:
            _check(op, schema)


def _check(op: Op, schema: Schema) -> None:
    if op.name not in schema:
        raise DataError(
            f"the model reads the column {op.name!r} ({op.type}), which the data does not have; "
            f"it has {', '.join(map(describe, schema)) or 'no columns'}{_without_categories(op, schema)}"
        )
    column = schema[op.name]
    wrong = _kind_mismatch(op, column) or _shape_mismatch(op, column)
    if wrong:
        raise DataError(f"column {op.name!r}: the model reads {op.type}, the data has {describe(column)}: {wrong}")


def _without_categories(op: Op, schema: Schema) -> str:
    """Name a model for data of numbers alone."""
    kinds = {column.kind for column in schema}
    is_wanting = op.type.dtype == "uint64" and "dense" in kinds and not kinds & {"sparse", "ragged"}
    return ". heterps.models.dnn needs no categories" if is_wanting else ""


def _kind_mismatch(op: Op, column: Field) -> str:
    ids, numbers = op.type.dtype == "uint64", op.type.dtype.startswith("float")  # int64, class numbers, may be either
    if op.type.form is Form.RAGGED and column.kind != "ragged":
        return "the model wants lists of ids; declare the column with ragged(...)"
    if op.type.form is not Form.RAGGED and column.kind == "ragged":
        return "the data has lists of any length; use ops.input(..., ragged=True) or a fixed number of slots"
    if ids and column.kind not in ("sparse", "ragged"):
        return "the model wants ids, the data has numbers; declare the column with sparse(...)"
    if numbers and column.kind in ("sparse", "ragged"):
        return "the model wants numbers, the data has ids; declare the column with dense(...)"
    return ""


def _shape_mismatch(op: Op, column: Field) -> str:
    if op.type.form is Form.RAGGED or column.width == op.type.size:
        return ""
    return f"{column.width} elements a row instead of {int(op.type.size)}"


def describe(column: Field) -> str:
    """Return a column as text: name, kind and elements a row."""
    many = "" if column.kind == "ragged" or not column.shape else f" {'x'.join(map(str, column.shape))}"
    return f"{column.name} ({column.kind}{many})"
