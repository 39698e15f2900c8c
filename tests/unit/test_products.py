"""Machines that are rented whole, as hardware."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from heterps.errors import HardwareError
from heterps.hardware import Hardware, Product
from heterps.hardware.catalogue import shipped

TEXT = """
[[pool]]
name = "cpu"
device = "c6i-8xlarge"
cap = 40

[[pool]]
name = "gpu"
device = "l4"

[[pool]]
name = "side"
device = "g6-xlarge-cpu"

[[product]]
name = "box"
pools = { gpu = 1, side = 4 }
price_per_hour = 0.9
price_date = "2026-11"
cap = 6
"""
OFFERED = """
[[product]]
name = "g6-xlarge"
cap = 3
"""


def test_pools_of_a_product_have_its_caps_and_no_price():
    hardware = Hardware.from_toml(TEXT)
    assert [(pool.cap, pool.device.price_per_hour) for pool in hardware.pools] == [(40, 1.36), (6, 0.0), (24, 0.0)]
    assert hardware.product_of("side") == Product("box", {"gpu": 1, "side": 4}, 0.9, "2026-11", 6)
    assert hardware.product_of("cpu") is None


@pytest.mark.parametrize("text", [TEXT, OFFERED], ids=["own", "offered"])
def test_toml_and_json_round_trips(text):
    hardware = Hardware.from_toml(text)
    assert Hardware.from_toml(hardware.to_toml()) == hardware
    assert Hardware.from_json(json.loads(json.dumps(hardware.to_json()))) == hardware


def test_a_product_of_the_catalogue_brings_its_pools():
    hardware = Hardware.from_toml(OFFERED)
    offer = shipped().offers["g6-xlarge"]
    assert {pool.name: pool.kind for pool in hardware.pools} == {"l4": "gpu", "g6_xlarge": "cpu"}
    assert hardware.products[0].pools == {"l4": 1, "g6_xlarge": 1}
    assert (hardware.products[0].price_per_hour, hardware.products[0].cap) == (offer.price_per_hour, 3)
    assert sum(pool.device.network_bytes_per_s for pool in hardware.pools) <= offer.network_bytes_per_s * (1 + 1e-9)


def test_a_price_of_ones_own_has_no_date_of_the_catalogue():
    hardware = Hardware.from_toml(OFFERED + "price_per_hour = 0.5\n")
    assert (hardware.products[0].price_per_hour, hardware.products[0].price_date) == (0.5, "")


def test_every_offer_is_of_devices_of_the_catalogue():
    for name in shipped().offers:
        made = Hardware.from_toml(f'[[product]]\nname = "{name}"\n')
        assert Hardware.from_toml(made.to_toml()) == made


def test_a_catalogue_of_ones_own_has_products(tmp_path):
    own = tmp_path / "own.toml"
    own.write_text("[product.shelf]\ndevices = { v100 = 2, c6i-8xlarge = 1 }\nprice_per_hour = 4.5\n")
    hardware = Hardware.from_toml('[[product]]\nname = "shelf"\n', str(own))
    assert hardware.products[0].pools == {"v100": 2, "shelf": 1}
    own.write_text("[product.shelf]\ndevices = { v101 = 2 }\nprice_per_hour = 4.5\n")
    with pytest.raises(HardwareError, match="'shelf' of the catalogue has 'v101', which is no device"):
        Hardware.from_toml('[[product]]\nname = "shelf"\n', str(own))


def test_caps_are_changed_by_the_product():
    hardware = Hardware.from_toml(TEXT)
    assert [pool.cap for pool in hardware.with_caps(box=2, cpu=9).pools] == [9, 2, 8]
    assert [pool.cap for pool in hardware.with_caps(box=None).pools] == [40, None, None]
    with pytest.raises(
        HardwareError, match=r"'side' has cap = 5 and is part of product 'box': say with the product's cap"
    ):
        hardware.with_caps(side=5)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("side = 4", "sied = 4", "no pool 'sied'"),
        ("side = 4", "side = 0", "product[0].pools.side is 0, expected a whole number of at least 1"),
        ("pools = { gpu = 1, side = 4 }", "pools = {}", "product 'box' has units of no pool"),
        ("pools = { gpu = 1, side = 4 }", "", 'product[0].name is "box", expected one of g4dn-xlarge'),
        ('name = "side"', 'name = "side"\ncap = 7', "pool 'side' has cap = 7 and is part of product 'box'"),
        ('device = "l4"', 'device = "l4"\nprice_per_hour = 1', "part of product 'box', which alone has a price"),
        ('device = "l4"', 'device = "l4"\nsold_in = 8', "part of product 'box', which alone has a price"),
        ("2026-11", "November", "product 'box': price_date is 'November', must be a month"),
        (
            "cap = 6",
            'cap = 6\n[[product]]\nname = "b"\npools = { gpu = 1 }\nprice_per_hour = 1',
            "the products 'box' and 'b'",
        ),
        ("cap = 6", 'cap = 6\n[[product]]\nname = "box"\npools = { cpu = 1 }', "two products are called 'box'"),
        (
            "cap = 6",
            'cap = 6\n[[pool]]\nname = "x"\ndevice = "g6-xlarge-cpu"',
            "'g6-xlarge-cpu' is sold only with all of",
        ),
        ("cap = 6", 'cap = 6\n[[pool]]\nname = ""\ndevice = "c6i-8xlarge"', "a pool without a name"),
    ],
    ids=["pool", "none", "empty", "unknown", "cap", "price", "pack", "month", "twice", "name", "part", "nameless"],
)
def test_a_mistake_is_named(old, new, message):
    with pytest.raises(HardwareError) as caught:
        Hardware.from_toml(TEXT.replace(old, new, 1))
    assert message in str(caught.value)


def test_what_is_there_is_not_rented():
    hardware = Hardware.local()
    part = Product("box", {"cpu": 1})
    with pytest.raises(HardwareError, match="part of product 'box' and sits on host 'local'"):
        replace(hardware, products=(part,))


REGIONS = """
[device.card]
kind = "gpu"
flops = { float32 = 2e13 }
memory_bytes = 16e9
memory_bytes_per_s = 4e11
network_bytes_per_s = 1e9

