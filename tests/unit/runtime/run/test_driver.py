"""The loop around a RunState gives its caller a turn, whatever the carrier meets."""

from typing import Any

from heterps.protocol import RunSpec
from heterps.protocol.words import events as ev, instructions as do
from heterps.runtime.run.driver import Driver


class Unlucky:
    """A carrier all of whose hosts are lost as soon as they are made, as on a worker that died a moment ago."""

    def __init__(self) -> None:
        self.driver: Driver
        self.made: list[int] = []

    def create_host(self, create: do.CreateHost) -> None:
        self.made.append(create.copy)
        self.driver.tell(ev.CopyLost(create.copy))

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} was not expected")


def test_a_host_that_is_lost_each_time_does_not_keep_the_caller_from_looking_at_workers() -> None:
    carrier = Unlucky()
    driver = carrier.driver = Driver(RunSpec(shards=4), carrier, lambda pass_: ())  # type: ignore[arg-type]
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
