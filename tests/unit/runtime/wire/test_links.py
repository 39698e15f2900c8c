"""A link outlives what a call raises, and hands it to whoever waits."""

import itertools
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from queue import SimpleQueue
from typing import Any

import numpy as np
import pytest

from heterps.errors import HeterpsError, RunError, TableFullError
from heterps.protocol.words.keys import BatchKey
from heterps.protocol.words.messages import Acked, Ask, Granted, Pull, Push, Request, Seen
from heterps.runtime.batch.crossing import StageOutcome
from heterps.runtime.wire.door import hang_up
from heterps.runtime.wire.links import DirectLink, StageLink, link_to_host, link_to_stage
from heterps.runtime.wire.message import Message
from heterps.runtime.wire.packing import (
    _kinds,
    pack_error,
    pack_outcome,
    pack_reply,
    unpack_error,
    unpack_header,
    unpack_step,
)
from heterps.runtime.wire.peer import PeerLost
from heterps.runtime.wire.service import Address, Listener, Method

ASK = Ask(1, 1, BatchKey(0, 0, 0), 0, 0, (0, 0))


class Trouble:
    """A host and a stage that raise what they are told to, one thing a call, then answer."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = iter(errors)

    def _raise(self) -> None:
        for error in itertools.islice(self.errors, 1):
            raise error

    @property
    def methods(self) -> Mapping[str, Method]:
        return {"request": self._request, "step": lambda m: pack_outcome(self.step(*unpack_step(m)))}

    def _request(self, message: Message) -> Message:
        self._raise()
        return pack_reply(Seen(1, 0, 0), None)

    def step(self, seed: int, feeds: Mapping[str, Any], term: int | None = None) -> StageOutcome:
        self._raise()
        return StageOutcome(loss=float(seed), prediction=np.zeros(1))


Serve = Callable[..., Address]


@pytest.fixture(params=["near", "far"])
def serve(request: pytest.FixtureRequest) -> Iterator[Serve]:
    """Serve an object; ``far``: as if the caller were another process."""
    listeners: list[Listener] = []

    def serve(service: Any) -> Address:
        listeners.append(Listener(service))
        address = listeners[-1].address
        return replace(address, process="another") if request.param == "far" else address

    yield serve
    for listener in listeners:
        listener.close()


def stepped(link: StageLink, seed: int) -> Any:
    answers: SimpleQueue[Any] = SimpleQueue()
    link.step(seed, {"x": np.ones(2, np.float32)}, answers.put, answers.put)
    return answers.get(timeout=5)


def test_a_stage_that_raises_tells_the_batch_and_goes_on(serve: Serve) -> None:
    link = link_to_stage(serve(Trouble(TableFullError("full"), PeerLost("a host is gone"), KeyError("what"))))
    first = stepped(link, 1)
    assert isinstance(first, TableFullError)
    assert str(first) == "full"
    assert stepped(link, 2) is None  # whom the stage needs is gone: the batch is tried again
    assert isinstance(stepped(link, 3), KeyError | RunError)  # as it is, or by its name
    assert stepped(link, 4).loss == 4
    link.close()


def test_a_stage_has_several_batches_at_once(serve: Serve) -> None:
    """With one at a time a device could not copy the next while it computes: the barrier would never be passed."""
    both = threading.Barrier(3)

    class Stage(Trouble):
        def step(self, seed: int, feeds: Mapping[str, Any], term: int | None = None) -> StageOutcome:
            both.wait(timeout=60)
            return super().step(seed, feeds)

    link, answers = link_to_stage(serve(Stage())), SimpleQueue[Any]()
    for seed in range(3):
        link.step(seed, {"x": np.ones(2, np.float32)}, answers.put, answers.put)
    assert {answers.get(timeout=90).loss for _ in range(3)} == {0.0, 1.0, 2.0}
    link.close()


def test_a_host_that_raises_tells_the_request_and_goes_on() -> None:
    listener = Listener(Trouble(TableFullError("full")))
    link = link_to_host(replace(listener.address, process="another"))
    answers: SimpleQueue[Any] = SimpleQueue()
    for _ in range(2):
        link.send(ASK, None, lambda reply, pulled: answers.put(reply), answers.put)
    error = answers.get(timeout=5)
    assert isinstance(error, TableFullError)
    assert "_request" in error.__notes__[0]  # where it was raised
    assert answers.get(timeout=5) == Seen(1, 0, 0)
    link.close()
    listener.close()


class Pushed:
    """A host on which a push takes until ``go``; says what came, and which pushes are done."""

    def __init__(self) -> None:
        self.came: SimpleQueue[tuple[str, int]] = SimpleQueue()
        self.go = threading.Event()

    @property
    def methods(self) -> Mapping[str, Method]:
        return {"request": self._request}

    def _request(self, message: Message) -> Message:
        request = unpack_header(message.head)
        self.came.put((type(request).__name__, request.key.n))
        if isinstance(request, Pull):
            return pack_reply(Granted(1), None)
        self.go.wait(60)
        self.came.put(("done", request.key.n))
        return pack_reply(Acked(1), None)

    def what_came(self, count: int) -> list[tuple[str, int]]:
        return [self.came.get(timeout=60) for _ in range(count)]


def push(n: int) -> Request:
    return Push(1, 1, BatchKey(0, 0, n), 0, n, 1, 0)


def pull(n: int) -> Request:
    return Pull(1, 1, BatchKey(0, 0, n), 0, n)


@pytest.fixture
def pushed() -> Iterator[tuple[Pushed, Listener]]:
    host = Pushed()
    listener = Listener(host)
    yield host, listener
    host.go.set()
    listener.close()


def test_a_push_that_takes_long_holds_up_no_pull(pushed: tuple[Pushed, Listener]) -> None:
    """The push is not done before the pull's answer is here: over one connection it would never come."""
    host, listener = pushed
    link, answers = link_to_host(replace(listener.address, process="another"), apart=True), SimpleQueue[Any]()
    link.send(push(0), None, lambda reply, _: answers.put(reply), answers.put)
    assert host.what_came(1) == [("Push", 0)]
    link.send(pull(1), None, lambda reply, _: answers.put(reply), answers.put)
    assert answers.get(timeout=20) == Granted(1)
    host.go.set()
    assert answers.get(timeout=60) == Acked(1)
    link.close()


