"""`heterps doctor`: every failure is provoked by a stand-in, and each names what mends it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from heterps.cli import _examinations, main
from heterps.cli._examinations import EXAMINATIONS, Finding, Surroundings, examine
from heterps.device import diagnosis, namespace
from heterps.device.diagnosis import AbsentError, AilmentError
from heterps.kernels import checks
from tests.gpu.host import host_kernels, needs_gpp

cupy, fake = pytest.importorskip("cupy"), namespace("fake")


class DeadError(RuntimeError):
    """What CUDA's runtime raises."""


class StandIn:
    """CuPy on a machine with a GPU: the strict device, kernels compiled for the host, CuPy's own compiler."""

    __name__ = "fake"

    def __init__(self, **runtime: Any) -> None:
        calls = {
            "CUDARuntimeError": DeadError,
            "getDeviceCount": lambda: 1,
            "getDeviceProperties": lambda i: {"name": b"Stand-in 1000"},
            "driverGetVersion": lambda: 13020,
            "runtimeGetVersion": lambda: 13000,
        }
        self.cuda = SimpleNamespace(
            runtime=SimpleNamespace(**(calls | runtime)),
            nvrtc=cupy.cuda.nvrtc,
            get_current_stream=fake.cuda.get_current_stream,
            alloc_pinned_memory=fake.cuda.alloc_pinned_memory,
            Stream=fake.cuda.Stream,
            Event=fake.cuda.Event,
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(fake, name)


def surroundings(**changes: Any) -> Surroundings:
    """A machine on which all is well, with a GPU, but for the changes."""
    well = {
        "has_driver": lambda: True,
        "cupy": lambda driver: StandIn(),
        "listening": lambda: [("127.0.0.1", 8786, "dask scheduler")],
        "open_files": lambda: 65536,
        "free_disk": lambda folder: 100 << 30,
        "cores": lambda: 64,
    }
    return Surroundings(**(well | changes))


def found(name: str, here: Surroundings, **options: bool) -> Finding:
    (finding,) = (f for f in examine(here, **options) if f.name == name)
    return finding


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The long examinations run in one test only."""
    monkeypatch.setattr(diagnosis, "COPY_BYTES", 1 << 20)
    monkeypatch.setattr(diagnosis, "cuda_sources", lambda: [])


def _only(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    monkeypatch.setattr(_examinations, "EXAMINATIONS", tuple(e for e in EXAMINATIONS if e[0] in names))


@needs_gpp
def test_a_healthy_machine_with_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(diagnosis, "COPY_BYTES", 1 << 20)
    with host_kernels() as orders:
        findings = list(examine(surroundings()))
    assert [f for f in findings if f.status != "ok"] == []
    assert orders.launches == 0  # restored
    texts = {f.name: f.text for f in findings}
    assert "Stand-in 1000" in texts["GPU"]
    assert "13.2" in texts["GPU"]
    assert "rows.cu" in texts["kernels"].split(", ")
    assert "device_rows.cu" in texts["kernels"]


def _missing(name: str) -> str:
    raise metadata.PackageNotFoundError(name)


def _raise(error: Exception) -> Callable[..., Any]:
    def raising(*args: Any, **kwargs: Any) -> Any:
        raise error

    return raising


PLAIN: dict[str, tuple[str, dict[str, Any], str, str]] = {
    "a package is missing": ("versions", {"version": _missing}, "is not installed", "pip install"),
    "a package is too old": ("versions", {"version": lambda name: "0.1"}, "0.1 is too old", "pip install --upgrade"),
    "too many BLAS threads": ("BLAS threads", {"cores": lambda: 0}, "threads on 0 cores", "OPENBLAS_NUM_THREADS=0"),
    "an unknown BLAS": ("BLAS threads", {"blas": lambda: []}, "cannot be told", "pip install numpy"),
    "few open files": ("open files", {"open_files": lambda: 256}, "open 256 files", "ulimit -n 65536"),
    "a full disk": ("disk", {"free_disk": lambda folder: 1 << 20}, "0.0 GiB free", "free some"),
    "an open scheduler": (
        "network",
        {"listening": lambda: [("0.0.0.0", 8786, "dask scheduler")]},
        "listens on every interface at port 8786",
        "--host 127.0.0.1 --dashboard-address",
    ),
    "an open worker, IPv6": ("network", {"listening": lambda: [("::", 1, "dask")]}, "every interface", "--host"),
    "something unheard of": ("disk", {"free_disk": _raise(KeyError("x"))}, "KeyError", "report this"),
}


@pytest.mark.parametrize("case", PLAIN.values(), ids=PLAIN)
def test_a_failure_names_what_mends_it(case: tuple[str, dict[str, Any], str, str], monkeypatch: Any) -> None:
    name, change, problem, remedy = case
    _only(monkeypatch, name)
    assert found(name, surroundings()).status == "ok"
    finding = found(name, surroundings(**change))
    assert finding.status == "failed"
    assert problem in finding.text
    assert remedy in finding.remedy


def test_a_cache_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _only(monkeypatch, "numba cache")
    blocked = tmp_path / "file"
    blocked.write_text("")
    finding = found("numba cache", surroundings(numba_cache=lambda: blocked / "cache"))
    assert finding.status == "failed"
    assert "NUMBA_CACHE_DIR" in finding.remedy
    assert found("numba cache", surroundings(numba_cache=lambda: tmp_path)).status == "ok"


def _gpu(**runtime: Any) -> dict[str, Any]:
    return {"cupy": lambda driver: StandIn(**runtime)}


def _broken(part: str, error: Exception) -> dict[str, Any]:
    stand_in = StandIn()
    if part == "nvrtc":
        stand_in.cuda.nvrtc = SimpleNamespace(getVersion=_raise(error))
    else:
        setattr(stand_in, part, _raise(error))
    return {"cupy": lambda driver: stand_in}


old = DeadError("cudaErrorInsufficientDriver: driver version is insufficient")
GPU: dict[str, tuple[str, dict[str, Any], str, str]] = {
    "an old driver": ("GPU", _gpu(getDeviceCount=_raise(old)), "driver is older", "heterps[gpu12]"),
    "no device": ("GPU", _gpu(getDeviceCount=lambda: 0), "finds no device", "nvidia-smi"),
    "no cuBLAS": ("cuBLAS", _broken("matmul", ImportError("libcublas.so")), "libcublas.so", "heterps[gpu13-ctk]"),
    "no NVRTC": ("NVRTC", _broken("nvrtc", RuntimeError("libnvrtc.so")), "libnvrtc.so", "heterps[gpu13-ctk]"),
}


@pytest.mark.parametrize("case", GPU.values(), ids=GPU)
def test_a_failing_gpu_names_what_mends_it(case: tuple[str, dict[str, Any], str, str], monkeypatch: Any) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    name, change, problem, remedy = case
    _only(monkeypatch, "GPU", "NVRTC", "cuBLAS", name)
    finding = found(name, surroundings(**change))
    assert finding.status == "failed", finding
    assert problem in finding.text
    assert remedy in finding.remedy


def test_devices_hidden_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    _only(monkeypatch, "GPU")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    finding = found("GPU", surroundings(**_gpu(getDeviceCount=_raise(DeadError("cudaErrorNoDevice")))))
    assert "CUDA_VISIBLE_DEVICES='' leaves no device" in finding.text
    assert "unset it" in finding.remedy


def test_a_source_that_nvrtc_refuses(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _only(monkeypatch, "NVRTC")
    broken = tmp_path / "broken.cu"
    broken.write_text("this is no CUDA")
    monkeypatch.setattr(diagnosis, "cuda_sources", lambda: [broken])
    finding = found("NVRTC", surroundings())
    assert finding.status == "failed"
    assert "does not compile broken.cu" in finding.text


def test_wrong_products(monkeypatch: pytest.MonkeyPatch) -> None:
    _only(monkeypatch, "GPU", "cuBLAS")
    stand_in = StandIn()
    stand_in.matmul = lambda a, b: fake.matmul(a, b) * np.float32(np.nan)  # type: ignore[attr-defined]
    finding = found("cuBLAS", surroundings(cupy=lambda driver: stand_in))
    assert (finding.status, "wrong products" in finding.text) == ("failed", True)


def test_wrong_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    _only(monkeypatch, "GPU", "NVRTC", "kernels")
    monkeypatch.setitem(checks.CHECKS, "rows.cu", lambda xp: checks.same("rows.cu", np.ones(2), np.zeros(2)))
    monkeypatch.delitem(checks.CHECKS, "fused.cu")
    finding = found("kernels", surroundings())
    assert finding.status == "failed"
    assert "rows.cu: 2 of 2 numbers are wrong, first at [0]" in finding.text


def test_a_wrong_model(monkeypatch: pytest.MonkeyPatch) -> None:
    _only(monkeypatch, "GPU", "NVRTC", "cuBLAS", "model")
    assert found("model", surroundings()).status == "ok"
    monkeypatch.setattr(_examinations, "_train", lambda xp: (0.5 if xp is np else 0.6, np.zeros(3)))
    finding = found("model", surroundings())
    assert (finding.status, "loss 0.6 instead of 0.5" in finding.text) == ("failed", True)


@needs_gpp
@pytest.mark.parametrize(
    ("name", "what", "says"),
    [
        ("stage", "heterps.cli._trials._trained", "parameters are off by 1 after"),
        ("table", "heterps.tables.on_device.device_group.give_words", "rows on the device"),
        ("cache", "heterps.tables.on_device.device_gathered.DeviceGathered.add", "gradients settled after batch"),
    ],
)
def test_a_training_that_goes_wrong_is_named(name: str, what: str, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _only(monkeypatch, "GPU", "NVRTC", "cuBLAS", name)
    with host_kernels():
        assert found(name, surroundings()).status == "ok"
        wrong = {"stage": lambda xp: np.full(3, float(xp is np), np.float32)}.get(name, lambda *args: None)
        monkeypatch.setattr(what, wrong)
        finding = found(name, surroundings())
    assert finding.status == "failed"
    assert says in finding.text
    assert finding.remedy.startswith("update driver and CuPy")


def test_real_listeners_are_seen() -> None:
    code = "import socket; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code, "heterps-listener"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        found_here = [
            (address, at) for address, at, command in _examinations._listening() if "heterps-listener" in command
        ]
        process.communicate("\n", timeout=30)
    assert found_here == [("127.0.0.1", port)]


def test_slow_copies() -> None:
    ticks = iter(range(1000))
    with pytest.raises(AilmentError, match=r"0\.0 GB/s from pinned memory.*too few lanes"):
        diagnosis.copies(StandIn(), clock=lambda: float(next(ticks)))


def test_a_machine_without_a_gpu_is_well_unless_one_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    _only(monkeypatch, "GPU", "NVRTC", "cuBLAS")
    here = replace(surroundings(), has_driver=lambda: False, cupy=_raise(AbsentError("no driver", "install it")))
    assert [f.status for f in examine(here)] == ["absent", "absent", "skipped"]
    assert [f.status for f in examine(here, want_gpu=True)] == ["failed", "failed", "skipped"]
    assert found("GPU", surroundings(has_driver=lambda: False, **_gpu(getDeviceCount=_raise(old)))).status == "absent"


def test_cupy_that_cannot_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(AbsentError, match="no driver and no CuPy"):
        diagnosis.load_cupy(False)
    with pytest.raises(AilmentError, match="there is a driver but CuPy cannot be imported"):
        diagnosis.load_cupy(True)


@pytest.mark.parametrize(("limit", "code"), [(65536, 0), (256, 1)])
def test_the_command_ends_with_one_if_something_failed(limit: int, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    _only(monkeypatch, "open files", "disk")
    here = surroundings(open_files=lambda: limit)
    monkeypatch.setattr(_examinations, "Surroundings", lambda: here)
    result = CliRunner().invoke(main, ["doctor"])
    assert result.exit_code == code, result.output
    assert ("ulimit -n 65536" in result.output) == bool(code)
    result = CliRunner().invoke(main, ["doctor", "--json"])
    assert result.exit_code == code
    statuses = {f["name"]: f["status"] for f in json.loads(result.output)}
    assert statuses == {"open files": "failed" if code else "ok", "disk": "ok"}


@pytest.mark.gpu
def test_this_gpu() -> None:
    assert [f for f in examine(Surroundings(), want_gpu=True) if f.status != "ok"] == []
