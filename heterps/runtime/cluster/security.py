"""Who may connect: loopback by default, any other address with TLS only.

A Dask scheduler runs whatever code a client sends it, so an open port is an open machine.
"""

from __future__ import annotations

import socket

from heterps.errors import ClusterError
from heterps.runtime.config import settings
from heterps.runtime.wire.addresses import Endpoint, parse_address

__all__ = ["is_loopback", "listening_host"]


def is_loopback(endpoint: Endpoint) -> bool:
    """Whether nobody but this machine can reach a host; a name counts when all its addresses do."""
    if endpoint.is_local:
        return True
    if endpoint.is_everywhere:
        return False
    if endpoint.ip is not None:
        return endpoint.ip.is_loopback
    try:
        found = {str(info[4][0]) for info in socket.getaddrinfo(endpoint.host, None)}
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ClusterError(f"address {endpoint.host!r} cannot be found: {reason}") from error
    return all(_is_loopback_ip(address) for address in found)


def _is_loopback_ip(address: str) -> bool:
    ip = Endpoint("", address.partition("%")[0]).ip
    return ip is not None and ip.is_loopback


def listening_host(text: str, *, tls: bool = False) -> Endpoint:
    """Read the host that a cluster is to listen on, and refuse one that others can reach without TLS.

    Parameters
    ----------
    text
        A host alone: whether TLS is spoken is not for a scheme to say, and the port is an option of its own.
    tls
        Whether connections are made with TLS.

    Raises
    ------
    ClusterError
        Unless the host is loopback, TLS is on, or ``heterps.network.trusted`` is set in Dask's config.
    """
    endpoint = parse_address(text)
    if endpoint.scheme:
        raise ClusterError(f"address {text!r}: write the host without {endpoint.scheme}://; --tls turns on TLS")
    if endpoint.port is not None:
        raise ClusterError(f"address {text!r}: write the host without a port; --port says which")
    if tls or is_loopback(endpoint) or settings().trusted_network:
        return endpoint
    raise ClusterError(
        f"{text}: without TLS anyone who can reach {text or 'this machine'} could run code here. Use --host 127.0.0.1, "
        "turn on TLS (heterps launch --tls, heterps plan --certs FOLDER) or, on a closed network, set "
        "heterps.network.trusted in Dask's config"
    )
