"""A thread that carries one call after another, so that the caller computes meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue

from heterps.runtime.own_threads import Failed, start_thread

__all__ = ["Courier"]


class Courier:
    """Runs errands in the order in which they came; what one raises goes to whoever gave it.

    Parameters
    ----------
    name
        Of the thread.
    at_end
        Called in that thread when it ends.
    """

    def __init__(self, name: str, at_end: Callable[[], None]) -> None:
        self._name, self._at_end = name, at_end
        self._todo: SimpleQueue[tuple[Callable[[], None], Failed] | None] = SimpleQueue()  # None: go home
        self._lock = threading.Lock()  # around what follows
        self._started = False  # the thread is made with the first errand
        self.closed = False  # nobody waits for errands any more: what they raise concerns nobody

    def send(self, errand: Callable[[], None], failed: Failed) -> None:
        """Queue an errand; ``failed`` takes what it raises."""
        self._todo.put((errand, failed))
        with self._lock:
            started, self._started = self._started, True
        if not started:
            start_thread(self._name, self._work, failed=failed)

    def _work(self) -> None:
        while (item := self._todo.get()) is not None:
            errand, failed = item
            try:
                errand()
            except Exception as error:
                if not self.closed:
                    failed(error)
        self._at_end()

    def close(self) -> None:
        """End the thread once it is done with what it does now."""
        self.closed = True
        with self._lock:
            started, self._started = self._started, True
        if started:
            self._todo.put(None)
        else:
            self._at_end()
