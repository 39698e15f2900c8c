"""The registry of op kinds. Built-in kinds and those of other packages come through the same door."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from heterps.errors import IMPORT_FIRST, GraphError, HeterpsError, UnknownKindError
from heterps.fields import Found
from heterps.graph.types import TensorType
from heterps.own_modules import may_replace

__all__ = ["REQUIRED", "Attrs", "OpKind", "Param", "kind", "kinds", "register_kind", "take_over_kind"]

Attrs = Mapping[str, Any]


class _Required:
    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED = _Required()  # marks an attribute without default


@dataclass(frozen=True)
class Param:
    """A dense parameter of an op: its name within the op, shape, initialiser and rule as JSON values.

    Without a rule the run's rule for dense parameters holds. One with a rule of its own is a running statistic: what
    backward writes for it is a step to take, not the slope of the loss.
    """

    name: str
    shape: tuple[int, ...]
    init: Mapping[str, Any] = field(default_factory=lambda: {"kind": "Zeros"})
    rule: Mapping[str, Any] | None = None


def _no_params(attrs: Attrs, inputs: tuple[TensorType, ...]) -> tuple[Param, ...]:
    return ()


@dataclass(frozen=True)
class OpKind:
    """What is known of a kind of op without any array.

    Parameters
    ----------
    name
        The kind's name.
    infer
        ``infer(attrs, input types) -> result type``; raises :class:`GraphError` with what was expected.
    attrs
        Allowed attributes and their defaults; :data:`REQUIRED` where there is none.
    inputs
        Smallest and largest number of inputs (None: no limit).
    params
        ``params(attrs, input types) -> dense parameters``.
    access
        ``"file"`` or ``"table"`` for kinds that read one (these are io-bound by nature), else None.
    loss
        Whether the kind can end a graph.
    types
        What each attribute may be, as annotations (:mod:`heterps.fields`); anything where none is given.
    doc
        One line for tables and help.
    """

    name: str
    infer: Callable[[Attrs, tuple[TensorType, ...]], TensorType]
    attrs: Attrs = field(default_factory=dict)
    inputs: tuple[int, int | None] = (1, 1)
    params: Callable[[Attrs, tuple[TensorType, ...]], tuple[Param, ...]] = _no_params
    access: str | None = None
    loss: bool = False
    doc: str = ""
    types: Mapping[str, Any] = field(default_factory=dict)

    def complete(self, attrs: Attrs) -> dict[str, Any]:
        """Fill in defaults; unknown or missing attributes are a GraphError."""
        unknown = sorted(set(attrs) - set(self.attrs))
        if unknown:
            raise GraphError(f"has no attribute {unknown[0]!r}; it takes {sorted(self.attrs)}")
        full = {name: attrs.get(name, default) for name, default in self.attrs.items()}
        missing = sorted(name for name, value in full.items() if value is REQUIRED)
        if missing:
            raise GraphError(f"needs the attribute {missing[0]!r}")
        for name, hint in self.types.items():
            Found(full[name], GraphError, "", name).read(hint)
        return full

    def result(self, attrs: Attrs, inputs: tuple[TensorType, ...]) -> TensorType:
        """Check the number of inputs and infer the type."""
        low, high = self.inputs
        if len(inputs) < low or (high is not None and len(inputs) > high):
            wanted = str(low) if low == high else f"at least {low}" if high is None else f"{low} to {high}"
            raise GraphError(f"takes {wanted} input(s), got {len(inputs)}")
        try:
            return self.infer(attrs, inputs)
        except HeterpsError:
            raise
        except Exception as error:  # a kind of somebody else's that does not check its attributes
            raise GraphError(f"cannot be made with {dict(attrs)}: {type(error).__name__}: {error}") from error


_KINDS: dict[str, OpKind] = {}


def register_kind(new: OpKind) -> OpKind:
    """Make a kind known. Only the module that registered a kind may put another in its place: it was run again."""
    old = _KINDS.setdefault(new.name, new)
    if not may_replace(new.infer, old.infer):
        raise GraphError(f"op kind {new.name!r} is registered already; choose another name")
    _KINDS[new.name] = new
    return new


def take_over_kind(new: OpKind) -> None:
    """Make a kind known that came with a graph from another process, whatever was known under its name."""
    _KINDS[new.name] = new


def kind(name: str) -> OpKind:
    """Look a kind up by name."""
    if name not in _KINDS:
        near = difflib.get_close_matches(name, _KINDS, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else f"; known kinds: {', '.join(sorted(_KINDS))}"
        raise UnknownKindError(f"unknown op kind {name!r}{hint}{IMPORT_FIRST}")
    return _KINDS[name]


def kinds() -> Iterable[OpKind]:
    """All registered kinds, by name."""
    return (_KINDS[name] for name in sorted(_KINDS))
