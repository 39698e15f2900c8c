"""The parent's side of the protocol: start a system, give it windows in turn, watch what it uses.

Between its windows a peer's process tree is stopped (SIGSTOP), so that idle threads that spin cannot slow the one whose
turn it is.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import tree
from benchmarks.workload import DATA_FOLDER

ROOT = Path(__file__).parent.parent
LOGS = DATA_FOLDER / "logs"


class ContenderError(RuntimeError):
    """A system ended or stayed silent; the message holds the end of its log."""


@dataclass(frozen=True)
class Window:
    """One window of training of one system."""

    samples: int
    seconds: float
    cpu_seconds: float
    others: float = 0.0  # cores that other processes used meanwhile
    stolen: float = 0.0  # cores that the hypervisor took
    read_seconds: float = 0.0  # that trainers waited for data, where the system says so

    @property
    def rate(self) -> float:
        """Samples per second."""
        return self.samples / self.seconds

    @property
    def rate_per_core(self) -> float:
        """Samples per CPU second: steadier than `rate` where others use the machine too."""
        return self.samples / self.cpu_seconds if self.cpu_seconds else float("nan")


@dataclass(frozen=True)
class Entry:
    """How to start a system: its environment (empty: ours), module and arguments."""

    name: str
    module: str
    peer: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)
    one_blas_thread: bool = False
    pause: bool = True


class Contender:
    """A running system under test."""

    def __init__(self, entry: Entry, python: Path, common: dict[str, Any], logs: Path = LOGS) -> None:
        logs.mkdir(parents=True, exist_ok=True)
        self.entry = entry
        self.log = logs / f"{entry.name.replace('/', '-').replace(' ', '_')}.log"
        options = [f"--{k}={v}" for k, v in {**common, **entry.arguments}.items()]
        reading, writing = os.pipe()
        self.replies = os.fdopen(reading, "rb")
        with self.log.open("w") as sink:
            self.process = subprocess.Popen(
                [str(python), "-m", entry.module, *options],
                cwd=ROOT,
                env=_environment(entry, writing),
                stdin=subprocess.PIPE,
                stdout=sink,
                stderr=sink,
                pass_fds=(writing,),
                start_new_session=True,
            )
        os.close(writing)
        self.memory = tree.PeakMemory(self.process.pid)
        self._paused = False

    def wait_ready(self, timeout: float = 300) -> None:
        """Wait until the system is built, then park it."""
        self._reply(timeout)
        self._park()

    def warm_up(self, seconds: float) -> None:
        """Give the system a window that does not count; from now on its memory is looked at between windows only."""
        self.go(seconds)
        self.memory.close()

    def go(self, seconds: float) -> Window:
        """Give the system one window."""
        before, (busy, stolen), began = self._wake(), tree.machine_seconds(), time.perf_counter()
        told = self._ask(f"go {seconds}", seconds * 6 + 120)
        used, took = tree.cpu_seconds(self.process.pid) - before, time.perf_counter() - began
        busy_now, stolen_now = tree.machine_seconds()
        self._park()
        self.memory.look()
        others, stolen = max(0.0, busy_now - busy - used) / took, (stolen_now - stolen) / took
        cpu, read = float(told.get("cpu_seconds", used)), float(told.get("read_seconds", 0.0))
        return Window(int(told["samples"]), float(told["seconds"]), cpu, others, stolen, read)

    def learn(self, samples: int, timeout: float = 1800) -> Window:
        """Train once over the first samples."""
        before = self._wake()
        told = self._ask(f"learn {samples}", timeout)
        return Window(int(told["samples"]), float(told["seconds"]), tree.cpu_seconds(self.process.pid) - before)

    def score(self) -> float:
        """AUC on the held-out samples."""
        self._wake()
        return float(self._ask("score", 600)["auc"])

    def close(self) -> int:
        """End the tree; return its peak memory in bytes."""
        self.memory.close()
        self._wake()
        members = tree.members(self.process.pid)
        try:
            self.process.stdin.write(b"quit\n")  # type: ignore[union-attr]
            self.process.stdin.close()  # type: ignore[union-attr]
            self.process.wait(8)
        except (OSError, subprocess.TimeoutExpired):
            pass
        _end(members)
        self.process.wait()
        self.replies.close()
        return self.memory.bytes

    def _wake(self) -> float:
        if self._paused:
            tree.send(self.process.pid, signal.SIGCONT)
            self._paused = False
        return tree.cpu_seconds(self.process.pid)

    def _park(self) -> None:
        if self.entry.pause:
            tree.send(self.process.pid, signal.SIGSTOP)
            self._paused = True

    def _ask(self, command: str, timeout: float) -> dict[str, Any]:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(command.encode() + b"\n")
            self.process.stdin.flush()
        except OSError as error:
            raise self._failed("ended") from error
        return self._reply(timeout)

    def _reply(self, timeout: float) -> dict[str, Any]:
        readable, _, _ = select.select([self.replies], [], [], timeout)
        line = self.replies.readline() if readable else b""
        if not line:
            raise self._failed("ended" if readable else f"was silent for {timeout:.0f} s")
        return json.loads(line)  # type: ignore[no-any-return]

    def _failed(self, how: str) -> ContenderError:
        last = "\n".join(self.log.read_text(errors="replace").splitlines()[-4:])
        return ContenderError(f"{self.entry.name} {how}; the end of {self.log.name}: {last}")


def _environment(entry: Entry, replies: int) -> dict[str, str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", "HETERPS_REPLIES": str(replies)}
    if entry.one_blas_thread:
        environment |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    return environment


def _end(pids: list[int]) -> None:
    """Kill what is left of a tree that was asked to end (parameter servers do not always leave)."""
    time.sleep(0.2)
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
