"""The attempts of one io worker: who waits for whom, which slot each takes, and what is left when they have ended."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from distributed import Security

import heterps as hps
from heterps.errors import ClusterError
from heterps.metrics import AUC
from heterps.protocol.words import events as ev, instructions as do
from heterps.protocol.words.layout import Layout
from heterps.protocol.words.messages import Push, Request
from heterps.protocol.words.modes import Async, Cached, Mode, Sync
from heterps.runtime.batch.bench import Workbench
from heterps.runtime.batch.job import Job
from heterps.runtime.batch.model import Model
from heterps.runtime.wire.links import DirectLink
from heterps.runtime.wire.service import Listener, Method
from heterps.runtime.workers import io_actor
from heterps.runtime.workers.attempt import Attempt
from heterps.runtime.workers.delivery import LocalRun, local_run
from heterps.runtime.workers.io_actor import IoActor, run_attempt
from heterps.runtime.workers.shard_host import ShardHost
from heterps.testing.small_model import columns, graph

RUN, WORKER = "played", SimpleNamespace(name="io-0", address="inproc://10.0.0.1/1/2", security=Security())
FETCH = {"p": "prediction"}
BATCH, BATCHES = 64, 4  # rows of a batch, batches of a Split
SOON_S = 0.2  # what should not happen does not happen for so long
LONG_S = 30.0


class Kept:
    """A real shard host that keeps pushes of some attempts back, and raises ``error`` once it is set."""

    def __init__(self, job: Job, report: Callable[[ev.Event], None]) -> None:
        self.host = ShardHost(job, 0, 1, report)
        self.host.deliver(do.CreateHost(1, 0, "server-0", 1, 0, job.owned(0)))
        self.keeps: set[int] = set()
        self.back: list[Callable[[], None]] = []
        self.error: Exception | None = None
        self.read, self.dense = self.host.read, self.host.dense

    @property
    def methods(self) -> Mapping[str, Method]:
        return {}

    def request(self, request: Request, payload: Any, done: Any) -> None:
        if self.error is not None:
            raise self.error
        if isinstance(request, Push) and request.attempt in self.keeps:
            self.back.append(partial(self.host.request, request, payload, done))
        else:
            self.host.request(request, payload, done)

    def let_through(self) -> None:
        self.keeps = set()
        while self.back:
            self.back.pop(0)()


class Link(DirectLink):
    """A link that says whether it was closed."""

    closed = False

    def close(self) -> None:
        self.closed = True


class Io:
    """An actor on a played worker with a real shard host in this process, and what it told the run."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, mode: Mode, **bad: Any) -> None:
        self.events: list[ev.Event] = []
        self.benches: list[weakref.ref[Workbench]] = []
        self.links: list[Link] = []
        monkeypatch.setattr(io_actor, "get_worker", lambda: WORKER)
        monkeypatch.setattr(io_actor, "Workbench", self._bench)
        monkeypatch.setattr(io_actor, "link_to_host", self._link)
        self.job = Job(Model(graph()), BATCH, mode, metrics=(AUC(),))
        self.data = hps.arrays({**columns(3 * BATCHES * BATCH), **bad}, split_cost=BATCHES * BATCH)
        self.splits = self.data.splits()
        local_run(RUN, LocalRun(self.data, self.events.append))
        self.host = Kept(self.job, self.events.append)
        self.listener = Listener(self.host)
        self.actor = IoActor(RUN, self.job, None)

    def _bench(self, *args: Any, **rest: Any) -> Workbench:
        made = Workbench(*args, **rest)
        self.benches.append(weakref.ref(made))
        return made

    def _link(self, *_: Any) -> Link:
        self.links.append(Link(self.host))
        return self.links[-1]

    def instruction(self, attempt: int, split: int = 0) -> do.RunSplit:
        layout = Layout(1, (1,), (1,), self.job.owners)
        return do.RunSplit(attempt, attempt, WORKER.address, 0, split, 0, 0, 0, None, 0, (0, 0), layout)

    def begin(self, attempt: int, split: int = 0, told_every_s: float = 0.0) -> Future[int]:
        """Run an attempt in a thread of its own, as its task does."""
        answer: Future[int] = Future()

        def work() -> None:
            try:
                run = self.instruction(attempt, split)
                known = {1: self.listener.address}
                answer.set_result(self.actor.run_attempt(run, self.splits[split], known, told_every_s))
            except BaseException as error:
                answer.set_exception(error)

        threading.Thread(target=work, name=f"attempt {attempt}", daemon=True).start()
        return answer

    def deliver(self, instruction: Any) -> None:
        self.actor.deliver(instruction.attempt, instruction, {})

    def told(self, kind: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def batches(self) -> int:
        """How many batches are in the tables."""
        return self.host.host.counts.batches


def until(is_so: Callable[[], Any]) -> None:
    deadline = time.monotonic() + LONG_S
    while not is_so():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.005)


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Io]]:
    """Makes actors, and ends what a test has left."""
    made: list[Io] = []

    def make(mode: Mode | None = None, **bad: Any) -> Io:
        made.append(Io(monkeypatch, mode or Async(depth=2), **bad))
        return made[-1]

    yield make
    for io in made:
        io.actor.close()
        io.listener.close()
        local_run(RUN, None)


