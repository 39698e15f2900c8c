"""Kinds that outsiders can add: a name for each class, so that a value can be written to JSON and read back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Generic, TypeVar

from heterps.errors import IMPORT_FIRST, TableError, UnknownKindError
from heterps.fields import Found
from heterps.own_modules import may_replace

__all__ = ["Registry"]

T = TypeVar("T")


class Registry(Generic[T]):
    """Classes of one role (rule, entry ...) by name; each is a frozen dataclass of JSON-able fields."""

    def __init__(self, role: str) -> None:
        self._role = role
        self._kinds: dict[str, type[T]] = {}

    def add(self, kind: type[T]) -> type[T]:
        """Register a class under its own name (usable as a decorator); only its own module may do so again."""
        if not is_dataclass(kind):
            raise TableError(f"a {self._role} must be a frozen dataclass; {kind.__name__} is not")
        if not may_replace(kind, self._kinds.get(kind.__name__, kind)):
            raise TableError(f"a {self._role} is called {kind.__name__!r} already; choose another name")
        self.take_over(kind)
        return kind

    def take_over(self, kind: type[T]) -> None:
        """Make a class known that came from another process, whatever was known under its name."""
        self._kinds[kind.__name__] = kind

    def holds(self, kind: type[Any]) -> bool:
        """Whether values of a class can be written and read back."""
        return self._kinds.get(kind.__name__) is kind

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._kinds))

    def __getitem__(self, name: str) -> type[T]:
        try:
            return self._kinds[name]
        except KeyError:
            raise self._unknown(name) from None

    def to_json(self, value: T) -> dict[str, Any]:
        """Return ``{"kind": name, field: value ...}``."""
        name = type(value).__name__
        if not self.holds(type(value)):
            where = (f"{self._role[:-1]}ies" if self._role.endswith("y") else f"{self._role}s").upper()
            raise UnknownKindError(f"{self._role} {name} is not registered: decorate its class with @{where}.add")
        return {"kind": name} | {f.name: _plain(getattr(value, f.name)) for f in fields(value)}  # type: ignore[arg-type]

    def from_json(self, data: Mapping[str, Any] | Found) -> T:
        """Inverse of :meth:`to_json`; names, types and ranges of fields follow from the class's annotations."""
        found = Found.of(data, TableError, self._role)
        name = found["kind"].read(str)
        if name not in self._kinds:
            raise self._unknown(name, f"{found.place}: ")
        return found.without("kind").make(self._kinds[name])

    def _unknown(self, name: str, place: str = "") -> UnknownKindError:
        known = ", ".join(self)
        return UnknownKindError(f"{place}no {self._role} is called {name!r}; known: {known}{IMPORT_FIRST}")


def _plain(value: Any) -> Any:
    if hasattr(value, "to_json"):
        return value.to_json()
    return list(value) if isinstance(value, tuple) else value
