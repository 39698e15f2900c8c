import json

import pytest

from heterps.errors import HardwareError
from heterps.hardware import Device, Hardware, Host, Link, Pool, catalogue
from heterps.hardware.catalogue import shipped
from heterps.hardware.local import _known_gpu, _to_copy, local_gpus

TEXT = """
[device.box]
kind = "cpu"
cores = 8
flops = { float32 = 1e12 }
memory_bytes = 64e9
memory_bytes_per_s = 5e10
network_bytes_per_s = 1e9
price_per_hour = 1.0

[[pool]]
name = "cpu"
device = "box"
cap = 40
host = "rack"

[[pool]]
name = "gpu"
device = "v100"
price_per_hour = 2.5
serves = false

[[host]]
name = "rack"
cores = 64
memory_bytes = 512e9
memory_bytes_per_s = 2e11

[[link]]
source = "cpu"
target = "gpu"
bytes_per_s = 5e9
"""


def device(**changes):
    figures = {"flops": {"float32": 1e12}, "memory_bytes": 1e9, "memory_bytes_per_s": 1e10, "network_bytes_per_s": 1e9}
    return Device(**{"name": "d", "kind": "cpu", **figures, **changes})


def test_toml_reads_pools_hosts_and_links_and_the_catalogue():
    hardware = Hardware.from_toml(TEXT)
    assert [pool.name for pool in hardware.pools] == ["cpu", "gpu"]
    assert hardware.pool("cpu").cap == 40
    assert hardware.pool("gpu").device.price_per_hour == 2.5
    assert hardware.pool("gpu").device.flops == catalogue()["v100"].flops
    assert hardware.host("rack").cores == 64
    assert hardware.link("gpu", "cpu") == Link("cpu", "gpu", 5e9)


@pytest.mark.parametrize("hardware", [Hardware.from_toml(TEXT), Hardware.local()], ids=["text", "local"])
def test_toml_and_json_round_trips(hardware):
    assert Hardware.from_toml(hardware.to_toml()) == hardware
    assert Hardware.from_json(json.loads(json.dumps(hardware.to_json()))) == hardware


def test_toml_file(tmp_path):
    path = tmp_path / "hw.toml"
    path.write_text(TEXT)
    assert Hardware.from_toml(str(path)) == Hardware.from_toml(TEXT)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('device = "box"', 'device = "bix"', 'pool[0].device is "bix", expected one of box'),
        ('host = "rack"', 'host = "lack"', "'cpu' sits on host 'lack'"),
        ('target = "gpu"', 'target = "tpu"', "no pool 'tpu'"),
        ("cores = 8", "cares = 8", 'device.box has "cares", which is not known; did you mean "cores"?'),
        ("memory_bytes = 64e9", "", 'device.box lacks "memory_bytes"'),
        ("[device.box]", "[device.box", "TOML text:"),
        ("[[link]]", "[[lnk]]", 'has "lnk", which is not known; did you mean "link"?'),
        ('kind = "cpu"', 'kind = "tpu"', 'device.box.kind is "tpu", expected one of "cpu", "gpu"'),
        ('name = "gpu"', 'name = "cpu"', "two pools are called 'cpu'"),
    ],
)
def test_a_mistake_in_toml_is_named(old, new, message):
    with pytest.raises(HardwareError, match=r"(?s).*") as caught:
        Hardware.from_toml(TEXT.replace(old, new, 1))
    assert message in str(caught.value)


def test_missing_file_is_named(tmp_path):
    with pytest.raises(HardwareError, match=r"nowhere\.toml: cannot be read"):
        Hardware.from_toml(str(tmp_path / "nowhere.toml"))


@pytest.mark.parametrize(
    "changes",
    [
        {"flops": {"float16": 1e12}},
        {"memory_bytes": 0},
        {"memory_bytes_per_s": 0},
        {"flops": {"float32": 1e-300}},
        {"network_bytes_per_s": 1e40},
        {"efficiency": 1.5},
        {"sold_in": 0},
        {"price_per_hour": -1},
    ],
)
def test_senseless_devices_are_refused(changes):
    with pytest.raises(HardwareError, match="device 'd'"):
        device(**changes)


def test_senseless_hosts_pools_and_links_are_refused():
    with pytest.raises(HardwareError, match="host 'h'"):
        Host("h", 0, 1e9, 1e9)
    with pytest.raises(HardwareError, match="pool 'p'"):
        Pool("p", device(), cap=-1)
    with pytest.raises(HardwareError, match="link a - b"):
        Link("a", "b", 0)
    with pytest.raises(HardwareError, match="without a pool"):
        Hardware(())


