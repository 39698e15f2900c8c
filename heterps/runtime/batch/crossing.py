"""What crosses between stages of a batch: tensors by name, as arrays of a message."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.kernels.ops.rows import Lists, Rows
from heterps.ragged import Ragged

__all__ = ["add_gradients", "pack_feeds", "unpack_feeds"]

Arrays = list[npt.NDArray[Any]]


def pack_feeds(feeds: Mapping[str, Any]) -> tuple[dict[str, Any], Arrays]:
    """Return what the head must say about the tensors, and their arrays."""
    arrays: Arrays = []
    return {name: _pack(value, arrays) for name, value in feeds.items()}, arrays


def _pack(value: Any, arrays: Arrays) -> dict[str, Any]:
    if isinstance(value, Rows):
        ragged = [offsets is not None for offsets in value.offsets]
        arrays += [value.values, *value.inverse, *(o for o in value.offsets if o is not None)]
        arrays += [value.ids] if value.ids is not None else []
        return {"form": "rows", "columns": len(value.inverse), "ragged": ragged, "ids": value.ids is not None}
    if isinstance(value, Ragged | Lists):
        arrays += [value.values, value.offsets]
        return {"form": "ragged"}
    arrays.append(np.asarray(value))
    return {"form": "dense"}


def unpack_feeds(told: Mapping[str, Mapping[str, Any]], arrays: Arrays) -> dict[str, Any]:
    """Inverse of :func:`pack_feeds`; takes its arrays from the front of the list."""
    return {name: _unpack(form, arrays) for name, form in told.items()}


def _unpack(form: Mapping[str, Any], arrays: Arrays) -> Any:
    if form["form"] == "dense":
        return arrays.pop(0)
    if form["form"] == "ragged":
        return Lists(arrays.pop(0), arrays.pop(0))
    values = arrays.pop(0)
    inverse = tuple(arrays.pop(0) for _ in range(form["columns"]))
    offsets = tuple(arrays.pop(0) if ragged else None for ragged in form["ragged"])
    return Rows(values, inverse, offsets, arrays.pop(0) if form["ids"] else None)


def add_gradients(into: dict[str, Any], more: Mapping[str, Any]) -> None:
    """Add gradients by name: a tensor that several stages read gets the sum."""
    for name, gradient in more.items():
        into[name] = into[name] + gradient if name in into else gradient
