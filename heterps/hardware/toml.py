"""Hardware as TOML: devices by name (or from the catalogue), pools, hosts, links."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from heterps.documents import read_text, toml_of
from heterps.errors import HardwareError
from heterps.fields import Found, field_hints
from heterps.hardware.catalogue import catalogue, read_catalogue
from heterps.hardware.values import Device, Hardware, Host, Link, Pool

__all__ = ["read_toml", "write_toml"]

_OF_DEVICE = (
    "price_per_hour",
    "price_date",
    "sold_in",
    "efficiency",
)  # a pool may say these otherwise than its device does


def read_toml(source: str, own_catalogue: str | None = None) -> Hardware:
    """Return the hardware of a TOML file, or of TOML text (anything with a line break).

    A pool's device is looked for in the file itself, then in a catalogue of one's own, then in the package's.
    """
    text = source if "\n" in source else read_text(source, HardwareError)
    found = toml_of(text, "TOML text" if "\n" in source else source, HardwareError)
    found.only(("device", "pool", "host", "link"))
    own = found.get("device", {})
    described = {name: own[name].make(Device, name=name) for name in own.members()}
    catalogues = (described, read_catalogue(own_catalogue) if own_catalogue else {}, catalogue())
    devices = {name: device for known in reversed(catalogues) for name, device in known.items()}
    values = {
        "pools": tuple(_pool(body, devices) for body in found.get("pool", ())),
        "hosts": found.get("host", ()).read(tuple[Host, ...]),
        "links": found.get("link", ()).read(tuple[Link, ...]),
    }
    return found.built(Hardware, values)


def write_toml(hardware: Hardware) -> str:
    """Return TOML text with every figure written out."""
    devices = {pool.device.name: pool.device for pool in hardware.pools}
    blocks = [_block(f"[device.{_value(name)}]", device, skip=("name",)) for name, device in devices.items()]
    for pool in hardware.pools:
        own = {name: getattr(pool.device, name) for name in _OF_DEVICE}
        differing = {k: v for k, v in own.items() if v != getattr(devices[pool.device.name], k)}
        lines = _block("[[pool]]", pool, skip=("device",)) + f"device = {_value(pool.device.name)}\n"
        blocks.append(lines + "".join(f"{k} = {_value(v)}\n" for k, v in differing.items()))
    blocks += [_block("[[host]]", host) for host in hardware.hosts]
    blocks += [_block("[[link]]", link) for link in hardware.links]
    return "\n".join(blocks)


def _pool(body: Found, devices: Mapping[str, Device]) -> Pool:
    name = body["device"].read(str)
    device = devices.get(name)
    if device is None:
        body["device"].refuse(f"one of {', '.join(list(devices)[::-1])}")
    hints = field_hints(Device)
    own = {key: body[key].read(hints[key]) for key in _OF_DEVICE if key in body.members()}
    if "price_per_hour" in own:
        own.setdefault("price_date", "")  # the device's is that of another price
    return body.without("device", *_OF_DEVICE).make(Pool, device=replace(device, **own))


def _block(head: str, value: Any, skip: tuple[str, ...] = ()) -> str:
    shown = [(f.name, getattr(value, f.name)) for f in fields(value) if f.name not in skip]
    return head + "\n" + "".join(f"{name} = {_value(v)}\n" for name, v in shown if v is not None)


def _value(value: object) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_value(key)} = {_value(v)}" for key, v in value.items()) + " }"
    # As JSON, but for two things: TOML knows no surrogate pairs, and wants DEL written out.
    return repr(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
