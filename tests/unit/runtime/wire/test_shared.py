"""Arrays in memory that two ends of a connection share."""

from __future__ import annotations

import os
import pickle
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import dask
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from heterps.runtime.wire import shared
from heterps.runtime.wire.message import Message, ReceiveRing, WireError, receive, send
from heterps.runtime.wire.peer import PeerLost, SocketPeer
from heterps.runtime.wire.service import Listener
from heterps.runtime.wire.shared import Inbox, Outbox, SharingError

LARGE = np.arange(50_000, dtype=np.float32)
ROOT = Path(__file__).parents[4]


@contextmanager
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    a, b = socket.socketpair()
    with a, b:
        for end in (a, b):
            end.settimeout(20)
        yield a, b


@settings(deadline=None, max_examples=40)
@given(st.lists(st.lists(st.integers(0, 40_000), max_size=3), min_size=1, max_size=6))
def test_messages_arrive_as_they_were_sent_and_the_last_but_one_stays(sizes: list[list[int]]) -> None:
    outbox, inbox, ring, before = Outbox(), Inbox(), ReceiveRing(), None
    with ends() as (a, b):
        for number, lengths in enumerate(sizes):
            sent = [np.full(n, number, np.uint32) for n in lengths]
            writer = threading.Thread(target=send, args=(a, Message({"n": number}, sent), outbox))
            writer.start()
            got = receive(b, ring, inbox)
            writer.join()
            for want, found in [(Message({"n": number}, sent), got), *([before] if before else [])]:
                assert found is not None
                assert found.head == want.head
                assert [array.tolist() for array in found.arrays] == [array.tolist() for array in want.arrays]
            before = Message({"n": number}, sent), got


def test_large_arrays_do_not_pass_through_the_socket() -> None:
    outbox, inbox = Outbox(), Inbox()
    with ends() as (a, b):
        for _ in range(3):
            send(a, Message({}, [LARGE]), outbox)  # would wait for a reader: it is more than the socket takes
            waiting = len(b.recv(1 << 20, socket.MSG_PEEK))
            assert waiting < 1_000
            got = receive(b, ReceiveRing(), inbox)
            assert got is not None
            np.testing.assert_array_equal(got.arrays[0], LARGE)


def test_an_array_that_was_made_there_is_not_copied() -> None:
    outbox, inbox = Outbox(), Inbox()
    with ends() as (a, b):
        for number in range(4):
            room = outbox.take(LARGE.nbytes)
            made = LARGE.copy() if room is None else room.view(np.float32)
            made[:] = number
            send(a, Message({}, [LARGE, made]), outbox)
            outbox.end()
            got = receive(b, ReceiveRing(), inbox)
            assert got is not None
            np.testing.assert_array_equal(got.arrays[0], LARGE)
            made += 1  # after it was sent: seen by the reader if it is the same memory
            assert got.arrays[1].tolist() == [number + (room is not None)] * len(LARGE)
    assert room is not None


def test_answers_are_made_where_the_last_ones_were_and_a_late_one_disturbs_nobody() -> None:
    made: list[np.ndarray] = []

    def answer(request: Message) -> Message:
        assert request.room is not None
        made.append(request.room.take(50_000))
        made[-1][:] = request.head["n"]
        if request.head["late"]:
            request.room.close(late=True)
            return Message({})
        return Message({}, [made[-1]])

    class Service:
        @property
        def methods(self):
            return {"answer": answer}

    for near in (True, False):
        made.clear()
        with closing(Listener(Service())) as listener:
            where = listener.address if near else replace(listener.address, machine="elsewhere")
            with closing(SocketPeer(where, timeout_s=20)) as peer:
                for n in range(6):
                    reply = peer.call("answer", n=n, late=n == 4)
                    if n == 4:
                        continue
                    if n == 5:
                        made[4][:] = -1  # whoever was late writes now
                    assert set(reply.arrays[0].tolist()) == {n}
        assert np.shares_memory(made[1], made[3])
        assert not np.shares_memory(made[4], made[5])


