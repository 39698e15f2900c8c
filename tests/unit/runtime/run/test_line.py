"""The thread that makes and calls an actor: calls in order, nobody waits, an end that reaches everybody."""

import threading
from concurrent.futures import wait
from time import monotonic
from typing import Any

import pytest

from heterps.errors import ClusterError, DataError
from heterps.runtime.run.line import ActorLine, close_all


class Fake:
    """Stands for a Remote: notes calls, raises what it is told to."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.go, self.released = threading.Event(), threading.Event()
        self.go.set()

    def call(self, method: str, *args: Any, patient: bool = False) -> Any:
        self.go.wait(10)
        self.calls.append(method)
        if args and isinstance(args[0], Exception):
            raise args[0]
        return args

    def release(self) -> None:
        self.released.set()


def test_calls_go_out_in_order_and_nobody_waits() -> None:
    actor: Any = Fake()
    actor.go.clear()
    line = ActorLine("w", lambda unwanted: actor)
    answers = [line.ask(f"call {i}", i) for i in range(5)]
    assert not any(answer.done() for answer in answers)
    actor.go.set()
    assert [answer.result(5) for answer in answers] == [(i,) for i in range(5)]
    assert actor.calls == [f"call {i}" for i in range(5)]


def test_an_error_of_our_own_code_is_the_answer_and_the_line_goes_on() -> None:
    line = ActorLine("w", lambda unwanted: Fake())  # type: ignore[arg-type, return-value]
    with pytest.raises(DataError, match="bad row"):
        line.call("load", DataError("bad row"))
    assert line.call("load", 1) == (1,)


@pytest.mark.parametrize("busy", [True, False])
def test_whoever_waits_hears_at_once_that_the_worker_is_gone(busy: bool) -> None:
    """The call itself may take half a minute to fail: Dask tries to connect again and again."""
    actor: Any = Fake()
    actor.go.clear()
    line = ActorLine("w", lambda unwanted: actor)
    line.made.result(5)
    answers = [line.ask("first"), line.ask("second")] if busy else []
    line.lose(ClusterError("gone"))
    for answer in (*answers, line.ask("later")):
        with pytest.raises(ClusterError, match="gone"):
            answer.result(0)
    actor.go.set()
    assert actor.released.wait(5), "its thread ends"
    assert "second" not in actor.calls


def test_a_line_can_be_lost_while_its_actor_is_made() -> None:
    go = threading.Event()
    actor: Any = Fake()

    def make(unwanted: threading.Event) -> Any:
        go.wait(10)
        return actor

    line = ActorLine("w", make)
    line.lose(ClusterError("gone"))
    with pytest.raises(ClusterError, match="gone"):
        line.made.result(0)
    go.set()
    assert actor.released.wait(5)


def test_an_actor_that_is_lost_ends_the_line_for_everybody() -> None:
    actor: Any = Fake()
    actor.go.clear()
    line = ActorLine("w", lambda unwanted: actor)
    first, second = line.ask("load", ClusterError("gone")), line.ask("more")
    actor.go.set()
    for answer in (first, second, line.ask("later")):
        with pytest.raises(ClusterError, match="gone"):
            answer.result(5)
    assert actor.calls == ["load"]
    assert actor.released.wait(5)


def test_an_actor_that_cannot_be_made_ends_the_line() -> None:
    def make(unwanted: threading.Event) -> Any:
        raise ClusterError("no such worker")

    line = ActorLine("w", make)
    with pytest.raises(ClusterError, match="no such worker"):
        line.made.result(5)
    with pytest.raises(ClusterError, match="no such worker"):
        line.call("load")


def test_closing_waits_neither_for_what_is_not_made_nor_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heterps.runtime.run.line._CLOSING_S", 0.3)

    def never(unwanted: threading.Event) -> Any:
        unwanted.wait(20)
        raise ClusterError("nobody waits for it any more")

    stuck: Any = Fake()
    stuck.go.clear()
    good: Any = Fake()
    lines = [ActorLine("w", never), ActorLine("x", lambda unwanted: stuck), ActorLine("y", lambda unwanted: good)]
    wait([line.made for line in lines[1:]], 5)
    since = monotonic()
    close_all(lines)
    assert monotonic() - since < 3
    assert good.calls == ["close"]
    assert good.released.wait(5)
    stuck.go.set()
