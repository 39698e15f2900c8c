"""A service answers calls: from its own process directly, from other processes through sockets.

A service is an object with ``methods``: name -> function from :class:`Message` to :class:`Message`. Each connection has
a thread of its own that blocks in the kernel, so callers on other machines cost nothing while they wait.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import secrets
import socket
import ssl
import tempfile
import threading
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from heterps import errors
from heterps.runtime.wire.message import Buffers, Message, receive, send

__all__ = ["Address", "Listener", "Method", "Service", "local_service"]

Method = Callable[[Message], Message]

# One value per process: tells whether an address is our own.
PROCESS = uuid.uuid4().hex
_LOCAL: dict[str, Service] = {}
_HELLO_S = 10.0  # for a caller to show its certificate and token: strangers must not hold threads


class Service(Protocol):
    """Anything that can be called."""

    @property
    def methods(self) -> Mapping[str, Method]:
        """The calls it answers."""


@dataclass(frozen=True)
class Address:
    """Where a service can be reached, from nearest to farthest."""

    name: str
    process: str
    machine: str
    unix: str
    host: str
    port: int
    token: str
    tls: bool = False


def machine() -> str:
    """Return the identity of this running system; processes that share it can share a Unix socket."""
    with contextlib.suppress(OSError), open("/proc/sys/kernel/random/boot_id") as f:
        return f.read().strip() + os.readlink("/proc/self/ns/mnt")
    return socket.gethostname()


def local_service(address: Address) -> Service | None:
    """Return the service itself if it lives in this process."""
    return _LOCAL.get(address.name) if address.process == PROCESS else None


class Listener:
    """Serves one service until closed.

    Parameters
    ----------
    service
        What answers.
    host
        Interface to listen on; loopback unless the cluster's own workers listen elsewhere.
    tls
        Server-side context where the cluster speaks TLS.
    """

    def __init__(self, service: Service, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> None:
        self.service, self.tls = service, tls
        self._folder = tempfile.TemporaryDirectory(prefix="heterps-")  # mode 0700: only this user may connect
        unix = os.path.join(self._folder.name, "socket")
        self._sockets = [socket.create_server((host, 0)), _unix_server(unix)]
        port = self._sockets[0].getsockname()[1]
        name, token = uuid.uuid4().hex, secrets.token_hex(16)
        self.address = Address(name, PROCESS, machine(), unix, host, port, token, tls is not None)
        self._connections: set[socket.socket] = set()
        self._closed = False
        _LOCAL[name] = service
        for listening in self._sockets:
            threading.Thread(target=self._accept, args=[listening], name="heterps-accept", daemon=True).start()

    def _accept(self, listening: socket.socket) -> None:
        while not self._closed:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=[connection], name="heterps-serve", daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError, errors.ClusterError, ValueError), self._secured(connection) as secured:
            self._connections.add(secured)
            try:
                self._converse(secured)
            finally:
                self._connections.discard(secured)

    def _secured(self, connection: socket.socket) -> socket.socket:
        """Return what to talk through; wrapping for TLS leaves nothing in the socket that was given."""
        connection.settimeout(_HELLO_S)
        if connection.family == socket.AF_UNIX:
            return connection
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection if self.tls is None else self.tls.wrap_socket(connection, server_side=True)

    def _converse(self, connection: socket.socket) -> None:
        buffers = Buffers()
        hello = receive(connection, buffers)
        if hello is None or not hmac.compare_digest(str(hello.head.get("token")), self.address.token):
            return
        connection.settimeout(None)  # a caller may have nothing to ask for as long as it likes
        while not self._closed and (request := receive(connection, buffers)) is not None:
            send(connection, self._answer(request))

    def _answer(self, request: Message) -> Message:
        method = str(request.head.get("_method"))
        try:
            return self.service.methods[method](request)
        except Exception as error:
            return Message({"_error": type(error).__name__, "_message": str(error)})

    def close(self) -> None:
        """Stop answering; calls in progress end with a connection error at the caller."""
        self._closed = True
        _LOCAL.pop(self.address.name, None)
        for s in [*self._sockets, *self._connections]:
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)
            s.close()
        self._folder.cleanup()


def _unix_server(path: str) -> socket.socket:
    server = socket.socket(socket.AF_UNIX)
    server.bind(path)
    server.listen()
    return server
