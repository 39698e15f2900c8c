"""What a process and its descendants use, read from /proc: CPU seconds and proportional memory."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from pathlib import Path

TICK = os.sysconf("SC_CLK_TCK")


def members(root: int) -> list[int]:
    """Process ids of ``root`` and all its descendants, whatever session they started."""
    parent = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                parent[int(entry.name)] = int(_stat(int(entry.name))[1])
    found, edge = [], [root]
    while edge:
        found += edge
        edge = [pid for pid, above in parent.items() if above in edge]
    return found


def _stat(pid: int) -> list[str]:
    # The name may hold spaces and brackets: fields are counted from the last bracket.
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def cpu_seconds(root: int) -> float:
    """User and system time of the living tree and of its reaped children."""
    ticks = 0
    for pid in members(root):
        with contextlib.suppress(OSError):
            ticks += sum(int(field) for field in _stat(pid)[11:15])
    return ticks / TICK


def memory_bytes(root: int) -> int:
    """Proportional set size of the tree: pages shared between its processes count once."""
    total = 0
    for pid in members(root):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1]) * 1024
    return total


def send(root: int, number: signal.Signals) -> None:
    """Signal every process of the tree, children first."""
    for pid in reversed(members(root)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def machine_seconds() -> tuple[float, float]:
    """CPU seconds that all processes of the machine have used so far, and seconds its hypervisor took away."""
    user, nice, system, _, _, irq, softirq, steal, *_ = map(
        int, Path("/proc/stat").read_text().split("\n")[0].split()[1:]
    )
    return (user + nice + system + irq + softirq) / TICK, steal / TICK


class PeakMemory:
    """Watches a tree's memory from a thread until closed; then only when told to look.

    Adding up the pages of a large process takes tens of milliseconds, which a measurement must not pay for.
    """

    def __init__(self, root: int, every_seconds: float = 0.25) -> None:
        self.root, self.every, self.bytes = root, every_seconds, 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._over.wait(self.every):
            self.look()

    def look(self) -> None:
        """Take what the tree uses now into account."""
        self.bytes = max(self.bytes, memory_bytes(self.root))

    def close(self) -> None:
        """Stop watching."""
        self._over.set()
        self._thread.join()
