"""Devices, hosts, pools and links as frozen values."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Annotated, Any, Literal

from heterps.errors import HardwareError
from heterps.fields import Count, Found, Natural, NotNegative, Range, check_fields

__all__ = ["Device", "Hardware", "Host", "Link", "Pool", "Product", "check_month"]

# Operations or bytes a second. Below one, or beyond what any machine will do, times leave the range of numbers.
Rate = Annotated[float, Range(at_least=1, at_most=1e30)]
# Without any, no number of workers holds the tables.
Memory = Annotated[float, Range(at_least=1)]


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
    price_date
        Month of the price, ``"2024-06"``; empty where nobody said.
    source
        Where the figures come from.
    """

    name: str
    kind: Literal["cpu", "gpu"]
    flops: Mapping[str, Rate]
    memory_bytes: Memory
    memory_bytes_per_s: Rate
    network_bytes_per_s: Rate
    cores: Count = 1
    bus_bytes_per_s: NotNegative = 0.0
    launch_s: NotNegative = 0.0
    efficiency: Annotated[float, Range(above=0, at_most=1)] = 1.0
    price_per_hour: NotNegative = 0.0
    sold_in: Count = 1
    price_date: str = ""
    source: str = ""

    def __post_init__(self) -> None:
        check_fields(self, HardwareError, f"device {self.name!r}")
        check_month(f"device {self.name!r}", self.price_date)
        if "float32" not in self.flops:
            raise HardwareError(f"device {self.name!r}: flops has no float32 figure, only {sorted(self.flops)}")

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
    cores: Count
    memory_bytes: NotNegative
    memory_bytes_per_s: Rate
    count: Count = 1

    def __post_init__(self) -> None:
        check_fields(self, HardwareError, f"host {self.name!r}")


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
    cap: Natural | None = None
    host: str | None = None
    serves: bool = True
    emulated: bool = False

    def __post_init__(self) -> None:
        check_fields(self, HardwareError, f"pool {self.name!r}")
        if not self.name:
            raise HardwareError("a pool without a name: it is the Dask resource that its workers declare")

    @property
    def kind(self) -> str:
        """``"cpu"`` or ``"gpu"``."""
        return self.device.kind


@dataclass(frozen=True)
class Link:
    """What can pass between two pools in total; without one only the units' own network rates count."""

    source: str
    target: str
    bytes_per_s: Rate
    latency_s: NotNegative = 0.0

    def __post_init__(self) -> None:
        check_fields(self, HardwareError, f"link {self.source} - {self.target}")


@dataclass(frozen=True)
class Product:
    """A machine that is rented whole: so many units of each of its pools, for one price.

    Parameters
    ----------
    pools
        Units of each pool in one of it; a pool is part of one product.
    price_per_hour, price_date
        Price of the whole, and its month; prices of its pools' devices count for nothing.
    cap
        Number that can be had; None: as many as wanted. Its pools have the caps that follow.
    source
        Where the figures come from.
    """

    name: str
    pools: Mapping[str, Count]
    price_per_hour: NotNegative = 0.0
    price_date: str = ""
    cap: Natural | None = None
    source: str = ""

    def __post_init__(self) -> None:
        check_fields(self, HardwareError, f"product {self.name!r}")
        check_month(f"product {self.name!r}", self.price_date)
        if not self.pools:
            raise HardwareError(f"product {self.name!r} has units of no pool: write pools = {{ gpu = 1, cpu = 4 }}")

    def cap_of(self, pool: str) -> int | None:
        """Units of a pool that can be had."""
        return None if self.cap is None else self.cap * self.pools[pool]


