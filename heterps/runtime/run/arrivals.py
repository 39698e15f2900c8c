"""What arrives for the run's thread from other threads: events, and what follows from an actor's answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from queue import SimpleQueue
from typing import Any

from heterps.errors import CheckpointError, ClusterError, RunError
from heterps.protocol.words.events import Event
from heterps.runtime.answers import reason_of

__all__ = ["Arrivals"]


class Arrivals(SimpleQueue[Event | Callable[[], Event | None]]):
    """A run's inbox. Made first, so that a carrier can tell without knowing who listens.

    An event is for the run's state; anything else is called, in the run's thread, in its turn. An event that it returns
    is handled at once, before anything that arrived later: the two are one act.
    """

    def tell(self, event: Event) -> None:
        """Leave an event."""
        self.put(event)

    def post(self, act: Callable[[], None]) -> None:
        """Leave something to be done."""
        self.put(act)

    def fail(self, error: BaseException) -> None:
        """End the run with an error that another thread met."""
        self.put(partial(_raise, error))

    @contextmanager
    def told_of_failure(self) -> Iterator[None]:
        """In threads of Dask, which would log an error and go on: it ends the run."""
        try:
            yield
        except Exception as error:
            named = RunError(f"the run cannot go on from what a worker told it: {reason_of(error)}")
            named.__cause__ = error
            self.fail(named)
            raise

    def when(
        self,
        answer: Future[Any],
        act: Callable[[Any], Event | None],
        lost: Callable[[ClusterError], None] | None = None,
        unread: Callable[[CheckpointError], None] | None = None,
    ) -> None:
        """Have the answer of an actor dealt with in the run's thread.

        An error of our own code ends the run; that the actor is gone is dealt with by ``lost``, and that it could not
        read a snapshot by ``unread`` where that is given.
        """
        answer.add_done_callback(lambda done: self.put(partial(_settle, done, act, lost, unread)))


def _settle(
    done: Future[Any],
    act: Callable[[Any], Event | None],
    lost: Callable[[ClusterError], None] | None,
    unread: Callable[[CheckpointError], None] | None,
) -> Event | None:
    error = done.exception()
    if error is None:
        return act(done.result())
    if isinstance(error, CheckpointError) and unread is not None:
        unread(error)
    elif not isinstance(error, ClusterError):
        raise error
    elif lost is not None:
        lost(error)
    return None


def _raise(error: BaseException) -> None:
    raise error
