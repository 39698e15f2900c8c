"""What NVRTC made, instruction by instruction on the host: the numbers of NumPy again."""

from __future__ import annotations

import re
from typing import Any

import pytest

import tests.gpu.host as host
from heterps.device import CudaModule, cuda_sources, namespace, raw
from heterps.errors import HardwareError
from tests.gpu.host import host_kernels, needs_gpp
from tests.gpu.lanes import CHECKS, source
from tests.gpu.ptx import PtxRawModule, UnknownInstructionError, nvrtc_ptx, translate

pytest.importorskip("cupy")
pytestmark = [needs_gpp, pytest.mark.full]
NAMES = [path.name for path in cuda_sources()]


def run(name: str, seed: int = 0) -> None:
    with host_kernels(seed=seed) as orders:
        CHECKS[name](namespace("fake"))
        assert orders.launches


@pytest.fixture
def ptx(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "HostRawModule", PtxRawModule)


@pytest.mark.parametrize("name", NAMES)
def test_compiled_kernels_give_the_numbers_of_numpy(name: str, ptx: None) -> None:
    run(name)
    run(name, seed=5)


@pytest.mark.parametrize("name", ["rows.cu", "device_rows.cu"])
def test_fused_multiply_adds_would_be_found(name: str, ptx: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without --fmad=false NVRTC contracts products and sums; only this lane sees what it really does."""
    contracted = nvrtc_ptx(source(name), name, ("-std=c++17",))
    assert ("fma.rn.f32" in contracted) == (name == "device_rows.cu")  # rows.cu has no product to be added
    monkeypatch.setattr(raw, "CUDA_OPTIONS", ("-std=c++17",))
    if name == "device_rows.cu":
        with pytest.raises(HardwareError, match=r"device_rows\.cu"):
            run(name)
    else:
        run(name)


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("rows.cu", "add.rn.f32", "sub.rn.f32"),
        ("rows.cu", "setp.gt.f32", "setp.ge.f32"),
        ("device_rows.cu", "sqrt.rn.f32", "mov.f32"),
        ("device_rows.cu", "copysign.f32", "add.rn.f32"),
        ("fused.cu", "rcp.approx.ftz.f64", "mov.f64"),
        ("fused.cu", "fma.rn.f64", "fmad.rn.f64"),
    ],
)
def test_a_wrong_instruction_is_found(name: str, right: str, wrong: str, ptx: None, monkeypatch: Any) -> None:
    made = nvrtc_ptx(source(name), name)
    assert right in made
    monkeypatch.setattr("tests.gpu.ptx.nvrtc_ptx", lambda *args: made.replace(right, wrong))
    with pytest.raises((HardwareError, UnknownInstructionError)):
        run(name)


def test_one_approximate_instruction_occurs() -> None:
    for name in NAMES:
        found = re.findall(r"\w+\.approx[\w.]*", nvrtc_ptx(source(name), name))
        assert set(found) <= {"rcp.approx.ftz.f64"}  # refined by the instructions after it


def test_an_unknown_instruction_is_named() -> None:
    made = nvrtc_ptx(source("rows.cu"), "rows.cu")
    with pytest.raises(UnknownInstructionError, match=r"bar\.sync"):
        translate(made.replace("div.rn.f32", "bar.sync.f32", 1))


def test_the_wrapper_is_the_real_one() -> None:
    assert host.CudaModule is CudaModule
