"""Which sockets of a Dask process others can reach: looked up at the sockets themselves, not in what was asked for."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import threading
from collections.abc import Iterable, Mapping
from typing import Any

from distributed import Client

from heterps.errors import ClusterError
from heterps.runtime.answers import answer
from heterps.runtime.cluster.ask import ask_workers
from heterps.runtime.cluster.identity import identity_of
from heterps.runtime.cluster.security import is_loopback
from heterps.runtime.config import settings
from heterps.runtime.wire.addresses import Endpoint, parse_address

__all__ = ["open_addresses", "refuse_open", "warn_of_open"]

_LOG = logging.getLogger("heterps")
_HOST, _DASHBOARD = "--host", "--dashboard-address"
_WARNED: set[str] = set()  # ids of schedulers


def open_addresses(server: Any) -> dict[str, str]:
    """Return the addresses at which strangers reach a scheduler, worker or nanny, each with the option that closes it.

    A listener that speaks TLS asks for a certificate and so is closed. A dashboard asks nobody who they are.
    """
    found: dict[str, str] = {}
    for listener in server.listeners:
        scheme = parse_address(listener.listen_address)
        if not (scheme.is_encrypted or scheme.is_local):
            tcp = getattr(listener, "tcp_server", None) or getattr(listener, "server", None)
            found |= {str(e): _HOST for e in _bound(tcp, scheme.scheme) or [scheme] if not is_loopback(e)}
    web = getattr(server, "http_server", None)
    return found | {str(e): _DASHBOARD for e in _bound(web, "") if not is_loopback(e)}


def _bound(server: Any, scheme: str) -> list[Endpoint]:
    """Return where a server of tornado's listens: a name, or none, can mean several sockets."""
    sockets = getattr(server, "_sockets", None) or {}
    names = [socket.getsockname() for socket in sockets.values()]
    return [Endpoint(scheme, name[0].partition("%")[0], name[1]) for name in names if isinstance(name, tuple)]


def refuse_open(server: Any) -> None:
    """End a Dask process that strangers can reach; ``heterps.network.trusted`` lets it be.

    Its sockets are closed first. Dask logs what a preload raises and goes on, so only the end of the process stops it;
    where the process is not its own (its loop runs beside the program's main thread) Dask fails for want of sockets.
    """
    found = {} if settings().trusted_network else open_addresses(server)
    if not found:
        return
    for listener in [*server.listeners, *filter(None, [getattr(server, "http_server", None)])]:
        listener.stop()
    message = f"heterps: this {type(server).__name__.lower()} would listen on {_list(found)}: {_remedy(found)}"
    if threading.current_thread() is not threading.main_thread():
        raise ClusterError(message)
    # The exit passes through tasks nobody will ask for their result.
    asyncio.get_running_loop().set_exception_handler(lambda loop, details: None)
    print(message, file=sys.stderr, flush=True)  # a nanny's child would not print what SystemExit carries
    raise SystemExit(1)


def _list(found: Iterable[str]) -> str:
    return ", ".join(found)


def _remedy(found: Mapping[str, str]) -> str:
    flags = " and ".join(
        f"{flag} {'127.0.0.1:0' if flag == _DASHBOARD else 'ADDRESS'}" for flag in dict.fromkeys(found.values())
    )
    return (
        f"anyone who can reach that could run code here. Add {flags} (127.0.0.1, or another address with TLS), or set "
        "heterps.network.trusted in Dask's config on a closed network"
    )


def warn_of_open(client: Client, workers: Mapping[str, str]) -> None:
    """Log once for each cluster which of its addresses are open to strangers.

    Parameters
    ----------
    client
        Client of a cluster that somebody else started.
    workers
        Names of the workers by address.
    """
    if settings().trusted_network:
        return
    identity = identity_of(client)
    if identity["id"] in _WARNED:
        return
    found = _open_at_scheduler(client, identity)
    for there in ask_workers(client, _open_here, workers).values():
        found |= there
    _WARNED.add(identity["id"])
    if found:
        _LOG.warning("this cluster is open to strangers at %s: %s", _list(sorted(found)), _remedy(found))


def _open_here(dask_worker: Any) -> dict[str, str]:
    return open_addresses(dask_worker)


def _open_there(dask_scheduler: Any) -> dict[str, str]:
    return open_addresses(dask_scheduler)


def _open_at_scheduler(client: Client, identity: Mapping[str, Any]) -> dict[str, str]:
    """Ask the scheduler; where it has no heterps, judge by the address it gives."""
    with contextlib.suppress(ClusterError):
        asked: dict[str, str] = answer(
            client, lambda: client._run_on_scheduler(_open_there), ClusterError, settings().connect_s
        )
        return asked
    endpoint = parse_address(identity["address"])
    return {} if endpoint.is_encrypted or is_loopback(endpoint) else {str(endpoint): _HOST}
