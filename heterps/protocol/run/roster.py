"""Io workers and the attempts that run on them.

Whoever changes a worker or an attempt does so here: what is asked at every event (who is free, who has not stopped yet)
is kept up to date instead of being looked for among all.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from heterps.protocol.run.books import Work
from heterps.protocol.run.ranking import Ranking
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

    ``leaving`` says that it will go, ``held`` that it can begin nothing for now, ``slow`` that it is far behind the
    others.
    """

    name: str
    number: int
    slots: int
    leaving: bool = False
    held: bool = False
    slow: bool = False
    attempts: dict[int, LiveAttempt] = field(default_factory=dict)

    @property
    def usable(self) -> bool:
        """Whether it may be given something to begin."""
        return not self.leaving and not self.held

    @property
    def able(self) -> bool:
        """Whether it may be given something now."""
        return self.usable and self.taken < self.slots

    @property
    def taken(self) -> int:
        """Slots in use."""
        return sum(not attempt.ending for attempt in self.attempts.values())

    @property
    def staying(self) -> int:
        """Attempts that are not to go on elsewhere."""
        return sum(not attempt.moving for attempt in self.attempts.values())


class _Looks:
    """What the engine saw of workers, one thing: its last word counts, whatever is heard when, or before who joined."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[int, bool]] = {}

    def hear(self, worker: str, found: bool, look: int) -> bool:
        """Take a word; return whether it is news."""
        if look <= self._last.get(worker, (0, False))[0]:
            return False
        self._last[worker] = look, found
        return True

    def of(self, worker: str) -> bool:
        """Return what was seen last."""
        return self._last.get(worker, (0, False))[1]

    def forget(self, worker: str) -> None:
        """A worker is gone: what was seen of it says nothing about whoever comes under its name."""
        if worker in self._last:
            self._last[worker] = self._last[worker][0], False


class Roster:
    """Who runs what."""

    def __init__(self, *, ordered: bool, life: int) -> None:
        self.workers: dict[str, IoWorker] = {}
        self.attempts: dict[int, LiveAttempt] = {}
        self.going: dict[int, LiveAttempt] = {}
        """Attempts that were not told to stop."""
        self.owing: dict[int, LiveAttempt] = {}
        """Attempts that were told to stop, and have neither done so nor wait for other lanes."""
        self.resting: dict[int, LiveAttempt] = {}
        """Attempts that are paused."""
        self.comings = 0
        """Grows when a worker comes or goes."""
        self.vacated: set[str] = set()
        """Workers on which an attempt has ended, for whoever waits for that to take out."""
        self._ordered = ordered
        self._held = _Looks()
        self._slow = _Looks()
        self._homes: dict[int, str] = {}  # by lane, the worker that ran it last: it may have rows of the lane's own
        self._last = life << 32
        self._numbers = life << 32
        self._streams: dict[int | None, dict[int, LiveAttempt]] = {}
        self._moving = 0  # attempts that are to go on elsewhere
        self._able: Ranking[str] = Ranking()
        self._fullest: Ranking[str] = Ranking()  # in Sync: the usable ones that are not slow, by attempts that stay
        self._emptiest: Ranking[str] = Ranking()

    # --- workers

    def join(self, worker: str, slots: int) -> None:
        """A worker can be given Splits."""
        self._numbers += 1
        self.comings += 1
        found = self.workers[worker] = IoWorker(worker, self._numbers, FAR if self._ordered else slots)
        found.held, found.slow = self._held.of(worker), self._slow.of(worker)
        self._rank(found)

    def part(self, name: str) -> IoWorker | None:
        """A worker is gone; return it with the attempts that it had, which are still to be ended."""
        worker = self.workers.pop(name, None)
        if worker is not None:
            self._held.forget(name)
            self._slow.forget(name)
            self.comings += 1
            for ranking in (self._able, self._fullest, self._emptiest):
                ranking.drop(name)
        return worker

    def leave(self, worker: IoWorker) -> None:
        """A worker will go."""
        worker.leaving = True
        self._rank(worker)

    def hold(self, name: str, held: bool, look: int) -> None:
        """A worker, which may join later, can begin nothing for now, or can again."""
        if self._held.hear(name, held, look) and name in self.workers:
            self.workers[name].held = held
            self._rank(self.workers[name])

    def pace(self, name: str, slow: bool, look: int) -> None:
        """A worker, which may join later, is far behind the others, or is not any more."""
        if self._slow.hear(name, slow, look) and name in self.workers:
            self.workers[name].slow = slow
            self._rank(self.workers[name])

    def _rank(self, worker: IoWorker) -> None:
        """Put a worker that has changed where it belongs."""
        if worker.able:
            self._able.put(worker.name, (worker.slow, len(worker.attempts), worker.number))
        else:
            self._able.drop(worker.name)
        if not self._ordered:
            return
        if worker.usable and not worker.slow:
            self._fullest.put(worker.name, (-worker.staying, worker.number))
            self._emptiest.put(worker.name, (worker.staying, worker.number))
        else:
            self._fullest.drop(worker.name)
            self._emptiest.drop(worker.name)

    # --- attempts

    def issued(self, attempt: int) -> bool:
        """Say whether such an attempt was ever made, by this run or one before it."""
        return attempt <= self._last

    def begin(self, pass_: int, work: Work, worker: IoWorker) -> LiveAttempt:
        """Make a new attempt on a worker."""
        self._last += 1
        attempt = LiveAttempt(self._last, pass_, work, worker.name)
        self.attempts[attempt.number] = worker.attempts[attempt.number] = attempt
        self._homes[work.lane] = worker.name
        self._streams.setdefault(self.stream(attempt), {})[attempt.number] = attempt
        self.going[attempt.number] = attempt
        self._rank(worker)
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
        number, stream = attempt.number, self.stream(attempt)
        del self.attempts[number]
        self._place_of(attempt).pop(number, None)
        self._moving -= attempt.moving
        del self._streams[stream][number]
        if not self._streams[stream]:
            del self._streams[stream]
        self.vacated.add(attempt.worker)
        worker = self.workers.get(attempt.worker)
        if worker is not None:
            worker.attempts.pop(number, None)
            self._rank(worker)

    def stand(
        self, attempt: LiveAttempt, serial: int, *, stopping: bool, paused: bool = False, waits: int = -1
    ) -> None:
        """An attempt is told to stop or to go on, has stopped, or waits for other lanes."""
        self._place_of(attempt).pop(attempt.number, None)
        attempt.serial, attempt.stopping, attempt.paused, attempt.waits = serial, stopping, paused, waits
        self._place_of(attempt)[attempt.number] = attempt

    def _place_of(self, attempt: LiveAttempt) -> dict[int, LiveAttempt]:
        if attempt.paused:
            return self.resting
        if not attempt.stopping:
            return self.going
        return self.owing if attempt.waits < 0 else {}

    def move(self, attempt: LiveAttempt) -> None:
        """An attempt is to go on elsewhere."""
        self._moving += not attempt.moving
        attempt.moving = True
        self._rank(self.workers[attempt.worker])

    def read_all(self, attempt: LiveAttempt) -> None:
        """All batches of an attempt are read: it takes no slot any more."""
        attempt.ending = True
        self._rank(self.workers[attempt.worker])

    # --- queries

    def free(self, avoid: str | None = None, near: Collection[str] = ()) -> IoWorker | None:
        """Return the worker with the fewest attempts among those with a free slot; of several such, one of ``near``.

        One that is slow only where there is no other.
        """
        name = self._able.best() if avoid is None else self._able.best(lambda name: name != avoid)
        if name is None:
            return None
        best = self._able.keys[name][:2]
        ranks = {each: self._able.keys[each] for each in near if each != avoid and each in self._able.keys}
        close = [each for each, rank in ranks.items() if rank[:2] == best]
        return self.workers[min(close, key=ranks.__getitem__, default=name)]

    def able(self) -> list[IoWorker]:
        """Return the workers with a free slot, those with the fewest attempts first, slow ones last."""
        ranks = self._able.keys
        return [self.workers[name] for name in sorted(ranks, key=ranks.__getitem__)]

    def faster(self, worker: str) -> bool:
        """Say whether there is another worker that is not slow and could run what this one runs."""
        return any(w.usable and not w.slow and w.name != worker for w in self.workers.values())

    def waits_for(self, holders: Collection[str], worker: str) -> bool:
        """Say whether what some workers hold is not for another one: as long as one of them may be given it."""
        return worker not in holders and any(name in self.workers and self.workers[name].usable for name in holders)

    def paused(self) -> LiveAttempt | None:
        """Return a paused attempt whose slot can be used for something more urgent."""
        found = None
        for attempt in self.resting.values():
            worker = self.workers[attempt.worker]
            if worker.usable and not worker.slow:
                return attempt
            found = attempt if found is None and worker.usable else found
        return found

    def twins(self, attempt: LiveAttempt) -> list[LiveAttempt]:
        """Return the other attempts at the same work: a lane or Split that was slow."""
        return [a for a in self._streams.get(self.stream(attempt), {}).values() if a is not attempt]

    def stream(self, attempt: LiveAttempt) -> int | None:
        """Return what it is an attempt at: a lane in Sync, else a Split."""
        return attempt.work.lane if self._ordered else attempt.work.split

    def crowded(self) -> LiveAttempt | None:
        """Return an attempt that another worker has room for: two or more beyond the emptiest worker (Sync)."""
        if not self._ordered or len(self._fullest) < 2:
            return None
        full, empty = self._fullest.best(), self._emptiest.best()
        assert full is not None
        assert empty is not None
        fullest = self.workers[full]
        if fullest.staying - self.workers[empty].staying - self._moving < 2:  # those that move go to the emptiest
            return None
        return next(a for a in fullest.attempts.values() if not a.moving)

    def agrees(self) -> bool:
        """Say whether what is kept up to date is what a look at all workers and attempts would find."""
        able = {w.name: (w.slow, len(w.attempts), w.number) for w in self.workers.values() if w.able}
        fast = {w.name for w in self.workers.values() if self._ordered and w.usable and not w.slow}
        attempts = self.attempts
        sorted_in = {n for place in (self.going, self.owing, self.resting) for n in place}
        return (
            able == self._able.keys
            and {name: (-self.workers[name].staying, self.workers[name].number) for name in fast} == self._fullest.keys
            and {name: (self.workers[name].staying, self.workers[name].number) for name in fast} == self._emptiest.keys
            and self._moving == sum(a.moving for a in attempts.values())
            and {n: a for each in self._streams.values() for n, a in each.items()} == attempts
            and all(self._place_of(a).get(n) is a for n, a in attempts.items() if n in sorted_in)
            and sorted_in == {n for n, a in attempts.items() if a.paused or not a.stopping or a.waits < 0}
        )
