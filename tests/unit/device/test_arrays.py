"""Which library an array belongs to."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from heterps.device import (
    array_namespace,
    gpu_available,
    is_host,
    namespace,
    register_namespace,
    synchronize,
    to_device,
    to_host,
)
from heterps.errors import HardwareError, UnknownKindError


def test_numpy_arrays_and_their_subclasses_are_at_home_on_the_host(tmp_path: Path) -> None:
    mapped = np.memmap(tmp_path / "m", dtype=np.float32, mode="w+", shape=(2,))
    for x in (np.ones(2), mapped):
        assert array_namespace(x) is np
        assert is_host(x)
        assert to_host(x) is x
    synchronize(np)


def test_other_things_have_no_namespace() -> None:
    with pytest.raises(TypeError, match="list is not an array"):
        array_namespace([1.0])


def test_auto_is_the_cpu_where_there_is_no_gpu() -> None:
    if gpu_available():
        pytest.skip("there is a GPU")
    assert namespace("auto") is np
    with pytest.raises(HardwareError, match="no GPU can be used"):
        namespace("gpu")


def test_an_unknown_device_is_named_with_the_known_ones() -> None:
    with pytest.raises(UnknownKindError, match="unknown device 'tpu'; known: auto, cpu"):
        namespace("tpu")


def test_devices_can_be_added_but_not_replaced() -> None:
    register_namespace("mine", lambda: np)
    assert namespace("mine") is np
    with pytest.raises(ValueError, match="registered already"):
        register_namespace("cpu", lambda: np)


def test_no_copy_where_the_array_is_there_already() -> None:
    x = np.ones(3, np.float32)
    assert to_device(x, np) is x
    assert to_device(x, np, "float64").dtype == np.float64
