"""Which stage actor gets the next batch: the better of two, by what this sender has waiting there and its speed."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["Credits"]

_NEWEST = 0.2  # what the newest measurement counts


class Credits:
    """Counts what waits at each stage actor, and picks of two the one that has nothing to do, else is done first.

    How long one takes for a batch is what was measured lately (:meth:`measured`); until both are known the shorter
    queue wins. Where both have nothing to do it is their turn, whatever was measured: slow ones are kept busy too, and
    no chance measurement leaves an equal one idle.

    Two neighbours in a fixed rotation are compared, not all: with many senders that look at all queues, each picks the
    same shortest one at the same time. All Splits of a worker share one: each would begin at the same place otherwise.

    Parameters
    ----------
    turn
        Where in the rotation to begin; different workers begin at different places.
    """

    def __init__(self, turn: int = 0) -> None:
        self.waiting: dict[str, int] = {}
        self._pace: dict[str, float] = {}  # seconds for a batch, by stage actor
        self._turn = turn

    def take(self, stages: Sequence[str]) -> str:
        """Return the stage worker for the next batch and count it there."""
        first = stages[self._turn % len(stages)]
        second = stages[(self._turn + 1) % len(stages)]
        self._turn += 1
        best = second if self._until(second, first) < self._until(first, second) else first
        self.waiting[best] = self.waiting.get(best, 0) + 1
        return best

    def _until(self, stage: str, other: str) -> tuple[bool, float]:
        """Whether it is busy, and seconds until one more batch would be done; batches where nothing is known."""
        waiting, known = self.waiting.get(stage, 0), stage in self._pace and other in self._pace
        return waiting > 0, (waiting + 1) * (self._pace[stage] if known else 1.0) if waiting else 0.0

    def measured(self, stage: str, seconds: float) -> None:
        """A batch took so long, divided by those that were there when it came; the last few count most."""
        before = self._pace.get(stage, seconds)
        self._pace[stage] = before + _NEWEST * (seconds - before)

    def give_back(self, stage: str | None) -> None:
        """The batch came back, or will never."""
        if stage is None:
            return
        left = self.waiting.get(stage, 0) - 1
        if left > 0:
            self.waiting[stage] = left
        else:
            self.waiting.pop(stage, None)
