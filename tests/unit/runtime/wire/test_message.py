import socket
import threading
from queue import SimpleQueue

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp

from heterps.errors import TableError
from heterps.runtime.wire.message import Message, ReceiveRing, receive, send
from heterps.runtime.wire.peer import PeerLost, SocketPeer, connect
from heterps.runtime.wire.service import Listener

arrays = st.sampled_from([np.float32, np.uint64, np.int32]).flatmap(
    lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=9))
)

whole = st.integers(-(1 << 63), (1 << 64) - 1)


@settings(deadline=None)
@given(st.lists(arrays, max_size=4), st.dictionaries(st.sampled_from("abc"), whole | st.text() | st.text(min_size=300)))
def test_a_message_arrives_as_it_was_sent(sent: list[np.ndarray], head: dict[str, object]) -> None:
    a, b = socket.socketpair()
    with a, b:
        writer = threading.Thread(target=send, args=(a, Message(head, sent)))
        writer.start()
        got = receive(b, ReceiveRing())
        writer.join()
    assert got is not None
    assert got.head == head
    assert len(got.arrays) == len(sent)
    for x, y in zip(got.arrays, sent, strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_array_equal(x, y)


class Echo:
    @property
    def methods(self):
        return {"twice": lambda m: Message(m.head, [a * 2 for a in m.arrays]), "fail": self.fail}

    def fail(self, message: Message) -> Message:
        raise TableError(f"no table {message.head['name']!r}")


@pytest.fixture
def listener():
    listener = Listener(Echo())
    yield listener
    listener.close()


def remote(listener: Listener, *, tcp: bool = False) -> SocketPeer:
    from dataclasses import replace

    return SocketPeer(replace(listener.address, machine="elsewhere" if tcp else listener.address.machine), timeout_s=5)


@pytest.mark.parametrize("tcp", [False, True])
def test_calls_by_socket(listener: Listener, tcp: bool) -> None:
    peer = remote(listener, tcp=tcp)
    big = np.arange(3_000_000, dtype=np.float32)
    for _ in range(3):
        reply = peer.call("twice", [big], n=1)
        np.testing.assert_array_equal(reply.arrays[0], big * 2)
    with pytest.raises(TableError, match="no table 'x'"):
        peer.call("fail", name="x")
    peer.close()


def test_the_own_process_is_called_directly(listener: Listener) -> None:
    x = np.ones(3)
    peer = connect(listener.address)
    assert not isinstance(peer, SocketPeer)
    assert peer.call("twice", [x]).arrays[0].sum() == 6


def test_a_wrong_token_is_shown_the_door(listener: Listener) -> None:
    from dataclasses import replace

    peer = SocketPeer(replace(listener.address, token="guess"), timeout_s=5)
    with pytest.raises(PeerLost):
        peer.call("twice", [np.ones(3)])


def test_a_closed_service_is_lost_at_once(listener: Listener) -> None:
    peer = remote(listener)
    peer.call("twice", [np.ones(3)])
    listener.close()
    with pytest.raises(PeerLost):
        peer.call("twice", [np.ones(3)])


def test_a_frozen_service_runs_into_the_timeout() -> None:
    class Frozen:
        methods = {"wait": lambda m: threading.Event().wait(3) or m}  # noqa: RUF012

    listener = Listener(Frozen())
    peer = SocketPeer(listener.address, timeout_s=0.2)
    with pytest.raises(PeerLost):
        peer.call("wait")
    listener.close()


def test_a_connection_that_cannot_be_greeted_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    greeted: list[socket.socket] = []

    def refuse(connection: socket.socket, token: str) -> None:
        greeted.append(connection)
        raise BrokenPipeError("closed by the other side")

    monkeypatch.setattr("heterps.runtime.wire.peer.greet", refuse)
    listener = Listener(Echo())
    with pytest.raises(PeerLost, match="closed by the other side"):
        SocketPeer(listener.address, timeout_s=0.01).call("twice")
    listener.close()
    assert {connection.fileno() for connection in greeted} == {-1}


def test_a_service_that_stops_listening_tells_its_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    told: SimpleQueue[Exception] = SimpleQueue()
    listener = Listener(Echo(), failed=told.put)

    def broken(connection: socket.socket) -> socket.socket:
        raise LookupError("the door is gone")

    monkeypatch.setattr(listener._door, "arrive", broken)
    with pytest.raises(PeerLost):
        SocketPeer(listener.address, timeout_s=0.5).call("twice")
    assert str(told.get(timeout=5)) == "the door is gone"
    listener.close()
