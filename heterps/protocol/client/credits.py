"""Which stage actor gets the next batch: the better of two, by what this sender has waiting there."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["Credits"]


class Credits:
    """Counts what waits at each stage actor, and picks the shorter queue of two.

    Two neighbours in a fixed rotation are compared, not all: with many senders that look at all queues, each picks the
    same shortest one at the same time. All Splits of a worker share one: each would begin at the same place otherwise.

    Parameters
    ----------
    turn
        Where in the rotation to begin; different workers begin at different places.
    """

    def __init__(self, turn: int = 0) -> None:
        self.waiting: dict[str, int] = {}
        self._turn = turn

    def take(self, stages: Sequence[str]) -> str:
        """Return the stage worker for the next batch and count it there."""
        first = stages[self._turn % len(stages)]
        second = stages[(self._turn + 1) % len(stages)]
        self._turn += 1
        best = second if self.waiting.get(second, 0) < self.waiting.get(first, 0) else first
        self.waiting[best] = self.waiting.get(best, 0) + 1
        return best

    def give_back(self, stage: str | None) -> None:
        """The batch came back, or will never."""
        if stage is None:
            return
        left = self.waiting.get(stage, 0) - 1
        if left > 0:
            self.waiting[stage] = left
        else:
            self.waiting.pop(stage, None)
