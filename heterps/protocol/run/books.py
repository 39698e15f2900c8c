"""Which Splits are to be run, are done, or must be looked at before a cut: one book for Async and Geo, one for Sync.

A Split (Sync: lane) is *dirty* when an attempt at it was lost: some hosts may have a batch that others miss. Before
a cut every dirty one is run far enough that all hosts agree.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple

__all__ = ["Book", "LaneBook", "SplitBook", "Work"]


class Work(NamedTuple):
    """A Split to be run from batch ``start``. ``lane`` and ``step`` matter in Sync only; ``split`` None ends the
    lane.
    """

    split: int | None
    start: int
    lane: int = 0
    step: int = 0


Fits = Callable[[int], bool]


def _any_fits(split: int) -> bool:
    return True


class Book:
    """What RunState asks of a book; it covers one pass."""

    def __init__(self) -> None:
        self.pass_ = 0
        self.count = 0
        self.complete = False

    def supply(self, count: int, complete: bool) -> None:
        """More Splits are known."""
        self.count = max(self.count, count)
        self.complete = self.complete or complete

    @property
    def over(self) -> bool:
        """Every Split of the pass is done."""
        raise NotImplementedError

    @property
    def floor(self) -> int:
        """Every Split of the pass below it is done."""
        raise NotImplementedError

    @property
    def offers(self) -> bool:
        """There may be something to take."""
        return True

    def take(self, target: int | None, fits: Fits = _any_fits) -> Work | None:
        """Return the next work, or with a drain's target what must run before the cut, up to it.

        ``fits(split)`` says which Splits whoever takes it may have; where the order is fixed it is not asked.
        """
        raise NotImplementedError

    def progress(self, work: Work, upto: int) -> bool:
        """Batches below ``upto`` are applied everywhere; False if that is no news."""
        raise NotImplementedError

    def give_back(self, work: Work, *, clean: bool) -> None:
        """The work is not being run any more; not clean if it may have left a batch on some hosts only."""
        raise NotImplementedError

    def finish(self, work: Work, batches: int) -> None:
        """The Split is done."""
        raise NotImplementedError

    def target(self) -> int:
        """Return how far everything under way must go before a cut."""
        raise NotImplementedError

    def behind(self, work: Work, target: int) -> bool:
        """Say whether a paused work must go on to reach the target."""
        raise NotImplementedError

    @property
    def dirty(self) -> bool:
        """Something waits that must be run before a cut."""
        raise NotImplementedError

    def to_json(self) -> dict[str, Any]:
        """Return the progress as a cut keeps it."""
        raise NotImplementedError

    def load(self, pass_: int, progress: Mapping[str, Any]) -> None:
        """Go to the beginning of a pass, or to a cut's progress in it. The number of Splits is to be supplied again."""
        raise NotImplementedError

    def distrust(self) -> None:
        """Take everything that was begun and is not done for dirty."""
        raise NotImplementedError

    def agrees(self) -> bool:
        """Say whether what is kept up to date is what a look at everything would find."""
        raise NotImplementedError


