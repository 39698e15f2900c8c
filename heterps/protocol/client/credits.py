"""Which stage actor gets the next batch: the better of two, by what this sender has waiting there and its speed."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["Credits"]

_NEWEST = 0.2  # what the newest measurement counts


class Credits:
    """Counts what waits at each stage actor, and picks of two the one that has nothing to do, else is done first.

    How long one takes for a batch is what was measured lately (:meth:`measured`); until both are known the shorter
    queue wins.

    The two are those whose turn it is. Turns come round as often as an actor is fast: each has a moment at which it is
    due again, which every batch puts off by what it takes there, over what a batch takes on average. So slow ones get
    their part and no more, however many of them there are and however few batches of this sender are under way, and
    none is left out for what was measured by chance. What others have waiting there makes batches take longer, and the
    turns rarer.

    Two are compared, not all: with many senders that look at all queues, each picks the same shortest one at the same
    time. All Splits of a worker share one: each would begin at the same place otherwise.

    Parameters
    ----------
    turn
        Which actor is the first; different workers begin at different places.
    """

    def __init__(self, turn: int = 0) -> None:
        self.waiting: dict[str, int] = {}
        self._pace: dict[str, float] = {}  # seconds for a batch, by stage actor
        self._due: dict[str, float] = {}  # when it is the turn of each; nobody's lies far before the present
        self._now = 0.0  # the earliest of them at the last turn: who comes, or comes back, is due then
        self._turn = turn

    def take(self, stages: Sequence[str]) -> str:
        """Return the stage worker for the next batch and count it there."""
        first, second = self._next_two(stages)
        best = second if self._until(second, first) < self._until(first, second) else first
        self._now = self._when(first)
        self._due[best] = self._when(best) + self._step(best, stages)
        self.waiting[best] = self.waiting.get(best, 0) + 1
        return best

    def _next_two(self, stages: Sequence[str]) -> tuple[str, str]:
        """Return whose turn it is, and who is next; who are due at the same time go in a rotation."""
        count = len(stages)
        rotation = [stages[(self._turn + i) % count] for i in range(count)]
        first, *rest = sorted(rotation, key=self._when)
        return first, rest[0] if rest else first

    def _when(self, stage: str) -> float:
        return max(self._now, self._due.get(stage, self._now))

    def _step(self, stage: str, stages: Sequence[str]) -> float:
        """Return what a batch takes there, over what it takes on average; 1 where nothing is known."""
        known = [self._pace[each] for each in stages if each in self._pace]
        return self._pace[stage] * len(known) / sum(known) if stage in self._pace else 1.0

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
