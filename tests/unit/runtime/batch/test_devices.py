"""The one rule that picks a device."""

import numpy as np
import pytest

from heterps.device import FoundDevices
from heterps.errors import HardwareError, UnknownKindError
from heterps.runtime.batch.devices import CPU, DeviceWish, StagePool, choose_device

NAMES = ("cpu", "fake", "gpu", "other")
TWO = FoundDevices(("A100", "P40"), "", NAMES, ("fake",))
NONE = FoundDevices((), "no driver", NAMES, ("fake",))
GPU, FREE, STAYS = StagePool("big", "gpu"), StagePool("io", "any"), StagePool("io", "cpu")


@pytest.mark.parametrize(
    ("wanted", "found", "pool", "name", "library", "number", "emulated"),
    [
        ("auto", TWO, GPU, "A100", "gpu", 0, False),
        ("auto", TWO, FREE, "CPU", "cpu", 0, False),  # a plan for CPUs was costed on CPUs
        ("auto", NONE, FREE, "CPU", "cpu", 0, False),
        ("auto", NONE, StagePool("big", "gpu", emulate=True), "CPU", "cpu", 0, True),
        ("auto", TWO, StagePool("big", "gpu", emulate=True), "A100", "gpu", 0, False),  # there is nothing to emulate
        ("gpu", TWO, FREE, "A100", "gpu", 0, False),
        ("gpu:1", TWO, GPU, "P40", "gpu", 1, False),
        ("gpu:1", TWO, STAYS, "CPU", "cpu", 0, False),  # the GPU stages are elsewhere
        ("fake", NONE, STAYS, "CPU", "cpu", 0, False),
        ("fake", TWO, GPU, "fake", "fake", 0, True),
        ("other", TWO, GPU, "other", "other", 0, False),
        ("cpu", TWO, FREE, "CPU", "cpu", 0, False),
        ("cpu", TWO, GPU, "CPU", "cpu", 0, True),  # asked for by name, and called what it is
    ],
)
def test_what_computes(
    wanted: str, found: FoundDevices, pool: StagePool, name: str, library: str, number: int, emulated: bool
) -> None:
    chosen = choose_device(wanted, found, pool)
    assert (chosen.name, chosen.library, chosen.number, chosen.emulated) == (name, library, number, emulated)
    assert ("emulated" in str(chosen)) == emulated


@pytest.mark.parametrize(
    ("wanted", "found", "reason"), [("auto", NONE, "no driver"), ("gpu:2", TWO, "2 GPUs, counted from 0, and number 2")]
)
def test_a_gpu_that_cannot_be_used_is_refused_with_the_reason(wanted: str, found: FoundDevices, reason: str) -> None:
    with pytest.raises(HardwareError, match="pool 'big'") as refused:
        choose_device(wanted, found, GPU)
    assert reason in str(refused.value)
    assert "emulate=True" in str(refused.value)


def test_an_unknown_device_is_named() -> None:
    with pytest.raises(UnknownKindError, match=r"unknown device 'tpu'.*fake"):
        choose_device("tpu", TWO, GPU)


def test_the_pools_of_a_plan_say_where_a_named_device_is_meant() -> None:
    mixed = DeviceWish("fake", True).on([("io", False), ("big", True), ("io", False)])
    assert [pool.kind for pool in mixed.pools] == ["cpu", "gpu", "cpu"]
    assert [pool.kind for pool in DeviceWish().on([("io", False), ("compute", False)]).pools] == ["any", "any"]
    assert mixed.together().pools == (StagePool("big", "gpu", True),)
    assert DeviceWish().pool(3) == StagePool()


def test_the_cpu_is_numpy() -> None:
    assert CPU.xp is np
