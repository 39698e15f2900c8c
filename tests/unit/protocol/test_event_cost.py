"""What an event costs does not grow with the number of workers, hosts and lanes; counted in steps taken by Python."""

import sys
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from heterps.protocol import Async, Mode, RunSpec, RunState, Sync
from heterps.protocol.words import events as ev, instructions as do

FEW, MANY = 20, 320


def steps(act: Callable[[], Any]) -> int:
    """Return how many steps the interpreter makes: the same in every process, however busy."""
    count = 0

    def trace(frame: Any, event: str, arg: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        act()
    finally:
        sys.settrace(before)
    return count


class Large:
    """A run with so many io workers, half as many hosts, and everything ready."""

    def __init__(self, workers: int, mode: Mode, replicas: int = 1) -> None:
        self.workers, self.hosts = workers, workers // 2
        spec = RunSpec(mode, hosts=self.hosts, shards=MANY, replicas=replicas, lanes=workers if mode.ordered else 1)
        self.run = RunState(spec)
        self.attempts: list[int] = []
        self.serials: dict[int, int] = {}
        servers = tuple(f"server-{n}" for n in range(self.hosts))
        self.created = [
            each for each in self.handle(ev.ServersJoined(servers, servers)) if isinstance(each, do.CreateHost)
        ]

    def handle(self, event: ev.Event) -> list[do.Instruction]:
        out = self.run.handle(event)
        self.attempts += [each.attempt for each in out if isinstance(each, do.RunSplit)]
        self.serials |= {each.attempt: each.serial for each in out if isinstance(each, do.Pause)}
        return out

    def begin(self) -> "Large":
        for create in self.created:
            self.handle(ev.HostReady(create.copy, create.term))
        for n in range(self.workers):
            self.handle(ev.WorkerJoined(f"io-{n}", "io"))
        self.handle(ev.SplitsReady(0, 10 * self.workers))
        return self


def begun(workers: int, mode: Mode) -> Large:
    large = Large(workers, mode).begin()
    assert len(large.run.roster.attempts) == workers
    return large


MIDDLE = {
    "progress": lambda run, attempt: ev.BatchesDone(attempt, 1),
    "all is read": lambda run, attempt: ev.SplitEnding(attempt),
    "done": lambda run, attempt: ev.SplitDone(attempt, 5),
    "slow": lambda run, attempt: ev.SplitSlow(attempt),
    "paced": lambda run, attempt: ev.WorkerPaced("io-3", True, 1),
    "held": lambda run, attempt: ev.WorkerHeld("io-3", 1),
    "lost": lambda run, attempt: ev.WorkerLost("io-3"),
    "leaves": lambda run, attempt: ev.WorkerLeaving("io-3"),
    "joins": lambda run, attempt: ev.WorkerJoined("another", "io"),
}


@pytest.mark.parametrize("mode", [Async(), Sync()], ids=["async", "sync"])
@pytest.mark.parametrize("what", list(MIDDLE))
def test_an_event_costs_the_same_however_many_workers_there_are(what: str, mode: Mode) -> None:
    costs = []
    for workers in (FEW, MANY):
        large = begun(workers, mode)
        event = MIDDLE[what](large.run, large.attempts[5])
        costs.append(steps(lambda large=large, event=event: large.run.handle(event)))
    assert costs[1] < 1.2 * costs[0] + 50, f"{what}: {costs}"


@pytest.mark.parametrize("mode", [Async(), Sync()], ids=["async", "sync"])
def test_while_all_stop_for_a_cut_each_costs_the_same(mode: Mode) -> None:
    """Whoever asks at each of a thousand words whether all have stopped spends a million looks."""
    costs = []
    for workers in (FEW, MANY):
        large = begun(workers, mode)
        large.handle(ev.CutAsked())
        paused = [ev.SplitPaused(attempt, 0, large.serials[attempt]) for attempt in large.attempts]
        costs.append(max(steps(lambda large=large, event=event: large.handle(event)) for event in paused[:-1]))
    assert costs[1] < 1.2 * costs[0] + 50, f"{costs}"


@pytest.mark.parametrize("replicas", [1, 2])
def test_while_hosts_become_ready_each_costs_the_same(replicas: int) -> None:
    costs = []
    for workers in (FEW, MANY):
        large = Large(workers, Async(), replicas)
        ready = [ev.HostReady(create.copy, create.term) for create in large.created]
        large.handle(ready[0])  # all were made just before: they are looked at once more
        costs.append(max(steps(lambda large=large, event=event: large.handle(event)) for event in ready[1:-1]))
    assert costs[1] < 1.2 * costs[0] + 50, f"{costs}"


def test_what_many_workers_that_leave_cost_is_in_proportion() -> None:
    """Each is let go when its own attempt has stopped, and nobody else's is looked at."""
    costs = []
    for workers in (FEW, MANY):
        large = begun(workers, Async())
        for n in range(workers // 2):
            large.handle(ev.WorkerLeaving(f"io-{n}"))
        stopped = [ev.SplitPaused(attempt, 0, serial) for attempt, serial in large.serials.items()]
        costs.append(sum(steps(lambda large=large, event=event: large.handle(event)) for event in stopped))
        assert not large.run._to_go
    assert costs[1] < 1.3 * MANY / FEW * costs[0], f"{costs}"


def test_the_layout_is_made_once_and_again_after_every_change() -> None:
    large = begun(FEW, Async())
    first = large.run.layout()
    large.handle(ev.BatchesDone(large.attempts[0], 1))
    assert large.run.layout() is first
    lost = large.run.fleet.hosts[0].primary
    assert lost is not None
    large.handle(ev.CopyLost(lost))
    assert large.run.layout() != first


def test_lanes_are_counted_as_a_look_at_all_would_count_them() -> None:
    """The floor, too: every Split below it is done."""
    large = begun(FEW, Sync())
    book = large.run.book
    floors = [book.floor]
    for attempt in large.attempts[:FEW]:
        large.handle(ev.SplitDone(attempt, 5))
        assert book.agrees()
        floors.append(book.floor)
    assert floors[0] == 0
    assert all(later >= earlier for earlier, later in pairwise(floors))
    assert floors[-1] == FEW
