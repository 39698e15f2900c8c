"""The way to an actor: it is made and called from a thread of its own, so that whoever asks need not wait."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, InvalidStateError, wait
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, NamedTuple

from heterps.errors import ClusterError
from heterps.runtime.own_threads import start_thread
from heterps.runtime.run.remote import Remote

__all__ = ["ActorLine", "close_all"]

_CLOSING_S = 10.0  # for all actors together to end what they do; those that do not are left to Dask and their lease


class _Call(NamedTuple):
    method: str
    args: tuple[Any, ...]
    patient: bool
    answer: Future[Any]


class ActorLine:
    """Makes an actor, then hands it calls one after another.

    A ClusterError, whether it is made or called, ends the line: what was asked and what will be asked gets that error.

    Parameters
    ----------
    worker
        Address of its worker.
    make
        ``make(unwanted)`` makes it; gives up once the event is set.
    """

    def __init__(self, worker: str, make: Callable[[threading.Event], Remote]) -> None:
        self.worker = worker
        self.made: Future[None] = Future()
        """Done when the actor can be called, or will never be."""
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()  # None: no more
        self._lock = threading.Lock()  # a call is queued before the end or refused after it
        self._lost: BaseException | None = None  # set once, when the line ends
        self._asked: _Call | None = None  # what the actor is being asked, if anything
        self._unwanted = threading.Event()  # nobody wants an answer any more
        start_thread("line", self._work, make, failed=self._end)

    def ask(self, method: str, *args: Any, patient: bool = False) -> Future[Any]:
        """Queue a call; for ``patient`` see :meth:`~heterps.runtime.run.remote.Remote.finish`."""
        answer: Future[Any] = Future()
        with self._lock:
            if self._lost is None:
                self._calls.put(_Call(method, args, patient, answer))
                return answer
        answer.set_exception(self._lost)
        return answer

    def call(self, method: str, *args: Any, patient: bool = False) -> Any:
        """Call and wait."""
        return self.ask(method, *args, patient=patient).result()

    def close(self) -> Future[Any]:
        """Let the actor end its work behind what was asked before, and let go of it."""
        if not self.made.done():
            self.abandon()
        answer = self.ask("close")
        self._calls.put(None)
        return answer

    def abandon(self) -> None:
        """Wait no longer for what was asked."""
        self._unwanted.set()

    def lose(self, error: ClusterError) -> None:
        """The worker is gone: whoever waits for an answer hears of it now. From any thread."""
        self.abandon()
        self._end(error)
        self._calls.put(None)  # its thread may be waiting for a call

    # --- in its thread

    def _work(self, make: Callable[[threading.Event], Remote]) -> None:
        try:
            remote = make(self._unwanted)
        except BaseException as error:
            self._end(error)
            return
        with suppress(InvalidStateError):  # it was lost meanwhile
            self.made.set_result(None)
        while (call := self._calls.get()) is not None and self._carry_out(remote, call):
            pass
        self._end(ClusterError(f"the line to worker {self.worker} is closed"))
        remote.release()

    def _carry_out(self, remote: Remote, call: _Call) -> bool:
        with self._lock:
            self._asked = None if self._lost is not None else call
        if self._lost is not None:
            call.answer.set_exception(self._lost)
            return False
        try:
            result = remote.call(call.method, *call.args, patient=call.patient)
        except BaseException as error:
            if isinstance(error, ClusterError):
                self._end(error)
            elif self._answers(call):
                call.answer.set_exception(error)
            return not isinstance(error, ClusterError)
        if self._answers(call):
            call.answer.set_result(result)
        return True

    def _answers(self, call: _Call) -> bool:
        """Whether an answer is still wanted: one that was lost meanwhile has been told so. Asked once a call."""
        with self._lock:
            wanted, self._asked = self._asked is call, None
        return wanted

    def _end(self, error: BaseException) -> None:
        with self._lock:
            self._lost = self._lost or error
            left, self._asked = [self._asked], None
            while not self._calls.empty():
                left.append(self._calls.get())
        for call in left:
            if call is not None:
                call.answer.set_exception(self._lost)
        with suppress(InvalidStateError):  # it was made, or cannot be, since the line ended
            self.made.set_exception(self._lost)


def close_all(lines: Iterable[ActorLine], *besides: Future[Any]) -> None:
    """Close lines at once, with what else is to end; those that do not end soon are waited for no longer."""
    kept = list(lines)
    wait([*(line.close() for line in kept), *besides], _CLOSING_S)
    for line in kept:
        line.abandon()
