"""Training and inference on a Dask cluster."""

from __future__ import annotations

import contextlib
import logging
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import wait
from functools import partial
from typing import Any, TypeVar

from distributed import Client, Future

from heterps.data import Dataset, Split
from heterps.errors import ClusterError, RunError
from heterps.metrics import Metric
from heterps.protocol.run.found import FoundRun
from heterps.runtime.answers import submitted, told
from heterps.runtime.batch.inference import Inferred
from heterps.runtime.batch.job import Job
from heterps.runtime.cluster.commands import join_hint
from heterps.runtime.cluster.pools import pools_of
from heterps.runtime.cluster.resources import resource_of
from heterps.runtime.config import settings
from heterps.runtime.cuts.checkpoints import Checkpoints, Keeper
from heterps.runtime.report.progress import Progress
from heterps.runtime.run.adopting import Adoption, adopt
from heterps.runtime.run.arrivals import Arrivals
from heterps.runtime.run.carrier import ClusterCarrier
from heterps.runtime.run.engine_base import EngineBase
from heterps.runtime.run.host_lines import host_line
from heterps.runtime.run.inference_tasks import InferenceTasks
from heterps.runtime.run.line import ActorLine, close_all
from heterps.runtime.run.places import Places
from heterps.runtime.run.returning import Returning
from heterps.runtime.run.roles import Roles
from heterps.runtime.run.telling import telling
from heterps.runtime.run.training import Training
from heterps.runtime.wire.addresses import parse_address
from heterps.runtime.wire.service import Address
from heterps.runtime.workers.delivery import LocalRun, local_run
from heterps.runtime.workers.infer_task import Shape, infer_task, keep_task

__all__ = ["ClusterEngine"]

_T = TypeVar("_T")
_log = logging.getLogger("heterps")


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
        self._places = Places()  # of shard hosts
        self._returning = Returning(client)  # workers that did not answer in time

    def train(self, dataset: Dataset, epochs: int, fetch: Mapping[str, str] | None = None) -> Iterator[Progress]:
        """Train, yielding Progress now and then; the last one is ``done``."""
        keeper, found = self._keeper(dataset)
        self.passes, self.carried = keeper.first, keeper.carried
        job = self.job = self.job.at_rate(keeper.carried.rate)
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
            self._returning,
        )
        self._carrier = carrier
        training = Training(job, dataset, epochs, carrier, arrivals, keeper, found, retries=settings().retries + 1)
        with self._going_on(training, keeper, epochs), carrier:
            yield from training.reports(self.report_s)

    def _keeper(self, dataset: Dataset) -> tuple[Keeper, FoundRun | None]:
        """Return the checkpoints of a run, and where it is if it goes on with tables that outlived their driver."""
        adoption: list[Adoption] = []

        def left(about: Mapping[str, Any]) -> Mapping[str, Any] | None:
            workers = {w.address: w.name for pool in pools_of(self.client) for w in pool.workers}
            taken = adopt(self.client, self.job, about, workers)
            adoption.extend([taken] if taken is not None else [])
            return None if taken is None else taken.about

        # What a group of io workers or a stage holds besides was theirs alone.
        able = not self.job.reduced and not self.job.holder and not self._places.lines
        args = (self.checkpoints, self.job, self.passes, self._runs, dataset, self.held)
        keeper = Keeper(*args, left=left if able else None, carried=self.carried)
        for taken in adoption:
            found = taken.where(keeper.base, ordered=self.job.mode.ordered) if keeper.adopted is not None else None
            if found is not None:
                _log.warning(
                    "%s: going on with the tables that its driver left on workers; nothing is read from disk",
                    self.checkpoints.resume,
                )
                taken.into(self._places)
                return keeper, found
            taken.drop()
        return (Keeper(*args, carried=self.carried) if keeper.adopted is not None else keeper), None

    def scale(self, wanted: Mapping[str, int]) -> None:
        """Ask workers of the run that goes on to leave, so that so many of a role stay."""
        if self._carrier is None or self._training is None:
            raise RunError("workers leave a training that goes on: call scale in the loop over session.train")
        self._carrier.scale(wanted)

    def telling(self, about: Mapping[str, Any]) -> contextlib.AbstractContextManager[Callable[[Progress], None]]:
        """Tell the cluster's notice board how a training goes."""
        return telling(self.client, self._name, about)

    def stage_steps(self) -> dict[str, int]:
        """Return how many batches each compute worker of the run has computed, by name."""
        return self._carrier.stage_steps() if self._carrier is not None else {}

    # --- reading

    def infer(
        self, dataset: Dataset, metrics: Sequence[Metric] = (), fetch: Mapping[str, str] | None = None
    ) -> Iterator[Inferred]:
        """Run forward on every Split, as tasks of the io pool; results come in order."""
        with self._inferring(dataset, infer_task, metrics, fetch or {}) as tasks:
            yield from tasks.results()

    def infer_there(self, dataset: Dataset, source: str, shape: Shape) -> list[Future]:
        """Run forward on every Split and leave the results on workers: a future of ``shape(values, index)`` for each.

        Parameters
        ----------
        dataset
            A dask.dataframe's, one partition a Split.
        source
            What is fetched: see :func:`~heterps.runtime.batch.inference.sources_of`.
        shape
            Makes of an array with a value for each row, and the partition's index, what is kept.
        """
        with self._inferring(dataset, partial(keep_task, shape, source), (), {source: source}) as tasks:
            return tasks.kept()

    @contextlib.contextmanager
    def _inferring(
        self, dataset: Dataset, task: Callable[..., Any], metrics: Sequence[Metric], fetch: Mapping[str, str]
    ) -> Iterator[InferenceTasks]:
        """Have a task run for each Split while the block lasts."""
        self._settle()
        hosts = self.host_addresses()
        workers = self._workers(*self.roles.pools_of(0))
        run = f"{self._name}-{uuid.uuid4().hex[:6]}"
        local_run(run, LocalRun(dataset, lambda event: None))
        there = None if parse_address(workers[0]).is_local else dataset

        def submit(split: Split, where: Sequence[str], again: int) -> Future:
            return submitted(
                self.client,
                lambda reason: ClusterError(f"the cluster took no task of inference: {reason}"),
                told,
                f"inference of split {split.index}",
                task,
                run,
                self.job,
                there,
                split,
                hosts,
                tuple(metrics),
                dict(fetch),
                tuple(rows := dataset.held_rows(split)),
                *rows.values(),
                workers=list(where),
                key=f"heterps-infer-{run}-{split.index}-{again}",
            )

        try:
            with InferenceTasks(self.client, dataset.splits(), workers, submit, self._returning.silent.add) as tasks:
                yield tasks
        finally:
            local_run(run, None)

    def _workers(self, *pools: str) -> list[str]:
        listed = dict.fromkeys(w.address for p in pools_of(self.client) if p.name in pools for w in p.workers)
        found = [address for address in listed if address not in self._returning.silent]
        if not found:
            raise ClusterError(f"no worker of pool {pools[0]!r} is left; start one: {join_hint(resource_of(pools[0]))}")
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
        """Shard hosts in order, of each the copy that answers; those that are not there yet are made."""
        found = [self._places.line(host) or self._new_host(host) for host in range(self.job.hosts)]
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
        return self._places.set(host, worker, host_line(self.client, self.job, host, worker))

    def close(self) -> None:
        """End the shard hosts; what was not saved is gone."""
        self._drop_tables()
        self._closing.close()

    def _drop_tables(self) -> None:
        close_all(self._places.clear())
