"""The catalogue of common machines that ships with the package."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from importlib import resources

from heterps.hardware.values import Device

__all__ = ["catalogue"]


@functools.cache
def catalogue() -> Mapping[str, Device]:
    """Return devices by name; each carries the source of its figures."""
    text = resources.files("heterps.hardware").joinpath("catalogue.toml").read_text()
    return {name: Device(name, **body) for name, body in tomllib.loads(text)["device"].items()}
