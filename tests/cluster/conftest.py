"""Launches in processes of their own, and the promise that none of them leaves anything running."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import textwrap
import time
import uuid
from collections.abc import Iterator

import psutil
import pytest

_REPOSITORY = pathlib.Path(__file__).parents[2]


class Launched:
    """One ``heterps launch`` under test; everything it starts carries ``mark`` in its environment."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder, self.logs, self.mark = folder, folder / "logs", uuid.uuid4().hex
        self.process: subprocess.Popen[str] | None = None
        self.environment: dict[str, str] = {}
        self.terminal: int | None = None

    def start(self, script: str, *options: str) -> subprocess.Popen[str]:
        (self.folder / "script.py").write_text(textwrap.dedent(script))
        return self.start_words(
            sys.executable, "-m", "heterps", "launch", "--logs", str(self.logs), *options, "script.py"
        )

    def start_words(self, *words: str) -> subprocess.Popen[str]:
        path = os.pathsep.join(filter(None, [str(_REPOSITORY), os.environ.get("PYTHONPATH")]))
        programs = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
        # Many short-lived workers on two cores: each would read all loops from the cache for a few batches.
        self.environment.setdefault("DASK_HETERPS__WORKER__WARM", "false")
        own = {"HETERPS_TEST_MARK": self.mark, "PYTHONPATH": path, "PATH": programs, "TMPDIR": str(self.folder)}
        if self.terminal is not None:  # makes it the controlling terminal of the new session
            words = ("setsid", "--ctty", "--wait", *words)
        self.process = subprocess.Popen(
            words, cwd=self.folder, env={**os.environ, **own, **self.environment}, text=True, start_new_session=True,
            stdin=self.terminal, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        return self.process

    def run(self, script: str, *options: str) -> tuple[int, str, str]:
        process = self.start(script, *options)
        # A cold cache on a busy machine: every process compiles its loops first. Below the limit of a test.
        out, err = process.communicate(timeout=280)
        return process.returncode, out, err

    def wait_for(self, path: str) -> str:
        """Wait for a file the script writes; return its text."""
        file, until = self.folder / path, time.monotonic() + 240
        while not file.exists() or not file.read_text():
            assert time.monotonic() < until, f"the script never wrote {path}"
            assert self.process is None or self.process.poll() is None, self.process.communicate()
            time.sleep(0.05)
        return file.read_text()

    def processes(self) -> list[psutil.Process]:
        return [process for process in psutil.process_iter() if self._is_ours(process)]

    def _is_ours(self, process: psutil.Process) -> bool:
        try:
            return process.environ().get("HETERPS_TEST_MARK") == self.mark and process.status() != "zombie"
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            return False

    def wait_until_gone(self, seconds: float = 30.0) -> None:
        until = time.monotonic() + seconds
        while left := self.processes():
            assert time.monotonic() < until, f"still running: {[process.cmdline() for process in left]}"
            time.sleep(0.05)


@pytest.fixture
def launched(tmp_path: pathlib.Path) -> Iterator[Launched]:
    launch = Launched(tmp_path)
    yield launch
    left = launch.processes()
    for process in left:
        process.kill()
    if launch.process is not None:
        launch.process.communicate(timeout=30)
    assert not left, f"left running: {left}"
