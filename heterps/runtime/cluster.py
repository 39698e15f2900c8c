"""Training on a Dask cluster: the crew that carries a run's instructions out with actors and tasks."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from time import monotonic
from typing import Any

from distributed import Client, Future

from heterps.data import Dataset, Split
from heterps.errors import ClusterError, HeterpsError, RunError
from heterps.protocol import events as ev
from heterps.protocol import instructions as do
from heterps.protocol.cut import Cut
from heterps.runtime.config import settings
from heterps.runtime.driver import Driver
from heterps.runtime.host import Counts
from heterps.runtime.job import Job
from heterps.runtime.payload import Pulled, Wanted
from heterps.runtime.pools import pools_of
from heterps.runtime.progress import Progress
from heterps.runtime.report import Reporter
from heterps.runtime.service import Address
from heterps.runtime.stations import HostStation, IoStation, LocalRun, decode_event, local_run, run_attempt, topic

__all__ = ["ClusterEngine"]

_WATCH_S = 0.5  # between looks at which workers are there
_TICK_S = 0.05


class ClusterEngine:
    """Runs a job on the pools of a cluster.

    Parameters
    ----------
    job
        What to run.
    client
        The cluster; its pools were checked.
    every_s
        Seconds between reports.
    """

    def __init__(self, job: Job, client: Client, every_s: float = 1.0) -> None:
        self.job, self.client, self.every_s = job, client, every_s
        self._name = uuid.uuid4().hex[:8]
        self._runs = self._passes = 0
        self._hosts: dict[tuple[int, str], Any] = {}
        self._held: list[Future] = []
        self._crew: _Crew | None = None

    def train(self, dataset: Dataset, epochs: int) -> Iterator[Progress]:
        """Train, yielding Progress now and then; the last one is ``done``."""
        self._runs += 1
        first, job = self._passes, self.job
        run = f"{self._name}-{self._runs}"
        crew = self._crew = _Crew(job, self.client, run, dataset, self._hosts, self._held)
        base = Cut(pass_=first, mode=job.mode.to_json())
        seed = job.model.seed
        spec = job.spec(first + epochs, retries=settings().retries + 1)
        driver = crew.driver = Driver(spec, crew, lambda pass_: dataset.splits(pass_, seed), cut=base)
        reporter = Reporter(epochs, job.metrics, crew.counts())
        with crew:
            yield from self._loop(driver, crew, reporter, first)
        self._passes += epochs

    def _loop(self, driver: Driver, crew: _Crew, reporter: Reporter, first: int) -> Iterator[Progress]:
        epoch, watched = 0, -_WATCH_S
        while not driver.finished:
            if monotonic() - watched >= _WATCH_S:
                watched = monotonic()
                crew.watch()
            driver.step(_TICK_S)
            crew.raise_failure()
            if driver.state.book.pass_ - first != epoch:
                epoch = driver.state.book.pass_ - first
                crew.collect(reporter)
                reporter.next_epoch()
            elif reporter.due(self.every_s):
                crew.collect(reporter)
                yield reporter.progress(crew.counts(), epoch + 1, crew.busy)
        crew.collect(reporter)
        yield reporter.progress(crew.counts(), reporter.epochs, crew.busy, done=True)

    def close(self) -> None:
        """End the shard hosts; what was not saved is gone."""
        for station in self._hosts.values():
            with suppress(Exception):
                station.close().result(timeout=settings().connect_s)
        self._hosts.clear()
        self._held.clear()

    def read(self, host: int, wanted: Wanted) -> Pulled:
        """Read rows and parameters without training."""
        raise NotImplementedError


class _Crew:
    """The crew of one run; ends everything it started except the shard hosts."""

    def __init__(
        self,
        job: Job,
        client: Client,
        run: str,
        dataset: Dataset,
        hosts: dict[tuple[int, str], Any],
        lasting: list[Future],
    ) -> None:
        self.job, self.client, self.run, self.dataset = job, client, run, dataset
        self.driver: Driver = None  # type: ignore[assignment]  # set before anything is called
        self.busy: dict[str, float] = {}
        self._hosts, self._lasting = hosts, lasting
        self._held: list[Future] = []
        self._copies: dict[int, Any] = {}
        self._addresses: dict[int, Address] = {}
        self._stations: dict[str, Any] = {}
        self._tasks: dict[int, tuple[str, Future]] = {}
        self._known: dict[str, set[str]] = {}
        self._failure: BaseException | None = None

    def __enter__(self) -> _Crew:
        local_run(self.run, LocalRun(self.dataset, self.driver.tell))
        self.client.subscribe_topic(topic(self.run), self._heard)
        return self

    def __exit__(self, *error: object) -> None:
        with suppress(Exception):
            self.client.unsubscribe_topic(topic(self.run))
        for _, future in self._tasks.values():
            with suppress(Exception):
                future.cancel()
        for station in self._stations.values():
            with suppress(Exception):
                station.close().result(timeout=settings().connect_s)
        local_run(self.run, None)

    def _heard(self, event: tuple[float, Mapping[str, Any]]) -> None:
        self.driver.tell(decode_event(event[1]))

    # --- workers

    def watch(self) -> None:
        """Tell the run which workers came and went."""
        found: dict[str, set[str]] = {}
        roles = {"server": "server", "io": "io", "compute": "compute", "gpu": "compute"}
        for pool in pools_of(self.client):
            for worker in pool.workers if pool.name in roles else ():
                found.setdefault(worker.address, set()).add(roles[pool.name])
        for address in set(self._known) - set(found):
            self._lost(address)
        for address, joined in sorted(found.items()):
            for role in sorted(joined - self._known.get(address, set())):
                self._joined(address, role)
        self._known = found
        if not any("io" in joined for joined in found.values()):
            raise ClusterError(
                "no worker of pool 'io' is left; start one with: dask worker SCHEDULER --resources HPS_IO=1"
            )

    def _joined(self, address: str, role: str) -> None:
        if role == "io":
            local = address.startswith("inproc://")
            station = self._actor(address, IoStation, self.run, self.job, None if local else self.dataset)
            self._stations[address] = station
        self.driver.handle(ev.WorkerJoined(address, role))  # type: ignore[arg-type]

    def _lost(self, address: str) -> None:
        self._stations.pop(address, None)
        for attempt, (worker, future) in list(self._tasks.items()):
            if worker == address:
                del self._tasks[attempt]
                future.cancel()
        self.driver.handle(ev.WorkerLost(address))

    def _actor(self, worker: str, kind: type, *args: Any) -> Any:
        name = f"heterps-{kind.__name__}-{self.run}-{uuid.uuid4().hex[:6]}"
        future = self.client.submit(
            kind, *args, actor=True, workers=[worker], allow_other_workers=False, key=name, pure=False
        )
        # Dask forgets an actor with its last future: the engine's are kept with the hosts, a run's with the run.
        (self._lasting if kind is HostStation else self._held).append(future)
        return future.result(timeout=settings().call_s)

    # --- instructions

    def run_split(self, run: do.RunSplit, split: Split | None) -> None:
        """Submit the task of an attempt under a key that was never used."""
        key = f"heterps-split-{self.run}-{run.pass_}-{'end' if run.split is None else run.split}-{run.attempt}"
        future = self.client.submit(
            run_attempt,
            self.run,
            run,
            split,
            self._addresses,
            workers=[run.worker],
            allow_other_workers=False,
            key=key,
            pure=False,
        )
        self._tasks[run.attempt] = (run.worker, future)
        future.add_done_callback(lambda done: self._task_done(run.attempt, done))

    def _task_done(self, attempt: int, future: Future) -> None:
        if future.status != "error":
            return
        error = future.exception()
        mistake = isinstance(error, HeterpsError) and not isinstance(error, ClusterError)
        if mistake:
            self._failure = error
        self.driver.tell(ev.SplitFailed(attempt, f"{type(error).__name__}: {error}", fatal=mistake))

    def raise_failure(self) -> None:
        """Raise a user's mistake as it was raised on the worker."""
        if self._failure is not None:
            raise self._failure

    def to_attempt(self, attempt: int, instruction: do.Instruction) -> None:
        """Hand an instruction to the station of the attempt's worker."""
        worker, future = self._tasks.get(attempt, (None, None))
        station = self._stations.get(worker) if worker else None
        if station is not None:
            station.deliver(attempt, instruction, self._addresses).result(timeout=settings().call_s)
        if isinstance(instruction, do.Cancel) and future is not None:
            del self._tasks[attempt]

    def create_host(self, create: do.CreateHost) -> None:
        """Make a shard host, or take the one of the run before."""
        place = (create.host, create.worker)
        if place not in self._hosts:
            if any(host == create.host for host, _ in self._hosts):
                raise RunError(
                    f"shard host {create.host} was lost with its rows, and there is no cut to return to; "
                    "give launch(..., checkpoint=DIR) to have one"
                )
            self._hosts[place] = self._actor(create.worker, HostStation, self.job, create.host)
        station = self._copies[create.copy] = self._hosts[place]
        self._addresses[create.copy] = station.begin(self.run, create).result(timeout=settings().call_s)

    def to_host(self, copy: int, instruction: Any) -> None:
        """Hand an instruction to a host."""
        self._copies[copy].deliver(instruction).result(timeout=settings().call_s)

    def create_stage(self, worker: str) -> None:
        """Make the stage actors of a compute worker."""

    def publish_cut(self, cut: Cut) -> None:
        """Write the manifest."""

    def drop_cut(self, cut: int) -> None:
        """Remove the parts."""

    # --- reports

    def counts(self) -> Counts:
        """Return what host 0 counted; every batch is pushed to every host."""
        for (host, _), station in self._hosts.items():
            if host == 0:
                return Counts(**station.counts().result(timeout=settings().call_s))
        return Counts()

    def collect(self, reporter: Reporter) -> None:
        """Take metrics and times from all stations."""
        parts: Sequence[Any] = [station.collect() for station in self._stations.values()]
        for part in parts:
            with suppress(Exception):
                found = part.result(timeout=settings().call_s)
                reporter.add(found["states"], found["phases"], found["bad_rows"])
        self.busy = {"io": reporter.phases.busy}
