"""Readers by name; those of the package are imported when they are first asked for."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from heterps.data.core.dataset import Dataset

__all__ = ["Reader", "ReaderTable"]

Reader = Callable[..., "Dataset"]


class ReaderTable(MutableMapping[str, Reader]):
    """A mapping like any other: a program that reads one format does not import what the others need.

    Parameters
    ----------
    homes
        Where the package's own readers are, by name: their module and what it calls them, as in ``"json:load"``.
    """

    def __init__(self, homes: Mapping[str, str]) -> None:
        self._homes = dict(homes)  # of those that nobody has asked for
        self._readers: dict[str, Reader] = {}

    def __getitem__(self, name: str) -> Reader:
        if name not in self._readers:
            home, _, called = self._homes[name].partition(":")
            self._readers[name] = getattr(importlib.import_module(home), called)
        return self._readers[name]

    def __setitem__(self, name: str, reader: Reader) -> None:
        self._readers[name] = reader

    def __delitem__(self, name: str) -> None:
        if name not in self:
            raise KeyError(name)
        self._homes.pop(name, None)
        self._readers.pop(name, None)

    def __contains__(self, name: object) -> bool:
        return name in self._readers or name in self._homes

    def __iter__(self) -> Iterator[str]:
        return iter({**self._homes, **self._readers})

    def __len__(self) -> int:
        return len({**self._homes, **self._readers})
