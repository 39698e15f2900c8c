"""Hardware with more of one thing that stands in the way: a pool's network, a link, what a Host has, pools that serve.

How much more is found by trying: the least of a ladder of factors with which there is a plan.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from heterps.hardware import Hardware, Host, Link, Pool

__all__ = ["MoreOf", "growths", "least_factor", "with_servers"]

_STEPS = 40  # of the ladder, each a third more than the one before: up to a hundred thousand times as much
_STEP = 4 / 3


@dataclass(frozen=True)
class MoreOf:
    """One thing of which there could be more: the hardware with so many times as much, and that in words."""

    hardware: Callable[[float], Hardware]
    text: Callable[[float], str]


def growths(hardware: Hardware) -> Iterator[MoreOf]:
    """Things that hardware has a limited amount of, but for units, of which caps say how many there are."""
    yield from (_of_network(hardware, pool) for pool in hardware.pools)
    yield from (_of_link(hardware, link) for link in hardware.links)
    for host in hardware.hosts:
        yield from (_of_cores(hardware, host), _of_bandwidth(hardware, host))


def with_servers(hardware: Hardware) -> Iterator[tuple[str, Hardware]]:
    """Hardware in which one more cpu pool may carry shard hosts, and the pool's name."""
    for pool in hardware.pools:
        if pool.kind == "cpu" and not pool.serves and pool.cap != 0:
            yield pool.name, _with_pool(hardware, replace(pool, serves=True))


def least_factor(works: Callable[[float], bool]) -> float | None:
    """The least factor of the ladder that works, as a larger one does then, too; None where not the largest does."""
    low, high = 0, _STEPS
    if not works(_factor(high)):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if works(_factor(middle)) else (middle, high)
    return _factor(high)


def _factor(step: int) -> float:
    return float(_STEP**step)


def _rounded(value: float) -> float:
    """Up to two digits, as figures of hardware are written."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return math.ceil(value / unit * (1 - 1e-9)) * unit


def _text(value: float) -> str:
    """As one writes it in TOML: 2.4e7."""
    return f"{value:.3g}".replace("e+0", "e").replace("e+", "e")


def _of_network(hardware: Hardware, pool: Pool) -> MoreOf:
    before = pool.device.network_bytes_per_s

    def grown(factor: float) -> Hardware:
        device = replace(pool.device, network_bytes_per_s=_rounded(before * factor))
        return _with_pool(hardware, replace(pool, device=device))

    what = f"the network of a unit of pool {pool.name!r} (network_bytes_per_s)"
    return MoreOf(grown, lambda factor: f"raise {what} from {_text(before)} to {_text(_rounded(before * factor))}")


def _of_link(hardware: Hardware, link: Link) -> MoreOf:
    def grown(factor: float) -> Hardware:
        wider = replace(link, bytes_per_s=_rounded(link.bytes_per_s * factor))
        return replace(hardware, links=tuple(wider if other is link else other for other in hardware.links))

    what = f"link {link.source} - {link.target} (bytes_per_s) from {_text(link.bytes_per_s)}"
    return MoreOf(grown, lambda factor: f"raise {what} to {_text(_rounded(link.bytes_per_s * factor))}")


def _of_cores(hardware: Hardware, host: Host) -> MoreOf:
    def cores(factor: float) -> int:
        return math.ceil(host.cores * factor)

    return MoreOf(
        lambda factor: _with_host(hardware, replace(host, cores=cores(factor))),
        lambda factor: f"raise the cores of host {host.name!r} from {host.cores} to {cores(factor)}",
    )


def _of_bandwidth(hardware: Hardware, host: Host) -> MoreOf:
    before = host.memory_bytes_per_s
    what = f"the memory bandwidth of host {host.name!r} (memory_bytes_per_s) from {_text(before)}"
    return MoreOf(
        lambda factor: _with_host(hardware, replace(host, memory_bytes_per_s=_rounded(before * factor))),
        lambda factor: f"raise {what} to {_text(_rounded(before * factor))}",
    )


def _with_pool(hardware: Hardware, pool: Pool) -> Hardware:
    return replace(hardware, pools=tuple(pool if other.name == pool.name else other for other in hardware.pools))


def _with_host(hardware: Hardware, host: Host) -> Hardware:
    return replace(hardware, hosts=tuple(host if other.name == host.name else other for other in hardware.hosts))
