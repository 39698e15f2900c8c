from types import SimpleNamespace

import pytest

from heterps.device import found, found_devices
from heterps.hardware.visible import ListedGpu

LISTED = (ListedGpu("one", "GPU-aa11", "0"), ListedGpu("two", "GPU-bb22", "1"))


class Runtime:
    """CUDA as a process sees it that was started with two GPUs, in whatever way they were named."""

    def getDeviceCount(self) -> int:  # noqa: N802
        return 2

    def getDeviceProperties(self, number: int) -> dict[str, bytes]:  # noqa: N802
        return {"name": (b"Tesla V100-SXM2-16GB", b"Tesla P40")[number]}


def test_the_gpus_are_those_that_cuda_shows_however_they_were_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-aa11,GPU-bb22")
    monkeypatch.setattr(found, "gpu_available", lambda: True)
    cuda = SimpleNamespace(cuda=SimpleNamespace(runtime=Runtime()))
    monkeypatch.setattr(found, "namespace", lambda name: cuda)
    monkeypatch.setattr(found, "_free", lambda gpus: {f"gpu:{i}": 10 for i in range(gpus)})
    assert found_devices().gpus == ("Tesla V100-SXM2-16GB", "Tesla P40")
    assert found_devices().why_no_gpu == ""
    assert found_devices().free_bytes == {"gpu:0": 10, "gpu:1": 10}


def test_a_variable_that_names_none_is_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(found, "gpu_available", lambda: False)
    monkeypatch.setattr(found, "listed_gpus", lambda: LISTED)
    monkeypatch.setattr(found.importlib.util, "find_spec", lambda name: object())
    for chosen in ("", "7", "GPU-cc33"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", chosen)
        assert f"CUDA_VISIBLE_DEVICES is {chosen!r}, which names none of its 2" in found_devices().why_no_gpu
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-bb")
    assert "cupy finds no CUDA device" in found_devices().why_no_gpu


@pytest.mark.parametrize(
    ("installed", "gpus", "reason"),
    [
        (False, LISTED, "cupy is not installed"),
        (True, (), "no NVIDIA driver"),
        (True, LISTED, "cupy finds no CUDA"),
    ],
)
def test_a_gpu_that_cannot_be_used_has_a_reason(
    monkeypatch: pytest.MonkeyPatch, installed: bool, gpus: tuple[ListedGpu, ...], reason: str
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(found, "gpu_available", lambda: False)
    monkeypatch.setattr(found, "listed_gpus", lambda: gpus)
    monkeypatch.setattr(found.importlib.util, "find_spec", lambda name: object() if installed else None)
    assert found_devices().gpus == ()
    assert reason in found_devices().why_no_gpu


def test_the_strict_device_is_known_as_a_stand_in() -> None:
    assert {"cpu", "gpu", "fake"} <= set(found_devices().registered)
    assert "fake" in found_devices().stand_ins
    assert "gpu" not in found_devices().stand_ins
