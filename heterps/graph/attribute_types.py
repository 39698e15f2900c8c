"""What the attributes of built-in kinds may be: an attribute's name means the same in every kind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from heterps.fields import Count, Finite, Natural, NotNegative, Positive, Range, Seed

__all__ = ["types_of"]

_Spec = Mapping[str, Any] | None  # a rule, initialiser ... as JSON: read where tables are made
_Window = Count | tuple[Count, Count]
_Share = Annotated[float, Range(at_least=0, below=1)]

_TYPES: Mapping[str, Any] = {
    "accessor": _Spec,
    "axis": int | tuple[int, ...] | None,
    "bias": bool,
    "budget": Count | None,
    "channels": Count,
    "columns": tuple[Natural, Natural],
    "correction": bool,
    "count": Count,
    "dim": Count,
    "distribution": str,
    "dtype": str,
    "entry": _Spec,
    "eps": NotNegative,
    "first": Finite,
    "group": str,
    "groups": Count,
    "hidden": tuple[Count, ...],
    "init": _Spec,
    "k": Count,
    "keepdims": bool,
    "kernel": _Window,
    "mean_length": NotNegative,
    "momentum": _Share,
    "normalise": bool,
    "padding": Natural | tuple[Natural, Natural],
    "padding_id": Seed | None,
    "pooling": str,
    "ragged": bool,
    "rank": Count | None,
    "rate": _Share,
    "rule": _Spec,
    "shape": tuple[int, ...],
    "source": Natural,
    "start": Natural,
    "stop": Natural,
    "storage": Literal["memory", "ssd", "gpu", "gpu+ssd"],
    "stride": _Window,
    "table": str,
    "tables": tuple[str, ...],
    "temperature": Positive,
    "transpose_b": bool,
    "vocabulary": Count,
    "when_full": Literal["refuse", "lowest_score", "least_recent"],
    "weights": tuple[NotNegative, ...] | None,
    "width": Count,
}


def types_of(attrs: Iterable[str]) -> dict[str, Any]:
    """Return what these attributes may be."""
    return {name: _TYPES[name] for name in attrs}
