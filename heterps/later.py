"""What takes long to import and most programs never call, imported when it is first used: libraries, names."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from heterps.keeping import keeping

__all__ = ["later", "names_later"]


class _Later:
    """Stands for a module until something of it is asked for, and then for what it has."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(importlib.import_module(self._name), attribute)

    def __repr__(self) -> str:
        return f"<{self._name}, imported when it is used>"


def later(name: str) -> Any:
    """Return a stand-in for a module of another package, which is imported with the first thing that is asked of it.

    Examples
    --------
    >>> json = later("json")
    >>> json.dumps([1])
    '[1]'
    """
    return _Later(name)


def names_later(package: str, homes: Mapping[str, str], scope: dict[str, Any]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package whose names are imported when they are first used.

    Parameters
    ----------
    package, scope
        Its name, and its globals: what was asked for once is there from then on.
    homes
        By name, the module that has it.
    """

    def imported(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}; it has {', '.join(sorted(homes))}")
        with keeping():
            scope[name] = value = getattr(importlib.import_module(homes[name]), name)
        return value

    return imported
