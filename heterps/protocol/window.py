"""Which batch keys were applied: a low-water mark per Split plus the exceptions above it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from heterps.protocol.keys import BatchKey

__all__ = ["Window"]


class Window:
    """The set of applied keys, kept small.

    Batches of one Split mostly arrive in order, so per (pass, split) it is enough to remember the low-water mark (every
    smaller number was applied) and the few numbers above it. "Not newer than the last seen" alone would lose a
    batch whenever two pushes arrive out of order.
    """

    __slots__ = ("_above", "_low")

    def __init__(self) -> None:
        self._low: dict[tuple[int, int], int] = {}
        self._above: dict[tuple[int, int], set[int]] = {}

    def __contains__(self, key: BatchKey) -> bool:
        stream = key[:2]
        return key.n < self._low.get(stream, 0) or key.n in self._above.get(stream, ())

    def add(self, key: BatchKey) -> bool:
        """Record a key; False if it was there already (then nothing must be applied)."""
        if key in self:
            return False
        stream = key[:2]
        low, above = self._low.get(stream, 0), self._above.setdefault(stream, set())
        above.add(key.n)
        while low in above:
            above.discard(low)
            low += 1
        self._low[stream] = low
        if not above:
            del self._above[stream]
        return True

    def low(self, pass_: int, split: int) -> int:
        """Return the first batch number of a Split that is not known to be applied."""
        return self._low.get((pass_, split), 0)

    def __iter__(self) -> Iterator[BatchKey]:
        for (pass_, split), low in sorted(self._low.items()):
            numbers = [*range(low), *sorted(self._above.get((pass_, split), ()))]
            yield from (BatchKey(pass_, split, n) for n in numbers)

    def __len__(self) -> int:
        return sum(self._low.values()) + sum(map(len, self._above.values()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Window) and self._low == other._low and self._above == other._above

    __hash__ = None  # type: ignore[assignment]

    def copy(self) -> Window:
        """Return an independent copy."""
        twin = Window()
        twin._low = dict(self._low)
        twin._above = {stream: set(numbers) for stream, numbers in self._above.items()}
        return twin

    def to_json(self) -> list[list[Any]]:
        """Return rows [pass, split, low, [exceptions]] in order."""
        return [[p, s, low, sorted(self._above.get((p, s), ()))] for (p, s), low in sorted(self._low.items())]

    @classmethod
    def from_json(cls, rows: list[list[Any]]) -> Window:
        """Inverse of :meth:`to_json`."""
        window = cls()
        for p, s, low, above in rows:
            window._low[p, s] = low
            if above:
                window._above[p, s] = set(above)
        return window