def test_a_special_ring_has_a_copy() -> None:
    made: list[np.ndarray] = []

    def pinned(nbytes: int) -> np.ndarray:
        made.append(np.empty(nbytes, np.uint8))
        return made[-1]

    with ends() as (a, b):
        send(a, Message({}, [LARGE]), Outbox())
        got = receive(b, ReceiveRing(allocate=pinned), Inbox())
    assert got is not None
    assert np.shares_memory(got.arrays[0], made[-1])
    np.testing.assert_array_equal(got.arrays[0], LARGE)


def test_memory_that_could_be_cut_short_is_refused() -> None:
    file = os.memfd_create("open")
    os.truncate(file, 1 << 20)
    with pytest.raises(SharingError, match="cut short"):
        Inbox().take(file)
    with pytest.raises(OSError, match="Bad file descriptor"):  # it is closed in any case
        os.fstat(file)


@pytest.mark.parametrize("where", [[-1], [1 << 40], ["0"], None, [1.5], 0, [0, 0]], ids=str)
def test_a_place_outside_of_the_memory_is_refused(where: object, monkeypatch: pytest.MonkeyPatch) -> None:
    put = Outbox.put
    monkeypatch.setattr(Outbox, "put", lambda self, *rest: (where, put(self, *rest)[1]))
    with ends() as (a, b):
        send(a, Message({}, [LARGE]), Outbox())
        with pytest.raises(WireError, match="outside of its memory"):
            receive(b, ReceiveRing(), Inbox())


def test_a_shared_message_where_nothing_is_shared_is_refused() -> None:
    with ends() as (a, b):
        send(a, Message({}, [LARGE]), Outbox())
        with pytest.raises(WireError, match="not a HeterPS message"):
            receive(b, ReceiveRing())


class Twice:
    @property
    def methods(self):
        return {"twice": lambda m: Message(m.head, [array * 2 for array in m.arrays])}


@contextmanager
def calling(*, near: bool = True) -> Iterator[SocketPeer]:
    with closing(Listener(Twice())) as listener:
        where = listener.address if near else replace(listener.address, machine="elsewhere")
        with closing(SocketPeer(where, timeout_s=20)) as peer:
            yield peer


