"""Libraries that take long to import and that most programs never call: imported when they are first used."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["later"]


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
