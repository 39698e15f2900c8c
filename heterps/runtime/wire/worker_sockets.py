"""Where the services of a Dask worker listen, and with which encryption: as the worker itself does."""

from __future__ import annotations

import ssl
from typing import Any

from heterps.runtime.wire.addresses import parse_address

__all__ = ["client_tls", "listen_on", "server_tls", "worker_place"]


def server_tls(worker: Any) -> ssl.SSLContext | None:
    """Return the context with which a worker's services listen: the cluster's own, None where it speaks plain TCP."""
    found = worker.security.get_listen_args("worker").get("ssl_context")
    return found if parse_address(worker.address).is_encrypted else None


def client_tls(worker: Any) -> ssl.SSLContext | None:
    """Return the context with which a worker calls services of others."""
    found = worker.security.get_connection_args("worker").get("ssl_context")
    return found if parse_address(worker.address).is_encrypted else None


def listen_on(worker: Any) -> str:
    """Listen where the worker itself is reached; workers of one process have no network address."""
    reached = parse_address(worker.address)
    return "127.0.0.1" if reached.is_local else reached.host


def worker_place(worker: Any) -> str:
    """Return the worker as errors name it."""
    return f"worker {worker.name} at {worker.address}"
