"""The catalogue of common machines that ships with the package."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from importlib import resources

from heterps.documents import read_text, toml_of
from heterps.errors import HardwareError
from heterps.fields import Found
from heterps.hardware.values import Device

__all__ = ["catalogue", "read_catalogue"]


@functools.cache
def catalogue() -> Mapping[str, Device]:
    """Return devices by name; each carries the source of its figures."""
    text = resources.files("heterps.hardware").joinpath("catalogue.toml").read_text()
    return _devices(toml_of(text, "catalogue.toml", HardwareError))


def read_catalogue(path: str) -> Mapping[str, Device]:
    """Return the devices of a catalogue of one's own: TOML with a ``[device.NAME]`` for each."""
    found = toml_of(read_text(path, HardwareError), path, HardwareError)
    found.only(("device",))
    return _devices(found)


def _devices(found: Found) -> Mapping[str, Device]:
    devices = found["device"]
    return {name: devices[name].make(Device, name=name) for name in devices.members()}