# --- instructions


def test_an_instruction_before_its_attempt_waits_for_it(make: Callable[..., Io]) -> None:
    io = make()
    io.deliver(do.Pause(1, until=2, serial=1))
    io.deliver(do.Cancel(2))
    first, second = io.begin(1), io.begin(2, split=1)
    until(lambda: io.told(ev.SplitPaused))
    assert io.told(ev.SplitPaused) == [ev.SplitPaused(1, 2, 1)]
    assert second.result(LONG_S) < BATCHES
    assert io.batches == 2
    io.deliver(do.Resume(1, 2, io.instruction(1).layout))
    assert first.result(LONG_S) == BATCHES
    assert io.told(ev.SplitDone) == [ev.SplitDone(1, BATCHES)]
    assert io.batches == BATCHES


def test_an_instruction_is_taken_by_its_attempt_only(make: Callable[..., Io]) -> None:
    io = make()
    io.host.keeps = {1, 2}
    first = io.begin(1)
    until(lambda: len(io.host.back) == 2)  # all that one may have in flight
    second = io.begin(2, split=1)
    until(lambda: len(io.host.back) == 4)
    io.deliver(do.Cancel(2))
    assert second.result(LONG_S) < BATCHES
    assert not first.done()
    io.host.let_through()
    assert first.result(LONG_S) == BATCHES
    assert [event.attempt for event in io.told(ev.SplitDone)] == [1]


def test_attempts_that_have_begun_are_known(make: Callable[..., Io]) -> None:
    io = make()
    io.deliver(do.Announce(3, io.instruction(3).layout))
    assert io.actor.begun() == set()
    io.begin(1).result(LONG_S)
    assert io.actor.begun() == {1}


# --- slots


def test_attempts_take_free_slots_and_give_them_back(make: Callable[..., Io]) -> None:
    io = make()
    assert io.begin(1).result(LONG_S) == BATCHES
    assert io.begin(2, split=1).result(LONG_S) == BATCHES
    assert (len(io.benches), len(io.links)) == (1, 1)
    assert io.batches == 2 * BATCHES


def test_a_free_slot_is_taken_by_one_attempt_only(make: Callable[..., Io]) -> None:
    io = make()
    io.begin(1).result(LONG_S)
    io.host.keeps = {2, 3}
    both = [io.begin(2, split=1), io.begin(3, split=2)]
    until(lambda: len(io.host.back) == 4)
    assert (len(io.benches), len(io.links)) == (2, 2)
    io.host.let_through()
    assert [attempt.result(LONG_S) for attempt in both] == [BATCHES] * 2
    assert io.batches == 3 * BATCHES


def test_attempts_beside_each_other_have_a_slot_each(make: Callable[..., Io]) -> None:
    io = make()
    io.host.keeps = {1, 2}
    both = [io.begin(1), io.begin(2, split=1)]
    until(lambda: len(io.host.back) == 4)
    assert (len(io.benches), len(io.links)) == (2, 2)
    io.host.let_through()
    assert [attempt.result(LONG_S) for attempt in both] == [BATCHES] * 2
    assert io.batches == 2 * BATCHES


def ending(io: Io) -> Future[int]:
    """Begin an attempt, and keep the answers of its last batches back."""
    io.deliver(do.Pause(1, until=BATCHES - 1, serial=1))
    first = io.begin(1)
    until(lambda: io.told(ev.SplitPaused))
    io.host.keeps = {1}
    io.deliver(do.Resume(1, 2, io.instruction(1).layout))
    until(lambda: io.host.back)
    return first


def test_an_attempt_that_is_ending_makes_room_for_the_next(make: Callable[..., Io]) -> None:
    io = make()
    first = ending(io)
    assert io.told(ev.SplitEnding) == [ev.SplitEnding(1)]
    second = io.begin(2, split=1)
    until(lambda: 2 in io.actor.begun())
    time.sleep(SOON_S)
    assert len(io.benches) == 1
    assert not second.done()
    io.host.let_through()
    assert (first.result(LONG_S), second.result(LONG_S)) == (BATCHES, BATCHES)
    assert len(io.benches) == 1


