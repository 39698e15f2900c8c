"""The devices that ship keep the contract for devices."""

import pytest

from heterps.testing import DeviceContract
from heterps.testing.zoo_cases import CASES

# On these two every kind is run by the contract for op kinds already.
FEW = {name: CASES[name] for name in ("conv2d", "dense", "gather_pool", "logloss")}


class TestCpu(DeviceContract):
    device = "cpu"
    cases = FEW


class TestFake(DeviceContract):
    device = "fake"
    cases = FEW


@pytest.mark.gpu
class TestGpu(DeviceContract):
    device = "gpu"
