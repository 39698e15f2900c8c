"""Kinds that outsiders can add: a name for each class, so that a value can be written to JSON and read back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Generic, TypeVar

from heterps.errors import TableError, UnknownKindError
from heterps.fields import Found

__all__ = ["Registry"]

T = TypeVar("T")


class Registry(Generic[T]):
    """Classes of one role (rule, entry ...) by name; each is a frozen dataclass of JSON-able fields."""

    def __init__(self, role: str) -> None:
        self._role = role
        self._kinds: dict[str, type[T]] = {}

    def add(self, kind: type[T]) -> type[T]:
        """Register a class under its own name (usable as a decorator)."""
        if not is_dataclass(kind):
            raise TableError(f"a {self._role} must be a frozen dataclass; {kind.__name__} is not")
        self._kinds[kind.__name__] = kind
        return kind

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._kinds))

    def __getitem__(self, name: str) -> type[T]:
        try:
            return self._kinds[name]
        except KeyError:
            known = ", ".join(self)
            raise UnknownKindError(f"no {self._role} is called {name!r}; known: {known}") from None

    def to_json(self, value: T) -> dict[str, Any]:
        """Return ``{"kind": name, field: value ...}``."""
        name = type(value).__name__
        if self._kinds.get(name) is not type(value):
            raise UnknownKindError(f"{name} is not registered as a {self._role}")
        return {"kind": name} | {f.name: _plain(getattr(value, f.name)) for f in fields(value)}  # type: ignore[arg-type]

    def from_json(self, data: Mapping[str, Any] | Found) -> T:
        """Inverse of :meth:`to_json`; names, types and ranges of fields follow from the class's annotations."""
        found = Found.of(data, TableError, self._role)
        name = found["kind"].read(str)
        if name not in self._kinds:
            raise UnknownKindError(f"{found.place}: no {self._role} is called {name!r}; known: {', '.join(self)}")
        return found.without("kind").make(self._kinds[name])


def _plain(value: Any) -> Any:
    if hasattr(value, "to_json"):
        return value.to_json()
    return list(value) if isinstance(value, tuple) else value