def test_pushes_arrive_one_after_another_in_their_order(pushed: tuple[Pushed, Listener]) -> None:
    host, listener = pushed
    link, answers = link_to_host(replace(listener.address, process="another"), apart=True), SimpleQueue[Any]()
    for n in range(3):
        link.send(push(n), None, lambda reply, _: answers.put(reply), answers.put)
    assert host.what_came(1) == [("Push", 0)]
    host.go.set()
    assert host.what_came(5) == [("done", 0), ("Push", 1), ("done", 1), ("Push", 2), ("done", 2)]
    assert [answers.get(timeout=60) for _ in range(3)] == [Acked(1)] * 3
    link.close()


def test_where_order_counts_a_pull_comes_after_the_push_before_it(pushed: tuple[Pushed, Listener]) -> None:
    host, listener = pushed
    link, answers = link_to_host(replace(listener.address, process="another")), SimpleQueue[Any]()
    for request in (push(0), pull(1)):
        link.send(request, None, lambda reply, _: answers.put(reply), answers.put)
    host.go.set()
    assert host.what_came(3) == [("Push", 0), ("done", 0), ("Pull", 1)]
    assert [answers.get(timeout=60) for _ in range(2)] == [Acked(1), Granted(1)]
    link.close()


def test_a_host_that_is_gone_answers_neither_and_both_find_the_next_one(pushed: tuple[Pushed, Listener]) -> None:
    """Each connection is lost and opened again by itself."""
    host, listener = pushed
    link, answers = link_to_host(replace(listener.address, process="another"), apart=True), SimpleQueue[Any]()
    host.go.set()
    both = (push(0), pull(0))
    for request in both:
        link.send(request, None, lambda reply, _: answers.put(reply), answers.put)
    assert {type(answers.get(timeout=60)) for _ in both} == {Acked, Granted}
    for connection in [*listener._connections]:
        hang_up(connection)
    for request in both:
        link.send(request, None, lambda reply, _: answers.put(reply), answers.put)
    assert [answers.get(timeout=60) for _ in both] == [None, None]  # to be sent again
    for request in both:
        link.send(request, None, lambda reply, _: answers.put(reply), answers.put)
    assert {type(answers.get(timeout=60)) for _ in both} == {Acked, Granted}
    link.close()


def test_a_closed_link_bothers_nobody(serve: Serve) -> None:
    link, answers = link_to_stage(serve(Trouble(*[ValueError("late")] * 3))), SimpleQueue[Any]()
    link.close()
    link.step(1, {}, answers.put, answers.put)
    assert answers.empty()


@pytest.mark.parametrize(
    "kind",
    [kind for kind in _kinds(HeterpsError) if kind.__module__ in ("heterps.errors", "heterps.runtime.wire.peer")],
    ids=lambda kind: kind.__name__,
)
def test_every_error_of_ours_travels_by_name(kind: type[HeterpsError]) -> None:
    found = unpack_error(pack_error(kind("what, where and what to do")))
    assert type(found) is kind
    assert str(found) == "what, where and what to do"


def test_any_other_error_is_named() -> None:
    found = unpack_error(pack_error(LookupError("not here")))
    assert type(found) is RunError
    assert str(found) == "LookupError: not here"
    assert unpack_error(Message({})) is None


def test_the_own_process_is_linked_directly() -> None:
    class Host:
        methods: Mapping[str, Method] = {}

        def request(self) -> None: ...
        def read(self) -> None: ...
        def dense(self) -> None: ...
        def rows(self) -> None: ...

    listener = Listener(Host())
    assert isinstance(link_to_host(listener.address), DirectLink)
    listener.close()
