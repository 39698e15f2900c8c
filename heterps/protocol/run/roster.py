"""Io workers and the attempts that run on them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from heterps.protocol.run.books import Work
from heterps.protocol.words.messages import FAR

__all__ = ["IoWorker", "LiveAttempt", "Roster"]


@dataclass(slots=True)
class LiveAttempt:
    """One try at some work.

    ``serial`` is that of the last instruction to stop or go on; ``stopping`` says that it was told to stop,
    ``paused`` that it has, ``moving`` that it is to be continued on another worker, ``ending`` that all its batches are
    read, so that it takes no slot any more, ``outrun`` that a twin of it was lost, which may have gone further,
    ``waits`` that it will stand at this batch once the other lanes have come there, too (-1: it does not wait).
    """

    number: int
    pass_: int
    work: Work
    worker: str
    serial: int = 0
    stopping: bool = False
    paused: bool = False
    moving: bool = False
    ending: bool = False
    outrun: bool = False
    waits: int = -1


@dataclass(slots=True)
class IoWorker:
    """A worker that runs Splits. ``number`` is never used again: it names the worker's rows in Geo.

    ``leaving`` says that it will go, ``held`` that it can begin nothing for now, as the engine saw it at ``look``,
    ``slow`` that it is far behind the others, as seen at ``pace_look``.
    """

    name: str
    number: int
    slots: int
    leaving: bool = False
    held: bool = False
    look: int = 0
    slow: bool = False
    pace_look: int = 0
    attempts: dict[int, LiveAttempt] = field(default_factory=dict)

    @property
    def usable(self) -> bool:
        """Whether it may be given something to begin."""
        return not self.leaving and not self.held

    @property
    def taken(self) -> int:
        """Slots in use."""
        return sum(not attempt.ending for attempt in self.attempts.values())


class Roster:
    """Who runs what."""

    def __init__(self, *, ordered: bool, life: int) -> None:
        self.workers: dict[str, IoWorker] = {}
        self.attempts: dict[int, LiveAttempt] = {}
        self._ordered = ordered
        self._homes: dict[int, str] = {}  # by lane, the worker that ran it last: it may have rows of the lane's own
        self._last = self._first = life << 32
        self._numbers = life << 32

    def join(self, worker: str, slots: int) -> None:
        """A worker can be given Splits."""
        self._numbers += 1
        self.workers[worker] = IoWorker(worker, self._numbers, FAR if self._ordered else slots)

    def issued(self, attempt: int) -> bool:
        """Say whether such an attempt was ever made, by this run or one before it."""
        return attempt <= self._last

    def begin(self, pass_: int, work: Work, worker: IoWorker) -> LiveAttempt:
        """Make a new attempt on a worker."""
        self._last += 1
        attempt = LiveAttempt(self._last, pass_, work, worker.name)
        self.attempts[attempt.number] = worker.attempts[attempt.number] = attempt
        self._homes[work.lane] = worker.name
        return attempt

    def at_home(self, lane: int | None) -> IoWorker | None:
        """Return the worker that ran a lane last, if it may run it again."""
        home = None if lane is None or not self._ordered else self.workers.get(self._homes.get(lane, ""))
        return home if home is not None and home.usable and not home.slow else None

    def leave_home(self, attempt: LiveAttempt) -> None:
        """Let whoever has room run a lane next."""
        self._homes.pop(attempt.work.lane, None)

    def end(self, attempt: LiveAttempt) -> None:
        """Forget an attempt: whatever it still says is stale."""
        del self.attempts[attempt.number]
        worker = self.workers.get(attempt.worker)
        if worker is not None:
            worker.attempts.pop(attempt.number, None)

    def free(self, avoid: str | None = None, near: Collection[str] = ()) -> IoWorker | None:
        """Return the worker with the fewest attempts among those with a free slot; of several such, one of ``near``.

        One that is slow only where there is no other.
        """
        able = (w for w in self.able() if w.name != avoid)
        return min(able, key=lambda w: (w.slow, len(w.attempts), w.name not in near), default=None)

    def able(self) -> list[IoWorker]:
        """Return the workers with a free slot, those with the fewest attempts first, slow ones last."""
        found = [w for w in self.workers.values() if w.usable and w.taken < w.slots]
        return sorted(found, key=lambda w: (w.slow, len(w.attempts)))

    def faster(self, worker: str) -> bool:
        """Say whether there is another worker that is not slow and could run what this one runs."""
        return any(w.usable and not w.slow and w.name != worker for w in self.workers.values())

    def waits_for(self, holders: Collection[str], worker: str) -> bool:
        """Say whether what some workers hold is not for another one: as long as one of them may be given it."""
        return worker not in holders and any(name in self.workers and self.workers[name].usable for name in holders)

    def paused(self) -> LiveAttempt | None:
        """Return a paused attempt whose slot can be used for something more urgent."""
        able = (a for a in self.attempts.values() if a.paused and self.workers[a.worker].usable)
        return min(able, key=lambda a: self.workers[a.worker].slow, default=None)

    def twins(self, attempt: LiveAttempt) -> list[LiveAttempt]:
        """Return the other attempts at the same work: a lane or Split that was slow."""
        stream = self.stream(attempt)
        return [a for a in self.attempts.values() if a is not attempt and self.stream(a) == stream]

    def stream(self, attempt: LiveAttempt) -> int | None:
        """Return what it is an attempt at: a lane in Sync, else a Split."""
        return attempt.work.lane if self._ordered else attempt.work.split

    def crowded(self) -> LiveAttempt | None:
        """Return an attempt that another worker has room for: two or more beyond the emptiest worker (Sync)."""
        able = [w for w in self.workers.values() if w.usable and not w.slow]
        if not self._ordered or len(able) < 2:
            return None
        fullest = max(able, key=_staying)
        moving = sum(a.moving for a in self.attempts.values())  # these will go to the emptiest workers
        if _staying(fullest) - min(map(_staying, able)) - moving < 2:
            return None
        return next(a for a in fullest.attempts.values() if not a.moving)


def _staying(worker: IoWorker) -> int:
    return sum(not a.moving for a in worker.attempts.values())
