"""The carrier of a run on a played cluster: who is told, who is asked, and what is left when the run has ended."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dask
import pytest

from heterps.errors import ClusterError, DataError, RunError
from heterps.protocol.words import events as ev, instructions as do
from heterps.protocol.words.cut import Cut
from heterps.protocol.words.layout import Layout
from heterps.protocol.words.modes import Async
from heterps.runtime.batch.job import Job
from heterps.runtime.batch.model import Model
from heterps.runtime.cluster.resources import resource_of
from heterps.runtime.cuts.checkpoints import Checkpoints, Keeper
from heterps.runtime.run import attendance, carrier as carriers, host_lines, stage_lines
from heterps.runtime.run.arrivals import Arrivals
from heterps.runtime.run.carrier import ClusterCarrier
from heterps.runtime.run.places import Places
from heterps.runtime.run.returning import Returning
from heterps.runtime.run.roles import Roles
from heterps.runtime.wire.service import Address
from heterps.runtime.workers.delivery import run_here, topic
from heterps.runtime.workers.io_actor import run_attempt
from heterps.runtime.workers.shard_host import ShardHost
from heterps.tables import Manifest, SnapshotPart, find_generation
from heterps.testing.small_model import data, graph

RUN = "played"
IO_0, IO_1, COMPUTE, SERVER_0, SERVER_1 = (f"tcp://10.0.0.{i}:1" for i in range(5))
POOLS = {IO_0: "io", IO_1: "io", COMPUTE: "compute", SERVER_0: "server", SERVER_1: "server"}
NAMES = {IO_0: "io-0", IO_1: "io-1", COMPUTE: "compute-0", SERVER_0: "server-0", SERVER_1: "server-1"}
STAGES = (("ids", "x", "y", "vectors", "weights"), ("features", "fc", "hidden", "wide", "out", "logit", "loss"))
LONG_S = 30.0


class Task:
    """Stands for a Dask future of an attempt."""

    def __init__(self, function: Any, args: tuple[Any, ...], workers: list[str], key: str) -> None:
        self.function, self.args, self.workers, self.key = function, args, workers, key
        self.status, self.released = "pending", False
        self.error: BaseException | None = None
        self._done: Callable[[Any], None] = lambda future: None

    def add_done_callback(self, done: Callable[[Any], None]) -> None:
        self._done = done

    def end(self, error: BaseException | None = None) -> None:
        """As a thread of Dask does when the task has ended."""
        self.status, self.error = "finished" if error is None else "error", error
        self._done(self)

    async def exception(self) -> BaseException | None:
        return self.error

    def release(self) -> None:
        self.released = True


class Scheduler:
    """Stands for a Dask client: what it was asked to do, and what it says of workers."""

    def __init__(self) -> None:
        self.workers: dict[str, str] = {}  # address -> status
        self.tasks: list[Task] = []
        self.cancelled: list[Task] = []
        self.topics: dict[str, Callable[[Any], None]] = {}
        self.loop = SimpleNamespace(asyncio_loop=asyncio.new_event_loop())
        self.as_current = nullcontext
        self._thread = threading.Thread(target=self.loop.asyncio_loop.run_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self.loop.asyncio_loop.call_soon_threadsafe(self.loop.asyncio_loop.stop)
        self._thread.join()
        self.loop.asyncio_loop.close()

    def identity(self, client: Any = None) -> dict[str, Any]:
        rest = {"host": "10.0.0.1", "nthreads": 2, "memory_limit": 0, "last_seen": 0.0}
        workers = {
            address: {"name": NAMES[address], "resources": {resource_of(POOLS[address]): 1}, "status": status, **rest}
            for address, status in dict(self.workers).items()
        }
        return {"id": "scheduler", "workers": workers}

    def submit(self, function: Any, *args: Any, workers: list[str], key: str, **options: Any) -> Task:
        self.tasks.append(Task(function, args, workers, key))
        return self.tasks[-1]

    async def cancel(self, futures: Sequence[Task]) -> None:
        self.cancelled += futures

    def subscribe_topic(self, name: str, heard: Callable[[Any], None]) -> None:
        self.topics[name] = heard

    def unsubscribe_topic(self, name: str) -> None:
        del self.topics[name]


class Actor:
    """Stands for a Remote: notes what it is asked; a shard host behind it is a real one."""

    def __init__(self, played: Played, worker: str, kind: type, args: tuple[Any, ...], unwanted: Any) -> None:
        self.worker, self.kind, self.args, self.unwanted = worker, kind.__name__, args, unwanted
        self.calls: list[tuple[Any, ...]] = []
        self.released = False
        self.error: Exception | None = None
        self._played = played
        self._host: ShardHost | None = None
        self.go = threading.Event()
        self.go.set()

    def call(self, method: str, *args: Any, patient: bool = False) -> Any:
        self.calls.append((method, *args))
        self.go.wait(LONG_S)
        if self.error is not None:
            raise self.error
        found = getattr(self, f"{self.kind}_{method}", None)
        return found(*args) if found else {}

    def part(self, cut: int) -> Any:
        """Return what its shard host wrote for a cut."""
        assert self._host is not None
        return self._host.parts[cut].part

    def asked(self, method: str) -> list[tuple[Any, ...]]:
        return [call[1:] for call in self.calls if call[0] == method]

    def release(self) -> None:
        self.released = True

    def HostActor_begin(self, run: str, copy: int, *rest: Any) -> Address:  # noqa: N802
        job, host = self.args
        self._host = ShardHost(job, host, copy, self._played.arrivals.tell)
        return address(f"copy {copy}")

    def HostActor_deliver(self, instruction: Any, folder: str) -> None:  # noqa: N802
        assert self._host is not None
        self._host.deliver(instruction, folder)

    def HostActor_part(self, cut: int) -> Any:  # noqa: N802
        assert self._host is not None
        return self._host.parts[cut]

    def StageActor_addresses(self) -> dict[int, Address]:  # noqa: N802
        return {1: address("stage")}

    def StageActor_steps(self) -> dict[int, int]:  # noqa: N802
        return {1: 7}

    def IoActor_begun(self) -> set[int]:  # noqa: N802
        return self._played.begun


def address(name: str) -> Address:
    return Address(name, "another process", "", "", "10.0.0.9", 1, "")


class Played:
    """A carrier in its run's thread, which is the test's."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.scheduler: Any = Scheduler()
        self.actors: list[Actor] = []
        self.unmakable: dict[str, threading.Event] = {}  # workers that begin no actor before the event
        self.begun: set[int] = set()
        self.arrivals, self.events = Arrivals(), list[ev.Event]()
        self.job = Job(Model(graph()), 64, Async(), **options)
        self.data, self.returning = data(), Returning(None)  # type: ignore[arg-type]
        self.places = Places()
        self.keeper = Keeper(Checkpoints(path=str(folder)), self.job, 0, 0, self.data)
        self.roles = Roles(stages=("io", "compute") if options.get("stages") else ("io",))
        self.carrier = ClusterCarrier(
            self.job,
            self.scheduler,
            self.roles,
            RUN,
            self.data,
            self.arrivals,
            self.places,
            self.keeper,
            {},
            self.returning,
        )

    def make(self, client: Any, worker: str, kind: type, *args: Any, unwanted: threading.Event) -> Actor:
        made = Actor(self, worker, kind, args, unwanted)
        self.actors.append(made)
        while worker in self.unmakable and not self.unmakable[worker].wait(0.01):
            if unwanted.is_set():
                raise ClusterError("nobody waits for it any more")
        return made

    def actor(self, worker: str) -> Actor:
        (found,) = (actor for actor in self.actors if actor.worker == worker)
        return found

    def until(self, is_so: Callable[[], Any]) -> None:
        """Let the run's thread take what arrives."""
        deadline = time.monotonic() + LONG_S
        while not is_so():
            assert time.monotonic() < deadline, f"it never came; events: {self.events}"
            self.take()
            time.sleep(0.002)

    def take(self) -> None:
        while not self.arrivals.empty():
            arrived = self.arrivals.get()
            event = arrived if isinstance(arrived, ev.Event) else arrived()
            if event is not None:
                self.events.append(event)

    def look(self, looks: int = 3) -> None:
        """Until the scheduler was asked so many times more."""
        before = self.carrier.attendance.looks
        self.until(lambda: self.carrier.attendance.looks >= before + looks)
        self.take()

    def join(self, *workers: str) -> None:
        self.scheduler.workers |= dict.fromkeys(workers, "running")
        self.look()

    def told(self, kind: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    def run(self, attempt: int, worker: str, split: int = 0) -> Task:
        """Have an attempt run."""
        layout = Layout(1, (1,), (1,), self.job.owners)
        run = do.RunSplit(attempt, attempt, worker, 0, split, 0, 0, 0, None, 0, (0, 0), layout)
        self.carrier.run_split(run, self.data.splits()[split])
        task: Task = self.scheduler.tasks[-1]
        return task

    def create_hosts(self) -> None:
        for host, worker in enumerate((SERVER_0, SERVER_1)[: self.job.hosts]):
            self.carrier.create_host(do.CreateHost(host + 1, host, worker, 1, 0, self.job.owned(host)))
        self.until(lambda: len(self.told(ev.HostReady)) == self.job.hosts)


Start = Callable[..., Played]


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Start]:
    """Starts runs; what a test has not ended ends with it."""
    made: list[Played] = []

    def start(**options: Any) -> Played:
        played = Played(tmp_path, **options)
        made.append(played)
        for module in (carriers, host_lines, stage_lines):
            monkeypatch.setattr(module, "Remote", played.make)
        monkeypatch.setattr(attendance, "identity_of", played.scheduler.identity)
        played.carrier.__enter__()
        return played

    monkeypatch.setattr(attendance, "_LOOK_S", 0.01)
    yield start
    for played in made:
        played.carrier.__exit__()
        played.scheduler.close()


