"""Values of JSON as Arrow columns, whatever they are: for studying a sample, and for lines that Arrow does not take.

A value counts as its text does: 12, 12.0 and "12" are the same category, id and number. So the type of a column is a
matter of speed, and a block in which values are of several types gives the bits that any other would.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

__all__ = ["EXACT", "columns_of", "object_of"]

Objects = Sequence[Mapping[str, Any] | None]
Unread = dict[int, str]
_LARGE = 1 << 63
EXACT = 1 << 53  # floats have all integers up to here


def object_of(line: bytes) -> tuple[dict[str, Any] | None, str]:
    """Return the object that a line holds, or None and why it holds none."""
    try:
        found = json.loads(line.decode())
    except UnicodeDecodeError:
        return None, "invalid UTF-8"
    except (ValueError, RecursionError):
        return None, "not JSON"
    return (found, "") if isinstance(found, dict) else (None, "no JSON object")


def columns_of(objects: Objects, names: Sequence[str], types: Mapping[str, Any]) -> tuple[Any, Unread]:
    """Return members of objects as a record batch, and why rows cannot be used.

    Parameters
    ----------
    objects
        A row each; None is null in all columns.
    names
        The members wanted; those that an object lacks are null.
    types
        What is known of them: where lists are expected a single value is a fault, and the other way round. Where
        nothing is known the more frequent are expected.
    """
    unread: Unread = {}
    columns = []
    for name in names:
        values = [None if one is None else one.get(name) for one in objects]
        expected = _shape_of_type(types[name]) if name in types else _most(values)
        columns.append(_column(_usable(values, expected, name, unread), expected, types.get(name)))
    return pa.RecordBatch.from_arrays(columns, names=list(names)), unread


def _shape(value: Any) -> str:
    return "an object" if isinstance(value, dict) else "a list" if isinstance(value, list) else "a value"


def _shape_of_type(kind: Any) -> str:
    return "a list" if pa.types.is_list(kind) else "an object" if pa.types.is_struct(kind) else "a value"


def _most(values: Sequence[Any]) -> str:
    shapes = [_shape(value) for value in values if value is not None]
    return max(dict.fromkeys(shapes), key=shapes.count, default="a value")


def _usable(values: Sequence[Any], expected: str, name: str, unread: Unread) -> list[Any]:
    """Return values of the expected shape, null for the others, whose rows are told of."""
    kept = []
    for row, value in enumerate(values):
        why = "" if value is None else _fault(value, expected)
        if why:
            unread.setdefault(row, f"{why} in column {name!r}")
        kept.append(None if why else value)
    return kept


def _fault(value: Any, expected: str) -> str:
    if _shape(value) != expected:
        return f"{_shape(value)} instead of {expected}"
    if expected == "an object":
        return ""
    parts = value if isinstance(value, list) else [value]
    if any(isinstance(part, dict | list) for part in parts):
        return "a list of more than values"
    return "" if all(map(_is_text, parts)) else "invalid UTF-8"


def _is_text(value: Any) -> bool:
    """An escape may name half of a character."""
    return not isinstance(value, str) or not any("\ud800" <= mark <= "\udfff" for mark in value)


def _column(values: Sequence[Any], shape: str, kind: Any) -> Any:
    if shape == "an object":
        return pa.array([None if value is None else {} for value in values], pa.struct([]))
    if shape == "a value":
        return _scalars(values, kind)
    inside = _scalars([part for value in values for part in value or ()], getattr(kind, "value_type", None))
    ends = np.cumsum([0, *(len(value or ()) for value in values)])
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), inside)


def _scalars(values: Sequence[Any], known: Any) -> Any:
    """Return a column of the narrowest type that has all values; text for several kinds."""
    kinds = {type(value) for value in values if value is not None}
    if not kinds:
        return pa.nulls(len(values), known or pa.string())
    try:
        if kinds <= {int, float} and float in kinds:
            if not any(value is not None and EXACT <= abs(value) < math.inf for value in values):
                whole = [None if value is None else float(value) + 0.0 for value in values]  # no zero is negative
                return pa.array(whole, pa.float64())
        elif len(kinds) == 1:
            return pa.array(values, _type_of(values))
    except (pa.ArrowException, OverflowError):
        pass  # integers that no type has
    return pa.array([_text(value) for value in values], pa.string())


def _type_of(values: Sequence[Any]) -> Any:
    largest = max(value for value in values if value is not None)
    if isinstance(largest, str):
        return pa.string()
    if isinstance(largest, bool):
        return pa.bool_()
    return pa.int64() if largest < _LARGE else pa.uint64()


def _text(value: Any) -> str | None:
    """Return the text that a value counts as in a column of its own type: whole floats are integers, true is 1."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, float):
        if value != value:
            return None
        if not value.is_integer() or abs(value) >= _LARGE:
            return str(pa.scalar(value).cast(pa.string()).as_py())
    return str(int(value))
