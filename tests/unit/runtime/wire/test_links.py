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
from heterps.protocol.words.messages import Ask, Seen
from heterps.runtime.batch.crossing import StageOutcome
from heterps.runtime.wire.links import DirectLink, StageLink, link_to_host, link_to_stage
from heterps.runtime.wire.message import Message
from heterps.runtime.wire.packing import _kinds, pack_error, pack_outcome, pack_reply, unpack_error, unpack_step
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

    def step(self, seed: int, feeds: Mapping[str, Any]) -> StageOutcome:
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
        def step(self, seed: int, feeds: Mapping[str, Any]) -> StageOutcome:
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