# --- workers that come


def test_an_io_worker_has_joined_once_its_actor_is_made(start: Start) -> None:
    played = start()
    played.unmakable[IO_0] = threading.Event()
    played.join(IO_0, IO_1)
    assert played.told(ev.WorkerJoined) == [ev.WorkerJoined(IO_1, "io")]
    played.unmakable[IO_0].set()
    played.until(lambda: len(played.told(ev.WorkerJoined)) == 2)
    played.look()
    assert sorted(event.worker for event in played.told(ev.WorkerJoined)) == [IO_0, IO_1]
    actor = played.actor(IO_0)
    assert (actor.kind, actor.args) == ("IoActor", (RUN, played.job, played.data, "io"))


def test_servers_join_together_and_compute_workers_by_themselves(start: Start) -> None:
    played = start(hosts=2, stages=STAGES)
    played.join(SERVER_1, COMPUTE, SERVER_0)
    assert played.told(ev.ServersJoined) == [ev.ServersJoined((SERVER_0, SERVER_1), ("10.0.0.3", "10.0.0.4"))]
    assert played.told(ev.WorkerJoined) == [ev.WorkerJoined(COMPUTE, "compute")]
    assert played.actors == []  # until the run asks for them


def test_stages_are_made_once_all_hosts_can_be_reached(start: Start) -> None:
    played = start(hosts=2, stages=STAGES)
    played.join(SERVER_0, SERVER_1, COMPUTE)
    played.carrier.create_stage(COMPUTE)
    played.look()
    assert played.actors == []
    played.create_hosts()
    played.until(lambda: played.told(ev.StageReady))
    hosts = [address("copy 1"), address("copy 2")]
    assert played.actor(COMPUTE).args == (RUN, played.job, [1], hosts, {})
    task = played.run(1, IO_0)  # an attempt is told where both are
    assert task.args[3] == {1: hosts[0], 2: hosts[1], COMPUTE: address("stage")}


