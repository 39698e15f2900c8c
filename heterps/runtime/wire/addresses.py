"""Network addresses: the one place that takes them apart. Pure; nothing is looked up.

``scheme://host:port``, where scheme and port may be missing. A host is an IPv4 address, an IPv6 address (in brackets
where a port follows), a name, or empty for every interface. What could be read in two ways is refused.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

from heterps.errors import ClusterError

__all__ = ["Endpoint", "parse_address"]

_ENCRYPTED = frozenset({"tls", "wss"})
_SCHEMES = frozenset({"tcp", "tls", "ws", "wss", "inproc"})
_NAME = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)(\.(?!-)[A-Za-z0-9_-]{1,63}(?<!-))*\.?", re.ASCII)
# The C library reads 0, 127.1, 010.0.0.1 and 0x7f000001 as IPv4 addresses of its own making.
_NUMBER = re.compile(r"(.*\.)?([0-9]+|0[xX][0-9a-fA-F]*)\.?", re.ASCII)


@dataclass(frozen=True)
class Endpoint:
    """An address in parts; ``host`` has no brackets, ``scheme`` is empty and ``port`` None where none was given."""

    scheme: str
    host: str
    port: int | None = None

    @property
    def is_encrypted(self) -> bool:
        """Whether the scheme says so: true of an address at which something listens, a mere claim of any other."""
        return self.scheme in _ENCRYPTED

    @property
    def is_local(self) -> bool:
        """Whether it lies inside one process and no socket belongs to it."""
        return self.scheme == "inproc"

    @property
    def ip(self) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
        """The host as a number, None for a name; an IPv4 address in IPv6 clothes is the IPv4 address."""
        if self.is_local or not self.host:
            return None
        try:
            found = ipaddress.ip_address(self.host)
        except ValueError:
            return None
        return getattr(found, "ipv4_mapped", None) or found

    @property
    def is_everywhere(self) -> bool:
        """Whether listening there means every interface."""
        return not self.is_local and (not self.host or (self.ip is not None and self.ip.is_unspecified))

    @property
    def is_v6(self) -> bool:
        """Whether a socket for it is one of IPv6."""
        return ":" in self.host

    @property
    def bracketed(self) -> str:
        """The host as it is written before a port, and as Dask's ``--host`` wants it."""
        return f"[{self.host}]" if self.is_v6 and not self.is_local else self.host

    def __str__(self) -> str:
        """Return what :func:`parse_address` reads as this endpoint."""
        port = "" if self.port is None else f":{self.port}"
        return (f"{self.scheme}://" if self.scheme else "") + self.bracketed + port


def parse_address(address: str) -> Endpoint:
    """Take an address apart.

    Raises
    ------
    ClusterError
        When a part is not what it should be; the message names address and part.

    Examples
    --------
    >>> parse_address("tls://10.0.0.1:8786")
    Endpoint(scheme='tls', host='10.0.0.1', port=8786)
    >>> parse_address("::1")
    Endpoint(scheme='', host='::1', port=None)
    """
    scheme, separator, rest = address.partition("://")
    if not separator:
        scheme, rest = "", address
    elif scheme not in _SCHEMES:
        raise ClusterError(f"address {address!r}: {scheme!r} is no scheme; there are {', '.join(sorted(_SCHEMES))}")
    if scheme == "inproc":
        return Endpoint(scheme, rest)
    host, port = _split(address, rest)
    return Endpoint(scheme, _host(address, host), _port(address, port))


def _split(address: str, rest: str) -> tuple[str, str | None]:
    if rest.startswith("["):
        host, bracket, tail = rest[1:].partition("]")
        if not bracket or ":" not in host or (tail and not tail.startswith(":")):
            raise ClusterError(f"address {address!r}: brackets go around an IPv6 address only, as in [::1]:8786")
        return host, tail[1:] if tail else None
    if rest.count(":") > 1:
        return rest, None
    host, colon, port = rest.partition(":")
    return host, port if colon else None


def _host(address: str, host: str) -> str:
    if ":" in host:
        return _v6(address, host)
    try:
        return str(ipaddress.IPv4Address(host))
    except ValueError:
        pass
    if host and (_NUMBER.fullmatch(host) or not _NAME.fullmatch(host) or len(host) > 253):
        raise ClusterError(f"address {address!r}: {host!r} is neither a host's name nor an address such as 10.0.0.5")
    return host


def _v6(address: str, host: str) -> str:
    if "%" in host:
        raise ClusterError(
            f"address {address!r}: Dask cannot use IPv6 addresses of one link only (with %); take a global one"
        )
    try:
        return str(ipaddress.IPv6Address(host))
    except ValueError:
        raise ClusterError(
            f"address {address!r}: {host!r} is no IPv6 address; one with a port is written [::1]:8786"
        ) from None


def _port(address: str, port: str | None) -> int | None:
    if port is None:
        return None
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and int(port) < 1 << 16):
        raise ClusterError(f"address {address!r}: {port!r} is no port number")
    return int(port)