def test_every_catalogue_entry_names_its_source():
    assert len(catalogue()) >= 10
    assert {entry.kind for entry in catalogue().values()} == {"cpu", "gpu"}
    parts = {name for offer in shipped().offers.values() for name in offer.devices}
    for entry in catalogue().values():
        assert entry.source.startswith("data sheet: ")
        assert entry.efficiency < 1
        if entry.price_per_hour:
            assert bool(entry.price_date) == ("a guess" not in entry.source)
        else:
            assert entry.name in parts
    for offer in shipped().offers.values():
        assert offer.source.startswith("data sheet: ")
        assert offer.price_per_hour > 0
        assert offer.price_date


def test_local_machine_is_measured_once():
    hardware = Hardware.local()
    pool, host = hardware.pool("cpu"), hardware.host("local")
    assert hardware is Hardware.local()
    assert pool.cap == host.cores >= 1
    assert pool.device.flops["float32"] > 1e9
    assert 1e8 < pool.device.memory_bytes_per_s <= host.memory_bytes_per_s
    assert host.memory_bytes > 1e8


def test_gpus_are_found_by_the_drivers_names(tmp_path):
    for i, model in enumerate(["Tesla V100-SXM2-16GB", "NVIDIA L40S"]):
        (tmp_path / str(i)).mkdir()
        (tmp_path / str(i) / "information").write_text(f"Model: \t {model}\nIRQ: 1\n")
    assert local_gpus(str(tmp_path)) == ("Tesla V100-SXM2-16GB", "NVIDIA L40S")
    assert _known_gpu("Tesla V100-SXM2-16GB").flops == catalogue()["v100"].flops
    assert "unknown model" in _known_gpu("NVIDIA L40S").source


def test_caps_can_be_replaced():
    hardware = Hardware.from_toml(TEXT).with_caps(gpu=3)
    assert hardware.pool("gpu").cap == 3
    assert hardware.pool("cpu").cap == 40
    with pytest.raises(HardwareError, match="no pool 'tpu'"):
        hardware.with_caps(tpu=1)


POOL = '[[pool]]\nname = "cpu"\ndevice = "{}"\n{}'
OWN = """
[device.mine]
kind = "cpu"
flops = {{ float32 = 1e12 }}
memory_bytes = 1e9
memory_bytes_per_s = 1e10
network_bytes_per_s = 1e9
price_per_hour = 2.0
price_date = "{}"
"""


def test_a_catalogue_of_ones_own_comes_before_the_packages(tmp_path):
    own = tmp_path / "own.toml"
    own.write_text(OWN.format("2026-10") + OWN.format("2026-11").replace("mine", "l4"))
    assert Hardware.from_toml(POOL.format("mine", ""), str(own)).pool("cpu").device.price_date == "2026-10"
    assert Hardware.from_toml(POOL.format("l4", ""), str(own)).pool("cpu").device.kind == "cpu"
    assert Hardware.from_toml(POOL.format("l4", "")).pool("cpu").device.kind == "gpu"
    own.write_text(POOL.format("l4", ""))
    with pytest.raises(HardwareError, match=r"own\.toml.*pool"):
        Hardware.from_toml(POOL.format("l4", ""), str(own))


def test_a_price_has_the_date_of_whoever_said_it():
    def date(rest: str) -> str:
        return Hardware.from_toml(POOL.format("l4", rest)).pool("cpu").device.price_date

    assert date("") == catalogue()["l4"].price_date != ""
    assert date("price_per_hour = 0.5\n") == ""
    assert date('price_per_hour = 0.5\nprice_date = "2026-01"\n') == "2026-01"
    for wrong in ("2026", "2026-13", "yesterday"):
        with pytest.raises(HardwareError, match=f"price_date is '{wrong}', must be a month"):
            date(f'price_date = "{wrong}"\n')


def test_what_is_copied_to_measure_memory_was_written_to():
    """Memory that never was is one page of zeros, which copies out of a cache."""
    assert _to_copy().all()


def test_a_pools_own_figures_are_refused_with_their_place():
    text = '[[pool]]\nname = "cpu"\ndevice = "c6i-8xlarge"\nprice_date = "2024-13"\n'
    with pytest.raises(
        HardwareError, match=r"pool\[0\]: device 'c6i-8xlarge': price_date is '2024-13', must be a month"
    ):
        Hardware.from_toml(text)


def test_two_links_between_the_same_pools_are_refused():
    pools = "".join(f'[[pool]]\nname = "{name}"\ndevice = "c6i-8xlarge"\n' for name in "ab")
    link = '[[link]]\nsource = "{}"\ntarget = "{}"\nbytes_per_s = 1e9\n'
    with pytest.raises(HardwareError, match="two links between 'b' and 'a'"):
        Hardware.from_toml(pools + link.format("a", "b") + link.format("b", "a"))


def test_a_part_of_machines_that_is_there_for_nothing_is_written_and_read():
    """A GPU that is sold with its machine only may be one's own, and cost nothing: the text says so of the pool."""
    own = Hardware.from_toml('[[pool]]\nname = "gpu"\ndevice = "l4"\nprice_per_hour = 0\n')
    assert Hardware.from_toml(own.to_toml()) == own
