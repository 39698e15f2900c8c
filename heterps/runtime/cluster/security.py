"""Who may connect: loopback by default, any other address with TLS only.

A Dask scheduler runs whatever code a client sends it, so an open port is an open machine.
"""

from __future__ import annotations

import ipaddress
import socket
import ssl

from distributed import Security

from heterps.errors import ClusterError
from heterps.runtime.config import settings

__all__ = ["check_address", "is_loopback", "split_address", "tls_contexts"]


def split_address(address: str) -> tuple[str, str, int | None]:
    """Split ``scheme://host:port`` into its parts; scheme and port may be missing.

    >>> split_address("tls://10.0.0.1:8786"), split_address("[::1]")
    (('tls', '10.0.0.1', 8786), ('tcp', '::1', None))
    """
    scheme, _, rest = address.rpartition("://")
    host, port = rest, ""
    if rest.startswith("["):
        host, _, tail = rest[1:].partition("]")
        port = tail.removeprefix(":")
    elif rest.count(":") == 1:
        host, port = rest.split(":")
    if port and not port.isdigit():
        raise ClusterError(f"address {address!r}: {port!r} is no port number")
    return scheme or "tcp", host, int(port) if port else None


def is_loopback(host: str) -> bool:
    """Whether nobody but this machine can reach ``host``; a name counts when all its addresses do.

    An empty host, ``0.0.0.0`` and ``::`` mean every interface and so are not loopback.
    """
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        pass
    try:
        found = {str(info[4][0]) for info in socket.getaddrinfo(host or "0.0.0.0", None)}
    except OSError as error:
        raise ClusterError(f"address {host!r} cannot be found: {error.strerror}") from error
    return all(ipaddress.ip_address(a.partition("%")[0]).is_loopback for a in found)


def check_address(address: str, *, tls: bool = False) -> None:
    """Refuse an address that others can reach without TLS.

    Parameters
    ----------
    address
        What would be listened on: ``host``, ``host:port`` or ``scheme://host:port``.
    tls
        Whether connections are made with TLS; ``tls://`` says the same.

    Raises
    ------
    ClusterError
        Unless the address is loopback, TLS is on, or ``heterps.network.trusted`` is set in Dask's config.
    """
    scheme, host, _ = split_address(address)
    if tls or scheme in ("tls", "wss", "inproc") or is_loopback(host) or settings().trusted_network:
        return
    raise ClusterError(
        f"{address}: without TLS anyone who can reach {host or 'this machine'} could run code here. Use 127.0.0.1, "
        "turn on TLS (heterps launch --tls) or, on a closed network, set heterps.network.trusted in Dask's config"
    )


def tls_contexts(security: Security | None = None) -> tuple[ssl.SSLContext | None, ssl.SSLContext | None]:
    """Return the contexts for listening and for connecting with a worker's certificate; None, None without TLS.

    Parameters
    ----------
    security
        A worker's ``security``; None: what Dask's config says.
    """
    chosen = security or Security()
    if not chosen.tls_ca_file or not chosen.tls_worker_cert:
        return None, None
    listen, connect = chosen.get_listen_args("worker"), chosen.get_connection_args("worker")
    return listen["ssl_context"], connect["ssl_context"]
