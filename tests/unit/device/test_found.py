import pytest

from heterps.device import found, found_devices


def test_only_visible_gpus_count_and_the_reason_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(found, "local_gpus", lambda: ("one", "two"))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(found, "gpu_available", lambda: True)
    monkeypatch.setattr(found, "_free", lambda gpus: {f"gpu:{i}": 10 for i in range(gpus)})
    assert found_devices().gpus == ("one", "two")
    assert found_devices().why_no_gpu == ""
    assert found_devices().free_bytes == {"gpu:0": 10, "gpu:1": 10}
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert found_devices().gpus == ("two",)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert found_devices().gpus == ()
    assert "CUDA_VISIBLE_DEVICES is ''" in found_devices().why_no_gpu


@pytest.mark.parametrize(
    ("installed", "gpus", "reason"),
    [
        (False, ("one",), "cupy is not installed"),
        (True, (), "no NVIDIA driver"),
        (True, ("one",), "cupy finds no CUDA"),
    ],
)
def test_a_gpu_that_cannot_be_used_has_a_reason(
    monkeypatch: pytest.MonkeyPatch, installed: bool, gpus: tuple[str, ...], reason: str
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(found, "gpu_available", lambda: False)
    monkeypatch.setattr(found, "local_gpus", lambda: gpus)
    monkeypatch.setattr(found.importlib.util, "find_spec", lambda name: object() if installed else None)
    assert found_devices().gpus == ()
    assert reason in found_devices().why_no_gpu


def test_the_strict_device_is_known_as_a_stand_in() -> None:
    assert {"cpu", "gpu", "fake"} <= set(found_devices().registered)
    assert "fake" in found_devices().stand_ins
    assert "gpu" not in found_devices().stand_ins
