"""How new the rows are that a worker keeps: which of its own batches they contain, and which a batch may lack.

1. A worker counts its batches, over all Splits that it trains one after another. Hosts that answer now have all of
   them that were settled: every one before the first unit that is not (``contained``).
2. What is read is at least as new as at the moment at which it was asked for, so it is kept under that moment's count.
   What others pushed until then is contained, too.
3. A batch is computed from rows that lack at most ``staleness`` of the batches before it (``needed``).
"""

from __future__ import annotations

__all__ = ["Freshness"]


class Freshness:
    """The counts of one working copy; ``n`` are numbers of batches in the Split that is being trained.

    Parameters
    ----------
    staleness, unit
        See :class:`~heterps.protocol.words.modes.Cached`.
    """

    def __init__(self, staleness: int, unit: int) -> None:
        self._staleness, self._unit = staleness, unit
        self._next = 0  # the count of a batch that was not begun
        self._first: int | None = None  # the count of batch 0 of the Split; None until one of its batches is begun
        self._open: set[int] = set()  # units of the Split that were begun and are not settled

    def enter(self) -> None:
        """Begin another Split; all of the one before is settled."""
        self._first = None
        self._open.clear()

    def begin(self, n: int) -> None:
        """A batch is about to ask for its rows."""
        if self._first is None:
            self._first = self._next - n
        self._next = max(self._next, self._first + n + 1)
        self._open.add(n - n % self._unit)

    def settled(self, unit: int) -> None:
        """Every host has what was owed for a unit."""
        self._open.discard(unit)

    def count(self, n: int) -> int:
        """Return the number of a batch that was begun, over all Splits."""
        assert self._first is not None
        return self._first + n

    @property
    def contained(self) -> int:
        """Hosts have every batch before this one."""
        return self.count(min(self._open)) if self._open else self._next

    def needed(self, n: int) -> int:
        """Return which batches rows must contain from which a batch is computed: every one before this."""
        return self.count(n) - self._staleness
