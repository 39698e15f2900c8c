"""The catalogue of common machines that ships with the package."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from importlib import resources

from heterps.documents import toml_of
from heterps.errors import HardwareError
from heterps.hardware.values import Device

__all__ = ["catalogue"]


@functools.cache
def catalogue() -> Mapping[str, Device]:
    """Return devices by name; each carries the source of its figures."""
    text = resources.files("heterps.hardware").joinpath("catalogue.toml").read_text()
    devices = toml_of(text, "catalogue.toml", HardwareError)["device"]
    return {name: devices[name].make(Device, name=name) for name in devices.members()}
