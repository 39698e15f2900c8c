"""Whose turn it is: for how long each lane of a Sync run kept the others waiting, as one shard host sees it.

All lanes go at the pace of the slowest, so how many batches a lane has done says nothing. But between the answer to its
last request and its next one a lane reads or computes, and that is its own time, whatever it is slow by.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import NamedTuple

__all__ = ["LaneTime", "Turns"]


class LaneTime(NamedTuple):
    """What a lane has done and what it took: batches, and seconds in which it was its turn."""

    batches: int
    seconds: float


class Turns:
    """Times of all lanes; whoever calls it has the host's lock.

    Parameters
    ----------
    lanes
        How many there are.
    clock
        Says the time.
    """

    def __init__(self, lanes: int, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._batches = [0] * lanes
        self._seconds = [0.0] * lanes
        self._since: list[float | None] = [None] * lanes  # when the turn began; None while the host owes an answer

    def begins(self, lane: int) -> None:
        """The lane has its answer."""
        self._since[lane] = self._clock()

    def ends(self, lane: int, batches: int = 0) -> None:
        """The lane has asked for something, or pushed so many batches. What is asked twice ends one turn."""
        since = self._since[lane]
        if since is not None:
            self._seconds[lane] += self._clock() - since
            self._since[lane] = None
        self._batches[lane] += batches

    def all(self) -> list[LaneTime]:
        """Return the times of every lane, turns under way included."""
        now = self._clock()
        open_ = [0.0 if since is None else now - since for since in self._since]
        return [
            LaneTime(*each)
            for each in zip(self._batches, map(sum, zip(self._seconds, open_, strict=True)), strict=True)
        ]
