"""In which order things come that need each other, and what a thing needs: for ops, Layers and stages alike."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from typing import Any, TypeVar

__all__ = ["Circle", "needed_for", "needs_first"]

K = TypeVar("K", bound=Hashable)


class Circle(Exception):  # noqa: N818 - callers catch it and say what it is a circle of
    """Things need each other in a circle; ``loop`` has them, each before the one that needs it."""

    def __init__(self, loop: list[Any]) -> None:
        super().__init__(" -> ".join(map(str, loop)))
        self.loop = loop


def needs_first(needs: Mapping[K, Collection[K]], rank: Callable[[K], Any]) -> list[K]:
    """Return the keys, each after what it needs; of those that could come next the one of least rank.

    Parameters
    ----------
    needs
        What each needs; all of it are keys, too.
    rank
        Orders keys; no two have the same.

    Raises
    ------
    Circle
        There is no such order.

    Examples
    --------
    >>> needs_first({"c": ["a"], "b": [], "a": []}, rank=str)
    ['a', 'b', 'c']
    """
    needed_by: dict[K, list[K]] = {key: [] for key in needs}
    for key, sources in needs.items():
        for source in set(sources):
            needed_by[source].append(key)
    lacking = {key: len(set(sources)) for key, sources in needs.items()}
    ready = [(rank(key), key) for key, count in lacking.items() if not count]
    heapq.heapify(ready)
    found: list[K] = []
    while ready:
        key = heapq.heappop(ready)[1]
        found.append(key)
        for reader in needed_by[key]:
            lacking[reader] -= 1
            if not lacking[reader]:
                heapq.heappush(ready, (rank(reader), reader))
    if len(found) < len(needs):
        raise Circle(_circle({key: sources for key, sources in needs.items() if lacking[key]}))
    return found


def _circle(stuck: Mapping[K, Collection[K]]) -> list[K]:
    """Return a circle of keys each of which needs another of them."""
    way: dict[K, None] = {}  # in order
    key = next(iter(stuck))
    while key not in way:
        way[key] = None
        key = next(source for source in stuck[key] if source in stuck)
    steps = list(way)
    return steps[steps.index(key) :][::-1]


def needed_for(needs: Callable[[K], Iterable[K]], roots: Iterable[K]) -> set[K]:
    """Return all that the roots need, directly or not, and the roots."""
    found: set[K] = set()
    open_ = list(roots)
    while open_:
        key = open_.pop()
        if key not in found:
            found.add(key)
            open_.extend(needs(key))
    return found
