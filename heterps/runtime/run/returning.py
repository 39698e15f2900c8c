"""Workers that were given up for silence: those that answer again are used again.

One that is heard of by the scheduler after it was given up is asked, in a thread of its own, to free what the run left
on it; whoever does that in time is back. One that is given up again and again waits longer each time. All this outlives
a run: trainings may be shorter than what it takes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from queue import SimpleQueue
from time import monotonic
from typing import Any

from distributed import Client

from heterps.errors import ClusterError
from heterps.runtime.cluster.ask import ask_workers
from heterps.runtime.config import settings
from heterps.runtime.own_threads import logged, start_thread
from heterps.runtime.run.remote import free_left

__all__ = ["Returning"]


class Returning:
    """The workers of a session that were given up. Belongs to the thread of whichever run goes on.

    Parameters
    ----------
    client
        Whom to ask.
    clock
        Says the time.
    """

    def __init__(self, client: Client, clock: Callable[[], float] = monotonic) -> None:
        self.silent: set[str] = set()
        """Those that did not answer in time and are not back: as if they were not there."""
        self._client, self._clock = client, clock
        self._heard: dict[str, float] = {}  # of silent workers: when the scheduler had heard of them at the first look
        self._run: dict[str, str] = {}  # in which they were given up: what that left there is to be freed
        self._asked: set[str] = set()  # that owe an answer
        self._answers: SimpleQueue[tuple[str, bool]] = SimpleQueue()  # whether they gave it
        self._times: dict[str, int] = {}  # how often each was given up
        self._until: dict[str, float] = {}  # before that it is not asked

    def look(self, identity: Mapping[str, Any], run: str) -> set[str]:
        """Return the workers that are back since the last look, in this run or one before; ask those heard of."""
        there = identity["workers"]
        back = self._answered() & self.silent
        self.silent -= back
        for worker in back:
            self._heard.pop(worker, None)
        for worker in self.silent & set(there):
            self._consider(worker, str(there[worker].get("name", worker)), float(there[worker]["last_seen"]), run)
        return back

    def _consider(self, worker: str, name: str, seen: float, run: str) -> None:
        if worker not in self._heard:
            self._heard[worker], self._run[worker] = seen, run
            times = self._times[worker] = self._times.get(worker, 0) + 1
            self._until[worker] = self._clock() + (times - 1) * settings().call_s
        elif seen > self._heard[worker] and worker not in self._asked and self._clock() >= self._until[worker]:
            self._heard[worker] = seen  # asked once for each time that it is heard of
            self._asked.add(worker)
            failed = logged(f"asking worker {name}, which was given up")
            start_thread("returning", self._ask, worker, name, self._run[worker], failed=failed)

    def _ask(self, worker: str, name: str, run: str) -> None:
        answers = False
        try:
            with suppress(ClusterError):  # it is given up already
                ask_workers(self._client, free_left, {worker: name}, run)
                answers = True
        finally:
            self._answers.put((worker, answers))

    def _answered(self) -> set[str]:
        """Return who has answered since it was asked."""
        back = set()
        while not self._answers.empty():
            worker, answers = self._answers.get()
            self._asked.discard(worker)
            back |= {worker} if answers else set()
        return back