def test_who_waits_for_a_slot_answers_to_the_run_all_the_same(make: Callable[..., Io]) -> None:
    io = make()
    first = ending(io)
    second = io.begin(2, split=1)
    until(lambda: 2 in io.actor.begun())
    io.deliver(do.Pause(2, until=0, serial=1))
    until(lambda: any(paused.attempt == 2 for paused in io.told(ev.SplitPaused)))
    assert not first.done()
    io.deliver(do.Cancel(2))
    second.result(LONG_S)


def test_in_sync_no_lane_is_said_to_be_ending(make: Callable[..., Io]) -> None:
    io = make(Sync())
    assert io.begin(1).result(LONG_S) == BATCHES
    assert io.told(ev.SplitEnding) == []


def test_an_attempt_that_fails_gives_its_slot_back_with_new_links(make: Callable[..., Io]) -> None:
    io = make()
    io.host.error = ValueError("no such row")
    with pytest.raises(ValueError, match="no such row"):
        io.begin(1).result(LONG_S)
    io.host.error = None
    assert io.begin(2).result(LONG_S) == BATCHES
    assert len(io.benches) == 1
    assert [link.closed for link in io.links] == [True, False]


# --- the end


def test_close_ends_all_attempts_and_lets_go(make: Callable[..., Io]) -> None:
    io = make()
    first = ending(io)
    second = io.begin(2, split=1)  # waits for the slot of the first
    until(lambda: 2 in io.actor.begun())
    io.actor.close()
    assert first.result(LONG_S) == BATCHES
    assert second.result(LONG_S) == 0
    assert [link.closed for link in io.links] == [True]
    assert io.told(ev.SplitDone) == []
    io.host.back.clear()  # Dask may keep the actor for long: by itself it holds neither buffers nor data
    gc.collect()
    assert [bench() for bench in io.benches] == [None]
    assert io.actor.dataset is None
    with pytest.raises(ClusterError):
        run_attempt(RUN, io.instruction(3), io.splits[0], {})


def test_who_waits_for_a_slot_does_not_outlive_the_close(
    make: Callable[..., Io], monkeypatch: pytest.MonkeyPatch
) -> None:
    io, go, good = make(), threading.Event(), Attempt.close
    monkeypatch.setattr(Attempt, "close", lambda self: (go.wait(LONG_S), good(self))[1])
    first = ending(io)
    second = io.begin(2, split=1)
    until(lambda: 2 in io.actor.begun())
    io.actor.close()
    assert second.result(LONG_S / 2) == 0
    assert not first.done()  # whose slot it waited for
    go.set()
    assert first.result(LONG_S) == BATCHES


def test_close_lets_go_of_what_no_attempt_has(make: Callable[..., Io]) -> None:
    io = make()
    io.begin(1).result(LONG_S)
    assert [link.closed for link in io.links] == [False]  # for the next attempt
    io.actor.close()
    assert [link.closed for link in io.links] == [True]
    gc.collect()
    assert [bench() for bench in io.benches] == [None]


def test_an_attempt_whose_buffers_are_made_while_the_actor_closes_runs_nothing(
    make: Callable[..., Io], monkeypatch: pytest.MonkeyPatch
) -> None:
    io = make()
    making, go = threading.Event(), threading.Event()

    def slowly(*args: Any, **rest: Any) -> Workbench:
        making.set()
        go.wait(LONG_S)
        return io._bench(*args, **rest)

    monkeypatch.setattr(io_actor, "Workbench", slowly)
    attempt = io.begin(1)
    assert making.wait(LONG_S)
    io.actor.close()
    go.set()
    assert attempt.result(LONG_S) == 0
    assert io.batches == 0
    gc.collect()
    assert [bench() for bench in io.benches] == [None]


def test_a_link_that_an_attempt_makes_after_the_close_is_closed_too(
    make: Callable[..., Io], monkeypatch: pytest.MonkeyPatch
) -> None:
    io = make()
    making, go, good = threading.Event(), threading.Event(), io._link

    def slowly(*args: Any) -> Link:
        making.set()
        go.wait(LONG_S)
        return good(*args)

    monkeypatch.setattr(io_actor, "link_to_host", slowly)
    attempt = io.begin(1)
    assert making.wait(LONG_S)
    io.actor.close()
    go.set()
    assert attempt.result(LONG_S) < BATCHES
    assert [link.closed for link in io.links] == [True]


