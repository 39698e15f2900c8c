"""Workers are sent addresses that they are not known to have."""

from heterps.runtime.run.directory import Directory
from heterps.runtime.wire.service import Address


def address(name: str) -> Address:
    return Address(name, "another process", "", "", "10.0.0.9", 1, "")


class Told:
    """A directory of addresses that change."""

    def __init__(self) -> None:
        self.now: dict[int | str, Address] = {1: address("a")}
        self.directory = Directory(lambda: dict(self.now))

    def took(self, worker: str) -> dict[int | str, Address]:
        """Send a worker what it may lack, and have it take that."""
        sent = self.directory.send(worker)
        self.directory.has(worker, sent)
        return dict(sent.addresses)


def test_everything_is_sent_until_it_was_taken() -> None:
    told = Told()
    for _ in range(2):
        assert told.directory.send("x").addresses == told.now, "it may never have come"
    assert told.took("x") == told.now
    assert told.took("x") == {}
    assert told.took("y") == told.now


def test_what_has_changed_since_is_sent_with_all_the_rest() -> None:
    told = Told()
    told.took("x")
    before = told.directory.send("x")
    told.now[2] = address("b")
    assert told.took("x") == told.now
    told.directory.has("x", before)  # late
    assert told.took("x") == {}
    told.now[1] = address("another")
    assert told.took("x") == told.now


def test_a_worker_that_came_back_has_nothing() -> None:
    told = Told()
    told.took("x")
    told.directory.forget("x")
    told.directory.forget("never seen")
    assert told.took("x") == told.now