def test_what_workers_tell_arrives_as_it_was_told(start: Start) -> None:
    played, event = start(), ev.SplitDone(3, 4)
    heard = played.scheduler.topics[topic(RUN)]
    heard((0.0, {"kind": "SplitDone", "fields": asdict(event)}))
    played.take()
    assert played.events == [event]


def test_what_goes_wrong_in_a_thread_of_dask_ends_the_run(start: Start) -> None:
    played = start()
    with pytest.raises(AttributeError):
        played.scheduler.topics[topic(RUN)]((0.0, {"kind": "Unheard", "fields": {}}))
    with pytest.raises(RunError, match="what a worker told it: AttributeError: "):
        played.take()


# --- workers that go, or do nothing


def test_a_worker_that_leaves_has_its_tasks_cancelled_and_the_run_told_once(start: Start) -> None:
    played = start()
    played.join(IO_0, IO_1)
    mine, others = [played.run(1, IO_0), played.run(2, IO_0, split=1)], played.run(3, IO_1, split=2)
    del played.scheduler.workers[IO_0]
    played.look()
    assert played.told(ev.WorkerLost) == [ev.WorkerLost(IO_0)]
    assert [task.released for task in (*mine, others)] == [True, True, False]
    assert played.actor(IO_0).unwanted.is_set()
    assert not played.actor(IO_1).unwanted.is_set()
    played.carrier.to_attempt(1, do.Pause(1, 0, 1))  # of an attempt that is gone
    played.look()
    assert played.actor(IO_0).asked("deliver") == played.actor(IO_1).asked("deliver") == []


