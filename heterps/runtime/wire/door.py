"""The door of a service: who has not shown its token yet costs a thread, a few bytes and a few seconds, no more."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time

from heterps.runtime.wire.message import REFUSED, WELCOME, WireError, is_greeted

__all__ = ["Door", "hang_up"]

GREETING_S = 10.0  # for certificate and token together
MOST_GREETING = 256  # more than the workers that connect to one host at the same instant


class Door:
    """Lets callers in who show the token, and TLS first where the cluster speaks it.

    When too many stand at the door the one who has stood there longest is sent away: who knows the token is through at
    once, so strangers cannot keep it out by standing there. Should enough of them come at the very moment it is sent
    away too, without a word, and comes again; who is let in or shown the door for its token is told so.

    Parameters
    ----------
    token
        What a caller must show.
    tls
        Server-side context; None: plain TCP. Unix sockets are always plain, their folder is private.
    seconds
        For all that a caller must show.
    most
        How many may stand at the door.
    """

    def __init__(
        self, token: str, tls: ssl.SSLContext | None, seconds: float = GREETING_S, most: int = MOST_GREETING
    ) -> None:
        self._token, self._tls, self._seconds, self._most = token, tls, seconds, most
        self._lock = threading.Lock()
        self._waiting: dict[socket.socket, float] = {}  # in order of arrival: until when each may stand there

    def arrive(self, connection: socket.socket) -> socket.socket:
        """Return what to talk through; blocks nobody. Wrapping for TLS leaves nothing in the socket that was given."""
        connection.settimeout(self._seconds)
        if connection.family != socket.AF_UNIX:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is not None:
                connection = self._tls.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        with self._lock:
            if len(self._waiting) >= self._most:
                longest = next(iter(self._waiting))
                del self._waiting[longest]
                hang_up(longest)
            self._waiting[connection] = time.monotonic() + self._seconds
        return connection

    def admit(self, connection: socket.socket) -> None:
        """Wait until an arrived caller has shown what it must.

        Raises
        ------
        WireError, OSError
            When it did not, or not in time.
        """
        with self._lock:
            until = self._waiting.get(connection)
        try:
            if until is None:
                raise WireError("too many callers have not shown their token")
            if isinstance(connection, ssl.SSLSocket):
                connection.settimeout(max(1e-3, until - time.monotonic()))
                connection.do_handshake()
            if not is_greeted(connection, self._token, until):
                connection.sendall(REFUSED)
                raise WireError("the token is not ours")
            connection.sendall(WELCOME)
        finally:
            self.leave(connection)
        connection.settimeout(None)  # a caller may have nothing to ask for as long as it likes

    def leave(self, connection: socket.socket) -> None:
        """Forget one that stood at the door."""
        with self._lock:
            self._waiting.pop(connection, None)


def hang_up(connection: socket.socket) -> None:
    """Wake whoever waits at a connection; that thread closes it."""
    with contextlib.suppress(OSError):
        # Not SSLSocket's own, which takes its state away under the thread that uses it.
        socket.socket.shutdown(connection, socket.SHUT_RDWR)