@pytest.fixture
def were_put(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Tells of every message that was to be put into an outbox whether it was."""
    found, put = [], Outbox.put

    def noted(self: Outbox, *rest):
        found.append((place := put(self, *rest)) is not None)
        return place

    monkeypatch.setattr(Outbox, "put", noted)
    return found


@pytest.mark.parametrize(("near", "wanted"), [(True, True), (True, False), (False, True)])
def test_it_is_used_on_one_machine_if_wanted(near: bool, wanted: bool, were_put: list[bool]) -> None:
    with dask.config.set({"heterps.network.shared-memory": wanted}), calling(near=near) as peer:
        for _ in range(3):
            np.testing.assert_array_equal(peer.call("twice", [LARGE]).arrays[0], 2 * LARGE)
    assert were_put == [True] * 6 * (near and wanted)


def test_without_memory_to_share_the_socket_is_taken(monkeypatch: pytest.MonkeyPatch, were_put: list[bool]) -> None:
    def none(*rest: object) -> int:
        raise OSError("no memory")

    monkeypatch.setattr(shared.os, "posix_fallocate", none)
    with calling() as peer:
        for _ in range(2):
            np.testing.assert_array_equal(peer.call("twice", [LARGE]).arrays[0], 2 * LARGE)
    assert were_put == [False] * 4


def test_growing_messages_and_new_connections_leave_no_files_and_no_memory() -> None:
    with calling() as peer:
        peer.call("twice", [LARGE])
        files = len(os.listdir("/proc/self/fd"))
        for n in (1, 2, 4):
            np.testing.assert_array_equal(peer.call("twice", [np.tile(LARGE, n)]).arrays[0], np.tile(2 * LARGE, n))
        peer.close()
        peer.call("twice", [LARGE])
        give_up = time.monotonic() + 20  # the old connection's thread ends when it hears of it
        while len(os.listdir("/proc/self/fd")) > files and time.monotonic() < give_up:
            time.sleep(0.01)
        assert len(os.listdir("/proc/self/fd")) <= files


def test_an_answer_that_comes_too_late_changes_nothing_that_came_since() -> None:
    """A host that froze while it answered wakes when its caller has connected anew."""
    begun, go_on = threading.Event(), threading.Event()

    class Slow:
        @property
        def methods(self):
            return {"fill": self.fill}

        def fill(self, request: Message) -> Message:
            if request.head["slow"]:
                begun.set()
                go_on.wait(20)
            return Message({}, [np.full_like(LARGE, request.head["value"])])

    with closing(Listener(Slow())) as listener, closing(SocketPeer(listener.address, timeout_s=0.2)) as peer:
        with pytest.raises(PeerLost):
            peer.call("fill", value=1, slow=True)
        assert begun.wait(20)
        peer._timeout_s = 20  # this was but to be cut off early
        answer = peer.call("fill", value=2, slow=False).arrays[0]
        again = peer.call("fill", value=3, slow=False).arrays[0]
        go_on.set()
        listener.close()
        assert (answer == 2).all()
        assert (again == 3).all()


# What the other process does: answers calls, or makes them without end.
_SERVE = """
from heterps.runtime.wire.service import Listener
from tests.unit.runtime.wire.test_shared import Twice
listener = Listener(Twice())
sys.stdout.buffer.write(pickle.dumps(listener.address)); sys.stdout.flush()
sys.stdin.read()
"""
_CALL = """
from heterps.runtime.wire.peer import SocketPeer
from tests.unit.runtime.wire.test_shared import LARGE
peer = SocketPeer(pickle.load(sys.stdin.buffer))
while True:
    assert (peer.call("twice", [LARGE]).arrays[0] == 2 * LARGE).all()
    print("right", flush=True)
"""


@contextmanager
def beside(program: str) -> Iterator[subprocess.Popen[bytes]]:
    """Another process, killed at the end of the block at the latest."""
    words = [sys.executable, "-c", f"import pickle, sys\n{program}"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT) as process:
        yield process
        process.kill()


def called_until_lost(peer: SocketPeer, kept: list[np.ndarray]) -> list[np.ndarray]:
    """Return the last two answers that came."""
    try:
        while True:
            kept = [kept[-1], peer.call("twice", [3 * LARGE]).arrays[0]]
    except PeerLost:
        return kept


def test_a_host_that_is_killed_leaves_answers_whole_and_its_callers_alive() -> None:
    with beside(_SERVE) as process:
        assert process.stdout is not None
        with closing(SocketPeer(pickle.load(process.stdout), timeout_s=60)) as peer:
            kept = [peer.call("twice", [n * LARGE]).arrays[0] for n in (1, 2)]  # both may be read still
            killer = threading.Thread(target=process.kill)
            killer.start()
            kept = called_until_lost(peer, kept)
            killer.join()
            assert all(any(np.array_equal(found, 2 * n * LARGE) for n in (1, 2, 3)) for found in kept)


def test_a_caller_that_is_killed_leaves_a_host_to_others() -> None:
    with closing(Listener(Twice())) as listener, beside(_CALL) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        pickle.dump(replace(listener.address, process="another"), process.stdin)
        process.stdin.close()
        for _ in range(3):
            assert process.stdout.readline() == b"right\n"
        process.kill()
        with closing(SocketPeer(listener.address, timeout_s=60)) as peer:
            np.testing.assert_array_equal(peer.call("twice", [LARGE]).arrays[0], 2 * LARGE)
