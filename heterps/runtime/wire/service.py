"""A service answers calls: from its own process directly, from other processes through sockets.

A service is an object with ``methods``: name -> function from :class:`Message` to :class:`Message`. Each connection has
a thread of its own that blocks in the kernel, so callers on other machines cost nothing while they wait.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import socket
import ssl
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from heterps.errors import ClusterError
from heterps.runtime.batch.message_memory import AnswerRoom, MessageMemory
from heterps.runtime.config import settings
from heterps.runtime.own_threads import Failed, logged, start_thread
from heterps.runtime.wire.addresses import Endpoint
from heterps.runtime.wire.door import Door, hang_up
from heterps.runtime.wire.message import Message, ReceiveRing, receive, send
from heterps.runtime.wire.packing import pack_error
from heterps.runtime.wire.shared import Inbox, Outbox

__all__ = ["Address", "Listener", "Method", "Service", "boxes", "local_service"]

Method = Callable[[Message], Message]

# One value per process: tells whether an address is our own.
PROCESS = uuid.uuid4().hex
_LOCAL: dict[str, Service] = {}
_EVERYWHERE = (socket.AF_INET, socket.SOCK_STREAM, 0, "", ("0.0.0.0", 0))  # what an empty host means
_PAUSE_S = 0.05
_LOG = logging.getLogger("heterps")


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


def boxes(connection: socket.socket) -> tuple[Outbox | None, Inbox | None]:
    """Return what large arrays go through on a new connection and come through: nothing where it may leave the machine.

    Either end decides for what it sends; what the other sends is always understood.
    """
    if connection.family != socket.AF_UNIX:
        return None, None
    return Outbox() if settings().shared_memory else None, Inbox()


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
        Address to listen on, where the worker is reached; loopback unless told otherwise.
    tls
        Server-side context where the cluster speaks TLS.
    failed
        Takes an error after which nobody new is answered any more; by default it is logged.
    ring
        Makes the buffers that requests of a connection are received into.
    """

    def __init__(
        self,
        service: Service,
        host: str = "127.0.0.1",
        tls: ssl.SSLContext | None = None,
        failed: Failed | None = None,
        ring: Callable[[], ReceiveRing] = ReceiveRing,
    ) -> None:
        self._ring = ring
        self.service = service  # called by many threads at once
        tcp = _tcp_server(host)
        self._folder = tempfile.TemporaryDirectory(prefix="heterps-")  # mode 0700: only this user may connect
        unix = os.path.join(self._folder.name, "socket")
        self._sockets = [tcp, _unix_server(unix)]  # that listen, each with its thread
        name, token = uuid.uuid4().hex, secrets.token_hex(16)
        self.address = Address(name, PROCESS, machine(), unix, host, tcp.getsockname()[1], token, tls is not None)
        self._door = Door(token, tls)  # through which every connection comes
        self._connections: set[socket.socket] = set()  # that are being served, each by its thread
        self._closed = False  # once true no call is answered; its threads end as they wake
        _LOCAL[name] = service
        for listening in self._sockets:
            start_thread("accept", self._accept, listening, failed=failed or logged("a service that listens"))

    def _accept(self, listening: socket.socket) -> None:
        while not self._closed:
            try:
                connection, _ = listening.accept()
            except OSError:
                time.sleep(_PAUSE_S)  # out of file descriptors, or the caller has gone again: neither may end us
                continue
            arrived = connection
            try:
                arrived = self._door.arrive(connection)
                start_thread("serve", self._serve, arrived, failed=logged("serving a caller"))
            except (OSError, RuntimeError) as error:  # the caller has gone already, or no thread can be had
                self._door.leave(arrived)
                arrived.close()
                _LOG.warning("a caller could not be served: %s", error)
            except BaseException:  # a mistake of ours: the owner is told
                arrived.close()
                raise

    def _serve(self, connection: socket.socket) -> None:
        self._connections.add(connection)
        caller = _caller(connection)
        try:
            with connection:
                if self._admits(connection, caller):
                    self._converse(connection)
        except OSError:
            pass  # a caller that dies closes its connections
        except Exception as error:
            _LOG.warning("closed the connection of %s: %s: %s", caller, type(error).__name__, error)
        finally:
            self._connections.discard(connection)

    def _admits(self, connection: socket.socket, caller: str) -> bool:
        try:
            self._door.admit(connection)
        except (OSError, ClusterError) as error:
            if not self._closed:
                _LOG.warning("refused %s: %s", caller, error)
            return False
        return True

    def _converse(self, connection: socket.socket) -> None:
        buffers, (outbox, inbox), methods = self._ring(), boxes(connection), self.service.methods
        memory = MessageMemory() if outbox is None else outbox
        while not self._closed and (request := receive(connection, buffers, inbox)) is not None:
            room = AnswerRoom(memory)
            answer = _answer(methods, Message(request.head, request.arrays, room))
            room.close()
            send(connection, answer, outbox)
            memory.end()

    def close(self) -> None:
        """Stop answering; calls in progress end with a connection error at the caller."""
        self._closed = True
        _LOCAL.pop(self.address.name, None)
        for connection in [*self._connections]:  # whose threads close them
            hang_up(connection)
        for listening in self._sockets:
            hang_up(listening)
            listening.close()
        self._folder.cleanup()


def _answer(methods: Mapping[str, Method], request: Message) -> Message:
    try:
        method = methods.get(str(request.head.get("_method")))
        if method is None:
            raise ClusterError(f"there is no method {request.head.get('_method')!r} here")
        return method(request)
    except Exception as error:
        return pack_error(error)


def _tcp_server(host: str) -> socket.socket:
    """Listen on one interface; never on all, whatever a worker says of itself."""
    try:
        family, _, _, _, where = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0] if host else _EVERYWHERE
        if Endpoint("", str(where[0])).is_everywhere:
            raise ClusterError(f"services do not listen on every interface ({host!r}); give the worker a --host")
        return socket.create_server((where[0], 0), family=family)
    except OSError as error:
        raise ClusterError(
            f"services cannot listen on {host!r}, where their worker is reached: {error.strerror or error}. "
            "Give the worker an address of its own machine (--host)"
        ) from error


def _unix_server(path: str) -> socket.socket:
    server = socket.socket(socket.AF_UNIX)
    server.bind(path)
    server.listen()
    return server


def _caller(connection: socket.socket) -> str:
    """Say who it is, for the log; a name of a Unix socket is empty."""
    with contextlib.suppress(OSError):
        name = connection.getpeername()
        return str(Endpoint("", name[0], name[1])) if name and isinstance(name, tuple) else "a process of this machine"
    return "a caller that has gone"