class SplitBook(Book):
    """Splits in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.load(0, {})

    def load(self, pass_: int, progress: Mapping[str, Any]) -> None:
        """Go to a cut's progress."""
        self.pass_, self.count, self.complete = pass_, 0, False
        self._low = progress.get("low", 0)
        self._done = set(progress.get("done", ()))
        self.starts: dict[int, int] = dict(progress.get("starts", ()))
        self._waiting = sorted(self.starts)
        self._fresh = progress.get("fresh", 0)
        self._dirty: set[int] = set()
        self._dirtiest: list[int] = []  # a heap: the least of them; those that are not dirty any more are passed over
        self.done_since = 0  # batches that were told of since the cut

    def distrust(self) -> None:
        """Some hosts may have a batch of any Split that was begun."""
        self._dirty = set(self.starts)
        self._dirtiest = sorted(self._dirty)

    def agrees(self) -> bool:
        """Say whether the least dirty one would be found."""
        return self._dirty <= set(self._dirtiest) and self._dirty <= set(self._waiting)

    def to_json(self) -> dict[str, Any]:
        """Return the progress."""
        starts = [list(item) for item in sorted(self.starts.items())]
        return {"low": self._low, "done": sorted(self._done), "starts": starts, "fresh": self._fresh}

    @property
    def over(self) -> bool:
        """Every Split of the pass is done."""
        return self.complete and self._low >= self.count

    @property
    def floor(self) -> int:
        """Every Split below it is done."""
        return int(self._low)

    @property
    def dirty(self) -> bool:
        """Some Split's last attempt was lost."""
        return bool(self._dirty)

    @property
    def offers(self) -> bool:
        """There is a Split that nobody runs."""
        return self._fresh < self.count or bool(self._waiting)

    def take(self, target: int | None, fits: Fits = _any_fits) -> Work | None:
        """Return a Split that was begun before, else a fresh one. What must run before a cut fits everyone."""
        if target is not None:
            return self._take_waiting(self._first_dirty()) if self._dirty else None
        waiting = next((split for split in self._waiting if split < self.count and fits(split)), None)
        if waiting is not None:
            return self._take_waiting(waiting)
        fresh = next((split for split in range(self._fresh, self.count) if fits(split)), None)
        return None if fresh is None else self._take_fresh(fresh)

    def _first_dirty(self) -> int:
        while self._dirtiest[0] not in self._dirty:
            heappop(self._dirtiest)
        return self._dirtiest[0]

    def _take_fresh(self, split: int) -> Work:
        """Begin a Split; those passed over wait as if they had been begun and given back before their first batch."""
        self._waiting += range(self._fresh, split)
        self.starts |= dict.fromkeys(range(self._fresh, split + 1), 0)
        self._fresh = split + 1
        return Work(split, 0)

    def _take_waiting(self, split: int) -> Work:
        del self._waiting[bisect.bisect_left(self._waiting, split)]
        self._dirty.discard(split)
        return Work(split, self.starts[split])

    def progress(self, work: Work, upto: int) -> bool:
        """Remember how far a Split is."""
        assert work.split is not None
        news = upto - self.starts[work.split]
        if news > 0:
            self.starts[work.split] = upto
            self.done_since += news
        return news > 0

    def give_back(self, work: Work, *, clean: bool) -> None:
        """Put a Split back to be taken."""
        assert work.split is not None
        bisect.insort(self._waiting, work.split)
        if not clean:
            self._dirty.add(work.split)
            heappush(self._dirtiest, work.split)

    def finish(self, work: Work, batches: int) -> None:
        """Note a Split as done."""
        assert work.split is not None
        self.done_since += max(0, batches - self.starts.pop(work.split))
        self._done.add(work.split)
        while self._low in self._done:
            self._done.discard(self._low)
            self._low += 1

    def target(self) -> int:
        """Splits stop where they are."""
        return 0

    def behind(self, work: Work, target: int) -> bool:
        """A paused Split may stand anywhere."""
        return False


@dataclass(slots=True)
class _Lane:
    """Where a lane stands: its present Split, the step of that Split's batch 0, the first batch not done."""

    split: int
    step: int = 0
    start: int = 0
    taken: bool = False
    ended: bool = False

    @property
    def position(self) -> int:
        return self.step + self.start