def test_an_actor_that_is_lost_with_its_worker_is_no_news(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    played = start()
    played.join(IO_0)
    played.run(1, IO_0)
    actor = played.actor(IO_0)
    actor.go.clear()
    played.carrier.to_attempt(1, do.Pause(1, 0, 1))
    del played.scheduler.workers[IO_0]
    played.look()
    actor.error = ClusterError("the worker is gone")
    actor.go.set()
    played.look()
    assert played.told(ev.WorkerLost) == [ev.WorkerLost(IO_0)]
    assert played.returning.silent == set()
    assert "lost to the run" not in caplog.text


def test_a_worker_that_does_not_answer_is_lost_though_it_is_listed(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    played = start()
    played.join(IO_0, IO_1)
    task = played.run(1, IO_0)
    played.actor(IO_0).error = ClusterError("silence for 30 s")
    played.carrier.to_attempt(1, do.Pause(1, 0, 1))
    played.until(lambda: played.told(ev.WorkerLost))
    played.look()
    assert played.told(ev.WorkerLost) == [ev.WorkerLost(IO_0)]
    assert played.returning.silent == {IO_0}
    assert task.released
    assert "worker io-0 is lost to the run: silence for 30 s" in caplog.text


def test_a_worker_whose_actor_cannot_be_made_is_lost(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    played = start()

    def make(client: Any, worker: str, *args: Any, **rest: Any) -> Any:
        raise ClusterError(f"not made on {worker}")

    monkeypatch.setattr(carriers, "Remote", make)
    played.join(IO_0)
    played.until(lambda: played.told(ev.WorkerLost))
    assert played.told(ev.WorkerJoined) == []
    assert played.returning.silent == {IO_0}


def test_what_a_paused_worker_has_not_begun_is_for_others(start: Start) -> None:
    played = start()
    played.join(IO_0, IO_1)
    for attempt, worker in ((1, IO_0), (2, IO_0), (3, IO_1)):
        played.run(attempt, worker)
    played.begun = {1}
    played.scheduler.workers[IO_0] = "paused"
    played.until(lambda: played.told(ev.SplitSlow))
    assert [event.worker for event in played.told(ev.WorkerHeld)] == [IO_0]
    assert {event.attempt for event in played.told(ev.SplitSlow)} == {2}
    played.scheduler.workers[IO_0] = "running"
    played.until(lambda: played.told(ev.WorkerFreed))


def test_one_that_was_paused_while_its_actor_was_made_is_held_as_it_joins(start: Start) -> None:
    played = start()
    go = played.unmakable[IO_0] = threading.Event()
    played.join(IO_0)
    played.scheduler.workers[IO_0] = "paused"
    played.until(lambda: played.told(ev.WorkerHeld))
    played.events.clear()
    go.set()
    played.until(lambda: len(played.events) > 1)
    joined, held = played.events[:2]
    assert joined == ev.WorkerJoined(IO_0, "io")
    assert isinstance(held, ev.WorkerHeld)


# --- attempts


def test_an_attempt_is_a_task_on_its_worker_and_no_other(start: Start) -> None:
    played = start()
    played.join(IO_0, IO_1)
    tasks = [played.run(1, IO_1, split=2), played.run(2, IO_1, split=2)]
    assert tasks[0].function is run_attempt
    assert tasks[0].args[0] == RUN
    assert tasks[0].args[2] == played.data.splits()[2]
    assert [task.workers for task in tasks] == [[IO_1], [IO_1]]
    assert len({task.key for task in tasks}) == 2  # Dask never takes one for the other


def test_an_instruction_reaches_the_actor_of_its_attempt(start: Start) -> None:
    played = start()
    played.join(SERVER_0, IO_0, IO_1)
    played.create_hosts()
    played.run(1, IO_0)
    played.run(2, IO_1, split=1)
    pause = do.Pause(2, 3, 1)
    played.carrier.to_attempt(2, pause)
    played.until(lambda: played.actor(IO_1).asked("deliver"))
    assert played.actor(IO_1).asked("deliver") == [(2, pause, {1: address("copy 1")})]
    assert played.actor(IO_0).asked("deliver") == []


def test_a_worker_is_sent_addresses_that_it_is_not_known_to_have(start: Start) -> None:
    played = start()
    played.join(IO_0, IO_1, SERVER_0)
    played.create_hosts()
    known = {1: address("copy 1")}
    first, second = played.run(1, IO_0), played.run(2, IO_0, split=1)
    assert [task.args[3] for task in (first, second)] == [known, known], "neither is known to have come"
    first.end()
    played.take()
    assert [played.run(3, IO_0).args[3], played.run(4, IO_1).args[3]] == [{}, known]
    played.carrier.to_attempt(3, pause := do.Pause(3, 3, 1))
    played.until(lambda: played.actor(IO_0).asked("deliver"))
    assert played.actor(IO_0).asked("deliver") == [(3, pause, {})]
    played.carrier.stages.addresses["another"] = address("another")
    assert played.run(5, IO_0).args[3] == {**known, "another": address("another")}


def test_a_worker_that_comes_back_is_sent_all_addresses(start: Start) -> None:
    played = start()
    played.join(IO_0, SERVER_0)
    played.create_hosts()
    played.run(1, IO_0).end()
    played.take()
    late = played.run(2, IO_0)
    assert late.args[3] == {}
    del played.scheduler.workers[IO_0]
    played.look()
    late.end()  # of the actor that is gone
    played.join(IO_0)
    assert played.run(3, IO_0).args[3] == {1: address("copy 1")}


def test_a_task_that_is_done_is_let_go_of(start: Start) -> None:
    """Dask keeps what somebody holds, and a long run has a million of them."""
    played = start()
    played.join(IO_0)
    task, other = played.run(1, IO_0), played.run(2, IO_0, split=1)
    task.end()
    played.take()
    assert [task.released, other.released] == [True, False]
    assert played.carrier.tasks.on(IO_0) == {2}
    assert played.events[-1:] != [ev.SplitFailed(1, "")]


def test_a_cancelled_attempt_is_told_and_then_forgotten(start: Start) -> None:
    played = start()
    played.join(IO_0)
    task = played.run(1, IO_0)
    for instruction in (do.Cancel(1), do.Pause(1, 3, 1), do.Cancel(1), do.Cancel(9)):
        played.carrier.to_attempt(instruction.attempt, instruction)
    played.until(lambda: played.actor(IO_0).asked("deliver"))  # a thread of the line's own does that
    played.look()
    assert [call[1] for call in played.actor(IO_0).asked("deliver")] == [do.Cancel(1)]
    assert task.released


@pytest.mark.parametrize("error", [ValueError("odd"), ClusterError("gone"), KeyError("task")])
def test_a_task_that_fails_is_a_failed_split(start: Start, error: Exception) -> None:
    played = start()
    played.run(1, IO_0).end()
    played.run(2, IO_0, split=1).end(error)
    played.take()
    assert played.events == [ev.SplitFailed(2, f"{type(error).__name__}: {error}")]


def test_a_users_mistake_in_a_task_ends_the_run_as_it_is(start: Start) -> None:
    played = start()
    played.run(1, IO_0).end(DataError("bad row"))
    with pytest.raises(DataError, match=r"^bad row$"):
        played.take()
    assert played.events == []


# --- cuts


def marked(played: Played) -> Cut:
    """Have all hosts write their parts of a cut."""
    played.join(SERVER_0, SERVER_1)
    played.create_hosts()
    for copy in (1, 2):
        played.carrier.to_host(do.MarkCut(copy, 1, 1, (0, 0)))
    played.until(lambda: len(played.told(ev.CutWritten)) == 2)
    return Cut(1, 0, mode=played.job.mode.to_json())


def half_told(start: Start) -> tuple[Played, Any]:
    """Have a cut published of which one host is slow to tell its part."""
    played = start(hosts=2)
    cut = marked(played)
    slow = played.actor(SERVER_0)
    slow.go.clear()
    played.carrier.publish_cut(cut, (1, 2))
    played.look()
    return played, slow


def test_the_parts_of_a_cut_are_gathered_and_published(start: Start, tmp_path: Path) -> None:
    played, slow = half_told(start)
    assert played.told(ev.CutPublished) == []  # one part is not enough
    slow.go.set()
    played.until(lambda: played.told(ev.CutPublished))
    assert played.told(ev.CutPublished) == [ev.CutPublished(1)]
    folder = find_generation(tmp_path / "checkpoint")
    assert played.carrier.cut_folder(1) == str(folder)
    manifest = Manifest.read(folder)
    assert manifest.position["cut"]["number"] == 1
    parts = [SnapshotPart.from_json(played.actor(server).part(1)) for server in (SERVER_0, SERVER_1)]
    assert all(part.files for part in parts)
    assert {file.name for file in manifest.files} == {file.name for part in parts for file in part.files}


def test_a_host_that_is_lost_before_it_told_its_part_takes_the_cut_with_it(start: Start, tmp_path: Path) -> None:
    played = start(hosts=2)
    cut = marked(played)
    played.actor(SERVER_1).error = ClusterError("the worker is gone")
    played.carrier.publish_cut(cut, (1, 2))
    played.until(lambda: played.told(ev.CopyLost))
    played.look()
    assert played.told(ev.CopyLost) == [ev.CopyLost(2)]
    assert played.told(ev.CutPublished) == played.told(ev.CutFailed) == []
    assert list(played.places.lines) == [(0, SERVER_0)]
    assert list((tmp_path / "checkpoint").glob(".unfinished*"))
    played.carrier.drop_cut(1)
    assert not list((tmp_path / "checkpoint").glob(".unfinished*"))


def test_a_cut_that_was_given_up_is_not_published_by_a_part_that_comes_late(start: Start, tmp_path: Path) -> None:
    played, slow = half_told(start)
    played.carrier.drop_cut(1)
    slow.go.set()
    played.until(lambda: len(slow.asked("part")) == 1)
    played.look()
    assert played.told(ev.CutPublished) == played.told(ev.CutFailed) == []
    assert not list((tmp_path / "checkpoint").glob("*"))


# --- the end


def test_closing_cancels_tasks_and_closes_actors_but_not_shard_hosts(start: Start) -> None:
    played = start(stages=STAGES)
    played.join(SERVER_0, COMPUTE, IO_0, IO_1)
    played.create_hosts()
    played.carrier.create_stage(COMPUTE)
    played.until(lambda: played.told(ev.StageReady))
    tasks = [played.run(1, IO_0), played.run(2, IO_1, split=1)]
    played.carrier.to_attempt(1, do.Cancel(1))
    assert run_here(RUN) is not None
    played.carrier.__exit__()
    assert played.scheduler.cancelled == tasks[1:]
    closed = {actor.worker: (bool(actor.asked("close")), actor.unwanted.is_set()) for actor in played.actors}
    assert closed == {SERVER_0: (False, False), **dict.fromkeys((COMPUTE, IO_0, IO_1), (True, True))}
    assert played.carrier.stage_steps() == {"compute-0": 7}
    assert played.scheduler.topics == {}
    assert run_here(RUN) is None
    looks = played.carrier.attendance.looks
    for _ in range(20):
        time.sleep(0.01)
        played.take()
    assert played.carrier.attendance.looks <= looks + 1  # the one that was under way


def test_a_scheduler_that_is_gone_at_the_end_keeps_nobody(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    played = start()
    played.join(IO_0)
    played.run(1, IO_0)

    def gone(name: str) -> None:
        raise RuntimeError("IOLoop is closed")

    monkeypatch.setattr(played.scheduler, "unsubscribe_topic", gone)
    monkeypatch.setattr(played.scheduler, "cancel", gone)
    played.carrier.__exit__()
    assert played.actor(IO_0).asked("close") == [()]
    assert run_here(RUN) is None


def test_a_run_that_cannot_begin_leaves_nothing(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Any, name: str, heard: Any) -> None:
        raise OSError("closed")

    monkeypatch.setattr(Scheduler, "subscribe_topic", refuse)
    with pytest.raises(ClusterError, match=r"the scheduler is gone \(OSError: closed\)"):
        start()
    assert run_here(RUN) is None


def test_nobody_is_missing_before_the_scheduler_has_answered(tmp_path: Path) -> None:
    """On a busy machine the first answer may take longer than workers may stay away."""

    def watch(seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            carrier.watch(lambda: ("an io worker",))
            time.sleep(0.02)

    with dask.config.set({"heterps.timeouts.workers": "0s"}):
        carrier = Played(tmp_path).carrier
        watch(0.5)
        carrier.attendance.looks = 1
        with pytest.raises(ClusterError, match="waited 0 s for an io worker"):
            watch(LONG_S)


def test_a_driver_that_the_scheduler_has_given_up_is_refused_by_name(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its client has connected anew: whatever it had on workers Dask has let go of."""
    played = start()
    fates = {SERVER_0: "taken over by process 7 on there", IO_0: ""}
    monkeypatch.setattr(attendance, "ask_workers", lambda client, function, workers, run: fates)
    played.join(IO_0)
    played.scheduler.scheduler_comm = object()
    with pytest.raises(ClusterError, match=r"given this driver up.* were taken over by process 7 on there"):
        played.carrier.watch(tuple)
