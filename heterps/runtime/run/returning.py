"""Workers that were given up for silence: those that answer again are used again.

One that is heard of by the scheduler after it was given up is asked, in a thread of its own, to free what the run left
on it; whoever does that in time is back. One that is given up again and again waits longer each time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
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
    """Watches the workers that were given up; belongs to the run's thread.

    Parameters
    ----------
    client, run
        Whom to ask, and what is to be freed there.
    silent
        Workers that were given up; those that are back are taken out.
    clock
        Says the time.
    """

    def __init__(self, client: Client, silent: set[str], run: str, clock: Callable[[], float] = monotonic) -> None:
        self._client, self._silent, self._run, self._clock = client, silent, run, clock
        self._heard: dict[str, float] = {}  # of silent workers: when the scheduler had heard of them at the first look
        self._asked: set[str] = set()  # that owe an answer
        self._back: set[str] = set()  # that gave it
        self._times: dict[str, int] = {}  # how often each was given up
        self._until: dict[str, float] = {}  # before that it is not asked

    def look(self, identity: Mapping[str, Any], post: Callable[[Callable[[], None]], None]) -> set[str]:
        """Return the workers that are back since the last look; ask those that were heard of.

        ``post`` has something done in this thread.
        """
        there = identity["workers"]
        for worker in self._silent & set(there):
            self._consider(worker, str(there[worker].get("name", worker)), float(there[worker]["last_seen"]), post)
        back, self._back = self._back, set()
        self._silent -= back
        for worker in back:
            self._heard.pop(worker, None)
        return back

    def _consider(self, worker: str, name: str, seen: float, post: Callable[[Callable[[], None]], None]) -> None:
        if worker not in self._heard:
            self._heard[worker] = seen
            times = self._times[worker] = self._times.get(worker, 0) + 1
            self._until[worker] = self._clock() + (times - 1) * settings().call_s
        elif seen > self._heard[worker] and worker not in self._asked and self._clock() >= self._until[worker]:
            self._heard[worker] = seen  # asked once for each time that it is heard of
            self._asked.add(worker)
            failed = logged(f"asking worker {name}, which was given up")
            start_thread("returning", self._ask, worker, name, post, failed=failed)

    def _ask(self, worker: str, name: str, post: Callable[[Callable[[], None]], None]) -> None:
        answers = False
        with suppress(ClusterError):  # it is given up already
            ask_workers(self._client, free_left, {worker: name}, self._run)
            answers = True
        post(lambda: self._answered(worker, answers))

    def _answered(self, worker: str, answers: bool) -> None:
        self._asked.discard(worker)
        if answers:
            self._back.add(worker)
