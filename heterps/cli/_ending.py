"""How a command ends: a signal unwinds it, a mistake is one line, and what nobody foresaw is one line and a file."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
import tempfile
import threading
import traceback
from collections.abc import Iterator
from types import FrameType
from typing import Any, NoReturn

import click

from heterps.errors import HeterpsError
from heterps.version import __version__

__all__ = ["StoppedError", "ending"]

_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_LATER_S = 0.02
_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class StoppedError(KeyboardInterrupt):
    """A signal asked the command to end; blocks unwind as they do for Ctrl-C."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextlib.contextmanager
def ending() -> Iterator[None]:
    """Turn whatever a command ends with into a message and an exit code: 128 + n after signal n."""
    seen: list[int] = []
    try:
        with _stoppable(seen):
            yield
    except KeyboardInterrupt as stopped:
        _stopped(stopped.number if isinstance(stopped, StoppedError) else signal.SIGINT)
    except Exception as error:
        if seen:  # what stood in the way of the signal: a compiler that was called back, a worker that was gone
            _stopped(seen[0])
        _failed(error)


def _stopped(number: int) -> NoReturn:
    click.echo(f"stopped by {signal.Signals(number).name}", err=True)
    sys.exit(128 + number)


def _failed(error: Exception) -> NoReturn:
    try:
        raise error
    except HeterpsError:  # a user's mistake: the message, not a traceback
        raise click.ClickException(str(error)) from error
    except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
        raise
    except OSError as failed:
        if failed.filename is None and failed.errno in _DISK:  # of the terminal or file that is printed to, most often
            raise click.ClickException(f"{failed.strerror}: make room where the output goes") from error
        if failed.filename is None:
            _unforeseen(error)
        raise click.ClickException(f"{os.fsdecode(failed.filename)}: {failed.strerror}") from error
    except Exception:
        _unforeseen(error)


@contextlib.contextmanager
def _stoppable(seen: list[int]) -> Iterator[None]:
    """Let signals raise, the first time; the second is for those who do not want to wait for things to be put away."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    swallowed: list[int] = []  # signals whose error could not be raised where it came up
    timers: list[threading.Timer] = []  # those that raise them again; none outlives the handlers

    def again(ignored: Any) -> None:
        """Raise a little later what a finalizer or a callback of C swallowed; what else comes up interests nobody."""
        if isinstance(ignored.exc_value, StoppedError):
            swallowed.append(ignored.exc_value.number)
            timers.append(threading.Timer(_LATER_S, signal.pthread_kill, (main, ignored.exc_value.number)))
            timers[-1].start()

    def stop(number: int, frame: FrameType | None) -> None:
        if swallowed:
            number = swallowed.pop()
            if over:  # the error of a compiler that was called back has unwound the command already
                return
            raise StoppedError(number)
        seen.append(number)
        if len(seen) == 1:
            sys.unraisablehook = again
            raise StoppedError(number)
        if len(seen) > 2:
            os._exit(128 + number)
        os.write(2, b"stopping; a third signal ends at once\n")

    over: list[bool] = []
    main = threading.main_thread().ident
    assert main is not None
    # A signal that was ignored when we were started (nohup) stays ignored.
    before: dict[int, Any] = {n: signal.getsignal(n) for n in _STOPPING if signal.getsignal(n) is not signal.SIG_IGN}
    hook = sys.unraisablehook
    for number in before:
        signal.signal(number, stop)
    try:
        yield
    finally:
        over.append(True)
        sys.unraisablehook = hook
        for timer in timers:
            timer.cancel()
            timer.join()
        for number, handler in before.items():
            signal.signal(number, handler)


def _unforeseen(error: Exception) -> NoReturn:
    """Say in one line what happened and where the rest stands."""
    what = " ".join(f"{type(error).__name__}: {error}".split())[:200]
    text = f"heterps {__version__}, Python {sys.version}\n{sys.argv}\n{''.join(traceback.format_exception(error))}"
    try:
        number, name = tempfile.mkstemp(prefix="heterps-error-", suffix=".txt")
        with os.fdopen(number, "w", errors="backslashreplace") as file:
            file.write(text)
    except OSError:
        raise click.ClickException(f"{what}. This is a mistake of heterps, please report it:\n{text}") from error
    raise click.ClickException(f"{what}. This is a mistake of heterps, please report it with {name}") from error
