"""The caller's side of a service: the object itself, a Unix socket or TCP, whichever is nearest."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Sequence
from time import monotonic, sleep
from typing import Any, Protocol

import numpy.typing as npt

from heterps import errors
from heterps.runtime.config import settings
from heterps.runtime.wire.addresses import Endpoint
from heterps.runtime.wire.message import Message, ReceiveRing, WireError, greet, receive, send
from heterps.runtime.wire.packing import unpack_error
from heterps.runtime.wire.service import Address, Service, boxes, local_service, machine
from heterps.runtime.wire.shared import Inbox, Outbox

__all__ = ["DirectPeer", "Peer", "PeerLost", "SocketPeer", "connect"]

_KNOCKING_S = 10.0  # at a crowded door
_AGAIN_S = 0.05
# Sent away without a word, or not even a place in the queue of the socket; a service that is gone refuses instead.
_CROWDED = (ConnectionResetError, BrokenPipeError, BlockingIOError, ssl.SSLEOFError, ssl.SSLZeroReturnError)


class PeerLost(errors.ClusterError):
    """A service does not answer: its process died, froze beyond the timeout, or was closed."""


class Peer(Protocol):
    """A service that can be called."""

    def call(self, method: str, arrays: Sequence[npt.NDArray[Any]] = (), **head: Any) -> Message:
        """Call and wait. The reply's arrays are valid until the next call but one."""

    def close(self) -> None:
        """Let go of the connection."""


class DirectPeer:
    """A service in this process."""

    def __init__(self, service: Service) -> None:
        self.service = service

    def call(self, method: str, arrays: Sequence[npt.NDArray[Any]] = (), **head: Any) -> Message:
        """Call the method itself: no copy, no thread."""
        return self.service.methods[method](Message(head, arrays))

    def close(self) -> None:
        """Nothing is held."""


class SocketPeer:
    """A service in another process. One call at a time; threads that call at once take a peer each.

    Parameters
    ----------
    address
        Of the service.
    timeout_s
        For connecting, and for each further piece of an answer; by default ``heterps.timeouts.call`` of this process.
    tls
        Client-side context where the cluster speaks TLS.
    """

    def __init__(self, address: Address, timeout_s: float | None = None, tls: ssl.SSLContext | None = None) -> None:
        self.address, self._tls = address, tls
        self._timeout_s = settings().call_s if timeout_s is None else timeout_s
        self._buffers = ReceiveRing()  # what the last answers lie in
        self._lock = threading.Lock()  # held for one call, from its first byte to the last of its answer
        self._connection: socket.socket | None = None  # None: opened by the next call; never one that has failed
        # Of that connection and no other: who was cut off may still write, and read, what is in its boxes.
        self._boxes: tuple[Outbox | None, Inbox | None] = None, None

    def _open(self) -> socket.socket:
        """Connect and be let in; come again where too many stand at the door, as strangers may have it."""
        until = monotonic() + min(self._timeout_s, _KNOCKING_S)
        while True:
            try:
                return self._open_once()
            except _CROWDED:
                if monotonic() >= until:
                    raise
                sleep(_AGAIN_S)

    def _open_once(self) -> socket.socket:
        a = self.address
        near = a.machine == machine() and settings().unix_sockets
        connection = self._open_unix() if near else None
        if connection is None:
            connection = socket.create_connection((a.host, a.port), self._timeout_s)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if a.tls:
                assert self._tls is not None, "a TLS cluster hands its context to every peer"
                connection = self._tls.wrap_socket(connection)
        try:
            if not isinstance(connection, ssl.SSLSocket):  # which tries again for ever when the kernel gives up
                self._limit(connection)
            greet(connection, a.token)
        except BaseException:
            connection.close()
            raise
        return connection

    def _limit(self, connection: socket.socket) -> None:
        """Set a timeout of the kernel's instead of Python's: recv with MSG_WAITALL stays one system call."""
        connection.settimeout(None)
        seconds = int(self._timeout_s)
        interval = seconds.to_bytes(8, "little") + int((self._timeout_s - seconds) * 1e6).to_bytes(8, "little")
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            connection.setsockopt(socket.SOL_SOCKET, option, interval)

    def _open_unix(self) -> socket.socket | None:
        """Take the short way; None where the socket belongs to another user, who is reached by TCP."""
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(self._timeout_s)
        try:
            connection.connect(self.address.unix)
        except PermissionError:
            connection.close()
            return None
        except OSError:
            connection.close()
            raise
        return connection

    def call(self, method: str, arrays: Sequence[npt.NDArray[Any]] = (), **head: Any) -> Message:
        """Send the request and wait for the reply."""
        with self._lock:
            try:
                if self._connection is None:
                    self._connection = self._open()
                    self._boxes = boxes(self._connection)
                outbox, inbox = self._boxes
                send(self._connection, Message({**head, "_method": method}, arrays), outbox)
                if outbox is not None:
                    outbox.end()
                reply = receive(self._connection, self._buffers, inbox)
            except (OSError, WireError) as error:
                self._drop()
                raise PeerLost(
                    f"no answer from {self._where()} to {method!r} ({error or type(error).__name__})"
                ) from error
            if reply is None:
                self._drop()
                raise PeerLost(f"{self._where()} closed the connection before it answered {method!r}")
        raised = unpack_error(reply)
        if raised is not None:
            raise raised
        return reply

    def _where(self) -> str:
        return f"the service at {Endpoint('', self.address.host, self.address.port)}"

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection, self._boxes = None, (None, None)

    def close(self) -> None:
        """Close the connection; a later call opens it again."""
        with self._lock:
            self._drop()


def connect(address: Address, timeout_s: float | None = None, tls: ssl.SSLContext | None = None) -> Peer:
    """Take the nearest way to a service."""
    service = local_service(address)
    return DirectPeer(service) if service is not None else SocketPeer(address, timeout_s, tls)
