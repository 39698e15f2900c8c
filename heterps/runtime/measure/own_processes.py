"""What the engine takes where scheduler and workers are processes: ``heterps launch`` starts a few for it."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import psutil

from heterps.errors import ClusterError

__all__ = ["busy_s", "engine_in_processes"]

_SECONDS = 120.0  # for all of it; on a machine that has nothing else to do it takes some eight
_SCRIPT = "heterps.runtime.measure.processes_script"


def engine_in_processes() -> tuple[float, float]:
    """Processor seconds of a batch of a tiny model, and of a second without work, of all processes together.

    Raises
    ------
    ClusterError
        If the processes could not be started, or did not end in time.
    """
    with tempfile.TemporaryDirectory(prefix="heterps-measure-") as folder:
        found = Path(folder) / "found.json"
        words = ["launch", "--logs", folder, "--servers", "1", "--io", "1", "-m", _SCRIPT, str(found)]
        ended = _ended([sys.executable, "-m", "heterps", *words])
        if not found.exists():
            raise ClusterError(f"what the engine takes in processes could not be measured: {ended}")
        batch_s, idle = json.loads(found.read_text())
    return batch_s, idle


def _ended(command: list[str]) -> str:
    """Run a command to its end and return the end of what it said."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return f"it did not end within {_SECONDS:g} s"
    return f"exit code {done.returncode}, {(done.stderr or done.stdout).strip()[-500:]}"


def busy_s() -> float:
    """Processor seconds of the processes that were launched with this one, and of this one, so far."""
    return sum(map(_spent, psutil.Process(os.getppid()).children(recursive=True)))


def _spent(process: psutil.Process) -> float:
    with contextlib.suppress(psutil.NoSuchProcess):
        return float(sum(_times(process)))
    return 0.0


def _times(process: psutil.Process) -> Iterable[float]:
    found = process.cpu_times()
    return found.user, found.system
