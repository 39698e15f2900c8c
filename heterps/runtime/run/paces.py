"""Who is far behind: the pace of every attempt, compared with what other workers take for a batch."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Hashable, Iterable
from typing import NamedTuple

__all__ = ["Behind", "Going", "Paces", "told_every_s"]

_TOLD_S, _TOLD_A_SECOND = 0.5, 400  # an attempt says how far it is so often at most; all together so many times


def told_every_s(workers: int) -> float:
    """Return the seconds between two words of an attempt on how far it is: the more workers, the less each may say."""
    return max(_TOLD_S, workers / _TOLD_A_SECOND)


class Going(NamedTuple):
    """Something that goes on: a lane or a Split, on a worker, with the batches done and the seconds they took."""

    stream: Hashable
    attempt: int
    worker: str
    batches: int
    seconds: float


class Behind(NamedTuple):
    """An attempt that is far behind: what a batch takes there, at least, and what it takes on other workers."""

    attempt: int
    worker: str
    seconds: float
    others: float


class _Mark(NamedTuple):
    at: float
    batches: int
    seconds: float


class Paces:
    """Remembers how attempts got on. Told the time, so that it can be tested without any.

    Parameters
    ----------
    after_s
        For so long an attempt must have been behind.
    factor
        So many times as long as others it must take for a batch.
    """

    def __init__(self, after_s: float, factor: float) -> None:
        self.after_s, self.factor = after_s, factor
        self._marks: dict[Hashable, deque[_Mark]] = {}  # of each stream: when it was first seen to have done so much
        self._usual: dict[str, float] = {}  # seconds of a batch, by worker, as known last: also of those that have done
        self._ranked: list[float] | None = None  # these, in order; None: to be sorted

    def look(self, now: float, going: Iterable[Going], every_s: float = 0.0) -> list[Behind]:
        """Take note of how far everything is; return what is far behind.

        ``every_s``: for so long one that goes on may say nothing.
        """
        there = list(going)
        self._marks = {each.stream: self._marks.get(each.stream, deque()) for each in there}
        known: dict[str, list[float]] = {}
        for each in there:
            pace = self._note(now, each, every_s)
            if pace is not None:
                known.setdefault(each.worker, []).append(pace)
        self._usual |= {worker: min(found) for worker, found in known.items()}
        self._ranked = None
        return [behind for each in there if (behind := self._behind(now, each, every_s)) is not None]

    def usual(self, worker: str) -> float | None:
        """Return what others than this worker take for a batch, the median of them; None if nobody knows."""
        if self._ranked is None:
            self._ranked = sorted(self._usual.values())
        ranked, own = self._ranked, self._usual.get(worker)
        n = len(ranked) - (own is not None)
        if not n:
            return None
        left_out = len(ranked) if own is None else bisect_left(ranked, own)

        def at(rank: int) -> float:
            return ranked[rank + (rank >= left_out)]

        return (at((n - 1) // 2) + at(n // 2)) / 2

    def forget(self, worker: str) -> None:
        """A worker is gone."""
        self._usual.pop(worker, None)
        self._ranked = None

    def _note(self, now: float, each: Going, every_s: float) -> float | None:
        """Take note of one; return what its batches took lately, and the one it is at; None if it has done none."""
        marks = self._marks[each.stream]
        if not marks or each.batches > marks[-1].batches:
            marks.append(_Mark(now, each.batches, each.seconds))
        while len(marks) > 2 and marks[1].at <= now - self.after_s:
            marks.popleft()
        first, last = marks[0], marks[-1]
        if last is first:
            return None
        silent = each.seconds - last.seconds - every_s
        return max((last.seconds - first.seconds) / (last.batches - first.batches), silent)

    def _behind(self, now: float, each: Going, every_s: float) -> Behind | None:
        """Say whether its batches, or the one it is at, take far longer than those of others, and cost the run time."""
        first, others = self._marks[each.stream][0], self.usual(each.worker)
        watched, took = now - first.at, each.seconds - first.seconds
        pace = self._note(now, each, every_s) or took - every_s
        if others is None or watched < self.after_s or took < watched / 2 or pace <= self.factor * others:
            return None
        return Behind(each.attempt, each.worker, pace, others)
