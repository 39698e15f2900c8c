"""More of one thing, all else as it was."""

import re
from dataclasses import replace

import pytest

from heterps.hardware import Hardware, Link
from heterps.planner.solve.growths import growths, least_factor, with_servers

TEXT = """
[[host]]
name = "box"
cores = 12
memory_bytes = 1e11
memory_bytes_per_s = 2e11

[[pool]]
name = "cpu"
device = "c6i-8xlarge"
host = "box"
cap = 4

[[pool]]
name = "far"
device = "c6i-8xlarge"
serves = false

[[pool]]
name = "none"
device = "c6i-8xlarge"
serves = false
cap = 0

[[pool]]
name = "gpu"
device = "l4"
serves = false

[[link]]
source = "cpu"
target = "gpu"
bytes_per_s = 5e9
"""


def test_each_thing_grows_alone():
    hardware = Hardware.from_toml(TEXT)
    changed = []
    for growth in growths(hardware):
        before, after = hardware.to_json(), growth.hardware(3.0).to_json()
        differing = {
            (kind, i, key)
            for kind in before
            for i, (a, b) in enumerate(zip(before[kind], after[kind], strict=True))
            for key in a
            if a[key] != b[key]
        }
        assert len(differing) == 1
        changed += differing
    assert changed == [
        *(("pools", i, "device") for i in range(4)),
        ("links", 0, "bytes_per_s"),
        ("hosts", 0, "cores"),
        ("hosts", 0, "memory_bytes_per_s"),
    ]


def test_what_is_said_is_what_was_tried():
    hardware = Hardware.from_toml(TEXT)
    *_, link, cores, bandwidth = growths(hardware)
    assert link.text(1.55) == "raise link cpu - gpu (bytes_per_s) from 5e9 to 7.8e9"
    assert link.hardware(1.55).links[0].bytes_per_s == pytest.approx(7.8e9)
    assert cores.text(1.3) == "raise the cores of host 'box' from 12 to 16"
    assert cores.hardware(1.3).hosts[0].cores == 16
    assert bandwidth.hardware(2.0).hosts[0].memory_bytes_per_s == pytest.approx(4e11)


def test_pools_of_processors_that_are_there_can_carry_shard_hosts():
    (name, hardware), *more = with_servers(Hardware.from_toml(TEXT))
    assert (name, more) == ("far", [])
    assert hardware.pool("far").serves


@pytest.mark.parametrize("needed", [1.1, 2.0, 77.0])
def test_the_least_factor_is_found(needed):
    tried = []
    factor = least_factor(lambda by: tried.append(by) or by >= needed)
    assert needed <= factor < needed * 1.34
    assert len(tried) <= 8


def test_what_never_helps_is_tried_once():
    tried = []
    assert least_factor(lambda by: bool(tried.append(by))) is None
    assert len(tried) == 1


@pytest.mark.parametrize("factor", [4 / 3, (4 / 3) ** 5, 3.7])
def test_all_digits_of_what_was_tried_are_said(factor):
    """A little less may not be enough."""
    bare = Hardware.from_toml(TEXT)
    hardware = replace(bare, links=(Link("cpu", "far", 3.3e9),))
    for more in growths(hardware):
        said = float(re.search(r"to ([\d.e]+)$", more.text(factor))[1])
        made = more.hardware(factor)
        figures = [pool.device.network_bytes_per_s for pool in made.pools] + [link.bytes_per_s for link in made.links]
        figures += [each for host in made.hosts for each in (host.cores, host.memory_bytes_per_s)]
        assert any(said == pytest.approx(figure, rel=1e-12) for figure in figures), more.text(factor)
        assert made != hardware