@pytest.mark.parametrize(("mode", "apart"), [(Async(2), True), (Sync(), False), (Cached(3), False)])
def test_pushes_go_apart_where_no_answer_counts_on_their_order(
    make: Callable[..., Io], monkeypatch: pytest.MonkeyPatch, mode: Mode, apart: bool
) -> None:
    io, asked = make(mode), []

    def link(*args: Any) -> Link:
        asked.append(args[4])
        return io._link()

    monkeypatch.setattr(io_actor, "link_to_host", link)
    assert io.begin(1).result(LONG_S) == BATCHES
    assert asked == [apart]


def test_a_task_runs_on_the_actor_of_its_run_and_worker(
    make: Callable[..., Io], monkeypatch: pytest.MonkeyPatch
) -> None:
    io, left = make(), []
    monkeypatch.setattr(io_actor, "secede", lambda: left.append(1))
    run = io.instruction(1)
    assert run_attempt(RUN, run, io.splits[0], {1: io.listener.address}) == BATCHES
    assert left == [1]  # waiting for others must not take a thread of the worker's pool
    with pytest.raises(ClusterError):
        run_attempt("another run", run, io.splits[0], {})


# --- what is asked of it


def test_peek_looks_between_batches_in_the_attempts_own_thread(
    make: Callable[..., Io], monkeypatch: pytest.MonkeyPatch
) -> None:
    io, looked = make(), []
    good = Workbench.peek
    monkeypatch.setattr(
        Workbench, "peek", lambda self, fetch: (looked.append(threading.current_thread().name), good(self, fetch))[1]
    )
    assert io.actor.peek(FETCH) == {}
    io.host.keeps = {1, 2}
    attempt = io.begin(1)
    until(lambda: io.host.back)
    seen = io.actor.peek(FETCH)
    assert seen["p"].shape == (BATCH,)
    assert looked == ["attempt 1"]
    io.host.let_through()
    attempt.result(LONG_S)


def test_peek_at_the_very_end_waits_for_the_slot(make: Callable[..., Io], monkeypatch: pytest.MonkeyPatch) -> None:
    io = make()
    closing, go, good = threading.Event(), threading.Event(), Attempt.close

    def close(self: Attempt) -> None:
        if self.ended:  # for the second time: its slot is still its own
            closing.set()
            go.wait(LONG_S)
        good(self)

    monkeypatch.setattr(Attempt, "close", close)
    monkeypatch.setattr(io_actor, "_PEEK_S", LONG_S)
    attempt, found = io.begin(1), Future[dict[str, Any]]()
    assert closing.wait(LONG_S)
    threading.Thread(target=lambda: found.set_result(io.actor.peek(FETCH)), daemon=True).start()
    time.sleep(SOON_S)
    assert not found.done()
    go.set()
    assert np.all(np.isfinite(found.result(LONG_S)["p"]))
    assert attempt.result(LONG_S) == BATCHES


def test_metrics_are_collected_once(make: Callable[..., Io]) -> None:
    io = make()
    io.host.keeps = {1, 2}
    both = [io.begin(1), io.begin(2, split=1)]  # two benches: their states are one
    until(lambda: len(io.host.back) == 4)
    io.host.let_through()
    for attempt in both:
        attempt.result(LONG_S)
    first, second = (io.actor.collect() for _ in range(2))
    assert rows_in(first["states"]["auc"]) == 2 * BATCHES * BATCH
    assert rows_in(second["states"]["auc"]) == 0
    assert first["phases"]["forward"] > 0
    assert not any(second["phases"].values())


def rows_in(state: Any) -> int:
    one = AUC().update(AUC().init(), np.full(1, 0.5), np.ones(1))
    return int(state["counts"].sum() // one["counts"].sum())


def test_bad_rows_are_those_of_a_split_however_often_it_is_read(make: Callable[..., Io]) -> None:
    x = columns(3 * BATCHES * BATCH)["x"]
    x[[1, 5, BATCHES * BATCH + 3], 0] = np.inf
    io = make(x=x)
    for attempt, split in enumerate((0, 1, 0, 2), start=1):
        io.begin(attempt, split).result(LONG_S)
    assert io.actor.collect()["bad_rows"] == {(0, 0): 2, (0, 1): 1}


def test_of_many_words_on_progress_a_few_reach_the_run(make: Callable[..., Io]) -> None:
    io = make()
    io.begin(1, told_every_s=LONG_S).result(LONG_S)
    assert io.told(ev.BatchesDone) == []
    io.begin(2, split=1).result(LONG_S)
    assert max(event.upto for event in io.told(ev.BatchesDone)) == BATCHES
    assert len(io.told(ev.SplitDone)) == 2
