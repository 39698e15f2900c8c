"""Parts of somebody else's travel with the job that uses them: a worker need not import the program they stand in."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

from heterps.device.arrays import Registered, registered, take_over_device
from heterps.graph import Graph, OpKind
from heterps.graph.kinds import kind, take_over_kind
from heterps.kernels import Kernel, kernels
from heterps.kernels.kernel import take_over_kernel
from heterps.own_modules import home_of, sent_with_code
from heterps.runtime.batch.model import Model
from heterps.tables import (
    ACCESSORS,
    ENTRIES,
    INITIALISERS,
    RULES,
    SCHEDULES,
    Accessor,
    Entry,
    Initialiser,
    Rule,
    Schedule,
)

__all__ = ["OwnParts"]

_HERE = uuid.uuid4().hex  # this process
_ROLES: tuple[tuple[type[Any], Any], ...] = (
    (Rule, RULES),
    (Initialiser, INITIALISERS),
    (Entry, ENTRIES),
    (Accessor, ACCESSORS),
    (Schedule, SCHEDULES),
)


@dataclass(frozen=True)
class OwnParts:
    """What a model uses and no module of heterps registers.

    Parameters
    ----------
    kinds
        Op kinds, and their kernels where they have one.
    classes
        Of rules, initialisers, entries, accessors and schedules.
    device
        What the run computes on.
    process
        Where they come from.
    """

    kinds: tuple[tuple[OpKind, Kernel | None], ...] = ()
    classes: tuple[type[Any], ...] = ()
    device: Registered | None = None
    process: str = field(default=_HERE)

    @classmethod
    def of(cls, model: Model, device: str) -> OwnParts:
        """Return those that a model uses, and the device of that name."""
        return cls(tuple(_kinds(model.graph)), tuple(_classes(model)), _device(device))

    def __reduce__(self) -> tuple[Any, ...]:
        return sent_with_code(self, vars(self))

    def install(self) -> None:
        """Make them known here, in place of others that came with an earlier job; where they come from they are."""
        if self.process == _HERE:
            return
        for each, its_kernel in self.kinds:
            take_over_kind(each)
            if its_kernel is not None:
                take_over_kernel(each.name, its_kernel)
        for each_class in self.classes:
            _registry(each_class).take_over(each_class)
        if self.device is not None:
            take_over_device(self.device)


def _is_foreign(thing: Any) -> bool:
    return thing is not None and not home_of(thing).startswith("heterps.")


def _kinds(graph: Graph) -> Iterator[tuple[OpKind, Kernel | None]]:
    for each in (kind(name) for name in sorted({op.kind for op in graph})):
        its_kernel = kernels().get(each.name)
        made_of = (each.infer, each.params, *(() if its_kernel is None else (its_kernel.forward, its_kernel.cost)))
        if any(map(_is_foreign, made_of)):
            yield each, its_kernel


def _classes(model: Model) -> Iterator[type[Any]]:
    used = {type(value): None for spec in (*model.groups, *model.parameters) for value in _values(spec)}
    return (found for found in used if _is_foreign(found) and _registry(found) is not None)


def _registry(kind: type[Any]) -> Any:
    return next((registry for base, registry in _ROLES if issubclass(kind, base)), None)


def _values(value: Any) -> Iterator[Any]:
    """Yield a value of a dataclass and all those that its fields hold."""
    if isinstance(value, tuple):
        for each in value:
            yield from _values(each)
    elif is_dataclass(value) and not isinstance(value, type):
        yield value
        for each in fields(value):
            yield from _values(getattr(value, each.name))


def _device(name: str) -> Registered | None:
    found = registered(name)
    return found if found is not None and _is_foreign(found.load) else None
