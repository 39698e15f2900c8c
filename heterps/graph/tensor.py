"""Expressions: what the functions in :mod:`heterps.ops` return and take."""

from __future__ import annotations

import contextvars
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from heterps.errors import GraphError
from heterps.graph.kinds import OpKind, kind
from heterps.graph.types import TensorType

__all__ = ["PLACES", "Tensor", "build", "place"]

PLACES = ("cpu", "gpu")
_place: contextvars.ContextVar[str | None] = contextvars.ContextVar("heterps_place", default=None)


@dataclass(frozen=True, eq=False)
class Tensor:
    """The result of an op that is not yet part of a Graph. Immutable; identity is equality."""

    kind: OpKind
    inputs: tuple[Tensor, ...]
    attrs: Mapping[str, Any]
    type: TensorType
    name: str | None = None
    place: str | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape per sample."""
        return self.type.shape

    def __repr__(self) -> str:
        return f"<{self.kind.name} {self.name or ''}: {self.type}>"


def freeze(value: Any) -> Any:
    """Turn a JSON-like attribute into an immutable equivalent (objects say theirs through ``to_json``)."""
    if hasattr(value, "to_json"):
        value = value.to_json()
    if isinstance(value, Mapping):
        return {str(k): freeze(v) for k, v in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return tuple(map(freeze, value))
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise GraphError(f"attribute value {value!r} cannot be written as JSON")


def build(kind_name: str, *inputs: Tensor, name: str | None = None, **attrs: Any) -> Tensor:
    """Make an expression of a registered kind; mistakes are named with the op."""
    known = kind(kind_name)
    label = f"{kind_name} {name!r}" if name else kind_name
    for i, x in enumerate(inputs):
        if not isinstance(x, Tensor):
            raise GraphError(f"{label}: input {i} must be a tensor made by heterps.ops, got {type(x).__name__}")
    try:
        full = known.complete({key: freeze(value) for key, value in attrs.items()})
        result = known.result(full, tuple(x.type for x in inputs))
    except GraphError as error:
        raise GraphError(f"{label}: {error}") from None
    return Tensor(known, inputs, full, result, name, _place.get())


@contextmanager
def place(where: str) -> Iterator[None]:
    """Pin the ops made inside the ``with`` block to ``"cpu"`` or ``"gpu"`` pools.

    Examples
    --------
    >>> from heterps import ops
    >>> x = ops.input("x", shape=(4,))
    >>> with ops.place("gpu"):
    ...     h = ops.dense(x, 8)
    >>> h.place
    'gpu'
    """
    if where not in PLACES:
        raise GraphError(f"ops.place takes one of {PLACES}, got {where!r}")
    token = _place.set(where)
    try:
        yield
    finally:
        _place.reset(token)
