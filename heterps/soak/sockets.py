"""Cutting the connections of a process from inside: what a network that lost its mind does to it."""

from __future__ import annotations

import contextlib
import os
import socket
from typing import Any

from distributed import Worker

from heterps.runtime.wire.addresses import parse_address

__all__ = ["drop_sockets"]


def drop_sockets(dask_worker: Worker) -> int:
    """Cut every connection of this worker but those to its scheduler, without which Dask ends it; return how many.

    Dask gives the worker to a function with an argument of this name.
    """
    scheduler, cut = parse_address(dask_worker.scheduler.address).port, 0
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(int(number))) as connection:
            if _is_connection(connection, scheduler):
                connection.shutdown(socket.SHUT_RDWR)
                cut += 1
    return cut


def _is_connection(connection: socket.socket, scheduler: int | None) -> bool:
    """Whether it leads to another process: an event loop's pair with itself has no name at either end."""
    here, there = connection.getsockname(), connection.getpeername()
    return _port(there) != scheduler and bool(here or there)


def _port(end: Any) -> int | None:
    return end[1] if isinstance(end, tuple) else None
