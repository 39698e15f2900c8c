"""What a run is told of workers that are far behind."""

from concurrent.futures import Future
from typing import Any, cast

import pytest

from heterps.protocol import Async, Mode, RunSpec, RunState, Sync
from heterps.protocol.words import events as ev, instructions as do
from heterps.runtime.run.arrivals import Arrivals
from heterps.runtime.run.line import ActorLine
from heterps.runtime.run.stragglers import Stragglers
from heterps.runtime.workers.turns import LaneTime


class Line:
    """The way to a shard host that answers at once."""

    def __init__(self) -> None:
        self.made: Future[None] = Future()
        self.made.set_result(None)
        self.times: list[LaneTime] = []

    def ask(self, method: str) -> Future[Any]:
        assert method == "lane_times"
        answer: Future[Any] = Future()
        answer.set_result(self.times)
        return answer


class Watched:
    """A run with two io workers, of which the second is slow, looked at by a clock of its own."""

    def __init__(self, mode: Mode, after_s: float = 2.0, splits: int = 2) -> None:
        self.now, self.line, self.arrivals = 0.0, Line(), Arrivals()
        self.run = RunState(RunSpec(mode=mode, lanes=2, shards=2))
        counter = lambda: cast(ActorLine, self.line)  # noqa: E731
        self.stragglers = Stragglers(after_s, 3.0, self.arrivals, counter, str.upper, lambda: self.now)
        out = self.run.handle(*(ev.WorkerJoined(w, "io") for w in "ab"), ev.WorkerJoined("s", "server"))
        (create,) = [each for each in out if isinstance(each, do.CreateHost)]
        out = self.run.handle(ev.HostReady(create.copy, create.term), ev.SplitsReady(0, splits))
        self.fast, self.slow = [each.attempt for each in out if isinstance(each, do.RunSplit)]

    def pass_by(self, seconds: int) -> list[ev.Event]:
        """Let the time pass, in which the first attempt does ten batches a second and the second one none."""
        told: list[ev.Event] = []
        for _ in range(2 * seconds):
            self.line.times = [LaneTime(int(self.now), 0.01 * self.now), LaneTime(int(self.now), 0.9 * self.now)]
            if self.fast in self.run.roster.attempts:
                self.run.handle(ev.BatchesDone(self.fast, int(10 * self.now)))
            told += self.looked()
        return told

    def looked(self) -> list[ev.Event]:
        """Look half a second later; return what the run is told."""
        self.now += 0.5
        self.stragglers.look(self.run)
        told: list[ev.Event] = []
        while not self.arrivals.empty():
            each = self.arrivals.get()
            if isinstance(each, ev.Event):
                told.append(each)
            else:
                each()
        return told


@pytest.mark.parametrize("mode", [Sync(), Async()])
def test_the_run_is_told_who_is_behind_and_the_log_why(mode: Mode, caplog: pytest.LogCaptureFixture) -> None:
    watched = Watched(mode)
    told = watched.pass_by(4)
    assert told[0] == ev.WorkerPaced("b", True, 1)
    assert set(told[1:]) == {ev.SplitSlow(watched.slow)}
    assert caplog.text.count("worker B is far behind") == 1


def test_nobody_is_looked_at_where_no_time_is_given() -> None:
    assert Watched(Async(), after_s=0.0).pass_by(4) == []


def test_a_slow_worker_is_let_off_after_a_while() -> None:
    watched = Watched(Async())
    watched.pass_by(4)
    watched.run.handle(ev.SplitDone(watched.slow, 3))
    assert ev.WorkerPaced("b", False, 2) in watched.pass_by(24)


def test_one_who_does_not_stop_is_told_of() -> None:
    watched = Watched(Async())
    watched.pass_by(1)
    pauses = {each.attempt: each for each in watched.run.handle(ev.CutAsked()) if isinstance(each, do.Pause)}
    watched.run.handle(ev.SplitPaused(watched.fast, 20, pauses[watched.fast].serial))
    assert watched.pass_by(1) == []
    assert ev.SplitSlow(watched.slow) in watched.pass_by(2)


def test_while_the_caller_is_busy_nobody_is_behind() -> None:
    watched = Watched(Async())
    watched.pass_by(1)
    watched.now += 600.0
    assert watched.pass_by(1) == []


class Merged(Watched):
    """Two io workers as fast as each other that say a word for sixteen batches of half a second."""

    def __init__(self) -> None:
        super().__init__(Async(depth=2, merge=8))

    def pass_by(self, seconds: int) -> list[ev.Event]:
        told: list[ev.Event] = []
        for _ in range(2 * seconds):
            done = int(self.now / 8.0) * 16
            self.run.handle(ev.BatchesDone(self.fast, done), ev.BatchesDone(self.slow, done))
            told += self.looked()
        return told


def test_readers_that_merge_batches_are_not_behind_between_two_words() -> None:
    assert Merged().pass_by(100) == []


def test_one_that_owes_merged_batches_may_do_them_before_it_stops() -> None:
    watched = Merged()
    watched.pass_by(50)
    watched.run.handle(ev.CutAsked())
    assert watched.pass_by(3 * 8) == [], "sixteen batches of half a second, three times"
    assert ev.SplitSlow(watched.slow) in watched.pass_by(10)


def test_one_that_stands_still_is_told_of_though_splits_of_others_are_over_between_two_looks() -> None:
    watched = Watched(Async(), splits=30)
    going, told = watched.fast, list[ev.Event]()
    for _ in range(20):
        out = watched.run.handle(ev.SplitDone(going, 4))
        (going,) = [each.attempt for each in out if isinstance(each, do.RunSplit)]
        told += watched.looked()
    assert told[0] == ev.WorkerPaced("b", True, 1)
    assert set(told[1:]) == {ev.SplitSlow(watched.slow)}
