"""Which workers are there: a thread asks the scheduler, the run is told who came, went, or may begin nothing."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from functools import partial
from time import monotonic
from typing import Any

from distributed import Client

from heterps.errors import ClusterError
from heterps.protocol.words import events as ev
from heterps.runtime.cluster.ask import ask_workers
from heterps.runtime.cluster.identity import identity_of
from heterps.runtime.cluster.pools import FoundWorker, group_by_pool, workers_from
from heterps.runtime.config import settings
from heterps.runtime.own_threads import start_thread
from heterps.runtime.run.arrivals import Arrivals
from heterps.runtime.run.remote import fate_of
from heterps.runtime.run.returning import Returning
from heterps.runtime.run.roles import Roles
from heterps.runtime.wire.addresses import parse_address

__all__ = ["Attendance"]

_LOOK_S = 2.0  # between looks, where nobody says that there is something to see: who comes or goes is told at once
_LONG_S = 0.05  # a look that takes longer is made less often
_SHARE, _LEAST_SHARE = 0.05, 0.5  # of the time that looks may take: where nobody says anything, and at the most
_log = logging.getLogger("heterps")


class Attendance:
    """The workers of one run. All methods belong to the run's thread; only the asking has one of its own.

    Parameters
    ----------
    client, roles
        Whom to ask, and which pool does what.
    returning
        Workers that did not answer in time, in this run or before.
    arrivals
        Brings answers to the run's thread.
    joined
        ``joined(worker, role)`` for a worker that can be used from now on; not for servers, which are told together.
    held
        ``held(worker)`` for one that is paused, at every look.
    lost
        ``lost(worker)`` for one that is gone, before the run is told.
    holds
        Returns the hosts whose tables are there, each with its worker, for servers that join.
    run
        Name of the run.
    """

    def __init__(
        self,
        client: Client,
        roles: Roles,
        returning: Returning,
        arrivals: Arrivals,
        joined: Callable[[str, str], None],
        held: Callable[[str], None],
        lost: Callable[[str], None],
        holds: Callable[[], tuple[tuple[int, str], ...]],
        run: str = "",
    ) -> None:
        self.names: dict[str, str] = {}
        """Of every worker that was ever seen, by address."""
        self.pools: dict[str, tuple[str, ...]] = {}
        """Of the workers that are there."""
        self.first: frozenset[str] = frozenset()
        """Those that were there at the first look."""
        self.paused: set[str] = set()
        """Workers that are there but that Dask lets begin nothing: they are at the limit of their memory."""
        self.threads: dict[str, int] = {}
        """By pool of the run."""
        self._client, self._roles, self._arrivals, self._run = client, roles, arrivals, run
        self._on_joined, self._on_held, self._on_lost, self._holds = joined, held, lost, holds
        self.looks = 0
        """How many there were; what is said later overrules what was said before."""
        self.stays: dict[str, int] = {}
        """How often workers came back that had been given up."""
        self._returning = returning
        self._used: dict[str, set[str]] = {}  # roles that a worker was told or begun to have
        self._comm = getattr(
            client, "scheduler_comm", None
        )  # with another one it has let go of all this driver had on workers
        self._scheduler = ""  # its identity: another in its place knows nothing of this run
        self._ended = threading.Event()
        self._taken = threading.Event()  # the last answer was looked at: no second one piles up behind a slow caller
        self._wake = threading.Event()  # there is something to see

    def __enter__(self) -> Attendance:
        start_thread("attendance", self._ask, failed=self._arrivals.fail)
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._taken.set()
        self._wake.set()

    def look_now(self) -> None:
        """Somebody came or went: do not wait for the next look. From any thread."""
        self._wake.set()

    def name(self, worker: str) -> str:
        """Return what a user calls it."""
        return self.names.get(worker, worker)

    def give_up(self, worker: str, error: ClusterError) -> None:
        """A worker does not answer in time: it is lost to the run, though Dask may list it for minutes."""
        if worker not in self._returning.silent:
            self._returning.silent.add(worker)
            _log.warning("worker %s is lost to the run: %s", self.name(worker), error)
            self.look_now()

    def stay(self, worker: str) -> int:
        """Return how often a worker came back."""
        return self.stays.get(worker, 0)

    # --- in a thread of its own

    def _ask(self) -> None:
        while not self._ended.is_set():
            self._wake.clear()  # before the question: who comes or goes after it is seen at the next look, at once
            began = monotonic()
            found: Mapping[str, Any] = self._identity()
            took = monotonic() - began  # grows with the number of workers, and is the scheduler's time
            self._taken.clear()
            self._arrivals.post(partial(self._look, found))
            self._taken.wait()
            if took > _LONG_S:
                self._ended.wait(took * (1 / _LEAST_SHARE - 1))
            self._wake.wait(max(_LOOK_S, took / _SHARE))

    def _identity(self) -> Mapping[str, Any]:
        self._wait_for_connection()
        try:
            identity = identity_of(self._client)
            self._scheduler = self._scheduler or identity["id"]
            if identity["id"] != self._scheduler:
                raise ClusterError("the scheduler is gone (another one is in its place)")
        except ClusterError as error:
            raise ClusterError(
                f"{error}; start it and its workers again. A run with checkpoints goes on with launch(plan, resume=DIR)"
            ) from error
        if self.is_cut_off:
            raise ClusterError(
                f"the scheduler has given this driver up, which did not answer for a while, and its tables were "
                f"{self._fate(identity)}. A run with checkpoints goes on with launch(plan, resume=DIR)"
            )
        return identity

    def _wait_for_connection(self) -> None:
        """Dask connects again by itself: then it is known whether the scheduler is gone, or has given the driver up."""
        until = monotonic() + settings().connect_s / 2
        while getattr(self._client, "status", "") == "connecting" and monotonic() < until and not self._ended.is_set():
            self._ended.wait(_LONG_S)

    @property
    def is_cut_off(self) -> bool:
        """Whether the connection to the scheduler is not the one with which the run began."""
        return getattr(self._client, "scheduler_comm", None) is not self._comm

    def check(self) -> None:
        """Raise what has become of the scheduler, or of its connection to this driver."""
        self._identity()

    def _fate(self, identity: Mapping[str, Any]) -> str:
        workers = {w.address: w.name for pool in group_by_pool(workers_from(identity)) for w in pool.workers}
        try:
            told = {fate for fate in ask_workers(self._client, fate_of, workers, self._run).values() if fate}
        except ClusterError:
            told = set()
        return " or ".join(sorted(told)) or "let go, to be freed after heterps.orphans"

    # --- in the run's thread

    def _look(self, identity: Mapping[str, Any]) -> None:
        self._taken.set()
        self.looks += 1
        pools = group_by_pool(workers_from(identity))
        self.names |= {worker.address: worker.name for pool in pools for worker in pool.workers}
        for worker in self._returning.look(identity, self._run):
            self.stays[worker] = self.stay(worker) + 1
            _log.warning("worker %s answers again: it is used again", self.name(worker))
        self.threads = {pool.name: sum(w.nthreads for w in pool.workers) for pool in pools if pool.name in self._roles}
        workers = {w.address: w for pool in pools for w in pool.workers if w.address not in self._returning.silent}
        self.pools = {address: worker.pools for address, worker in workers.items()}
        self.first = self.first if self.looks > 1 else frozenset(workers)
        for address in set(self._used) - set(workers):
            del self._used[address]
            self.paused.discard(address)
            self._on_lost(address)
            self._arrivals.tell(ev.WorkerLost(address, self.stay(address)))
        self._note_paused(workers)
        self._admit(workers)

    def _note_paused(self, workers: Mapping[str, FoundWorker]) -> None:
        paused = {address for address, worker in workers.items() if worker.paused and self._roles.of(worker.pools)}
        for address in sorted(paused - self.paused):
            _log.warning(
                "worker %s is paused by Dask, which means that its memory is nearly full: it is given nothing new until"
                " it runs again. Raise its --memory-limit, or spread the work over more workers",
                self.name(address),
            )
            self._arrivals.tell(ev.WorkerHeld(address, self.looks))
        for address in sorted(self.paused - paused):
            _log.info("worker %s runs again", self.name(address))
            self._arrivals.tell(ev.WorkerFreed(address, self.looks))
        self.paused = paused
        for address in sorted(paused):
            self._on_held(address)

    def _admit(self, workers: Mapping[str, FoundWorker]) -> None:
        """Take in those that can be used: servers together, then compute, then io, which needs the others."""
        found = {a: self._roles.of(w.pools) for a, w in workers.items() if a not in self.paused}
        new = {a: roles - self._used.get(a, set()) for a, roles in found.items()}
        servers = tuple(sorted(a for a, roles in new.items() if "server" in roles))
        if servers:
            machines = tuple(parse_address(server).host for server in servers)
            stays = tuple(map(self.stay, servers))
            self._arrivals.tell(ev.ServersJoined(servers, machines, self._holds(), stays if any(stays) else ()))
        for address, roles in found.items():
            self._used.setdefault(address, set()).update(roles)
        holding = {worker for _, worker in self._holds()}  # first: a stage holder goes where its tables are
        for role in ("compute", "io"):
            for address in sorted(
                (a for a, roles in new.items() if role in roles), key=lambda a: (a not in holding, a)
            ):
                self._on_joined(address, role)
