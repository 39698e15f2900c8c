"""Hardware as TOML: devices by name (or from the catalogue), pools, hosts, links."""

from __future__ import annotations

import json
import pathlib
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, fields, replace
from typing import Any, TypeVar

from heterps.errors import HardwareError
from heterps.hardware.catalogue import catalogue
from heterps.hardware.values import Device, Hardware, Host, Link, Pool

__all__ = ["read_toml", "write_toml"]

_T = TypeVar("_T")
_OF_DEVICE = ("price_per_hour", "sold_in", "efficiency")  # a pool may say these otherwise than its device does


def read_toml(source: str) -> Hardware:
    """Return the hardware of a TOML file, or of TOML text (anything with a line break)."""
    where = "TOML text" if "\n" in source else source
    try:
        data = tomllib.loads(source if "\n" in source else pathlib.Path(source).read_text())
    except tomllib.TOMLDecodeError as error:
        raise HardwareError(f"{where}: {error}") from error
    except OSError as error:
        raise HardwareError(f"{where}: cannot be read ({error.strerror})") from error
    if unknown := sorted(data.keys() - {"device", "pool", "host", "link"}):
        raise HardwareError(
            f"{where}: unknown section {unknown[0]!r}; known: [device.NAME], [[pool]], [[host]], [[link]]"
        )
    devices = {name: _make(Device, {"name": name, **body}, where) for name, body in data.get("device", {}).items()}
    return Hardware(
        tuple(_pool(body, devices, where) for body in data.get("pool", ())),
        tuple(_make(Host, body, where) for body in data.get("host", ())),
        tuple(_make(Link, body, where) for body in data.get("link", ())),
    )


def write_toml(hardware: Hardware) -> str:
    """Return TOML text with every figure written out."""
    devices = {pool.device.name: pool.device for pool in hardware.pools}
    blocks = [_block(f'[device."{name}"]', device, skip=("name",)) for name, device in devices.items()]
    for pool in hardware.pools:
        own = {name: getattr(pool.device, name) for name in _OF_DEVICE}
        differing = {k: v for k, v in own.items() if v != getattr(devices[pool.device.name], k)}
        lines = _block("[[pool]]", pool, skip=("device",)) + f"device = {_value(pool.device.name)}\n"
        blocks.append(lines + "".join(f"{k} = {_value(v)}\n" for k, v in differing.items()))
    blocks += [_block("[[host]]", host) for host in hardware.hosts]
    blocks += [_block("[[link]]", link) for link in hardware.links]
    return "\n".join(blocks)


def _pool(body: Mapping[str, Any], devices: Mapping[str, Device], where: str) -> Pool:
    name = body.get("device")
    device = devices.get(str(name)) or catalogue().get(str(name))
    if device is None:
        known = ", ".join([*devices, *catalogue()])
        raise HardwareError(f"{where}: pool {body.get('name')!r} has device {name!r}; known: {known}")
    device = replace(device, **{key: body[key] for key in _OF_DEVICE if key in body})
    rest = {key: value for key, value in body.items() if key not in (*_OF_DEVICE, "device")}
    return _make(Pool, {**rest, "device": device}, where)


def _make(cls: type[_T], body: Mapping[str, Any], where: str) -> _T:
    """Construct a value and say which key is missing or unknown."""
    known = {f.name: f for f in fields(cls)}  # type: ignore[arg-type]
    what = f"{where}: {cls.__name__.lower()} {body.get('name', '')!r}"
    if unknown := sorted(body.keys() - known.keys()):
        raise HardwareError(f"{what}: unknown key {unknown[0]!r}; known: {', '.join(known)}")
    required = [n for n, f in known.items() if f.default is MISSING and f.default_factory is MISSING]
    if missing := [n for n in required if n not in body]:
        raise HardwareError(f"{what}: {missing[0]} is missing")
    return cls(**body)


def _block(head: str, value: Any, skip: tuple[str, ...] = ()) -> str:
    shown = [(f.name, getattr(value, f.name)) for f in fields(value) if f.name not in skip]
    return head + "\n" + "".join(f"{name} = {_value(v)}\n" for name, v in shown if v is not None)


def _value(value: object) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f'"{key}" = {_value(v)}' for key, v in value.items()) + " }"
    return repr(value) if isinstance(value, float) else json.dumps(value)
