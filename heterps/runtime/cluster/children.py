"""Processes that belong to this one: one log each, restarted up to a limit, ended together with all they started."""

from __future__ import annotations

import contextlib
import ctypes
import os
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any

import psutil

from heterps.errors import ClusterError
from heterps.runtime.cluster.commands import Command

__all__ = ["Child", "Children", "adopting"]

_CHILD = str(pathlib.Path(__file__).with_name("child.py"))
_SHOWN_LINES = 15
_PR_SET_CHILD_SUBREAPER = 36


@contextlib.contextmanager
def adopting() -> Iterator[None]:
    """Become the parent of processes whose own parent ends, and kill those that are left at the end of the block."""
    before = set(psutil.Process().children(recursive=True))
    prctl = ctypes.CDLL(None).prctl
    prctl(_PR_SET_CHILD_SUBREAPER, 1)
    try:
        yield
    finally:
        left = [process for process in psutil.Process().children(recursive=True) if process not in before]
        for process in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(left, timeout=5)
        prctl(_PR_SET_CHILD_SUBREAPER, 0)


class Child:
    """One process, over all its incarnations.

    Parameters
    ----------
    make
        Returns the command of incarnation n, so that a restarted worker can take another name.
    log
        File that gets its output, and it runs in a session of its own; None: it shares our terminal and process group,
        so that Ctrl-C, Ctrl-Z and typing work as if it had been started without us.
    """

    def __init__(self, make: Callable[[int], Command], log: pathlib.Path | None) -> None:
        self._make, self.log, self.restarts = make, log, 0
        self.command = make(0)
        self.began_s = time.monotonic()  # of the present incarnation
        self.process = self._start()

    @property
    def name(self) -> str:
        """Name of the present incarnation."""
        return self.command.name

    def restart(self) -> None:
        """Start the next incarnation of a process that has ended."""
        self.end_group()
        self.restarts += 1
        self.command = self._make(self.restarts)
        self.began_s = time.monotonic()
        self.process = self._start()

    def signal(self, number: int) -> None:
        """Send a signal to the process, and to its group where that is its own."""
        with contextlib.suppress(ProcessLookupError):
            if self.log is not None:
                os.killpg(self.process.pid, number)
            elif self.process.poll() is None:
                self.process.send_signal(number)

    def end_group(self) -> None:
        """Kill what is left of the group; its leader must have been asked to end before."""
        self.signal(signal.SIGKILL)
        self.process.wait()

    def last_lines(self) -> str:
        """Return the end of its log."""
        if self.log is None:
            return ""
        lines = self.log.read_text(errors="replace").splitlines()
        return "\n".join(f"  {line}" for line in lines[-_SHOWN_LINES:])

    def _start(self) -> subprocess.Popen[bytes]:
        words = [sys.executable, "-I", "-S", _CHILD, str(os.getpid()), *self._program()]
        environment = {**os.environ, **self.command.environment}
        if self.log is None:
            return subprocess.Popen(words, env=environment)
        with self.log.open("ab") as log:
            log.write(f"--- {self.command}\n".encode())
            log.flush()
            return _start_in_background(words, environment, log)

    def _program(self) -> list[str]:
        first, *rest = self.command.words
        return [sys.executable, "-m", "dask", *rest] if first == "dask" else list(self.command.words)


def _start_in_background(words: list[str], environment: dict[str, str], log: IO[Any]) -> subprocess.Popen[bytes]:
    # A session of its own: neither Ctrl-C nor the end of the terminal reaches it but through us.
    return subprocess.Popen(
        words, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
    )


class Children:
    """The processes of a launch; ends them all when its ``with`` block does.

    Parameters
    ----------
    max_restarts
        How often one process may be restarted.
    grace_s
        Time between asking a process to end and killing it.
    """

    def __init__(self, max_restarts: int, grace_s: float) -> None:
        self.max_restarts, self.grace_s = max_restarts, grace_s
        self._children: list[Child] = []

    def __enter__(self) -> Children:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop(reversed(self._children))

    def start(self, make: Callable[[int], Command], log: pathlib.Path | None) -> Child:
        """Start a process and look after it."""
        child = Child(make, log)
        self._children.append(child)
        return child

    def revive(self, children: Iterable[Child]) -> tuple[Child, ...]:
        """Restart those that have ended and return them.

        Raises
        ------
        ClusterError
            When one has used up its restarts; the message has the end of its log.
        """
        dead = tuple(child for child in children if child.process.poll() is not None)
        for child in dead:
            if child.restarts >= self.max_restarts:
                raise ClusterError(_given_up(child))
            child.restart()
        return dead

    def stop(self, children: Iterable[Child]) -> None:
        """Ask them to end, all at once; after the grace kill what is left, with all that they started."""
        chosen = [child for child in children if child in self._children]
        for child in chosen:
            child.signal(signal.SIGTERM)
        until = time.monotonic() + self.grace_s
        for child in chosen:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.process.wait(max(0.0, until - time.monotonic()))
            child.end_group()
            self._children.remove(child)


def _given_up(child: Child) -> str:
    code = child.process.returncode
    how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
    return (
        f"{child.name} {how} and has been restarted {child.restarts} times; end of {child.log}:\n{child.last_lines()}"
    )
