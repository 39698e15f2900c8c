"""The loop around a RunState gives its caller a turn, whatever the carrier meets."""

import dataclasses
from concurrent.futures import Future
from typing import Any

import pytest

from heterps.errors import RunError
from heterps.protocol import RunSpec
from heterps.protocol.words import events as ev, instructions as do
from heterps.runtime.run.arrivals import Arrivals
from heterps.runtime.run.driver import Driver


class Unlucky:
    """A carrier all of whose hosts are lost as soon as they are made, as on a worker that died a moment ago."""

    def __init__(self, arrivals: Arrivals) -> None:
        self.arrivals = arrivals
        self.made: list[int] = []

    def create_host(self, create: do.CreateHost) -> None:
        self.made.append(create.copy)
        self.arrivals.tell(ev.CopyLost(create.copy))

    def worker_name(self, worker: str) -> str:
        return worker

    def was_there(self, worker: str) -> bool:
        return True

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} was not expected")


def test_a_host_that_is_lost_each_time_does_not_keep_the_caller_from_looking_at_workers() -> None:
    arrivals = Arrivals()
    carrier: Any = Unlucky(arrivals)
    driver = Driver(RunSpec(shards=4), carrier, arrivals, lambda pass_: ())
    driver.handle(ev.ServersJoined(("s",)))
    for step in range(1, 4):
        assert len(carrier.made) == step
        assert driver.step()
    driver.handle(ev.WorkerLost("s"))
    driver.step()
    made = list(carrier.made)
    assert not driver.step()
    assert carrier.made == made
    assert any("server" in what for what in driver.state.waiting_for())


def test_what_an_act_has_led_to_is_handled_before_anything_that_arrived_later() -> None:
    arrivals = Arrivals()
    driver = Driver(RunSpec(shards=4), Scribe(), arrivals, lambda pass_: ())  # type: ignore[arg-type]
    seen: list[ev.Event] = []
    driver.handle = lambda *events: seen.extend(events)  # type: ignore[method-assign]
    done: Future[int] = Future()
    arrivals.when(done, lambda cut: ev.CutPublished(cut))
    done.set_result(1)
    arrivals.tell(ev.CopyLost(2))
    driver.step()
    assert seen == [ev.CutPublished(1), ev.CopyLost(2)]


class Scribe:
    """A carrier that notes which of its methods was called."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *args: self.calls.append(name)


@pytest.mark.parametrize("name", do.__all__)
def test_every_instruction_is_carried_out_or_refused_by_name(name: str) -> None:
    kind = getattr(do, name)
    if kind is do.Instruction:
        return
    carrier: Any = Scribe()
    driver = Driver(RunSpec(shards=4), carrier, Arrivals(), lambda pass_: ())
    driver._known[0] = (None,)  # type: ignore[assignment]
    instruction = kind(**{field.name: 0 for field in dataclasses.fields(kind)})
    if kind in (do.MoveShards, do.Abort):
        with pytest.raises(RunError, match="MoveShards" if kind is do.MoveShards else "given up"):
            driver._carry_out(instruction)
        return
    driver._carry_out(instruction)
    if kind not in (do.Finish, do.Rest, do.NeedSplits):
        assert len(carrier.calls) == 1
