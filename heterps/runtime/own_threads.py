"""The one way to start a thread of ours: what it raises reaches its owner, so that none dies in silence."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

__all__ = ["Failed", "logged", "start_thread", "start_timer"]

Failed = Callable[[Exception], None]
_LOG = logging.getLogger("heterps")


def start_thread(name: str, work: Callable[..., None], *args: Any, failed: Failed) -> None:
    """Start a daemon thread.

    Parameters
    ----------
    name
        What it does, for listings.
    work, *args
        What it runs.
    failed
        Takes what ``work`` raised, in that thread: an event of the run, an answer to whoever waits. Where there is no
        run to tell, :func:`logged`.
    """
    threading.Thread(target=_run, args=(name, work, args, failed), name=f"heterps-{name}", daemon=True).start()


def start_timer(seconds: float, work: Callable[[], None], *, failed: Failed) -> None:
    """Run something in a thread of its own, a while from now."""
    timer = threading.Timer(seconds, _run, ("timer", work, (), failed))
    timer.daemon = True
    timer.start()


def logged(what: str) -> Failed:
    """Return a ``failed`` that tells only the log, for threads that belong to no run."""
    return lambda error: _LOG.error("%s failed: %s", what, error, exc_info=error)


def _run(name: str, work: Callable[..., None], args: tuple[Any, ...], failed: Failed) -> None:
    try:
        work(*args)
    except Exception as error:
        try:
            failed(error)
        except Exception as second:  # the owner cannot be told: the log is all that is left
            logged(f"thread {name!r}, and telling its owner of {error!r},")(second)
