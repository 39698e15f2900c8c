"""The worker processes of a cluster on this machine, and what is done to them."""

from __future__ import annotations

import contextlib
import pathlib
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random

import psutil
from distributed import Client

from heterps.errors import RunError
from heterps.runtime.cluster.children import Children
from heterps.runtime.cluster.commands import Command, worker_command
from heterps.runtime.cluster.core_share import Threads
from heterps.runtime.own_threads import logged, start_thread
from heterps.soak.network import Links
from heterps.soak.sockets import drop_sockets

__all__ = ["FAULTS", "LASTING_S", "ROLES", "Victims", "faults_of"]

ROLES = ("server", "io")
FAULTS = ("kill", "freeze", "slow", "drop", "part", "term", "retire", "add")
"""What can happen to a worker: it is killed; stopped for good; stopped for a moment; all its connections but those to
the scheduler are cut; it hears and is heard no more; it is sent SIGTERM; retired through Dask; another one joins.
"""
LASTING_S = {"slow": 2.0, "freeze": 20.0, "part": 20.0}
"""How long it lasts. Who was stopped for good or was not heard is then killed, so that another takes its place."""


def faults_of(what: str, network: bool) -> tuple[str, ...]:
    """Return faults such as ``kill server`` by their words: ``kill`` is of both roles, nothing is everything.

    >>> faults_of("kill server, drop", network=False)
    ('kill server', 'drop server', 'drop io')
    """
    able = [f"{fault} {role}" for fault in FAULTS if fault != "part" or network for role in ROLES]
    wanted = [word.strip() for word in what.split(",") if word.strip()]
    known = {*able, *(fault.split()[0] for fault in able)}
    if unknown := [word for word in wanted if word not in known]:
        need = " (part needs root, ip, nsenter and unshare)" if unknown[0].startswith("part") else ""
        raise RunError(f"no fault is called {unknown[0]!r}{need}; there are {', '.join(sorted(known))}")
    return tuple(f for word in wanted for f in able if word in (f, f.split()[0])) if wanted else tuple(able)


@dataclass
class Victims:
    """Finds workers by their command lines, hits one at random, and clears up behind.

    Parameters
    ----------
    launcher
        The process that started them.
    random
        Chooses.
    usual
        Workers by role; more or fewer are there for a while only.
    client
        Of their cluster.
    children
        Looks after workers that are added.
    network
        Where each has its own link; None: they share one.
    logs, folder
        For the logs and the files of workers that are added.
    """

    launcher: psutil.Process
    random: Random
    usual: Mapping[str, int] = field(default_factory=dict)
    client: Client | None = None
    children: Children | None = None
    network: Links | None = None
    logs: pathlib.Path = pathlib.Path()
    folder: str = ""
    _struck: dict[int, psutil.Process] = field(default_factory=dict)  # stopped or not heard, by process number
    _leaving: set[int] = field(default_factory=set)  # process numbers of those that were asked to go
    _added: int = 0

    def workers(self, role: str) -> list[psutil.Process]:
        """Return the running workers of a role, without those that something is being done to."""
        everyone = {*self.launcher.children(), *psutil.Process().children()}
        found = [process for process in everyone if _name(process).partition("-")[0] == role]
        return sorted(
            (p for p in found if p.pid not in {*self._struck, *self._leaving}), key=lambda process: process.pid
        )

    def able(self, fault: str) -> bool:
        """Whether a fault can happen: somebody of the role is left, and their number comes back to the usual."""
        what, role = fault.split()
        there, usual = len(self.workers(role)), self.usual.get(role, 0)
        if what == "add":
            return there <= usual
        return there > usual if what in ("term", "retire") else there >= 2

    def fill(self, left: Sequence[str] = ()) -> None:
        """Add workers up to the usual number: one that was added and then killed does not come back by itself.

        One more where somebody is still to leave and nobody to join, among the faults that are left.
        """
        for role, usual in self.usual.items():
            is_to_leave = any(f"{what} {role}" in left for what in ("term", "retire")) and f"add {role}" not in left
            for _ in range(usual + is_to_leave - len(self.workers(role))):
                self._add(role)

    def hit(self, fault: str) -> bool:
        """Let a fault happen to one of them; False if it cannot."""
        what, role = fault.split()
        if not self.able(fault):
            return False
        if what == "add":
            self._add(role)
            return True
        victim = self.random.choice(self.workers(role))
        with contextlib.suppress(psutil.Error):
            self._acts()[what](victim)
            if what in LASTING_S:
                self._struck[victim.pid] = victim
            if what in ("term", "retire"):
                self._leaving.add(victim.pid)
        return True

    def _acts(self) -> Mapping[str, Callable[[psutil.Process], None]]:
        stop, kill, term = (_sending(number) for number in (signal.SIGSTOP, signal.SIGKILL, signal.SIGTERM))
        return {"kill": kill, "freeze": stop, "slow": stop, "term": term,
                "drop": self._drop, "part": self._part, "retire": self._retire}  # fmt: skip

    def _drop(self, victim: psutil.Process) -> None:
        client, name = self.client, _name(victim)
        assert client is not None
        there = [a for a, w in client.scheduler_info(n_workers=-1)["workers"].items() if str(w["name"]) == name]
        if there:
            act = partial(client.run, drop_sockets, workers=there, on_error="ignore")  # the answer is lost with them
            start_thread("drop", act, failed=logged("dropping sockets"))

    def _part(self, victim: psutil.Process) -> None:
        assert self.network is not None
        self.network.cut(_name(victim))

    def _retire(self, victim: psutil.Process) -> None:
        assert self.client is not None
        act = partial(self.client.retire_workers, names=[_name(victim)])
        start_thread("retire", act, failed=logged("retiring a worker"))

    def _add(self, role: str) -> None:
        assert self.client is not None
        assert self.children is not None
        self._added += 1
        name, scheduler = f"{role}-a{self._added}", self.client.scheduler.address
        host, before = self.network.place(name) if self.network else ("127.0.0.1", ())
        made = worker_command(role, name, host, Threads(1, 1), scheduler=scheduler, folder=self.folder)
        command = Command(name, (*before, sys.executable, "-m", *made.words), made.environment)
        self.children.start(lambda incarnation: command, self.logs / f"{name}.log")

    def over(self, fault: str) -> None:
        """What lasted for a while is over."""
        if fault.startswith("slow"):
            self._end(signal.SIGCONT)
            return
        self.clear()

    def clear(self) -> None:
        """Join what was parted, and kill those that were stopped or not heard, so that others take their place."""
        if self.network is not None:
            self.network.join()
        self._end(signal.SIGKILL)

    def _end(self, number: int) -> None:
        for process in self._struck.values():
            with contextlib.suppress(psutil.Error):
                process.send_signal(number)
        self._struck.clear()


def _sending(number: int) -> Callable[[psutil.Process], None]:
    return lambda victim: victim.send_signal(number)


def _name(process: psutil.Process) -> str:
    """Return the name of a worker, such as server-0 or io-1.2; nothing for other processes."""
    with contextlib.suppress(psutil.Error):
        words = process.cmdline()
        if "--name" in words and process.status() != psutil.STATUS_ZOMBIE:
            return str(words[words.index("--name") + 1])
    return ""
