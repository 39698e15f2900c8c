"""Strangers at a real listener: what they can hold, and for how long."""

import contextlib
import logging
import os
import resource
import socket
import struct
import threading
import time
from collections.abc import Iterator
from dataclasses import replace

import msgpack
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from heterps.errors import ClusterError
from heterps.runtime.cluster.certificates import Certificates, make_certificates
from heterps.runtime.wire import door, service
from heterps.runtime.wire.message import Message, WireError
from heterps.runtime.wire.peer import PeerLost, SocketPeer
from heterps.runtime.wire.service import Address, Listener

GREETING, HEAD, START = 0x48505347, 0x48505331, 512


class Echo:
    methods = {"twice": lambda m: Message({}, [a * 2 for a in m.arrays])}  # noqa: RUF012


@pytest.fixture(scope="module")
def listening() -> Iterator[Listener]:
    listener = Listener(Echo())
    yield listener
    listener.close()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[Listener]:
    """A listener whose callers have a second, and of whom four may stand at the door."""
    monkeypatch.setattr(service, "Door", lambda token, tls: door.Door(token, tls, seconds=1.0, most=4))
    listener = Listener(Echo())
    yield listener
    listener.close()


def call(address: Address) -> SocketPeer:
    at = Address(**{**address.__dict__, "machine": "elsewhere"})
    return SocketPeer(at, timeout_s=10)


def is_served(listener: Listener) -> bool:
    peer = call(listener.address)
    try:
        return float(peer.call("twice", [np.ones(3)]).arrays[0].sum()) == 6
    finally:
        peer.close()


def dial(listener: Listener) -> socket.socket:
    return socket.create_connection((listener.address.host, listener.address.port), 10)


def greeting(listener: Listener) -> bytes:
    return struct.pack("<I32s", GREETING, listener.address.token.encode())


