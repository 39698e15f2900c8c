"""Devices, hosts, pools and links as frozen values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from heterps.errors import HardwareError

__all__ = ["Device", "Hardware", "Host", "Link", "Pool"]

KINDS = ("cpu", "gpu")


@dataclass(frozen=True)
class Device:
    """A type of worker and its rates: one unit of a pool is one of these.

    Parameters
    ----------
    name, kind
        Its name and ``"cpu"`` or ``"gpu"``.
    flops
        Peak floating-point operations per second by dtype; ``"float32"`` must be there.
    memory_bytes, memory_bytes_per_s
        Memory of one unit and its bandwidth.
    network_bytes_per_s
        What one unit can send and receive. In an in-process cluster that is the rate of a copy in memory.
    cores
        CPU cores that one unit keeps busy.
    bus_bytes_per_s
        Rate between host memory and device memory (zero: there is none to cross).
    launch_s
        Fixed time of starting one op.
    efficiency
        Share of the peak figures that kernels reach: 1 for measured figures, less for data sheets.
    price_per_hour, sold_in
        Price of one unit, and the number in which units are sold (8 for a machine with eight GPUs).
    source
        Where the figures come from.
    """

    name: str
    kind: str
    flops: Mapping[str, float]
    memory_bytes: float
    memory_bytes_per_s: float
    network_bytes_per_s: float
    cores: int = 1
    bus_bytes_per_s: float = 0.0
    launch_s: float = 0.0
    efficiency: float = 1.0
    price_per_hour: float = 0.0
    sold_in: int = 1
    source: str = ""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise HardwareError(f"device {self.name!r}: kind is {self.kind!r}, must be one of {', '.join(KINDS)}")
        if "float32" not in self.flops:
            raise HardwareError(f"device {self.name!r}: flops has no float32 figure, only {sorted(self.flops)}")
        rates = {"memory_bytes_per_s": self.memory_bytes_per_s, "network_bytes_per_s": self.network_bytes_per_s}
        rates |= {f"flops.{dtype}": rate for dtype, rate in self.flops.items()}
        for name, rate in rates.items():
            if not rate > 0:
                raise HardwareError(f"device {self.name!r}: {name} is {rate}, must be positive")
        if not 0 < self.efficiency <= 1:
            raise HardwareError(f"device {self.name!r}: efficiency is {self.efficiency}, must be in (0, 1]")
        if self.sold_in < 1 or self.cores < 1 or self.price_per_hour < 0:
            raise HardwareError(
                f"device {self.name!r}: sold_in and cores must be at least 1, price_per_hour at least 0"
            )

    def rate(self, dtype: str = "float32") -> float:
        """Floating-point operations per second that kernels reach."""
        return self.flops.get(dtype, self.flops["float32"]) * self.efficiency

    @property
    def ridge(self) -> float:
        """Floating-point operations per byte above which arithmetic, not memory, is the limit."""
        return self.flops["float32"] / self.memory_bytes_per_s


@dataclass(frozen=True)
class Host:
    """A machine (or ``count`` equal ones): the pools on it share its cores, memory and memory bandwidth."""

    name: str
    cores: int
    memory_bytes: float
    memory_bytes_per_s: float
    count: int = 1

    def __post_init__(self) -> None:
        if self.cores < 1 or self.count < 1 or not self.memory_bytes_per_s > 0:
            raise HardwareError(f"host {self.name!r}: cores, count and memory_bytes_per_s must be positive")


@dataclass(frozen=True)
class Pool:
    """Identical Dask workers under one resource name.

    Parameters
    ----------
    name
        Also the Dask resource that its workers declare.
    device
        What one worker of the pool is.
    cap
        Number of units that can be had; None: as many as wanted.
    host
        Name of the Host whose cores and memory bandwidth its units share with other pools; None: units are
        machines of their own.
    serves
        Whether shard hosts may sit on it.
    emulated
        The pool is tagged GPU but runs NumPy; every report says so.
    """

    name: str
    device: Device
    cap: int | None = None
    host: str | None = None
    serves: bool = True
    emulated: bool = False

    def __post_init__(self) -> None:
        if self.cap is not None and self.cap < 0:
            raise HardwareError(f"pool {self.name!r}: cap is {self.cap}, must be at least 0")

    @property
    def kind(self) -> str:
        """``"cpu"`` or ``"gpu"``."""
        return self.device.kind


@dataclass(frozen=True)
class Link:
    """What can pass between two pools in total; without one only the units' own network rates count."""

    source: str
    target: str
    bytes_per_s: float
    latency_s: float = 0.0

    def __post_init__(self) -> None:
        if not self.bytes_per_s > 0 or self.latency_s < 0:
            raise HardwareError(
                f"link {self.source} - {self.target}: bytes_per_s must be positive, latency_s not negative"
            )


