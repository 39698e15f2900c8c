"""Which batch keys were applied: a low-water mark per Split plus the exceptions above it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from heterps.errors import ProtocolError
from heterps.protocol.words.keys import BatchKey

__all__ = ["Window"]


class Window:
    """The set of applied keys, kept small.

    Batches of one Split mostly arrive in order, so per (pass, split) it is enough to remember the low-water mark (every
    smaller number was applied) and the few numbers above it. "Not newer than the last seen" alone would lose a
    batch whenever two pushes arrive out of order. Splits that are known to be done are forgotten by raising the floor:
    every key of a (pass, split) below it counts as applied.
    """

    __slots__ = ("_above", "_floor", "_low")

    def __init__(self) -> None:
        self._low: dict[tuple[int, int], int] = {}
        self._above: dict[tuple[int, int], set[int]] = {}
        self._floor = (0, 0)

    @classmethod
    def of_passes(cls, passes: int) -> Window:
        """Return the set of all keys of the first ``passes`` passes."""
        window = cls()
        window.raise_floor((passes, 0))
        return window

    def __contains__(self, key: BatchKey) -> bool:
        stream = key[:2]
        return (
            key.n < self._low.get(stream, 0) or key.n in self._above.get(stream, ()) or stream < self._floor
        )  # the floor comes last: it is the rare case

    def add(self, key: BatchKey, count: int = 1) -> bool:
        """Record ``count`` keys from ``key`` on; False if they were there already (then nothing must be applied).

        Raises
        ------
        ProtocolError
            Some of the keys were there and some not: two attempts drew unit boundaries differently.
        """
        known = (
            sum(BatchKey(key.pass_, key.split, key.n + i) in self for i in range(count)) if count > 1 else key in self
        )
        if known:
            if known != (count if count > 1 else 1):
                raise ProtocolError(
                    f"{known} of {count} batches from {key} on were applied before: units must not overlap"
                )
            return False
        self._record(key, count)
        return True

    def _record(self, key: BatchKey, count: int) -> None:
        stream = key[:2]
        low, above = self._low.get(stream, 0), self._above.get(stream)
        if key.n == low:
            low += count
        else:
            above = self._above.setdefault(stream, set())
            above.update(range(key.n, key.n + count))
        if above is not None:
            while low in above:
                above.discard(low)
                low += 1
            if not above:
                del self._above[stream]
        self._low[stream] = low

    def low(self, pass_: int, split: int) -> int:
        """Return the first batch number of a Split that is not known to be applied."""
        return self._low.get((pass_, split), 0)

    def top(self, pass_: int, split: int) -> int:
        """Return the first batch number of a Split from which on none was applied."""
        above = self._above.get((pass_, split))
        return max(above) + 1 if above else self.low(pass_, split)

    @property
    def floor(self) -> tuple[int, int]:
        """Every key of a (pass, split) below it was applied."""
        return self._floor

    def raise_floor(self, floor: tuple[int, int]) -> None:
        """Forget the Splits below ``floor``: all their batches were applied on every host."""
        if floor <= self._floor:
            return
        self._floor = floor
        self._low = {stream: low for stream, low in self._low.items() if stream >= floor}
        self._above = {stream: above for stream, above in self._above.items() if stream >= floor}

    def __iter__(self) -> Iterator[BatchKey]:
        """Iterate over the keys of Splits that are not below the floor, in order."""
        for (pass_, split), low in sorted(self._low.items()):
            numbers = [*range(low), *sorted(self._above.get((pass_, split), ()))]
            yield from (BatchKey(pass_, split, n) for n in numbers)

    def __len__(self) -> int:
        """Return the number of keys of Splits that are not below the floor."""
        return sum(self._low.values()) + sum(map(len, self._above.values()))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Window):
            return NotImplemented
        return self._low == other._low and self._above == other._above and self._floor == other._floor

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Window({self.to_json()})"

    def copy(self) -> Window:
        """Return an independent copy."""
        twin = type(self)()
        twin._low = dict(self._low)
        twin._above = {stream: set(numbers) for stream, numbers in self._above.items()}
        twin._floor = self._floor
        return twin

    def to_json(self) -> list[list[Any]]:
        """Return rows [pass, split, low, [exceptions]] in order; a first row with low -1 is the floor."""
        floor = [[*self._floor, -1, []]] if self._floor > (0, 0) else []
        return floor + [[p, s, low, sorted(self._above.get((p, s), ()))] for (p, s), low in sorted(self._low.items())]

    @classmethod
    def from_json(cls, rows: list[list[Any]]) -> Window:
        """Inverse of :meth:`to_json`."""
        window = cls()
        for p, s, low, above in rows:
            if low < 0:
                window._floor = (p, s)
                continue
            window._low[p, s] = low
            if above:
                window._above[p, s] = set(above)
        return window
