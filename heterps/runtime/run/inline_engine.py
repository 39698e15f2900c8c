"""Training in this thread, without Dask: the reference that every other engine is compared with.

The same protocol, hosts and attempts as on a cluster, run one after another. Same seed, same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import threadpoolctl

from heterps.data import BadBook, Dataset, Split
from heterps.errors import RunError
from heterps.metrics import Metric
from heterps.protocol.run.state import RunState
from heterps.protocol.words import instructions as do
from heterps.protocol.words.cut import Cut
from heterps.protocol.words.events import ServersJoined, WorkerJoined
from heterps.runtime.batch.bench import Workbench
from heterps.runtime.batch.counts import Counts
from heterps.runtime.batch.exchange import Exchange
from heterps.runtime.batch.inference import Inference, Inferred
from heterps.runtime.batch.job import Job
from heterps.runtime.batch.payload import Pulled, Wanted
from heterps.runtime.batch.phases import total
from heterps.runtime.batch.reading import Reading
from heterps.runtime.cuts.checkpoints import Checkpoints, Keeper
from heterps.runtime.report.occupancy import held_tables
from heterps.runtime.report.progress import Progress
from heterps.runtime.report.reporter import Reporter
from heterps.runtime.run.arrivals import Arrivals
from heterps.runtime.run.driver import HostInstruction, MemberInstruction
from heterps.runtime.run.engine_base import EngineBase
from heterps.runtime.run.stacks import thread_stacks
from heterps.runtime.run.training import Training
from heterps.runtime.wire.links import DirectLink, HostLink
from heterps.runtime.wire.peer import DirectPeer, Peer
from heterps.runtime.workers.attempt import Attempt
from heterps.runtime.workers.group_member import GroupMember
from heterps.runtime.workers.shard_host import ShardHost

__all__ = ["InlineEngine"]

_T = TypeVar("_T")
_PATIENCE_S = 60.0
_TURN = 4  # events of an attempt between looks at the run's: about a batch
_POOL = "inline"  # the one thread, as reports call it


class InlineEngine(EngineBase):
    """Everything in the calling thread.

    Parameters
    ----------
    job
        What to run.
    report_s
        Seconds between reports.
    checkpoints
        When to make cuts and what to go on from.
    threads
        Threads of a BLAS call while the engine trains or infers. More than one helps little at the sizes of these
        models, and on a machine with other work it costs a lot: BLAS threads spin while they wait for each other.
    """

    def __init__(
        self, job: Job, report_s: float = 1.0, threads: int = 1, checkpoints: Checkpoints | None = None
    ) -> None:
        super().__init__()
        # One thread: everything is one stage.
        together = job.devices.together()
        self.job = replace(job, stages=(), devices=together, hosts=job.hosts - job.holder, holder=False)
        self.report_s = report_s
        self.checkpoints = checkpoints or Checkpoints()
        self._limit = partial(threadpoolctl.ThreadpoolController().limit, limits=threads)  # around what computes
        self.hosts: dict[int, ShardHost] = {}  # by number, the newest copy of each; they keep their tables between runs
        self._copies: dict[int, ShardHost] = {}  # by number of copy, also those of runs before
        self._attempts: dict[int, Attempt] = {}  # those that have not ended; empty between runs
        self._arrivals = Arrivals()  # of the run that goes on, or went on last
        self._member: GroupMember | None = None  # of the run that goes on, where parameters are all-reduced
        self._benches = {0: Workbench(self.job)}  # by lane, where each has rows of its own

    # --- training

    def train(self, dataset: Dataset, epochs: int, fetch: Mapping[str, str] | None = None) -> Iterator[Progress]:
        """Train, yielding Progress now and then; the last one is ``done``."""
        self._dataset, self._bad, self._fetch = dataset, BadBook(dataset.bad_input), dict(fetch or {})
        args = (self.checkpoints, self.job, self.passes, self._runs, dataset, self.held)
        keeper = self._keeper = Keeper(*args, carried=self.carried)
        self.passes, self.carried = keeper.first, keeper.carried
        if keeper.carried.rate != self.job.rate:
            self.job = self.job.at_rate(keeper.carried.rate)
            self._benches = {0: Workbench(self.job)}  # they may have rows of their own
        self._runs += 1
        arrivals = self._arrivals = Arrivals()
        if self.job.reduced:
            self._member = GroupMember(self.job, _POOL, arrivals.tell, self._peer, arrivals.fail)
        training = Training(self.job, dataset, epochs, self, self._arrivals, keeper)
        with self._going_on(training, keeper, epochs), ExitStack() as stack:
            stack.callback(self._end)
            stack.enter_context(self._limit())
            # All at once: hosts that were put on the first would be moved to the others.
            training.driver.handle(ServersJoined(tuple(f"host-{i}" for i in range(self.job.hosts))))
            training.driver.handle(WorkerJoined(_POOL, "io"))
            yield from training.reports(self.report_s)

    # --- what the loop asks for

    tick_s = 0.0  # attempts move only when they are pumped

    def watch(self, waiting_for: Callable[[], tuple[str, ...]]) -> None:
        """Nobody comes or goes."""

    def look_at(self, run: RunState) -> None:
        """Nobody is behind anybody."""

    def stacks(self) -> str:
        """Say what threads are doing."""
        return thread_stacks()

    def stalled(self) -> None:
        """Wait for a cut that may be on its way to disk."""
        assert self._training is not None
        driver = self._training.driver
        if not driver.step(_PATIENCE_S):
            raise RunError(f"the run stands still; it waits for {', '.join(driver.state.waiting_for())}")

    def peek(self) -> dict[str, Any]:
        """Copy the watched tensors of the batch computed last."""
        return next((seen for bench in self._benches.values() if (seen := bench.peek(self._fetch))), {})

    def pump(self) -> bool:
        """Let every attempt do what it can; False if none could do anything."""
        moved = False
        for attempt in list(self._attempts.values()):
            moved |= attempt.pump(_TURN)
            if attempt.ended:
                del self._attempts[attempt.run.attempt]
        return moved

    def ready_to_report(self) -> bool:
        """All is here."""
        return True

    def collect(self, reporter: Reporter, exactly: bool = False) -> None:
        """Take metrics and times."""
        member = () if self._member is None else (self._member.phases,)
        benches = tuple(self._benches.values())
        phases = (*(bench.phases for bench in benches), *(host.phases for host in self.hosts.values()), *member)
        reporter.add(_POOL, total(each.take() for each in phases), {}, self._bad.counts(), bad_row=self._bad.first())
        kept = [bench.copy.size for bench in benches]
        rows = Exchange(local_rows=sum(k.local_rows for k in kept), local_bytes=sum(k.local_bytes for k in kept))
        for bench in benches:
            reporter.add(_POOL, {}, bench.metrics.take(), {}, [bench.device], bench.exchange.take() + rows)
        for number, host in self.hosts.items():
            if host.shard is not None:
                reporter.add(_POOL, {}, tables=held_tables(host.shard, number, _POOL))
        reporter.tick({_POOL: 1})

    def counts(self) -> Counts:
        """What host 0 counted; every batch is pushed to every host."""
        host = self.hosts.get(0)
        return Counts(**vars(host.counts)) if host else Counts()

    recount = counts  # nobody is asked

    def _end(self) -> None:
        for attempt in self._attempts.values():
            attempt.close()
        self._attempts.clear()
        if self._member is not None:
            self._member.close()
            self._member = None

    # --- the carrier of the driver

    def run_split(self, run: do.RunSplit, split: Split | None) -> None:
        """Start an attempt; it moves when it is pumped."""
        read = None if split is None else partial(self.job.read, self._dataset, split, bad=self._bad)
        reading = Reading(read, run.start)
        tell, lane = self._arrivals.tell, self.job.bench_of(run.lane)
        bench = self._benches[lane] if lane in self._benches else self._benches.setdefault(lane, Workbench(self.job))
        attempt = Attempt(run, self.job.mode, reading, bench, self._link, tell, group=self._member)
        self._attempts[run.attempt] = attempt
        attempt.start()

    def _link(self, copy: int) -> HostLink:
        return DirectLink(self._copies[copy])

    def to_attempt(self, attempt: int, instruction: do.Instruction) -> None:
        """Hand an instruction to an attempt."""
        if attempt in self._attempts:
            self._attempts[attempt].handle(instruction)

    def create_host(self, create: do.CreateHost) -> None:
        """Make a shard host, around the tables of the run before if there was one."""
        every = self._keeper.cut_every(create.host)
        host = ShardHost(self.job, create.host, create.copy, self._arrivals.tell, every)
        before = self.hosts.get(create.host)
        if before is not None:
            host.take_over(before)
            create = self._keeper.as_held(create)
        self.hosts[create.host] = self._copies[create.copy] = host
        host.deliver(create, self._keeper.folder(create.cut))

    def to_host(self, instruction: HostInstruction) -> None:
        """Hand an instruction to a host."""
        self._copies[instruction.copy].deliver(instruction, self._keeper.folder(getattr(instruction, "cut", None)))

    def to_member(self, instruction: MemberInstruction) -> None:
        """Hand an instruction to the only member of the group."""
        assert self._member is not None
        self._member.deliver(instruction)

    def _peer(self, name: str | int) -> Peer:
        assert isinstance(name, int), "there is no other member"
        return DirectPeer(self._copies[name])

    def create_stage(self, worker: str) -> None:
        """Nothing to do: compute is fused here."""

    def let_go(self, worker: str) -> None:
        """Nobody leaves."""

    def publish_cut(self, cut: Cut, copies: Sequence[int]) -> None:
        """Write the manifest of a cut."""
        self._arrivals.tell(self._keeper.publish(cut, [self._copies[copy].parts[cut.number] for copy in copies]))

    def drop_cut(self, cut: int) -> None:
        """Remove the parts of a cut."""
        self._keeper.drop(cut)

    def cut_folder(self, cut: int) -> str:
        """Return where a whole cut lies."""
        return self._keeper.folder(cut)

    def worker_name(self, worker: str) -> str:
        """Return what a user calls a worker."""
        return worker

    def was_there(self, worker: str) -> bool:
        """Whether a worker was there when the run began."""
        return True

    # --- reading

    def infer(
        self, dataset: Dataset, metrics: Sequence[Metric] = (), fetch: Mapping[str, str] | None = None
    ) -> Iterator[Inferred]:
        """Run forward on every Split, in order."""
        self._settle()
        inference = Inference(self.job, metrics, fetch)
        for split in dataset.splits():
            with self._limit():
                inferred = inference.run([self.read], dataset, split)
            yield inferred

    def read(self, host: int, wanted: Wanted) -> Pulled:
        """Read rows and parameters without training."""
        return self._host(host).read(wanted)

    def each_shard(self, function: Callable[..., _T], *args: Any) -> list[_T]:
        """Call a function with every shard."""
        shards = [self._host(host).shard for host in range(self.job.hosts)]
        return [function(shard, host, *args) for host, shard in enumerate(shards)]

    def _host(self, host: int) -> ShardHost:
        if host not in self.hosts:
            self.hosts[host] = self._fresh(host)
        return self.hosts[host]

    def _fresh(self, host: int) -> ShardHost:
        """A host before any run: tables as the seed gives them."""
        job = self.job
        made = ShardHost(job, host, -1, lambda event: None)
        made.fresh(job.owned(host))
        return made

    def close(self) -> None:
        """Drop the tables."""
        self._drop_tables()

    def _drop_tables(self) -> None:
        for host in self.hosts.values():
            host.close()
        self.hosts.clear()
        self._copies.clear()
