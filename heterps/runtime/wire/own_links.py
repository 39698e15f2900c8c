"""Links of which every calling thread has its own, as a link carries one call at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

__all__ = ["OwnLinks"]


class _Closable(Protocol):
    def close(self) -> None:
        """Let go."""


_L = TypeVar("_L", bound=_Closable)


class OwnLinks(Generic[_L]):
    """Makes a link when a thread first asks for it; closes all of them, whoever made them.

    Parameters
    ----------
    make
        ``make(i)`` is a new link to the i-th place.
    """

    def __init__(self, make: Callable[[int], _L]) -> None:
        self._make = make
        self._here = threading.local()  # links by place, of the calling thread
        self._lock = threading.Lock()
        self._all: list[_L] = []  # of all threads; grows until closed

    def to(self, place: int) -> _L:
        """Return the calling thread's link to a place."""
        links: dict[int, _L] = self._here.__dict__.setdefault("links", {})
        if place not in links:
            links[place] = self._make(place)
            with self._lock:
                self._all.append(links[place])
        return links[place]

    def close(self) -> None:
        """Close every link, each after the call that is under way on it."""
        with self._lock:
            links, self._all = self._all, []
        for link in links:
            link.close()
