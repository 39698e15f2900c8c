"""Signals as something one waits for, instead of something that happens between any two lines."""

from __future__ import annotations

import os
import select
import signal
import sys
from types import FrameType, TracebackType
from typing import Any

__all__ = ["STOPPING", "Signals", "terminal_told_us"]

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Signals:
    """While its block runs, signals that would stop the process, and the end of a child, are kept for :meth:`wait`.

    One that was ignored when we were started (nohup) stays ignored, here and in what we start.

    For the main thread only. Handlers and not a blocked mask: numerical libraries have started threads by now, and
    a signal that one thread blocks is delivered to another.
    """

    def __enter__(self) -> Signals:
        self._reader, self._writer = os.pipe()
        for end in (self._reader, self._writer):
            os.set_blocking(end, False)
        self._wakeup = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        heeded = [number for number in STOPPING if signal.getsignal(number) is not signal.SIG_IGN]
        self._before: dict[int, Any] = {n: signal.signal(n, _keep) for n in (*heeded, signal.SIGCHLD)}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup)
        os.close(self._reader)
        os.close(self._writer)

    def wait(self, timeout_s: float) -> int | None:
        """Return the first signal that asks to stop, None after the time or when a child ended."""
        if not select.select([self._reader], [], [], timeout_s)[0]:
            return None
        received = os.read(self._reader, 4096)
        return next((number for number in received if number in STOPPING), None)


def _keep(number: int, frame: FrameType | None) -> None:
    """Do nothing: the number is in the pipe already."""


def terminal_told_us(number: int) -> bool:
    """Whether a signal came, as far as can be told, from our terminal; then every process of our group has it."""
    if number != signal.SIGINT:
        return False
    try:
        return os.tcgetpgrp(sys.__stdin__.fileno()) == os.getpgrp() if sys.__stdin__ else False
    except (OSError, ValueError):
        return False