@dataclass(frozen=True)
class Hardware:
    """Pools, the hosts they share, the links between them, the products that their units are parts of.

    Pools of a product take their caps from it, and their devices' prices are not theirs any more.
    """

    pools: tuple[Pool, ...]
    hosts: tuple[Host, ...] = ()
    links: tuple[Link, ...] = field(default=())
    products: tuple[Product, ...] = field(default=())

    def __post_init__(self) -> None:
        if not self.pools:
            raise HardwareError("hardware without a pool: describe at least one [[pool]]")
        _unique("pool", (pool.name for pool in self.pools))
        _unique("host", (host.name for host in self.hosts))
        hosts, pools = {host.name for host in self.hosts}, {pool.name for pool in self.pools}
        for pool in self.pools:
            if pool.host is not None and pool.host not in hosts:
                raise HardwareError(f"pool {pool.name!r} sits on host {pool.host!r}, which is not described")
        _check_links(self.links, pools)
        _check_products(self)
        object.__setattr__(self, "pools", tuple(_as_part(pool, self.product_of(pool.name)) for pool in self.pools))

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

    def product_of(self, pool: str) -> Product | None:
        """Return the product that a pool's units are parts of."""
        return next((product for product in self.products if pool in product.pools), None)

    def with_caps(self, **caps: int | None) -> Hardware:
        """Return the same hardware with other numbers of units, or of products."""
        products = tuple(replace(p, cap=caps.pop(p.name, p.cap)) for p in self.products)
        for name in caps:
            self.pool(name)
        parts = {name: product.cap_of(name) for product in products for name in product.pools}
        given = {pool.name: pool.cap for pool in self.pools} | parts | caps
        return replace(self, pools=tuple(replace(p, cap=given[p.name]) for p in self.pools), products=products)

    def to_json(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "pools": [pool_to_json(pool) for pool in self.pools],
            "hosts": [asdict(host) for host in self.hosts],
            "links": [asdict(link) for link in self.links],
            "products": [product_to_json(product) for product in self.products],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Hardware:
        """Inverse of :meth:`to_json`."""
        return Found.of(data, HardwareError, "hardware").make(cls)

    @classmethod
    def from_toml(cls, source: str | os.PathLike[str], catalogue: str | os.PathLike[str] | None = None) -> Hardware:
        """Read a TOML file (a path) or text; ``docs/planner.md`` shows the format.

        ``catalogue`` is a file of devices of one's own, which come before those that ship with the package.
        """
        from heterps.hardware.toml import read_toml

        return read_toml(os.fspath(source), None if catalogue is None else os.fspath(catalogue))

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


def product_to_json(product: Product) -> dict[str, Any]:
    """Return plain values of a product."""
    return {**vars(product), "pools": dict(product.pools)}


def check_month(what: str, date: str) -> None:
    """Refuse the date of a price that is no month."""
    if date and not re.fullmatch(r"\d{4}-(0[1-9]|1[0-2])", date):
        raise HardwareError(f"{what}: price_date is {date!r}, must be a month, YYYY-MM")


def _check_links(links: Iterable[Link], pools: Collection[str]) -> None:
    seen: set[frozenset[str]] = set()
    for link in links:
        ends = frozenset((link.source, link.target))
        for end in (link.source, link.target):
            if end not in pools:
                raise HardwareError(f"link {link.source} - {link.target}: there is no pool {end!r}")
        if ends in seen:
            raise HardwareError(
                f"there are two links between {link.source!r} and {link.target!r}: one says what passes in each "
                "direction"
            )
        seen.add(ends)


def _check_products(hardware: Hardware) -> None:
    _unique("product", (product.name for product in hardware.products))
    taken: dict[str, str] = {}
    for product in hardware.products:
        for name in product.pools:
            pool = hardware.pool(name)
            if name in taken:
                raise HardwareError(
                    f"pool {name!r} is part of the products {taken[name]!r} and {product.name!r}: workers of different "
                    "machines are different pools, so give each its own"
                )
            taken[name] = product.name
            if pool.host is not None:
                raise HardwareError(
                    f"pool {name!r} is part of product {product.name!r} and sits on host {pool.host!r}: a host is "
                    "there already, a product is rented; use one of them"
                )
            if pool.cap not in (None, product.cap_of(name)):
                raise HardwareError(
                    f"pool {name!r} has cap = {pool.cap} and is part of product {product.name!r}: say with the "
                    "product's cap how many of it there are"
                )


def _as_part(pool: Pool, product: Product | None) -> Pool:
    """A pool with the cap, and without the price, that being part of a product gives it."""
    if product is None:
        return pool
    device = replace(pool.device, price_per_hour=0.0, price_date="", sold_in=1)
    return replace(pool, cap=product.cap_of(pool.name), device=device)


def _unique(what: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise HardwareError(f"two {what}s are called {name!r}")
        seen.add(name)
