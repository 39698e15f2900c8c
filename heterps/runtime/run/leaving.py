"""Workers that are asked to leave a run: chosen here, retired from the cluster once the run has let them go.

Dask retires no worker that has actors, and every worker of a run has some. So the run is told first: it gives the
worker's Splits to others at a batch boundary, copies its shard hosts elsewhere and ends its actors. Who asks is a user
(``session.scale``), another process (``heterps scale``), or the scheduler, for whoever retires workers there
(:mod:`heterps.runtime.cluster.letting_go`) or for a worker that was sent SIGTERM.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping

from distributed import Client

from heterps.errors import ClusterError
from heterps.protocol.words.events import WorkerLeaving
from heterps.runtime.answers import answer
from heterps.runtime.cluster.commands import join_hint
from heterps.runtime.cluster.identity import identity_of
from heterps.runtime.cluster.resources import resource_of
from heterps.runtime.config import settings
from heterps.runtime.own_threads import logged, start_thread
from heterps.runtime.run.arrivals import Arrivals
from heterps.runtime.run.attendance import Attendance

__all__ = ["SCALE_TOPIC", "Leaving"]

SCALE_TOPIC = "heterps-scale"
"""Dask topic on which a run is asked for another number of workers: numbers by role."""

_TRIES, _PAUSE_S = 50, 0.2  # Dask forgets an actor some time after it was let go
_log = logging.getLogger("heterps")


class Leaving:
    """Asks workers to leave until there are as many as wanted.

    Parameters
    ----------
    client, attendance, arrivals
        Of the run.
    pools
        Pools by role, as users name them: ``servers``, ``io``, ``compute``.
    least
        By role: how many the run cannot do without.
    bound
        Returns why a worker can never leave, empty if it can.
    """

    def __init__(
        self,
        client: Client,
        attendance: Attendance,
        arrivals: Arrivals,
        pools: Mapping[str, tuple[str, ...]],
        least: Mapping[str, int],
        bound: Callable[[str], str] = lambda worker: "",
    ) -> None:
        self._client, self._attendance, self._arrivals = client, attendance, arrivals
        self._pools, self._least, self._bound = pools, least, bound
        self._asked: set[str] = set()  # that are to leave, or have left
        self._waiting: dict[str, str] = {}  # that should leave, and why they cannot yet
        self._retired: set[str] = set()  # by others, once the run has let them go

    def scale(self, wanted: Mapping[str, int]) -> None:
        """Ask the newest workers of each role to leave, so that so many stay.

        Raises
        ------
        ClusterError
            Where there are fewer already, or the run needs more; then nobody is asked.
        """
        chosen = [worker for role, count in wanted.items() for worker in self._chosen(role, count)]
        for worker in dict.fromkeys(chosen):
            self._ask(worker)

    def want(self, workers: Iterable[str]) -> None:
        """Somebody will retire these workers as soon as the run has let them go: ask those that it can do without.

        The others stay until there is one in their place.
        """
        for worker in workers:
            if worker in self._attendance.pools and worker not in self._asked:
                self._retired.add(worker)
                self._waiting.setdefault(worker, "")
        self.look()

    def look(self) -> None:
        """Ask workers to leave that are to, and that the run can do without by now."""
        for worker, told in list(self._waiting.items()):
            if worker not in self._attendance.pools:
                del self._waiting[worker]
            elif not (why := self._why_not(worker)):
                del self._waiting[worker]
                self._ask(worker)
            elif why != told:
                self._waiting[worker] = why
                _log.warning("worker %s is to leave and stays for now: %s", self._attendance.name(worker), why)

    def _ask(self, worker: str) -> None:
        self._asked.add(worker)
        self._arrivals.tell(WorkerLeaving(worker))

    def _why_not(self, worker: str) -> str:
        """Say why the run cannot do without a worker; nothing if it can."""
        for role in self._pools:
            there = self._there(role)
            if worker in there and len(there) <= self._least[role]:
                return f"the run needs {self._least[role]} {role} and has {len(there)}. Start another in its place"
        return self._bound(worker)

    def _there(self, role: str) -> list[str]:
        able = set(self._pools[role])
        return [w for w, pools in self._attendance.pools.items() if able & set(pools) and w not in self._asked]

    def _chosen(self, role: str, count: int) -> list[str]:
        if role not in self._pools:
            raise ClusterError(f"workers of a run are {' or '.join(self._pools)}, not {role!r}")
        there = self._there(role)
        if count < self._least[role]:
            raise ClusterError(f"{count} {role} are too few: this run needs at least {self._least[role]}")
        if count > len(there):
            raise ClusterError(
                f"there are {len(there)} of {count} {role}: start more and the run takes them in "
                f"({join_hint(resource_of(self._pools[role][0]))})"
            )
        return sorted(there, key=self._attendance.name)[count:]

    def retire(self, worker: str) -> None:
        """Retire a worker that has nothing of the run any more, unless somebody else is about to."""
        if worker not in self._retired:
            start_thread("retire", self._retire, worker, failed=logged(f"retiring worker {worker}"))

    def _retire(self, worker: str) -> None:
        pause = threading.Event()
        for _ in range(_TRIES):
            try:
                answer(self._client, lambda: self._client.retire_workers([worker]), ClusterError, settings().call_s)
                if worker not in identity_of(self._client)["workers"]:
                    return
            except ClusterError as error:
                if self._client.status == "running":
                    _log.warning("worker %s has nothing of the run any more, but was not retired: %s", worker, error)
                return
            pause.wait(_PAUSE_S)
        _log.warning("worker %s has nothing of the run any more, but Dask does not retire it", worker)
