"""A signal that waits for a good moment: training ends with whole batches, and what was trained is saved."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

from heterps.cli._ending import StoppedError

__all__ = ["Stop", "deferred"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stop:
    """Whether a signal came while it was waited with."""

    def __init__(self) -> None:
        self.number = 0

    @property
    def asked(self) -> bool:
        """Whether to stop at the next good moment."""
        return self.number > 0

    def go_on(self) -> None:
        """End the command as the signal would have, now that everything is saved."""
        if self.asked:
            raise StoppedError(self.number)


@contextlib.contextmanager
def deferred(enabled: bool, unit: str = "batch") -> Iterator[Stop]:
    """Let the first signal only be noted, until a unit of work is done; a second one is handled as before."""
    stop = Stop()
    if not enabled or threading.current_thread() is not threading.main_thread():
        yield stop
        return
    # Who ignores a signal (nohup) goes on ignoring it.
    before: dict[int, Any] = {n: signal.getsignal(n) for n in _SIGNALS if signal.getsignal(n) is not signal.SIG_IGN}

    words = f"stopping after this {unit}; what was trained will be saved. Once more to stop at once\n".encode()

    def note(number: int, frame: FrameType | None) -> None:
        if stop.asked:
            handler = before[number]
            handler(number, frame) if callable(handler) else os._exit(128 + number)
        stop.number = number
        os.write(2, words)

    for number in before:
        signal.signal(number, note)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