class LaneBook(Book):
    """Lane m runs Splits m, m + M, … one after the other; all lanes run at once."""

    def __init__(self, lanes: int) -> None:
        super().__init__()
        self.lanes = lanes
        self.load(0, {})

    def load(self, pass_: int, progress: Mapping[str, Any]) -> None:
        """Go to a cut's progress."""
        self.pass_, self.count, self.complete = pass_, 0, False
        rows = progress.get("lanes") or [[lane, 0, 0, False] for lane in range(self.lanes)]
        self._lanes = [_Lane(split, step, start, ended=ended) for split, step, start, ended in rows]
        self._idle = {n for n, lane in enumerate(self._lanes) if not lane.ended}  # that nobody runs
        self._dirty: set[int] = set()
        self._going = len(self._idle)  # lanes that have not ended
        self._rearmost = [(lane.split, n) for n, lane in enumerate(self._lanes) if not lane.ended]  # a heap
        heapify(self._rearmost)

    def distrust(self) -> None:
        """Some hosts may have a batch of any lane."""
        self._dirty = {n for n, lane in enumerate(self._lanes) if not lane.ended}

    def agrees(self) -> bool:
        """Say whether idle, dirty and ended lanes are counted right."""
        lanes = dict(enumerate(self._lanes))
        left = [lane.split for lane in self._lanes if not lane.ended]
        return (
            self._idle == {n for n, lane in lanes.items() if not lane.taken and not lane.ended}
            and self._dirty <= self._idle
            and self._going == len(left)
            and self.floor == min(left, default=self.count)
        )

    def to_json(self) -> dict[str, Any]:
        """Return the progress."""
        return {"lanes": [[lane.split, lane.step, lane.start, lane.ended] for lane in self._lanes]}

    @property
    def over(self) -> bool:
        """Every lane has ended."""
        return not self._going

    @property
    def floor(self) -> int:
        """Every Split below it is done."""
        while self._rearmost and not self._is_at(*self._rearmost[0]):
            heappop(self._rearmost)
        return self._rearmost[0][0] if self._rearmost else self.count

    def _is_at(self, split: int, lane: int) -> bool:
        return self._lanes[lane].split == split and not self._lanes[lane].ended

    @property
    def dirty(self) -> bool:
        """Some lane's last attempt was lost."""
        return bool(self._dirty)

    def take(self, target: int | None, fits: Fits = _any_fits) -> Work | None:
        """Return a lane's next Split. A lane without one waits for more, or ends if there are none."""
        for index in sorted(self._idle):
            lane = self._lanes[index]
            if target is not None and index not in self._dirty and lane.position >= target:
                continue
            if lane.split < self.count or self.complete:
                lane.taken = True
                self._idle.discard(index)
                self._dirty.discard(index)
                return Work(lane.split if lane.split < self.count else None, lane.start, index, lane.step)
        return None

    def progress(self, work: Work, upto: int) -> bool:
        """Remember how far a lane is in its Split."""
        lane = self._lanes[work.lane]
        news = upto > lane.start
        lane.start = max(upto, lane.start)
        return news

    def give_back(self, work: Work, *, clean: bool) -> None:
        """The lane is not being run."""
        self._free(work.lane)
        (self._dirty.discard if clean else self._dirty.add)(work.lane)

    def _free(self, lane: int) -> None:
        self._lanes[lane].taken = False
        self._idle.add(lane)

    def finish(self, work: Work, batches: int) -> None:
        """Go on to the lane's next Split."""
        lane = self._lanes[work.lane]
        if work.split is None:
            lane.taken, lane.ended = False, True
            self._going -= 1
        else:
            lane.split, lane.step, lane.start = lane.split + self.lanes, lane.step + batches, 0
            heappush(self._rearmost, (lane.split, work.lane))
            self._free(work.lane)

    def target(self) -> int:
        """Return the step of the foremost lane, which may be one that has ended.

        All others must come there or end: only then hosts have committed every gradient that is not going to be sent
        again.
        """
        return max(lane.position for lane in self._lanes)

    def behind(self, work: Work, target: int) -> bool:
        """A lane before the target must go on."""
        lane = self._lanes[work.lane]
        return not lane.ended and lane.position < target

    def lagging(self, target: int) -> bool:
        """Say whether some lane that nobody runs is before the target."""
        return any(not lane.ended and lane.position < target for lane in self._lanes)