def message(head: object, body: bytes = b"", nbytes: int | None = None) -> bytes:
    text = head if isinstance(head, bytes) else msgpack.packb(head)
    start = struct.pack("<IIQ", HEAD, len(text), len(body) if nbytes is None else nbytes) + text
    return start.ljust(-(-len(start) // START) * START, b"\0") + body


def answer(connection: socket.socket) -> bytes:
    """Read until the listener closes; a reset is a way to close, too."""
    got = b""
    try:
        while piece := connection.recv(65536):
            got += piece
    except ConnectionResetError:
        pass
    return got


def serving_threads() -> int:
    return sum(thread.name == "heterps-serve" for thread in threading.enumerate())


def wait_for_threads(number: int) -> None:
    until = time.monotonic() + 5
    while serving_threads() > number:
        assert time.monotonic() < until, f"{serving_threads()} threads still serve strangers"
        time.sleep(0.01)


def test_a_stranger_gets_nothing_for_large_announcements(listening: Listener, caplog) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with dial(listening) as stranger, caplog.at_level(logging.WARNING, "heterps"):
        stranger.sendall(message(b"", nbytes=3 << 30))
        with contextlib.suppress(ConnectionError):  # refused by then, perhaps
            stranger.sendall(bytes(1 << 16))
        assert answer(stranger) == b""
        wait_for_threads(0)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # KB
    assert [r.getMessage().count("\n") for r in caplog.records] == [0]
    assert "no greeting" in caplog.text


def test_a_byte_now_and_then_keeps_no_connection(quick: Listener) -> None:
    start = time.monotonic()
    with dial(quick) as stranger:
        sent = 0
        with contextlib.suppress(OSError):
            for byte in greeting(quick):
                stranger.sendall(bytes([byte]))
                sent += 1
                time.sleep(0.2)
        assert sent < len(greeting(quick))
        assert time.monotonic() - start < 5
    wait_for_threads(0)


def test_a_handshake_has_the_same_deadline(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(service, "Door", lambda token, tls: door.Door(token, tls, seconds=1.0))
    listener = Listener(Echo(), tls=server_context(make_certificates(tmp_path, ["127.0.0.1"])))
    try:
        start = time.monotonic()
        with dial(listener) as stranger:
            assert answer(stranger) == b""
        assert 0.5 < time.monotonic() - start < 5
    finally:
        listener.close()


def server_context(made: Certificates):
    from distributed import Security

    files = {"tls_worker_cert": str(made.certificate("worker")), "tls_worker_key": str(made.key("worker"))}
    security = Security(tls_ca_file=str(made.ca), require_encryption=True, **files)
    return security.get_listen_args("worker")["ssl_context"]


def test_strangers_at_the_door_keep_nobody_out(monkeypatch) -> None:
    monkeypatch.setattr(service, "Door", lambda token, tls: door.Door(token, tls, seconds=60.0, most=4))
    listener = Listener(Echo())
    strangers = [dial(listener) for _ in range(30)]
    try:
        assert is_served(listener)
        wait_for_threads(4)
    finally:
        for stranger in strangers:
            stranger.close()
        wait_for_threads(0)
        listener.close()


def test_who_has_shown_the_token_may_be_silent(quick: Listener) -> None:
    peer = call(quick.address)
    peer.call("twice", [np.ones(3)])
    time.sleep(1.3)
    assert peer.call("twice", [np.ones(3)]).arrays[0].sum() == 6
    peer.close()


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (message(b"\x93"), "cannot be read"),
        (message(b"\xc1"), "cannot be read"),
        (message(b"\x91" * 100_000), "cannot be read"),
        (message(b"\xdd\xff\xff\xff\xff"), "cannot be read"),
        (message([]), "cannot be read"),
        (message([{1: 2}, [], None]), "cannot be read"),
        (message(1), "cannot be read"),
        (message([1, [], None]), "does not list its arrays"),
        (message([{}, {"a": 1}, None]), "does not list its arrays"),
        (message([{}, [1], None]), "proper dtype and shape"),
        (message([{}, [["<f4"]], None]), "proper dtype and shape"),
        (message([{}, [[["<f4"], [1]]], None]), "proper dtype and shape"),
        (message([{}, [["<f4", [-1, -4]]], None], bytes(64)), "proper dtype and shape"),
        (message([{}, [["<f4", [True]]], None], bytes(64)), "proper dtype and shape"),
        (message([{}, [["<f4", [1.0]]], None], bytes(64)), "proper dtype and shape"),
        (message([{}, [["<f4", [1] * 33]], None], bytes(64)), "proper dtype and shape"),
        (message([{}, [["|O", [1]]], None], bytes(64)), "not used here"),
        (message([{}, [["<f4", [1 << 35]]], None], nbytes=1 << 36), "too large"),
        (message([{}, [["<f4", [0, 1 << 35, 1 << 35]]], None]), "too large"),
        (message([{}, [["<f4", [1000]]], None], bytes(64)), "do not fill"),
        (message([{}, [], None], nbytes=1 << 33), "do not fill"),
        (struct.pack("<IIQ", HEAD, 1 << 30, 0) + bytes(START), "not a HeterPS message"),
        (struct.pack("<IIQ", 7, 0, 0) + bytes(START), "not a HeterPS message"),
    ],
)
def test_a_malformed_message_closes_with_one_line(listening: Listener, sent: bytes, words: str, caplog) -> None:
    with dial(listening) as caller, caplog.at_level(logging.WARNING, "heterps"):
        caller.sendall(greeting(listening) + sent)
        assert answer(caller) == b"+"
        wait_for_threads(0)
    assert len(caplog.records) == 1
    assert words in caplog.records[0].getMessage()
    assert caplog.records[0].exc_info is None


inner = heads = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 64) - 1) | st.floats() | st.text(max_size=5),
    lambda parts: st.lists(parts, max_size=3) | st.dictionaries(st.sampled_from(["_method", "n"]), parts),
    max_leaves=10,
)
layouts = st.lists(st.tuples(st.sampled_from(["<f4", "<u8", "|u1", "<c8", ""]), st.lists(st.integers(-2, 1 << 40))))
heads |= st.tuples(st.fixed_dictionaries({"_method": st.sampled_from(["twice", "x"])}), layouts, st.none() | inner)
messages = st.builds(
    lambda head, body, nbytes: message(head, body, nbytes),
    heads | st.binary(max_size=40), st.binary(max_size=200), st.none() | st.integers(0, 1 << 64 - 1),
)  # fmt: skip


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(is_known=st.booleans(), sent=st.binary(max_size=300) | messages | st.lists(messages, max_size=3).map(b"".join))
def test_whatever_is_sent_a_proper_caller_is_served(listening: Listener, is_known: bool, sent: bytes) -> None:
    with dial(listening) as caller:
        try:
            caller.sendall((greeting(listening) if is_known else b"") + sent)
            caller.shutdown(socket.SHUT_WR)
            answer(caller)
        except (BrokenPipeError, ConnectionResetError, OSError):
            pass
    wait_for_threads(0)
    assert is_served(listening)


