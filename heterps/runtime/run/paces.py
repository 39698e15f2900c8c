"""Who is far behind: the pace of every attempt, compared with what other workers take for a batch.

An attempt says how far it is when a unit of batches is done, and all before it: one word may tell of ``at_once``
batches, as many as are in flight. So between two words that tell of n batches, n less or more ``at_once - 1`` were
done, and what is in flight takes ``at_once`` times as long as a batch. Who is behind is judged by the least that a
batch can have taken there, and compared with the most that it can have taken elsewhere: silence that a mode brings with
it is nobody's fault.

Where Splits are over before anyone looks twice, nobody's pace is known, but what all have done together is: one that
says nothing is compared with what the others did since its last word, in the mean.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Hashable, Iterable
from math import inf
from typing import NamedTuple

__all__ = ["Behind", "Going", "Paces", "told_every_s"]

_SURE = 4  # times the batches of one word, that a window must hold: what its edges hide is a quarter of it
_TOLD_S, _TOLD_A_SECOND = 1.0, 400  # an attempt says how far it is so often at most; all together so many times


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
    all_batches: int  # what everybody had done by then
    all_seconds: float  # and for how long everybody went on, added up
    unseen: float | None = None  # of a stream that had just begun: for how long at most; None: it was under way

    def least(self, last: _Mark, at_once: int) -> float:
        """Return the least that a batch can have taken from here to another word."""
        return (last.seconds - self.seconds) / (last.batches - self.batches + at_once - 1)

    def most(self, last: _Mark, at_once: int) -> float:
        """Return the most that it can have taken: some of what was told there was done before, unless it had begun."""
        done = last.batches - self.batches - (at_once - 1 if self.unseen is None else 0)
        return (last.seconds - self.seconds + (self.unseen or 0.0)) / done if done > 0 else inf


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
        self._looked: float | None = 0.0  # when it was looked last; None: nobody knows since when something goes on
        self._usual: dict[str, float] = {}  # seconds of a batch, by worker, as known last: also of those that have done
        self._ranked: list[float] | None = None  # these, in order; None: to be sorted
        self._done, self._all_batches, self._all_seconds = 0, 0, 0.0  # of everybody, those that have ended too

    def look(
        self, now: float, going: Iterable[Going], every_s: float = 0.0, at_once: int = 1, done: int = 0
    ) -> list[Behind]:
        """Take note of how far everything is; return what is far behind.

        ``every_s``: for so long one that goes on may say nothing. ``at_once``: so many batches one word may tell of.
        ``done``: so many have been told of since the last cut that the run went back to, if that is known.
        """
        there = list(going)
        self._all_batches += max(0, done - self._done)
        self._all_seconds += len(there) * (now - (self._looked or now))
        self._done = done
        self._marks = {each.stream: self._marks.get(each.stream, deque()) for each in there}
        known: dict[str, list[float]] = {}
        for each in there:
            self._note(now, each, at_once)
            known.setdefault(each.worker, []).append(self._most(each, every_s, at_once))
        self._usual |= {worker: most for worker, found in known.items() if (most := min(found)) < inf}
        self._ranked, self._looked = None, now
        return [behind for each in there if (behind := self._behind(now, each, every_s, at_once)) is not None]

    def look_away(self) -> None:
        """Nobody looks for a while: what goes on then is not known to have taken any time."""
        self._marks, self._looked = {}, None

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

    def _note(self, now: float, each: Going, at_once: int) -> None:
        """Take note of one; forget what is too long ago to tell anything, if the rest tells enough."""
        marks = self._marks[each.stream]
        if not marks:
            unseen = None if self._looked is None else now - self._looked
            marks.append(self._mark(now, each, unseen))
        elif each.batches > marks[-1].batches:
            marks.append(self._mark(now, each))
        sure = _SURE * (at_once - 1) + 1
        while len(marks) > 2 and marks[1].at <= now - self.after_s and marks[-1].batches - marks[1].batches >= sure:
            marks.popleft()

    def _mark(self, now: float, each: Going, unseen: float | None = None) -> _Mark:
        return _Mark(now, each.batches, each.seconds, self._all_batches, self._all_seconds, unseen)

    def _most(self, each: Going, every_s: float, at_once: int) -> float:
        """Return the most that its batches can have taken lately, and what it is at takes; inf if nobody knows."""
        first, last = self._marks[each.stream][0], self._marks[each.stream][-1]
        return max(first.most(last, at_once), self._silent(each, every_s, at_once))

    def _least(self, each: Going, every_s: float, at_once: int) -> float:
        """Return the least that its batches, or the one it is at, can have taken lately."""
        first, last = self._marks[each.stream][0], self._marks[each.stream][-1]
        silent = self._silent(each, every_s, at_once)
        return silent if first is last else max(first.least(last, at_once), silent)

    def _silent(self, each: Going, every_s: float, at_once: int) -> float:
        """Return the least that a batch can have taken since the last word."""
        return (each.seconds - self._marks[each.stream][-1].seconds - every_s) / at_once

    def _behind(self, now: float, each: Going, every_s: float, at_once: int) -> Behind | None:
        """Say whether its batches, or the one it is at, take far longer than those of others, and cost the run time."""
        first, others = self._marks[each.stream][0], self.usual(each.worker)
        watched, took = now - first.at, each.seconds - first.seconds
        if watched < self.after_s or took < watched / 2:
            return None
        pace = self._silent(each, every_s, at_once) if others is None else self._least(each, every_s, at_once)
        others = self._mean_of_others(now, each, at_once) if others is None else others
        return Behind(each.attempt, each.worker, pace, others) if pace > self.factor * others else None

    def _mean_of_others(self, now: float, each: Going, at_once: int) -> float:
        """Return the most that a batch took all others since its last word, in the mean; inf if they did too few."""
        word = self._marks[each.stream][-1]
        batches, seconds = self._all_batches - word.all_batches, self._all_seconds - word.all_seconds - (now - word.at)
        hidden = at_once * (len(self._marks) - 1)  # done before that word, perhaps, and told after it
        return seconds / (batches - hidden) if batches >= max(1, _SURE * hidden) else inf
