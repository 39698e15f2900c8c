"""Rows through a program: each file goes to its stdin, its stdout is read instead.

The program must give the same output for the same file each time, or a batch would not be the same for
every attempt. It is started by the shell, in a process group of its own that is ended with the read.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from heterps.data.core.files import is_url, open_bytes, open_raw
from heterps.errors import DataError

__all__ = ["PipeProgram", "opener_of"]


def opener_of(command: str, timeout: float) -> Callable[[str], Any]:
    """Return what opens a file: itself, or through a program."""
    return partial(PipeProgram.on_file, command, timeout) if command else open_bytes


class PipeProgram:
    """A running program as a readable file.

    Parameters
    ----------
    command
        Argument list, or a shell command line.
    what
        What it reads or is, for messages.
    timeout
        Seconds without any output after which it is given up.
    stdin
        A file descriptor to read from, or PIPE.
    """

    def __init__(self, command: str | list[str], what: str, timeout: float, stdin: Any = subprocess.DEVNULL) -> None:
        self.command, self.what, self.timeout = command, what, timeout
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the program
        self.process = subprocess.Popen(
            command,
            shell=isinstance(command, str),
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            bufsize=0,
            start_new_session=True,
        )
        self.finished = False

    @classmethod
    def on_file(cls, command: str, timeout: float, path: str) -> PipeProgram:
        """Start a program on one file, given as stored."""
        file = open_raw(path)
        if is_url(path):
            program = cls(command, path, timeout, subprocess.PIPE)
            program.feed(file)
            return program
        with file:
            return cls(command, path, timeout, file)

    def feed(self, file: Any) -> None:
        """Copy a file to the program's stdin in the background."""
        pipe = self.process.stdin
        assert pipe is not None

        def copy() -> None:
            # A program may stop reading early (head -1): then the pipe is closed under us.
            with contextlib.suppress(OSError), file, pipe:
                shutil.copyfileobj(file, pipe)

        threading.Thread(target=copy, name="pipe-feed", daemon=True).start()

    def readinto(self, room: Any) -> int:
        """Read some output; 0 at its end. A failure of the program is raised here."""
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], self.timeout)
        if not ready:
            self._stop()
            raise DataError(f"{self._name()} gave no output for {self.timeout:g} s and was stopped{self._last_words()}")
        got = os.readv(self.process.stdout.fileno(), [room])
        if got == 0:
            self._check()
        return got

    def drain(self) -> None:
        """Read what is left and check how the program ended."""
        room = bytearray(1 << 16)
        while not self.finished and self.readinto(room):
            pass

    def _check(self) -> None:
        try:
            code = self.process.wait(self.timeout)
        except subprocess.TimeoutExpired:
            self._stop()
            raise DataError(f"{self._name()} closed its output but did not end") from None
        self.finished = True
        if code != 0:
            raise DataError(f"{self._name()} ended with code {code}{self._last_words()}")

    def _name(self) -> str:
        command = self.command if isinstance(self.command, str) else " ".join(self.command[:3])
        return f"the program {command!r} on {self.what}"

    def _last_words(self) -> str:
        self.errors.seek(0)
        text = self.errors.read()[-2000:].decode("utf-8", "backslashreplace").strip()
        return f":\n{text}" if text else ""

    def _stop(self) -> None:
        # The group is the program's own (start_new_session), so nothing else is hit.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.finished = True

    def close(self) -> None:
        """End the program, whatever it is doing."""
        if not self.finished:
            self._stop()
        for pipe in (self.process.stdout, self.process.stdin):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        self.errors.close()
