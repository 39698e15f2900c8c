"""The worker processes of a cluster on this machine, and what is done to them."""

from __future__ import annotations

import contextlib
import signal
from dataclasses import dataclass, field
from random import Random

import psutil

__all__ = ["FAULTS", "Victims"]

FAULTS = ("kill server", "kill io", "freeze server", "freeze io", "slow io")
"""What can happen: the process is killed; stopped for good; or stopped and let go on, again and again."""


@dataclass
class Victims:
    """Finds workers by their command lines, hits one at random, and clears up behind.

    Parameters
    ----------
    launcher
        The process that started them.
    random
        Chooses.
    """

    launcher: psutil.Process
    random: Random
    _stopped: dict[int, psutil.Process] = field(default_factory=dict)  # by process number

    def workers(self, role: str) -> list[psutil.Process]:
        """Return the running workers of a role."""
        found = [process for process in self.launcher.children() if _role(process) == role]
        return [process for process in found if process.pid not in self._stopped]

    def hit(self, fault: str) -> bool:
        """Let a fault happen to one of them; False if there would be nobody left of the role."""
        what, role = fault.split()
        there = self.workers(role)
        if len(there) < 2:
            return False
        victim = self.random.choice(there)
        with contextlib.suppress(psutil.Error):
            victim.send_signal(signal.SIGKILL if what == "kill" else signal.SIGSTOP)
            if what != "kill":
                self._stopped[victim.pid] = victim
        return True

    def thaw(self) -> None:
        """Let those go on that were stopped."""
        self._end(signal.SIGCONT)

    def clear(self) -> None:
        """Kill those that were stopped, so that others are started in their place."""
        self._end(signal.SIGKILL)

    def _end(self, number: int) -> None:
        for process in self._stopped.values():
            with contextlib.suppress(psutil.Error):
                process.send_signal(number)
        self._stopped.clear()


def _role(process: psutil.Process) -> str:
    """Return the role of a worker by its name, such as server-0 or io-1.2; nothing for other processes."""
    with contextlib.suppress(psutil.Error):
        words = process.cmdline()
        if "--name" in words and process.status() != psutil.STATUS_ZOMBIE:
            return str(words[words.index("--name") + 1]).partition("-")[0]
    return ""
