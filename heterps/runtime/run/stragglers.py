"""Finds io workers that are far behind the others, and tells the run: what they run is run a second time elsewhere."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from time import monotonic

from heterps.protocol.run.books import SplitBook
from heterps.protocol.run.spec import Phase
from heterps.protocol.run.state import RunState
from heterps.protocol.words.events import SplitSlow, WorkerPaced
from heterps.runtime.run.arrivals import Arrivals
from heterps.runtime.run.line import ActorLine
from heterps.runtime.run.paces import Behind, Going, Paces, told_every_s
from heterps.runtime.workers.turns import LaneTime

__all__ = ["Stragglers"]

_LOOK_S, _SHARE = 0.5, 0.02  # between looks, at least; looks take no more than this share of the time
_AGAIN = 10  # times the patience: after that a worker is taken to be as fast as others until it is seen not to be
_log = logging.getLogger("heterps")


class Stragglers:
    """Looks at one run, now and then; belongs to its thread.

    Parameters
    ----------
    after_s, factor
        See :class:`~heterps.runtime.run.paces.Paces`; 0 seconds: nobody is ever looked at.
    arrivals
        Takes what is found.
    counter
        Returns the line of a shard host, which knows whose turn it was in Sync.
    name
        ``name(worker)`` is what a user calls it.
    clock
        Says the time.
    """

    def __init__(
        self,
        after_s: float,
        factor: float,
        arrivals: Arrivals,
        counter: Callable[[], ActorLine | None],
        name: Callable[[str], str],
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._paces = Paces(after_s, factor)
        self._arrivals, self._counter, self._name, self._clock = arrivals, counter, name, clock
        self._last = clock()
        self._every_s = _LOOK_S  # between looks
        self._ran_s = 0.0  # for how long the run was seen running: what stands for a cut or a save is not slow
        self._slow: dict[str, float] = {}  # workers that were found to be, and until when that counts
        self._looks = 0
        self._asked = False  # a host owes the times of lanes
        self._stopping: tuple[frozenset[int], float] = (frozenset(), 0.0)  # who is to stop and has not, and since when

    def look(self, run: RunState) -> None:
        """Find out who is behind, if it is time."""
        now = self._clock()
        passed = now - self._last
        if not self._paces.after_s or passed < self._every_s:
            return
        self._last = now
        if passed > max(self._paces.after_s / 2, 2 * self._every_s):  # busy: what happened is in its inbox
            self._stopping = (frozenset(), now)
            self._paces.look_away()
            return
        self._look(run, now, passed)
        self._every_s = max(_LOOK_S, (self._clock() - now) / _SHARE)

    def _look(self, run: RunState, now: float, passed: float) -> None:
        self._let_off(now)
        if run.phase is Phase.RUNNING:
            self._ran_s += passed
            self._look_at(run)
        self._look_at_stopping(run, now)

    # --- while it runs

    def _look_at(self, run: RunState) -> None:
        book = run.book
        if isinstance(book, SplitBook):
            going = [
                Going(a.number, a.number, a.worker, book.starts[a.work.split], self._ran_s)
                for a in run.roster.attempts.values()
                if a.work.split is not None
            ]
            every_s, at_once = told_every_s(len(run.roster.workers)), run.spec.mode.told_at_once
            self._tell(self._paces.look(self._ran_s, going, every_s, at_once, book.done_since))
        elif not self._asked and (line := self._counter()) is not None and line.made.done():
            self._asked = True
            line.ask("lane_times").add_done_callback(
                lambda done: self._arrivals.post(lambda: self._heard(run, None if done.exception() else done.result()))
            )

    def _heard(self, run: RunState, times: list[LaneTime] | None) -> None:
        """A host has said what lanes took; one that is lost says nothing, and others notice that."""
        self._asked = False
        if times is None or run.phase is not Phase.RUNNING:
            return
        alone = [a for a in run.roster.attempts.values() if not run.roster.twins(a)]  # of two nobody knows whose turn
        going = [Going((a.work.lane, a.worker), a.number, a.worker, *times[a.work.lane]) for a in alone]
        self._tell(self._paces.look(self._ran_s, going))

    # --- while everybody is to stop

    def _look_at_stopping(self, run: RunState, now: float) -> None:
        """Nobody who was told to stop may keep the others waiting for long: they do nothing meanwhile."""
        late = {number: attempt.worker for number, attempt in run.roster.owing.items()}
        if frozenset(late) != self._stopping[0]:
            self._stopping = (frozenset(late), now)
        waited = now - self._stopping[1]
        if waited <= self._paces.after_s:
            return
        pace, known = waited / run.spec.mode.owed, {worker: self._paces.usual(worker) for worker in late.values()}
        self._tell(
            Behind(number, worker, pace, usual)
            for number, worker in late.items()
            if (usual := known[worker]) is not None and pace > self._paces.factor * usual
        )

    # --- what follows

    def _tell(self, found: Iterable[Behind]) -> None:
        for behind in found:
            if behind.worker not in self._slow:
                _log.warning(
                    "worker %s is far behind: %.3g s a batch where others take %.3g; what it runs is run a second time "
                    "elsewhere",
                    self._name(behind.worker),
                    behind.seconds,
                    behind.others,
                )
                self._pace(behind.worker, slow=True)
            self._slow[behind.worker] = self._clock() + _AGAIN * self._paces.after_s
            self._arrivals.tell(SplitSlow(behind.attempt))

    def _let_off(self, now: float) -> None:
        for worker in [worker for worker, until in self._slow.items() if until < now]:
            del self._slow[worker]
            self._paces.forget(worker)
            self._pace(worker, slow=False)

    def _pace(self, worker: str, *, slow: bool) -> None:
        self._looks += 1
        self._arrivals.tell(WorkerPaced(worker, slow, self._looks))

    def left(self, worker: str) -> None:
        """A worker is gone."""
        self._slow.pop(worker, None)
        self._paces.forget(worker)
