"""The least of many that change one at a time, without looking at the others."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

__all__ = ["Ranking"]

N = TypeVar("N", bound=Hashable)
_SLACK = 64  # entries out of date that are not worth a clean-up


class Ranking(Generic[N]):
    """Names by a key each, which are all different. An entry of the heap is out of date once its name has another key.

    Examples
    --------
    >>> ranking = Ranking[str]()
    >>> for name, load in (("a", 2), ("b", 1), ("c", 3)):
    ...     ranking.put(name, (load, name))
    >>> ranking.put("b", (5, "b"))
    >>> ranking.best(), ranking.best(lambda name: name != "a")
    ('a', 'c')
    """

    def __init__(self) -> None:
        self.keys: dict[N, tuple[int | str, ...]] = {}
        """Of the names that are in it."""
        self._heap: list[tuple[tuple[int | str, ...], N]] = []

    def __len__(self) -> int:
        return len(self.keys)

    def put(self, name: N, key: tuple[int | str, ...]) -> None:
        """Give a name its key, or another one."""
        if self.keys.get(name) == key:
            return
        self.keys[name] = key
        heappush(self._heap, (key, name))
        if len(self._heap) > 2 * len(self.keys) + _SLACK:
            self._heap = [(key, name) for name, key in self.keys.items()]
            heapify(self._heap)

    def drop(self, name: N) -> None:
        """Take a name out, if it is in."""
        self.keys.pop(name, None)

    def best(self, accept: Callable[[N], bool] = lambda name: True) -> N | None:
        """Return the name with the least key among those accepted."""
        heap, aside = self._heap, []
        found: N | None = None
        while heap and found is None:
            key, name = heap[0]
            if self.keys.get(name) != key:
                heappop(heap)
            elif accept(name):
                found = name
            else:
                aside.append(heappop(heap))
        for each in aside:
            heappush(heap, each)
        return found
