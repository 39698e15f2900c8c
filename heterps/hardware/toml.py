"""Hardware as TOML: devices by name (or from the catalogue), pools, hosts, links, products."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import fields, replace
from functools import partial
from typing import Any

from heterps.documents import read_text, toml_of
from heterps.errors import HardwareError
from heterps.fields import Found, field_hints
from heterps.hardware.catalogue import Catalogue, Offer, read_catalogue, shipped
from heterps.hardware.values import Device, Hardware, Host, Link, Pool, Product

__all__ = ["read_toml", "write_toml"]

_OF_DEVICE = (
    "price_per_hour",
    "price_date",
    "sold_in",
    "efficiency",
)  # a pool may say these otherwise than its device does


def read_toml(source: str, own_catalogue: str | None = None) -> Hardware:
    """Return the hardware of a TOML file, or of TOML text (anything with a line break).

    A pool's device is looked for in the file itself, then in a catalogue of one's own, then in the package's; a product
    without pools in these catalogues.
    """
    text = source if "\n" in source else read_text(source, HardwareError)
    found = toml_of(text, "TOML text" if "\n" in source else source, HardwareError)
    found.only(("device", "pool", "host", "link", "product"))
    own = found.get("device", {})
    known = Catalogue({name: own[name].make(Device, name=name) for name in own.members()}, {})
    known = known.over(read_catalogue(own_catalogue) if own_catalogue else Catalogue({}, {})).over(shipped())
    sold = _products(found, known)
    parts = {name: product.name for product, _ in sold for name in product.pools}
    pools = [_pool(body, known, parts) for body in found.get("pool", ())]
    values = {
        "pools": (*pools, *(pool for _, brought in sold for pool in brought)),
        "hosts": found.get("host", ()).read(tuple[Host, ...]),
        "links": found.get("link", ()).read(tuple[Link, ...]),
        "products": tuple(product for product, _ in sold),
    }
    made: Hardware = found.built(Hardware, values)
    for body in found.get("pool", ()):
        _check_sold_alone(body, made, known)
    return made


def write_toml(hardware: Hardware) -> str:
    """Return TOML text with every figure written out."""
    devices = {pool.device.name: pool.device for pool in hardware.pools}
    blocks = [_block(f"[device.{_value(name)}]", device, skip=("name",)) for name, device in devices.items()]
    for pool in hardware.pools:
        own = {name: getattr(pool.device, name) for name in _OF_DEVICE}
        differing = {k: v for k, v in own.items() if v != getattr(devices[pool.device.name], k)}
        if not pool.device.price_per_hour and hardware.product_of(pool.name) is None:  # nothing is free unless said so
            differing |= {"price_per_hour": 0.0, "price_date": pool.device.price_date}
        lines = _block("[[pool]]", pool, skip=("device",)) + f"device = {_value(pool.device.name)}\n"
        blocks.append(lines + "".join(f"{k} = {_value(v)}\n" for k, v in differing.items()))
    blocks += [_block("[[host]]", host) for host in hardware.hosts]
    blocks += [_block("[[link]]", link) for link in hardware.links]
    blocks += [_block("[[product]]", product) for product in hardware.products]
    return "\n".join(blocks)


def _pool(body: Found, known: Catalogue, parts: Mapping[str, str]) -> Pool:
    name = body["device"].read(str)
    device = known.devices.get(name)
    if device is None:
        body["device"].refuse(f"one of {', '.join(list(known.devices)[::-1])}, or a device of your own ([device.NAME])")
    hints = field_hints(Device)
    own = {key: body[key].read(hints[key]) for key in _OF_DEVICE if key in body.members()}
    if "price_per_hour" in own:
        own.setdefault("price_date", "")  # the device's is that of another price
    mine = body.built(partial(replace, device), own)
    made = body.without("device", *_OF_DEVICE).make(Pool, device=mine)
    if made.name in parts and (own.get("price_per_hour") or own.get("sold_in", 1) > 1):
        body.fault(f"pool {made.name!r} is part of product {parts[made.name]!r}, which alone has a price")
    return made


def _check_sold_alone(body: Found, hardware: Hardware, known: Catalogue) -> None:
    """Refuse a part of machines as a pool of its own that nobody priced: it would be free."""
    device = body["device"].read(str)
    if known.devices[device].price_per_hour or "price_per_hour" in body.members():
        return
    for offer in known.offers.values():
        if device in offer.devices and hardware.product_of(body["name"].read(str)) is None:
            body.fault(
                f"{device!r} is sold only with all of a machine: take that ([[product]] with name = {offer.name!r}), "
                "or say what one of it costs (price_per_hour)"
            )


def _products(found: Found, known: Catalogue) -> list[tuple[Product, tuple[Pool, ...]]]:
    """Products, each with the pools that it brings if it is one of the catalogue."""
    bodies = list(found.get("product", ()))
    names = [body["name"].read(str) for body in bodies]
    for body, name in zip(bodies, names, strict=True):
        if names.count(name) > 1:
            body.fault(
                f"two products are called {name!r}; for one at two prices, give the second a name of its own, as "
                "[product.NAME] in a catalogue of yours (--catalogue) or with pools of its own"
            )
    taken = Counter(body["name"].read(str) for body in found.get("pool", ()))
    for offer in (known.offers[name] for name in names if name in known.offers):
        taken.update(_usual_name(offer, known.devices[part]) for part in offer.devices if part in known.devices)
    return [_product(body, known, taken) for body in bodies]


def _product(body: Found, known: Catalogue, taken: Counter[str]) -> tuple[Product, tuple[Pool, ...]]:
    if "pools" in body.members():
        made = body.make(Product)
        if "price_per_hour" not in body.members():
            body.fault(
                f"say what the whole of {made.name!r} costs (price_per_hour, 0 if it is there): prices of its "
                "parts do not count"
            )
        return made, ()
    name = body["name"].read(str)
    offer = known.offers.get(name)
    if offer is None:
        body["name"].refuse(f"one of {', '.join(known.offers)}, or pools = {{ POOL = UNITS }} beside it")
    parts = body.built(offer.parts, {"known": known.devices})
    brought = [
        (Pool(_pool_name(offer, known.devices[name], taken), part), offer.devices[name]) for name, part in parts.items()
    ]
    made = body.make(Product, pools={pool.name: units for pool, units in brought})
    if "price_per_hour" not in body.members():
        made = replace(made, price_per_hour=offer.price_per_hour, price_date=offer.price_date)
    return replace(made, source=made.source or offer.source), tuple(pool for pool, _ in brought)


def _pool_name(offer: Offer, device: Device, taken: Counter[str]) -> str:
    """The usual name of a part's pool; where several pools would have it, the machine's and the part's."""
    usual = _usual_name(offer, device)
    return usual if taken[usual] == 1 else _cleaned(f"{offer.name}_{device.name}")


def _usual_name(offer: Offer, device: Device) -> str:
    """The pool of a GPU is called after it, that of the rest of a machine after the machine."""
    return _cleaned(device.name if device.kind == "gpu" else offer.name)


def _cleaned(name: str) -> str:
    return name.replace("-", "_").replace(".", "_")


def _block(head: str, value: Any, skip: tuple[str, ...] = ()) -> str:
    shown = [(f.name, getattr(value, f.name)) for f in fields(value) if f.name not in skip]
    return head + "\n" + "".join(f"{name} = {_value(v)}\n" for name, v in shown if v is not None)


def _value(value: object) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_value(key)} = {_value(v)}" for key, v in value.items()) + " }"
    # As JSON, but for two things: TOML knows no surrogate pairs, and wants DEL written out.
    return repr(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
