"""The carrier of a run on a Dask cluster: instructions become actors, tasks and calls."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import takewhile
from time import monotonic
from typing import Any

from distributed import Client, Future

from heterps.data import Dataset, Split
from heterps.errors import ClusterError, HeterpsError, RunError
from heterps.protocol.words import events as ev, instructions as do
from heterps.protocol.words.cut import Cut
from heterps.runtime.answers import answer, asking, cancel, reason_of, submitted
from heterps.runtime.batch.counts import Counts
from heterps.runtime.batch.job import Job
from heterps.runtime.cluster.identity import identity_of
from heterps.runtime.cluster.pools import group_by_pool, workers_from
from heterps.runtime.config import settings
from heterps.runtime.cuts.checkpoints import Keeper
from heterps.runtime.report.reporter import Reporter
from heterps.runtime.run.driver import Driver
from heterps.runtime.run.patience import Patience
from heterps.runtime.run.remote import Remote
from heterps.runtime.run.roles import Roles
from heterps.runtime.wire.addresses import parse_address
from heterps.runtime.wire.service import Address
from heterps.runtime.workers.delivery import LocalRun, decode_event, local_run, topic
from heterps.runtime.workers.host_actor import HostActor
from heterps.runtime.workers.io_actor import IoActor, run_attempt
from heterps.runtime.workers.stage_actor import StageActor

__all__ = ["ClusterCarrier"]

_WATCH_S = 0.5  # between looks at which workers are there
_log = logging.getLogger("heterps")


class ClusterCarrier:
    """The carrier of one run; ends everything it started except the shard hosts.

    Parameters
    ----------
    job, client, roles
        What runs where.
    run
        Name of the run, part of every Dask key.
    dataset
        What is read.
    hosts
        Shard hosts by (number, worker); they outlive the run.
    keeper
        Cuts of the run.
    fetch
        Tensors to watch, by name.
    silent
        Workers that did not answer in time, in this run or before: not used again.
    """

    def __init__(
        self,
        job: Job,
        client: Client,
        roles: Roles,
        run: str,
        dataset: Dataset,
        hosts: dict[tuple[int, str], Remote],
        keeper: Keeper,
        fetch: Mapping[str, str],
        silent: set[str],
    ) -> None:
        self.job, self.client, self.roles, self.run, self.dataset = job, client, roles, run, dataset
        self.driver: Driver = None  # type: ignore[assignment]  # set before anything is called
        self._scheduler = ""
        self._hosts, self._keeper, self._fetch = hosts, keeper, dict(fetch)
        self._silent = silent
        self._host_addresses: dict[int, Address] = {}
        self._stage_workers: list[str] = []
        self._copies: dict[int, Remote] = {}
        self._addresses: dict[int | str, Address] = {}
        self._stages: dict[str, Remote] = {}
        self._stage_pools: dict[str, str] = {}
        self._threads: dict[str, int] = {}
        self._actors: dict[str, Remote] = {}
        self._tasks: dict[int, tuple[str, Future]] = {}
        self._known: dict[str, set[str]] = {}
        self._names: dict[str, str] = {}
        self._failure: BaseException | None = None
        self._counted = Counts()
        self._begun: set[int] = set()
        self._peeked: dict[str, Any] = {}
        self._looked = -_WATCH_S
        self._patience = Patience(self._missing, settings().workers_s)

    def __enter__(self) -> ClusterCarrier:
        local_run(self.run, LocalRun(self.dataset, self.driver.tell))
        with asking(lambda reason: ClusterError(f"the scheduler is gone ({reason})")):
            self.client.subscribe_topic(topic(self.run), self._heard)
        return self

    def __exit__(self, *error: object) -> None:
        with suppress(Exception):
            self.client.unsubscribe_topic(topic(self.run))
        cancel(self.client, [future for _, future in self._tasks.values()])
        for actor in (*self._actors.values(), *self._stages.values()):
            actor.close()
        local_run(self.run, None)

    def _heard(self, event: tuple[float, Mapping[str, Any]]) -> None:
        with self._told_of_failure():
            self.driver.tell(decode_event(event[1]))

    @contextmanager
    def _told_of_failure(self) -> Iterator[None]:
        """In threads of Dask, which would log an error and go on: it ends the run."""
        try:
            yield
        except Exception as error:
            named = RunError(f"the run cannot go on from what a worker told it: {reason_of(error)}")
            named.__cause__ = error
            self._failure = self._failure or named
            raise

    # --- workers

    tick_s = 0.05

    def watch(self) -> None:
        """Tell the run which workers came and went, now and then; raise if those it needs stay away."""
        if monotonic() - self._looked >= _WATCH_S:
            self._looked = monotonic()
            self._look()
            self._patience.check()

    def _look(self) -> None:
        pools = group_by_pool(workers_from(self._identity()))
        self._threads = {pool.name: sum(w.nthreads for w in pool.workers) for pool in pools if pool.name in self.roles}
        workers = {w.address: w for pool in pools for w in pool.workers if w.address not in self._silent}
        self._names = {address: worker.name for address, worker in workers.items()}
        self._pools = {address: worker.pools for address, worker in workers.items()}
        found = {address: self.roles.of(worker.pools) for address, worker in workers.items()}
        for address in set(self._known) - set(found):
            self._lost(address)
        self._servers_joined(
            [address for address in sorted(found, key=self._holders_first) if "server" in found[address]]
        )
        for role in ("compute", "io"):  # what others need came first
            for address, joined in sorted(found.items()):
                if role in joined and role not in self._known.get(address, set()) and not self._joined(address, role):
                    joined.discard(role)  # lost while it joined, or slow: the next look tells
        self._known = found

    def _identity(self) -> Mapping[str, Any]:
        """Ask the scheduler; raise if it is gone. Another one in its place knows nothing of this run."""
        try:
            identity = identity_of(self.client)
            self._scheduler = self._scheduler or identity["id"]
            if identity["id"] == self._scheduler:
                return identity
            raise ClusterError("the scheduler is gone (another one is in its place)")
        except ClusterError as error:
            raise ClusterError(
                f"{error}; start it and its workers again. A run with checkpoints goes on with launch(plan, resume=DIR)"
            ) from error

    def _servers_joined(self, addresses: Sequence[str]) -> None:
        new = tuple(address for address in addresses if "server" not in self._known.get(address, set()))
        if new:
            self.driver.handle(ev.ServersJoined(new))

    def _holders_first(self, address: str) -> tuple[int, str]:
        """Servers join in the order of the hosts they hold, so that the run places every host where its tables are."""
        held = [host for host, worker in self._hosts if worker == address]
        return min(held, default=self.job.hosts), address

    def _joined(self, address: str, role: str) -> bool:
        if role == "io":
            here = None if parse_address(address).is_local else self.dataset
            with self._or_lost(address):
                self._actors[address] = Remote(self.client, address, IoActor, self.run, self.job, here)
            if address not in self._actors:
                return False
        self.driver.handle(ev.WorkerJoined(address, role))  # type: ignore[arg-type]
        return True

    @contextmanager
    def _or_lost(self, worker: str) -> Iterator[None]:
        """A worker that does not answer in time is lost to the run, though Dask may list it for minutes."""
        try:
            yield
        except ClusterError as error:
            self._give_up(worker, error)

    def _give_up(self, worker: str, error: ClusterError) -> None:
        if worker not in self._silent:
            self._silent.add(worker)
            _log.warning("worker %s is lost to the run: %s", self._names.get(worker, worker), error)

    def _lose_copy(self, copy: int, worker: str, error: ClusterError) -> None:
        self._give_up(worker, error)
        self.driver.tell(ev.CopyLost(copy))

    def _lost(self, address: str) -> None:
        self._actors.pop(address, None)
        self._stages.pop(address, None)
        attempts = [attempt for attempt, (worker, _) in self._tasks.items() if worker == address]
        cancel(self.client, [self._tasks.pop(attempt)[1] for attempt in attempts])
        self.driver.handle(ev.WorkerLost(address))

    # --- instructions

    def run_split(self, run: do.RunSplit, split: Split | None) -> None:
        """Submit the task of an attempt under a key that was never used."""
        key = f"heterps-split-{self.run}-{run.pass_}-{'end' if run.split is None else run.split}-{run.attempt}"
        future = submitted(
            self.client,
            lambda reason: self._untold(run, reason),
            run_attempt,
            self.run,
            run,
            split,
            self._addresses,
            workers=[run.worker],
            allow_other_workers=False,
            key=key,
        )
        self._tasks[run.attempt] = (run.worker, future)
        future.add_done_callback(lambda done: self._task_done(run.attempt, done))

    def _untold(self, run: do.RunSplit, reason: str) -> ClusterError:
        return ClusterError(f"the cluster took no task for worker {self._names.get(run.worker, run.worker)}: {reason}")

    def _task_done(self, attempt: int, future: Future) -> None:
        with self._told_of_failure():
            if future.status == "error":
                self._split_failed(attempt, self._error_of(attempt, future))

    def _error_of(self, attempt: int, future: Future) -> BaseException | None:
        """Return what the task raised, or the ClusterError that says why nobody knows."""

        def lost(reason: str) -> ClusterError:
            return ClusterError(f"what failed in attempt {attempt} cannot be told: {reason}")

        async def ask() -> BaseException | None:
            found: BaseException | None = await future.exception()
            return found

        try:
            return answer(self.client, ask, lost, settings().call_s)
        except ClusterError as error:
            return error

    def _split_failed(self, attempt: int, error: BaseException | None) -> None:
        if isinstance(error, HeterpsError) and not isinstance(error, ClusterError):
            self._failure = self._failure or error  # trying again cannot help: the user gets it as it was raised
        else:
            self.driver.tell(ev.SplitFailed(attempt, f"{type(error).__name__}: {error}"))

    def pump(self) -> bool:
        """Raise a user's mistake as it was raised on the worker, or what went wrong in a thread of Dask."""
        if self._failure is not None:
            raise self._failure
        return False

    def stalled(self) -> None:
        """Nothing to do: others work meanwhile."""

    def _missing(self) -> tuple[str, ...]:
        """Return the pools without which the run stands still; what this process supplies itself is not missing."""
        return tuple(what for what in self.driver.state.waiting_for() if "worker" in what)

    def to_attempt(self, attempt: int, instruction: do.Instruction) -> None:
        """Hand an instruction to the actor of the attempt's worker."""
        worker, future = self._tasks.get(attempt, (None, None))
        actor = self._actors.get(worker) if worker else None
        if actor is not None:
            with self._or_lost(actor.worker):  # an attempt whose worker is gone needs no instruction
                actor.call("deliver", attempt, instruction, self._addresses)
        if isinstance(instruction, do.Cancel) and future is not None:
            del self._tasks[attempt]

    def create_host(self, create: do.CreateHost) -> None:
        """Make a shard host, or take the one of the run before."""
        place = (create.host, create.worker)
        lost = [known for known in self._hosts if known[0] == create.host and known != place]
        if (lost or create.host in self._begun) and not create.cut and self._keeper.base.pass_:
            raise self._no_cut(create.host)
        self._begun.add(create.host)
        for known in lost:
            del self._hosts[known]
        try:
            if place not in self._hosts:
                self._hosts[place] = Remote(self.client, create.worker, HostActor, self.job, create.host)
            actor = self._copies[create.copy] = self._hosts[place]
            folder, every = self._keeper.folder(create.cut), self._keeper.cut_every(create.host)
            address = actor.call("begin", self.run, create, folder, every, patient=True)
        except ClusterError as error:
            self._hosts.pop(place, None)
            self._lose_copy(create.copy, create.worker, error)
            return
        self._addresses[create.copy] = self._host_addresses[create.host] = address
        if len(self._host_addresses) == self.job.hosts:
            for stage in self._stages.values():
                with self._or_lost(stage.worker):
                    stage.call("move", self._all_hosts())
        self._make_stages()

    def to_host(self, copy: int, instruction: Any) -> None:
        """Hand an instruction to a host."""
        cut = getattr(instruction, "cut", None)
        if isinstance(instruction, do.Rewind) and not cut and self._keeper.base.pass_:
            raise self._no_cut(copy)
        try:
            self._copies[copy].call("deliver", instruction, self._keeper.folder(cut), patient=True)  # may load a cut
        except ClusterError as error:
            self._lose_copy(copy, self._copies[copy].worker, error)

    def _no_cut(self, host: int) -> RunError:
        return RunError(
            f"shard host {host} was lost with its rows, and there is no cut to return to; "
            "with launch(..., checkpoint=DIR) the run would have gone on by itself"
        )

    def create_stage(self, worker: str) -> None:
        """Make the stage actors of a compute worker, once the shard hosts are there."""
        self._stage_workers.append(worker)
        self._make_stages()

    def _make_stages(self) -> None:
        if len(self._host_addresses) < self.job.hosts:
            return
        hosts, stages = self._all_hosts(), self.roles.stages
        mine = list(takewhile(lambda i: stages[i] == stages[1], range(1, len(stages))))
        while self._stage_workers:
            worker = self._stage_workers.pop()
            behind = self._behind(hosts, mine)
            with self._or_lost(worker):
                actor = Remote(self.client, worker, StageActor, self.run, self.job, mine, hosts, behind)
                self._addresses[worker] = actor.call("addresses")[1]
                self._stages[worker], self._stage_pools[worker] = actor, stages[1]
                self.driver.tell(ev.StageReady(worker))

    def _all_hosts(self) -> list[Address]:
        return [self._host_addresses[host] for host in range(self.job.hosts)]

    def _behind(self, hosts: Sequence[Address], first: Sequence[int]) -> dict[int, list[Address]]:
        """Make the actors of stages behind the first compute stage that lie on other pools; return where they are."""
        found: dict[int, list[Address]] = {}
        stages = self.roles.stages
        for index in reversed([i for i in range(1, len(stages)) if i not in first]):
            for worker in [address for address, pools in self._pools.items() if stages[index] in pools]:
                name = f"{worker} stage {index}"
                if name not in self._stages:
                    actor = Remote(self.client, worker, StageActor, self.run, self.job, [index], hosts, found)
                    self._stages[name], self._stage_pools[name] = actor, stages[index]
                    self._addresses[name] = actor.call("addresses")[index]
                found.setdefault(index, []).append(self._addresses[name])
        return found

    def publish_cut(self, cut: Cut) -> bool:
        """Write the manifest of a cut; a host that is lost before it told its part takes the cut with it."""
        assert self._keeper.store is not None
        parts = []
        for copy in self.driver.state.layout().copies:
            try:
                parts.append(self._copies[copy].call("part", cut.number))
            except ClusterError as error:
                self._lose_copy(copy, self._copies[copy].worker, error)
                return False
        self._keeper.store.publish(cut, parts)
        return True

    def drop_cut(self, cut: int) -> None:
        """Remove the parts of a cut."""
        if self._keeper.store is not None:
            self._keeper.store.drop(cut)

    # --- reports

    def counts(self) -> Counts:
        """Return what host 0 counted; every batch is pushed to every host. While it is lost, what it counted last."""
        for (host, _), actor in self._hosts.items():
            if host == 0:
                with self._or_lost(actor.worker):
                    self._counted = Counts(**actor.call("counts"))
        return self._counted

    def stage_steps(self) -> dict[str, int]:
        """Return how many batches each compute worker has computed, by name."""
        return {self._names[w]: sum(s.call("steps").values()) for w, s in self._stages.items() if w in self._names}

    def peek(self) -> dict[str, Any]:
        """Return the watched tensors of a batch that was computed lately; while no worker has one, the ones before."""
        for actor in self._actors.values() if self._fetch else ():
            with self._or_lost(actor.worker):
                if found := actor.call("peek", self._fetch):
                    self._peeked = found
                    break
        return self._peeked

    def collect(self, reporter: Reporter) -> None:
        """Take metrics and times from all actors at once; one that is lost meanwhile has nothing to add."""
        pending = []
        for pool, actor in self._by_pool():
            with self._or_lost(actor.worker):
                pending.append((pool, actor, actor.start("collect")))
        for pool, actor, call in pending:
            with self._or_lost(actor.worker):
                reporter.add(pool, **actor.finish(call, "collect"))
        reporter.tick(self._threads)

    def _by_pool(self) -> Iterator[tuple[str, Remote]]:
        yield from ((self.roles.io, actor) for actor in self._actors.values())
        yield from ((self._stage_pools[name], actor) for name, actor in self._stages.items())
        yield from ((self.roles.server, actor) for actor in self._hosts.values())
