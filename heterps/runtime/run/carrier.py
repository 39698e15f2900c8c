"""The carrier of a run on a Dask cluster: instructions become actors, tasks and calls. It never waits for a worker."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any

from distributed import Client

from heterps.data import Dataset, Split
from heterps.errors import ClusterError
from heterps.protocol.run.state import RunState
from heterps.protocol.words import events as ev, instructions as do
from heterps.protocol.words.cut import Cut
from heterps.runtime.answers import asking
from heterps.runtime.batch.counts import Counts
from heterps.runtime.batch.job import Job
from heterps.runtime.cluster.letting_go import ATTENDANCE_TOPIC, HEARD_TOPIC, LEAVE_TOPIC, let_workers_go
from heterps.runtime.config import settings
from heterps.runtime.cuts.checkpoints import Keeper
from heterps.runtime.report.reporter import Reporter
from heterps.runtime.run.arrivals import Arrivals
from heterps.runtime.run.attendance import Attendance
from heterps.runtime.run.directory import Directory
from heterps.runtime.run.driver import HostInstruction, MemberInstruction
from heterps.runtime.run.gathering import ReportGathering
from heterps.runtime.run.host_lines import HostLines
from heterps.runtime.run.leaving import SCALE_TOPIC, Leaving
from heterps.runtime.run.line import ActorLine, close_all
from heterps.runtime.run.paces import told_every_s
from heterps.runtime.run.patience import Patience
from heterps.runtime.run.places import Places
from heterps.runtime.run.remote import Remote
from heterps.runtime.run.returning import Returning
from heterps.runtime.run.roles import Roles
from heterps.runtime.run.split_tasks import SplitTasks
from heterps.runtime.run.stacks import all_stacks
from heterps.runtime.run.stage_lines import StageLines
from heterps.runtime.run.stragglers import Stragglers
from heterps.runtime.wire.addresses import parse_address
from heterps.runtime.wire.service import Address
from heterps.runtime.workers.delivery import Addresses, LocalRun, decode_event, local_run, member_key, topic
from heterps.runtime.workers.io_actor import IoActor

__all__ = ["ClusterCarrier"]

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
    arrivals
        Takes what happens, for the run's thread.
    places
        Shard hosts; they outlive the run.
    keeper
        Cuts of the run.
    fetch
        Tensors to watch, by name.
    returning
        Workers that did not answer in time, in this run or before: not used until they answer again.
    """

    tick_s = 0.2  # what happens wakes it; this is for what is due

    def __init__(
        self,
        job: Job,
        client: Client,
        roles: Roles,
        run: str,
        dataset: Dataset,
        arrivals: Arrivals,
        places: Places,
        keeper: Keeper,
        fetch: Mapping[str, str],
        returning: Returning,
    ) -> None:
        self.job, self.client, self.roles, self.run, self.dataset = job, client, roles, run, dataset
        self._arrivals, self._keeper = arrivals, keeper
        self.hosts = HostLines(job, client, run, places, keeper, arrivals, self._give_up, self._moved)
        self.attendance = Attendance(
            client, roles, returning, arrivals, self._joined, self._held, self._left, places.held, run
        )
        self.stages = StageLines(
            job, client, run, roles, self.attendance, arrivals, lambda: self.hosts.all, self._give_up
        )
        self._readers: dict[str, ActorLine] = {}  # io actors by worker, made or being made
        self._members: dict[int | str, Address] = {}  # of an all-reduce group; those of workers that are gone stay
        self._directory = Directory(self._addresses)  # of io actors
        self._stage_directory = Directory(self._addresses)  # of stage actors that are members of a group
        self.tasks = SplitTasks(client, run, arrivals, self.attendance.name, self._directory)
        self._gathering = ReportGathering(
            self._lines, self._readers.values, self._counter, fetch, self._give_up, arrivals
        )
        pools, least = roles.by_name(), {"servers": job.replicas, "io": 1, "compute": 1}
        self._leaving = Leaving(client, self.attendance, arrivals, pools, least, self._why_bound)
        self._patience = Patience(settings().workers_s)
        after_s, factor = settings().stragglers_s, settings().stragglers_factor
        self._stragglers = Stragglers(after_s, factor, arrivals, self._counter, self.attendance.name)
        self._steps: dict[str, int] = {}  # of stages, when the run ended
        self._open = ExitStack()  # what ends with the run

    def __enter__(self) -> ClusterCarrier:
        with ExitStack() as stack:
            local_run(self.run, LocalRun(self.dataset, self._arrivals.tell))
            stack.callback(local_run, self.run, None)
            with asking(lambda reason: ClusterError(f"the scheduler is gone ({reason})")):
                for name, heard in self._topics().items():
                    self.client.subscribe_topic(name, heard)
            stack.callback(self._end)
            let_workers_go(self.client)
            stack.enter_context(self.attendance)
            self._open = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._open.close()

    def _end(self) -> None:
        for name in self._topics():
            with suppress(Exception):
                self.client.unsubscribe_topic(name)
        self.tasks.close()
        with suppress(Exception):
            self._steps = self.stages.steps()
        self.hosts.end()
        close_all([*self._readers.values(), *(line for _, line in self.stages.lines)], *self.hosts.retire())

    def _topics(self) -> Mapping[str, Callable[[Any], Any]]:
        return {
            topic(self.run): self._heard,
            SCALE_TOPIC: self._heard_scale,
            LEAVE_TOPIC: self._heard_leave,
            ATTENDANCE_TOPIC: self._heard_of_worker,
        }

    def _heard_of_worker(self, event: tuple[float, Mapping[str, Any]]) -> None:
        """A worker came or went. The run's thread may be waiting for one that is gone, so it is told from here."""
        if not event[1]["there"]:
            gone = event[1]["worker"]
            lines = (
                *self._readers.values(),
                *self.hosts.places.lines.values(),
                *(line for _, line in self.stages.lines),
            )
            for line in lines:
                if line.worker == gone:
                    line.lose(ClusterError(f"worker {gone} is gone"))
        self.attendance.look_now()

    def _heard(self, event: tuple[float, Mapping[str, Any]]) -> None:
        with self._arrivals.told_of_failure():
            self._arrivals.tell(decode_event(event[1]))

    # --- workers that come and go

    def watch(self, waiting_for: Callable[[], tuple[str, ...]]) -> None:
        """Raise if workers that the run needs stay away, or the scheduler has given this driver up."""
        if self.attendance.is_cut_off:  # whatever is lost now, this is why
            self.attendance.check()
        self._leaving.look()
        self._patience.check(lambda: self._missing(waiting_for()), self._who_is_paused())

    def look_at(self, run: RunState) -> None:
        """Tell the run who is far behind."""
        self._stragglers.look(run)

    def _missing(self, waiting_for: Sequence[str]) -> tuple[str, ...]:
        """Return the pools without which the run stands still; what is being made, or supplied here, is not missing.

        Before the first look nobody is known to be missing: a scheduler that takes long to answer has its own limit.
        """
        if not self.attendance.looks or not waiting_for:
            return ()
        made = {"io worker": self._is_making_readers(), "compute worker": self.stages.being_made}
        return tuple(
            what for what in waiting_for if "worker" in what and not any(w in what and now for w, now in made.items())
        )

    def _is_making_readers(self) -> bool:
        paused = self.attendance.paused
        return any(not line.made.done() and worker not in paused for worker, line in self._readers.items())

    def _who_is_paused(self) -> str:
        names = ", ".join(sorted(map(self.attendance.name, self.attendance.paused)))
        return f" (paused by Dask, at the limit of their memory: {names})" if names else ""

    def _joined(self, worker: str, role: str) -> None:
        if role == "io":
            self._make_reader(worker)
        else:
            self._arrivals.tell(ev.WorkerJoined(worker, "compute", stay=self.attendance.stay(worker)))

    def _reading_pool(self, worker: str) -> str:
        return self.roles.pool_of(0, self.attendance.pools.get(worker, ()))

    def _make_reader(self, worker: str) -> None:
        self._directory.forget(worker)
        data = None if parse_address(worker).is_local else self.dataset
        args = (self.run, self.job, data, self._reading_pool(worker))
        line = self._readers[worker] = ActorLine(
            worker, lambda unwanted: Remote(self.client, worker, IoActor, *args, unwanted=unwanted)
        )

        def made(_: Any) -> None:
            if self.job.reduced and not self.job.stage_group:
                self._arrivals.when(line.ask("member_address"), there, partial(self._give_up, worker))
            else:
                joined()

        def there(address: Address) -> None:
            self._members[member_key(worker)] = address
            joined()

        def joined() -> None:
            self._arrivals.tell(ev.WorkerJoined(worker, "io", stay=self.attendance.stay(worker)))
            if worker in self.attendance.paused:
                self._arrivals.tell(ev.WorkerHeld(worker, self.attendance.looks))

        self._arrivals.when(line.made, made, partial(self._give_up, worker))

    def _held(self, worker: str) -> None:
        """A worker begins nothing for now: what it was given and has not begun is for others."""

        def told(begun: set[int]) -> None:
            for attempt in self.tasks.on(worker) - begun:
                self._arrivals.tell(ev.SplitSlow(attempt))

        line = self._readers.get(worker)
        if line is not None and line.made.done():
            self._arrivals.when(line.ask("begun"), told, partial(self._give_up, worker))

    def _give_up(self, worker: str, error: ClusterError) -> None:
        """What was said of a worker that is gone is no news."""
        if worker in self.attendance.pools:
            self.attendance.give_up(worker, error)

    def _left(self, worker: str) -> None:
        if worker in self._readers:
            self._readers.pop(worker).abandon()
        self.stages.left(worker)
        self.hosts.left(worker)
        self.tasks.left(worker)
        self._stragglers.left(worker)

    # --- instructions

    def run_split(self, run: do.RunSplit, split: Split | None) -> None:
        """Submit the task of an attempt."""
        rows = self.dataset.held_rows(split) if split is not None else {}
        self.tasks.begin(run, split, rows, told_every_s(len(self._readers)))

    def _addresses(self) -> Addresses:
        """Of copies of shard hosts and of stages, as they are now."""
        return {**self.hosts.addresses, **self.stages.addresses, **self._members}

    def pump(self) -> bool:
        """Nothing to do: attempts run elsewhere."""
        return False

    def stacks(self) -> str:
        """Say what threads are doing, here and on the workers that are there."""
        there = self.attendance.pools
        return all_stacks(self.client, {address: self.attendance.name(address) for address in there})

    def stalled(self) -> None:
        """Nothing to do: others work meanwhile."""

    def to_attempt(self, attempt: int, instruction: do.Instruction) -> None:
        """Hand an instruction to the actor of the attempt's worker; one whose worker is gone needs none."""
        worker = self.tasks.worker_of(attempt)
        line = self._readers.get(worker)
        if line is not None:
            self._ask(self._directory, worker, line, "deliver", attempt, instruction)
        if isinstance(instruction, do.Cancel):
            self.tasks.forget(attempt)

    def to_member(self, instruction: MemberInstruction) -> None:
        """Hand an instruction to the member on an io or stage worker; one that is gone needs none."""
        worker = instruction.worker
        if self.job.stage_group:
            line, directory = self.stages.line(worker), self._stage_directory
        else:
            line, directory = self._readers.get(worker), self._directory
        if line is not None:
            self._ask(directory, worker, line, "to_member", instruction)

    def _ask(self, directory: Directory, worker: str, line: ActorLine, method: str, *args: Any) -> None:
        """Hand something to an actor, with the addresses that it may not have."""
        sent = directory.send(worker)
        told = line.ask(method, *args, sent.addresses)
        self._arrivals.when(told, lambda _: directory.has(worker, sent), partial(self._give_up, worker))

    def create_host(self, create: do.CreateHost) -> None:
        """Make a shard host, or take the one of the run before."""
        self.hosts.create(create)

    def to_host(self, instruction: HostInstruction) -> None:
        """Hand an instruction to a host."""
        self.hosts.deliver(instruction)

    def _moved(self) -> None:
        self.stages.moved()

    def create_stage(self, worker: str) -> None:
        """Make the stage actors of a compute worker, once the shard hosts are there."""
        self._stage_directory.forget(worker)
        self.stages.want(worker)

    # --- workers that are to leave

    def scale(self, wanted: Mapping[str, int]) -> None:
        """Ask workers to leave, so that so many of a role stay."""
        self._leaving.scale(wanted)

    def _heard_scale(self, event: tuple[float, Mapping[str, int]]) -> None:
        """Somebody else asks: what cannot be done is told to the log, not to the run."""

        def ask() -> None:
            try:
                self.scale(event[1])
            except ClusterError as error:
                _log.warning("the number of workers stays as it is: %s", error)

        self._arrivals.post(ask)

    def _heard_leave(self, event: tuple[float, Mapping[str, Any]]) -> Any:
        """The scheduler is to retire workers and waits until the run has let them go.

        Heard in Dask's loop, which awaits the answer: however busy the run's own thread is.
        """
        mine = [worker for worker in event[1]["workers"] if worker in self.attendance.names]
        self._arrivals.post(partial(self._leaving.want, mine))
        return self.client.log_event(HEARD_TOPIC, event[1]["question"]) if mine else None

    def worker_name(self, worker: str) -> str:
        """Return what a user calls a worker."""
        return self.attendance.name(worker)

    def was_there(self, worker: str) -> bool:
        """Whether a worker was there when the run began."""
        return worker in self.attendance.first

    def _why_bound(self, worker: str) -> str:
        """Say why a worker cannot leave, however many others there are."""
        if self.stages.is_behind(worker):
            return "it runs a later stage, and those before it know no other way"
        if self.job.holder and self.hosts.places.answering.get(self.job.hosts - 1) == worker:
            return "it holds the dense parameters (dense_on='stage'), which are on no other worker"
        return ""

    def let_go(self, worker: str) -> None:
        """End what the run has on a worker, and have it retired."""
        readers = [(self._reading_pool(worker), self._readers.pop(worker))] if worker in self._readers else []
        for pool, line in [*readers, *self.stages.let_go(worker)]:
            self._gathering.last_words(pool, line)
            line.close()
        self._leaving.retire(worker)

    def publish_cut(self, cut: Cut, copies: Sequence[int]) -> None:
        """Write the manifest of a cut."""
        self.hosts.publish(cut, copies)

    def drop_cut(self, cut: int) -> None:
        """Remove the parts of a cut."""
        self.hosts.drop(cut)

    def cut_folder(self, cut: int) -> str:
        """Return where a whole cut lies."""
        return self._keeper.folder(cut)

    # --- reports

    def _lines(self) -> Iterator[tuple[str, ActorLine]]:
        yield from ((self._reading_pool(worker), line) for worker, line in self._readers.items())
        yield from self.stages.lines
        yield from ((self.roles.server, line) for line in self.hosts.places.lines.values())

    def _counter(self) -> ActorLine | None:
        return self.hosts.places.line(0)

    def recount(self) -> Counts:
        """Return what was applied, up to now."""
        return self._gathering.recount()

    def counts(self) -> Counts:
        """Return what was applied, as collected last."""
        return self._gathering.counts

    def stage_steps(self) -> dict[str, int]:
        """Return how many batches each compute worker has computed, by name."""
        return self._steps or self.stages.steps()

    def peek(self) -> dict[str, Any]:
        """Return the watched tensors of a batch that was computed lately, as collected last."""
        return self._gathering.peeked

    def ready_to_report(self) -> bool:
        """Ask all actors for what they measured; whether the answers are there, or were waited for long enough."""
        return self._gathering.ready()

    def collect(self, reporter: Reporter, exactly: bool = False) -> None:
        """Take metrics and times from all actors at once; one that is lost meanwhile has nothing to add."""
        self._gathering.collect(reporter, exactly)
        reporter.tick(self.attendance.threads)