[device.tower]
kind = "cpu"
flops = { float32 = 5e11 }
memory_bytes = 32e9
memory_bytes_per_s = 4e10
network_bytes_per_s = 1e9

[product.box-eu]
devices = { card = 2, tower = 1, c6i-8xlarge = 1 }
price_per_hour = 2.2

[product.box-us]
devices = { card = 2, tower = 1 }
price_per_hour = 1.7
"""


def test_machines_with_the_same_parts_have_pools_of_their_own(tmp_path):
    own = tmp_path / "own.toml"
    own.write_text(REGIONS)
    hardware = Hardware.from_toml('[[product]]\nname = "box-eu"\n[[product]]\nname = "box-us"\n', own)
    assert [dict(product.pools) for product in hardware.products] == [
        {"box_eu_card": 2, "box_eu_tower": 1, "box_eu_c6i_8xlarge": 1},
        {"box_us_card": 2, "box_us": 1},
    ]
    beside = Hardware.from_toml('[[product]]\nname = "g6-xlarge"\n[[pool]]\nname = "l4"\ndevice = "l4"\n')
    assert [pool.name for pool in beside.pools] == ["l4", "g6_xlarge_l4", "g6_xlarge"]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ('price_date = "yesterday"', r"product\.odd: product 'odd': price_date is 'yesterday', must be a month"),
        ("devices = {}", r"product\.odd: product 'odd' has no devices"),
        ("devices = { nix = 1 }", r"product\[0\]: product 'odd' of the catalogue has 'nix', which is no device of it"),
    ],
)
def test_a_mistake_in_a_catalogue_is_named_with_its_place(tmp_path, entry, message):
    own = tmp_path / "own.toml"
    rest = "" if entry.startswith("devices") else "devices = { l4 = 1 }\n"
    own.write_text(f"[product.odd]\nprice_per_hour = 1\n{rest}{entry}\n")
    with pytest.raises(HardwareError, match=message):
        Hardware.from_toml('[[product]]\nname = "odd"\n', own)


def test_one_product_at_two_prices_needs_two_names():
    with pytest.raises(
        HardwareError, match=r"product\[0\]: two products are called 'g6-xlarge'; for one at two prices"
    ):
        Hardware.from_toml(OFFERED + OFFERED)


def test_a_machine_is_not_free_because_nobody_said_its_price():
    with pytest.raises(HardwareError, match=r"product\[0\]: say what the whole of 'box' costs"):
        Hardware.from_toml(TEXT.replace("price_per_hour = 0.9\n", ""))


def test_the_page_says_how_a_machine_has_two_prices(tmp_path):
    (own,) = re.findall(r'```toml title="own.toml"\n(.*?)```', Path("docs/planner.md").read_text(), re.S)
    path = tmp_path / "own.toml"
    path.write_text(own)
    hardware = Hardware.from_toml('[[product]]\nname = "g6-xlarge"\n[[product]]\nname = "g6-xlarge-eu"\n', path)
    assert [product.price_per_hour for product in hardware.products] == [0.805, 0.92]
    assert "g6_xlarge_eu_l4" in hardware.products[1].pools
