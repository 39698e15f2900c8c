"""The scheduler's part when workers come and go: runs hear of it at once, and workers are retired once the runs that
use them have let them go.

Dask retires no worker that has actors, and every worker of a run has some: ``client.retire_workers`` would do nothing,
and ``cluster.scale`` or ``cluster.adapt`` would end the process all the same. So the call waits here: the runs are
asked, give the worker's Splits to others at a batch boundary, copy its shard hosts elsewhere and end its actors; then
Dask retires a worker that has nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping
from itertools import count
from time import monotonic
from typing import Any

from distributed import Client, Scheduler
from distributed.diagnostics.plugin import SchedulerPlugin

from heterps.errors import ClusterError
from heterps.runtime.answers import answer, reason_of
from heterps.runtime.config import settings

__all__ = [
    "ACTOR_PREFIX",
    "ATTENDANCE_TOPIC",
    "HEARD_TOPIC",
    "LEAVE_TOPIC",
    "LettingGo",
    "let_workers_go",
    "retire_when_free",
]

ATTENDANCE_TOPIC = "heterps-attendance"
"""Dask topic on which runs hear that a worker came or went: its address, and whether it is there."""
LEAVE_TOPIC = "heterps-leave"
"""Dask topic on which runs are asked to let workers go: number of the question, addresses."""
HEARD_TOPIC = "heterps-leave-heard"
"""Dask topic on which a run says that it has heard a question about workers of its own."""
ACTOR_PREFIX = "heterps-"
"""How the keys of all our actors begin."""

_NAME = "heterps-letting-go"
_LOOK_S = 0.05
_OF_DASK = ("close_workers", "remove", "stimulus_id")  # what is not for choosing workers
_log = logging.getLogger("heterps")


class LettingGo(SchedulerPlugin):
    """Stands before the scheduler's ``retire_workers``, whoever calls it: clients, clusters, workers that end."""

    name = _NAME
    idempotent = True

    async def start(self, scheduler: Scheduler) -> None:
        """Take the place of Dask's own handler."""
        self._scheduler, self._questions = scheduler, count(1)
        self._heard: set[int] = set()  # questions that a run has heard
        self._retire = scheduler.handlers["retire_workers"]
        scheduler.handlers["retire_workers"] = self.retire_workers

    def add_worker(self, scheduler: Scheduler, worker: str) -> None:
        """Tell runs of a new worker."""
        scheduler.log_event(ATTENDANCE_TOPIC, {"worker": worker, "there": True})

    def remove_worker(self, scheduler: Scheduler, worker: str, **why: Any) -> None:
        """Tell runs of one that is gone; a killed process is missed as soon as the system has closed its sockets."""
        scheduler.log_event(ATTENDANCE_TOPIC, {"worker": worker, "there": False})

    def log_event(self, topic: str, msg: Any) -> None:
        """A run has heard a question."""
        if topic == HEARD_TOPIC:
            self._heard.add(int(msg))

    async def retire_workers(
        self, workers: list[str] | None = None, *, names: list[Any] | None = None, **options: Any
    ) -> Any:
        """Have runs let workers go, then retire them as Dask does.

        Raises
        ------
        ClusterError
            Where a run cannot, or no run is there that could; then nobody is retired.
        """
        if workers is not None and names is not None:  # Dask says what is wrong with that
            return await self._retire(workers=workers, names=names, **options)
        choice = {k: v for k, v in options.items() if k not in _OF_DASK}
        asked = workers if names is None else names
        chosen = list(self._scheduler.workers_to_close(**choice)) if asked is None else self._addresses(asked)
        if self._is_the_end(chosen, options):
            return await self._retire(workers=workers, names=names, **options)
        await self._free(chosen)
        return await self._retire(workers=chosen, **{k: v for k, v in options.items() if k in _OF_DASK})

    def _is_the_end(self, chosen: Collection[str], options: Mapping[str, Any]) -> bool:
        """Whether a cluster closes: it retires all its workers and ends them itself, so nobody could take over."""
        return not options.get("close_workers") and set(chosen) >= set(self._scheduler.workers)

    def _addresses(self, asked: Iterable[Any]) -> list[str]:
        """Return addresses of workers given by address or name: Dask's clusters give names as if they were addresses,
        so that Dask itself finds nobody to retire before they end the process.
        """
        wanted = set(map(str, asked))
        found = self._scheduler.workers.items()
        return [address for address, worker in found if address in wanted or str(worker.name) in wanted]

    async def _free(self, workers: Collection[str]) -> None:
        if not (held := self._held(workers)):
            return
        limits, begun, question = settings(), monotonic(), next(self._questions)
        self._scheduler.log_event(LEAVE_TOPIC, {"question": question, "workers": list(held)})
        while held := self._held(workers):
            waited = monotonic() - begun
            if question not in self._heard and waited > limits.connect_s:
                raise ClusterError(
                    f"{self._words(held)} of a session that is not training, so nobody can take over: let it train, or "
                    "save and close it, then retire them again"
                )
            if waited > limits.leave_s:
                raise ClusterError(
                    f"{self._words(held)} of a run that did not let go within {limits.leave_s:g} s: it needs as many "
                    "servers as there are replicas and one worker for each stage, so start others first; where tables "
                    "are large raise heterps.timeouts.leave. What was begun goes on: retire them again"
                )
            await asyncio.sleep(_LOOK_S)

    def _held(self, workers: Collection[str]) -> dict[str, str]:
        """Return those that have actors of ours, with their names."""
        found = [self._scheduler.workers[address] for address in workers if address in self._scheduler.workers]
        return {
            worker.address: str(worker.name)
            for worker in found
            if any(str(task.key).startswith(ACTOR_PREFIX) for task in worker.actors)
        }

    def _words(self, held: dict[str, str]) -> str:
        who = ", ".join(held.values())
        return f"workers {who} have parameters or work" if len(held) > 1 else f"worker {who} has parameters or work"


def let_workers_go(client: Client) -> None:
    """Have the scheduler of a cluster ask runs before it retires workers; one that cannot is left as it is."""

    async def register() -> None:
        await client.register_plugin(LettingGo())

    try:
        answer(client, register, ClusterError, settings().connect_s)
    except ClusterError as error:
        _log.warning(
            "this scheduler retires no worker of a run (%s): use session.scale or heterps scale; a cluster that is "
            "made smaller takes workers away without asking",
            error,
        )


async def retire_when_free(scheduler: Any, worker: str) -> None:
    """Ask a scheduler to retire a worker that is about to end, however that turns out."""
    try:
        asked = scheduler.retire_workers(workers=[worker], close_workers=False, remove=True)
        await asyncio.wait_for(asked, settings().leave_s + settings().connect_s)
        _log.info("worker %s has given back what it had", worker)
    except Exception as error:
        _log.warning("worker %s ends with what it has: %s", worker, reason_of(error))