def test_the_fuzz_leaves_no_memory_and_no_thread(listening: Listener) -> None:
    rng = np.random.default_rng(7)
    before = None
    for turn in range(3):
        for _ in range(200):
            with dial(listening) as caller:
                try:
                    first = greeting(listening) if rng.random() < 0.5 else b""
                    caller.sendall(first + message(rng.bytes(100), nbytes=int(rng.integers(1 << 35))))
                    caller.shutdown(socket.SHUT_WR)
                    answer(caller)
                except OSError:
                    pass
        wait_for_threads(0)
        if turn == 0:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert before is not None
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # KB
    assert is_served(listening)


def test_a_caller_that_strangers_pushed_out_comes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """300 idle strangers hold the door, and the first two times so many more come that the caller is sent away."""
    listener, good, sent_away = Listener(Echo()), door.Door.admit, 0

    def admit(self: door.Door, connection: socket.socket) -> None:
        nonlocal sent_away
        is_caller = connection.family == socket.AF_UNIX
        if is_caller and sent_away < 2:
            sent_away += 1
            self.leave(connection)
            door.hang_up(connection)
        good(self, connection)

    monkeypatch.setattr(door.Door, "admit", admit)
    with contextlib.ExitStack() as stack:
        for _ in range(300):
            stack.enter_context(dial(listener))
        peer = SocketPeer(listener.address, timeout_s=10)
        assert peer.call("twice", [np.ones(3)]).arrays[0].sum() == 6
        peer.close()
    assert sent_away == 2
    listener.close()


def test_a_wrong_token_is_told_at_once(listening: Listener) -> None:
    wrong, start = replace(listening.address, token="0" * 32), time.monotonic()
    with pytest.raises(PeerLost, match="token is not that of the service"):
        SocketPeer(wrong, timeout_s=30).call("twice")
    assert time.monotonic() - start < 5


def test_a_service_that_talks_nonsense_is_lost_and_called_anew() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = Address("n", "p", "elsewhere", "", "127.0.0.1", server.getsockname()[1], "t" * 32)

        def talk() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(message([{}, "x", None]))

        thread = threading.Thread(target=talk)
        thread.start()
        peer = SocketPeer(address, timeout_s=5)
        with pytest.raises(PeerLost) as caught:
            peer.call("twice")
        assert isinstance(caught.value.__cause__, WireError)
        assert peer._connection is None
        thread.join()


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::"])
def test_services_never_listen_everywhere(host: str) -> None:
    with pytest.raises(ClusterError, match="do not listen on every interface"):
        Listener(Echo(), host)


def test_an_address_of_another_machine_is_named() -> None:
    with pytest.raises(ClusterError, match=r"cannot listen on '203\.0\.113\.9'"):
        Listener(Echo(), "203.0.113.9")


def test_services_speak_ipv6() -> None:
    listener = Listener(Echo(), "::1")
    try:
        assert is_served(listener)
    finally:
        listener.close()
    with pytest.raises(PeerLost, match=r"\[::1\]:"):
        call(listener.address).call("twice")


def test_a_lack_of_file_descriptors_passes(quick: Listener) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    held = [os.dup(0)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (held[0] + 8, hard))
    try:
        with contextlib.suppress(OSError):
            while True:
                held.append(os.dup(0))
        os.close(held.pop())  # the caller's; the listener finds none left
        waiting = dial(quick)
        time.sleep(0.2)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for descriptor in held:
            os.close(descriptor)
    waiting.close()
    assert is_served(quick)
