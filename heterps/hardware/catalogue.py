"""The catalogue of common devices, and of machines that are rented whole, that ships with the package."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import resources

from heterps.documents import read_text, toml_of
from heterps.errors import HardwareError
from heterps.fields import Count, Found, NotNegative, Positive, check_fields
from heterps.hardware.values import Device, check_month

__all__ = ["Catalogue", "Offer", "catalogue", "read_catalogue", "shipped"]


@dataclass(frozen=True)
class Offer:
    """A machine as it is offered: so many units of each device, for one price, with one network for all of them."""

    name: str
    devices: Mapping[str, Count]
    price_per_hour: NotNegative
    network_bytes_per_s: Positive | None = None
    price_date: str = ""
    source: str = ""

    def __post_init__(self) -> None:
        check_fields(self, HardwareError, f"product {self.name!r}")
        check_month(f"product {self.name!r}", self.price_date)
        if not self.devices:
            raise HardwareError(f"product {self.name!r} has no devices: write devices = {{ l4 = 1, box = 1 }}")

    def parts(self, known: Mapping[str, Device]) -> dict[str, Device]:
        """Return its devices, each with its part of the machine's network."""
        for name in self.devices:
            if name not in known:
                raise HardwareError(f"product {self.name!r} of the catalogue has {name!r}, which is no device of it")
        wanted = sum(known[name].network_bytes_per_s * n for name, n in self.devices.items())
        part = 1.0 if self.network_bytes_per_s is None else min(1.0, self.network_bytes_per_s / wanted)
        return {name: known[name] if part == 1 else self._narrower(known[name], part) for name in self.devices}

    def _narrower(self, device: Device, part: float) -> Device:
        """Another device, so another name: one of the catalogue's own may be beside it."""
        rate = device.network_bytes_per_s * part
        return replace(device, name=f"{device.name} of {self.name}", network_bytes_per_s=rate)


@dataclass(frozen=True)
class Catalogue:
    """Devices, and machines of them that are rented whole, by name."""

    devices: Mapping[str, Device]
    offers: Mapping[str, Offer]

    def over(self, other: Catalogue) -> Catalogue:
        """Return both together; of two entries of one name, this catalogue's."""
        return Catalogue({**other.devices, **self.devices}, {**other.offers, **self.offers})


def catalogue() -> Mapping[str, Device]:
    """Return devices by name; each carries the source of its figures."""
    return shipped().devices


@functools.cache
def shipped() -> Catalogue:
    """Return the package's catalogue."""
    text = resources.files("heterps.hardware").joinpath("catalogue.toml").read_text()
    return _catalogue(toml_of(text, "catalogue.toml", HardwareError))


def read_catalogue(path: str) -> Catalogue:
    """Return a catalogue of one's own: TOML with ``[device.NAME]`` and ``[product.NAME]`` entries."""
    return _catalogue(toml_of(read_text(path, HardwareError), path, HardwareError).only(("device", "product")))


def _catalogue(found: Found) -> Catalogue:
    devices, products = found.get("device", {}), found.get("product", {})
    return Catalogue(
        {name: devices[name].make(Device, name=name) for name in devices.members()},
        {name: products[name].make(Offer, name=name) for name in products.members()},
    )
