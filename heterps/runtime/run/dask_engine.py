"""Training and inference on a Dask cluster."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import wait
from typing import Any, TypeVar

from distributed import Client, Future

from heterps.data import Dataset, Split
from heterps.errors import ClusterError
from heterps.metrics import Metric
from heterps.runtime.answers import answer, cancel, submitted, told
from heterps.runtime.batch.inference import Inferred
from heterps.runtime.batch.job import Job
from heterps.runtime.cluster.commands import join_hint
from heterps.runtime.cluster.identity import identity_of
from heterps.runtime.cluster.pools import pools_of
from heterps.runtime.cluster.resources import resource_of
from heterps.runtime.config import settings
from heterps.runtime.cuts.checkpoints import Checkpoints, Keeper
from heterps.runtime.report.progress import Progress
from heterps.runtime.run.arrivals import Arrivals
from heterps.runtime.run.carrier import ClusterCarrier
from heterps.runtime.run.engine_base import EngineBase
from heterps.runtime.run.host_lines import Places, host_line
from heterps.runtime.run.line import ActorLine, close_all
from heterps.runtime.run.patience import Patience
from heterps.runtime.run.roles import Roles
from heterps.runtime.run.training import Training
from heterps.runtime.wire.addresses import parse_address
from heterps.runtime.wire.service import Address
from heterps.runtime.workers.delivery import LocalRun, local_run
from heterps.runtime.workers.infer_task import infer_task

__all__ = ["ClusterEngine"]

_T = TypeVar("_T")


class ClusterEngine(EngineBase):
    """Runs a job on the pools of a cluster.

    Parameters
    ----------
    job
        What to run.
    client
        The cluster; its pools were checked.
    roles
        Which pool does what.
    report_s
        Seconds between reports.
    checkpoints
        When to make cuts and what to go on from.
    closing
        What ends with the engine, such as a cluster made for it.
    """

    def __init__(
        self,
        job: Job,
        client: Client,
        roles: Roles | None = None,
        report_s: float = 1.0,
        closing: contextlib.ExitStack | None = None,
        checkpoints: Checkpoints | None = None,
    ) -> None:
        super().__init__()
        self.checkpoints = checkpoints or Checkpoints()
        self._closing = closing or contextlib.ExitStack()
        self.job, self.client, self.report_s = job, client, report_s
        self.roles = roles or Roles(stages=("io", "compute")[: max(1, len(job.stages))])
        self._name = uuid.uuid4().hex[:8]
        self._carrier: ClusterCarrier | None = None  # of the run that goes on, or went on last
        self._places: Places = {}  # shard hosts, the newest last where one was made again
        self._silent: set[str] = set()  # workers that did not answer in time

    def train(self, dataset: Dataset, epochs: int, fetch: Mapping[str, str] | None = None) -> Iterator[Progress]:
        """Train, yielding Progress now and then; the last one is ``done``."""
        job = self.job
        keeper = Keeper(self.checkpoints, job, self.passes, self._runs, dataset, self.held)
        self.passes = keeper.first
        self._runs += 1
        run, arrivals = f"{self._name}-{self._runs}", Arrivals()
        carrier = ClusterCarrier(
            job,
            self.client,
            self.roles,
            run,
            dataset,
            arrivals,
            self._places,
            keeper,
            fetch or {},
            self._silent,
        )
        self._carrier = carrier
        training = Training(job, dataset, epochs, carrier, arrivals, keeper, retries=settings().retries + 1)
        with self._going_on(training, keeper, epochs), carrier:
            yield from training.reports(self.report_s)

    def stage_steps(self) -> dict[str, int]:
        """Return how many batches each compute worker of the run has computed, by name."""
        return self._carrier.stage_steps() if self._carrier is not None else {}

    # --- reading

    def infer(
        self, dataset: Dataset, metrics: Sequence[Metric] = (), fetch: Mapping[str, str] | None = None
    ) -> Iterator[Inferred]:
        """Run forward on every Split, as tasks of the io pool; results come in order."""
        hosts = self.host_addresses()
        workers = self._workers(self.roles.io)
        run = f"{self._name}-{uuid.uuid4().hex[:6]}"
        local_run(run, LocalRun(dataset, lambda event: None))
        there = None if parse_address(workers[0]).is_local else dataset
        splits, futures = dataset.splits(), []
        try:
            futures += [
                submitted(
                    self.client,
                    lambda reason: ClusterError(f"the cluster took no task of inference: {reason}"),
                    told,
                    f"inference of split {split.index}",
                    infer_task,
                    run,
                    self.job,
                    there,
                    split,
                    hosts,
                    tuple(metrics),
                    dict(fetch or {}),
                    tuple(rows := dataset.held_rows(split)),
                    *rows.values(),
                    workers=workers,
                    key=f"heterps-infer-{run}-{split.index}",
                )
                for split in splits
            ]
            for future, split in zip(futures, splits, strict=True):
                yield self._inferred(future, split, workers)
        finally:
            cancel(self.client, futures)  # also those nobody waits for any more
            local_run(run, None)

    def _inferred(self, future: Future, split: Split, workers: Sequence[str]) -> Inferred:
        """Wait as long as it takes while one of the workers is heard of, and may begin something."""
        paused = Patience(settings().workers_s)

        def lost(reason: str) -> ClusterError:
            return ClusterError(f"split {split.index} was not inferred by workers {', '.join(workers)}: {reason}")

        def seen() -> float:
            listed = identity_of(self.client)["workers"]
            there = {worker: listed[worker] for worker in workers if worker in listed}
            if not there:
                raise lost("they are gone")
            paused.check(lambda: _all_paused(there))
            if future.status == "lost":
                raise lost("Dask lost it")
            return max(float(worker["last_seen"]) for worker in there.values())

        async def ask() -> Inferred:
            found: Inferred = await future
            return found

        return answer(self.client, ask, lost, settings().call_s, seen=seen, patient=True)

    def _workers(self, pool: str) -> list[str]:
        listed = [w.address for p in pools_of(self.client) if p.name == pool for w in p.workers]
        found = [address for address in listed if address not in self._silent]
        if not found:
            raise ClusterError(f"no worker of pool {pool!r} is left; start one: {join_hint(resource_of(pool))}")
        return found

    def host_addresses(self) -> list[Address]:
        """Return where the shard hosts are; makes them if nothing was trained yet."""
        asked = [line.ask("address") for line in self._lines()]
        return [address.result() for address in asked]

    def each_shard(self, function: Callable[..., _T], *args: Any) -> list[_T]:
        """Call a function with every shard where it lies, all hosts at once; a save may take as long as it takes."""
        asked = [line.ask("on_shard", function, args, patient=True) for line in self._lines()]
        return [found.result() for found in asked]

    def _lines(self) -> list[ActorLine]:
        """Shard hosts in order, the newest where one was made again; those that are not there yet are made."""
        lines = {host: line for (host, _), line in self._places.items()}
        found = [lines[host] if host in lines else self._new_host(host) for host in range(self.job.hosts)]
        wait([line.made for line in found], settings().make_s)
        for host, line in enumerate(found):
            if not line.made.done():
                raise ClusterError(
                    f"shard host {host} was not made on worker {line.worker} within {settings().make_s:g} s: it is "
                    "busy, or paused by Dask because its memory is nearly full"
                )
        return found

    def _new_host(self, host: int) -> ActorLine:
        servers = self._workers(self.roles.stages[1] if self.job.is_holder(host) else self.roles.server)
        worker = sorted(servers)[host % len(servers)]  # as the protocol would place it
        line = self._places[host, worker] = host_line(self.client, self.job, host, worker)
        return line

    def close(self) -> None:
        """End the shard hosts; what was not saved is gone."""
        close_all(self._places.values())
        self._places.clear()
        self._closing.close()


def _all_paused(workers: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
    """Say that nobody can begin anything, where it is so."""
    if any(worker.get("status") != "paused" for worker in workers.values()):
        return ()
    names = ", ".join(sorted(str(worker["name"]) for worker in workers.values()))
    return (f"an io worker that is not paused by Dask (at the limit of their memory: {names})",)