@dataclass(frozen=True)
class Hardware:
    """Pools, the hosts they share, the links between them."""

    pools: tuple[Pool, ...]
    hosts: tuple[Host, ...] = ()
    links: tuple[Link, ...] = field(default=())

    def __post_init__(self) -> None:
        if not self.pools:
            raise HardwareError("hardware without a pool: describe at least one [[pool]]")
        _unique("pool", (pool.name for pool in self.pools))
        _unique("host", (host.name for host in self.hosts))
        hosts, pools = {host.name for host in self.hosts}, {pool.name for pool in self.pools}
        for pool in self.pools:
            if pool.host is not None and pool.host not in hosts:
                raise HardwareError(f"pool {pool.name!r} sits on host {pool.host!r}, which is not described")
        for link in self.links:
            for end in (link.source, link.target):
                if end not in pools:
                    raise HardwareError(f"link {link.source} - {link.target}: there is no pool {end!r}")

    def pool(self, name: str) -> Pool:
        """Return the pool of that name."""
        for pool in self.pools:
            if pool.name == name:
                return pool
        raise HardwareError(f"no pool {name!r}; there are {', '.join(pool.name for pool in self.pools)}")

    def host(self, name: str) -> Host:
        """Return the host of that name."""
        for host in self.hosts:
            if host.name == name:
                return host
        raise HardwareError(f"no host {name!r}; there are {', '.join(host.name for host in self.hosts) or 'none'}")

    def link(self, a: str, b: str) -> Link | None:
        """Return the link between two pools, whichever way round it was written."""
        return next((link for link in self.links if {link.source, link.target} == {a, b}), None)

    def with_caps(self, **caps: int | None) -> Hardware:
        """Return the same hardware with other numbers of units."""
        for name in caps:
            self.pool(name)
        return replace(self, pools=tuple(replace(p, cap=caps.get(p.name, p.cap)) for p in self.pools))

    def to_json(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "pools": [pool_to_json(pool) for pool in self.pools],
            "hosts": [asdict(host) for host in self.hosts],
            "links": [asdict(link) for link in self.links],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Hardware:
        """Inverse of :meth:`to_json`."""
        return cls(
            tuple(pool_from_json(pool) for pool in data["pools"]),
            tuple(Host(**host) for host in data.get("hosts", ())),
            tuple(Link(**link) for link in data.get("links", ())),
        )

    @classmethod
    def from_toml(cls, source: str) -> Hardware:
        """Read a TOML file (a path) or text; ``docs/planner.md`` shows the format."""
        from heterps.hardware.toml import read_toml

        return read_toml(source)

    def to_toml(self) -> str:
        """Return TOML text that :meth:`from_toml` reads back to an equal value."""
        from heterps.hardware.toml import write_toml

        return write_toml(self)

    @classmethod
    def local(cls) -> Hardware:
        """Measure this machine (a fraction of a second, once per process)."""
        from heterps.hardware.local import measure_local

        return measure_local()


def pool_to_json(pool: Pool) -> dict[str, Any]:
    """Return plain values of a pool and its device."""
    data = asdict(pool)
    data["device"]["flops"] = dict(pool.device.flops)
    return data


def pool_from_json(data: Mapping[str, Any]) -> Pool:
    """Inverse of :func:`pool_to_json`."""
    return Pool(**{**data, "device": Device(**data["device"])})


def _unique(what: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise HardwareError(f"two {what}s are called {name!r}")
        seen.add(name)
