"""Every CUDA source through every lane, and every lane against planted mistakes."""

from __future__ import annotations

import subprocess

import numpy as np
import pytest

import heterps.kernels.ops.rows as rows
from heterps.device import cuda_sources, gpu_available, namespace
from heterps.device.fake import xp as fake
from heterps.errors import HardwareError
from tests.gpu.host import host_kernels, needs_gpp, parameters
from tests.gpu.lanes import CHECKS, LANES, WIDE, architectures, nvrtc_cubin, source
from tests.gpu.planted import Mistake

NAMES = [path.name for path in cuda_sources()]
SLOW = {"memory", "threads"}
ROWS, LAUNCH, RAW = "kernels/ops/rows.cu", "kernels/ops/rows_cuda.py", "device/raw.py"


def test_every_source_has_a_check_and_a_wide_case() -> None:
    assert sorted(CHECKS) == sorted(WIDE) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_nvrtc_compiles_every_kernel(name: str) -> None:
    cubin = nvrtc_cubin(source(name), name, 80)
    for kernel in parameters(source(name)):
        assert kernel.encode() in cubin


@pytest.mark.full
@pytest.mark.parametrize("architecture", architectures())
@pytest.mark.parametrize("name", NAMES)
def test_nvrtc_compiles_for(name: str, architecture: int) -> None:
    assert nvrtc_cubin(source(name), name, architecture)


@needs_gpp
@pytest.mark.parametrize("lane", [pytest.param(n, marks=pytest.mark.full if n in SLOW else ()) for n in LANES])
@pytest.mark.parametrize("name", NAMES)
def test_lanes_find_nothing_in(name: str, lane: str) -> None:
    LANES[lane](name, source(name))


MISTAKES = [
    # the sums and the branches of the kernels
    Mistake(ROWS, "total = gradient[row * width + low + d]", "total = 0.0f", "numbers"),
    Mistake(ROWS, "row < 0 || row == pad;", "row < 0;", "numbers"),
    Mistake(ROWS, "if (row == pad) return;", "", "numbers"),
    Mistake(ROWS, "rows > 1) total /= (float)rows", "rows > 2) total /= (float)rows", "numbers"),
    Mistake(ROWS, "v > total", "v >= total", "numbers"),
    Mistake(ROWS, "best < 0 || v > total", "v > total", "numbers"),
    Mistake(ROWS, "kept[s] > 1 ? kept[s] : 1", "kept[s] + 1", "numbers"),
    Mistake(ROWS, "winner[s * dim + d] == p", "winner[s * dim + d] >= 0", "numbers"),
    Mistake(ROWS, "(p / slots) * stride + (p % slots) * dim + d] = padding", "p * dim + d] = padding", "numbers"),
    Mistake(ROWS, "        ++rows;\n", "", "numbers"),
    Mistake(ROWS, "return (long long)blockIdx.x * blockDim.x + threadIdx.x;", "return threadIdx.x;", "numbers"),
    Mistake(ROWS, "const int row", "const integer row", "compiler"),
    # what only large tables show
    Mistake(ROWS, "padding ? 0.0f : values[(long long)row", "padding ? 0.0f : values[row", "wide"),
    Mistake(ROWS, "const float v = values[(long long)row", "const float v = values[row", "wide"),
    Mistake(ROWS, "(long long)blockIdx.x * blockDim.x", "blockIdx.x * blockDim.x", "wide"),
    Mistake(ROWS, "const long long row = i / dim", "const int row = (int)(i / dim)", "wide"),
    Mistake(ROWS, "const long long p = i / dim", "const int p = (int)(i / dim)", "wide"),
    Mistake(ROWS, "const long long s = sample[p]", "const int s = sample[p]", "wide"),
    # memory and threads
    Mistake(ROWS, "if (i >= count) return;", "", "memory"),
    Mistake(ROWS, "k < starts[row + 1]", "k <= starts[row + 1]", "memory"),
    Mistake(ROWS, "if (row < 0 || row == pad) continue;", "if (row == pad) continue;", "memory"),
    Mistake(ROWS, "if (mode == MAX) winner[i] = best;", "winner[i] = best;", "memory"),
    Mistake(ROWS, "gradient[row * width + low + d] = total;", "gradient[low + d] = total;", "threads"),
    Mistake(ROWS, "if (d == 0) kept[s] = rows;", "kept[s] = rows;", "threads"),
]


@needs_gpp
@pytest.mark.parametrize(
    "mistake", [pytest.param(m, marks=pytest.mark.full if m.lane in SLOW else (), id=str(m)) for m in MISTAKES]
)
def test_its_lane_finds(mistake: Mistake) -> None:
    name = mistake.file.rsplit("/", 1)[1]
    with pytest.raises(Exception) as found:
        LANES[mistake.lane](name, mistake.text())
    refused = ("NVRTC_ERROR_COMPILATION",) if mistake.lane == "compiler" else ()
    assert isinstance(found.value, (HardwareError, AssertionError)) or any(r in str(found.value) for r in refused)
    assert not isinstance(found.value, subprocess.CalledProcessError), "the mistake does not even compile"


# the Python that launches

WRAPPER = [
    Mistake(RAW, "(count + BLOCK - 1) // BLOCK", "count // BLOCK", "numbers"),
    Mistake(RAW, "(count + BLOCK - 1) // BLOCK", "(count + BLOCK) // BLOCK - 1", "numbers"),
    Mistake(RAW, "(BLOCK,), args", "(BLOCK // 2,), args", "numbers"),
    Mistake(RAW, "BLOCK = 256", "BLOCK = 2048", "arguments"),
    Mistake(RAW, ", options=CUDA_OPTIONS", ", options=('-std=c++17',)", "arguments"),
    Mistake(RAW, "        if count:\n", "        if True:\n", "arguments"),
]
LAUNCHER = [
    Mistake(LAUNCH, ', kind="stable"', "", "numbers"),
    Mistake(LAUNCH, 'side="right") - 1', 'side="left") - 1', "numbers"),
    Mistake(LAUNCH, "a.strides[0] // a.itemsize", "a.shape[-1]", "numbers"),
    Mistake(LAUNCH, '"sum": 1, "mean": 2', '"sum": 2, "mean": 1', "numbers"),
    Mistake(LAUNCH, '("segments", c.attrs["source"])', '"segments"', "numbers"),
    Mistake(LAUNCH, '("sample", c.attrs["source"])', '"sample"', "numbers"),
    Mistake(LAUNCH, "xp.arange(rows + 1, dtype=np.int32)", "xp.arange(1, rows + 2, dtype=np.int32)", "numbers"),
    Mistake(LAUNCH, "np.int32(g.low)", "np.int64(g.low)", "arguments"),
    Mistake(LAUNCH, "np.int64(count)", "count", "arguments"),
    Mistake(LAUNCH, " if values.dtype == np.float32 else None", "", "arguments"),
    Mistake(LAUNCH, "searchsorted(offsets, positions", "searchsorted(offsets.get(), positions", "arguments"),
]


def _plant(mistake: Mistake, monkeypatch: pytest.MonkeyPatch) -> None:
    module = mistake.module()
    if mistake.file == RAW:
        monkeypatch.setattr("tests.gpu.host.CudaModule", module.CudaModule)
    for name in ("cuda_rows", "gather_cuda", "scatter_cuda") if mistake.file == LAUNCH else ():
        monkeypatch.setattr(rows, name, getattr(module, name))


def _double() -> None:
    """Float64 has no kernels and takes array functions."""
    with host_kernels() as orders:
        values = rows.Rows(fake.asarray(np.ones((2, 3))), (fake.asarray(np.array([1, 0], np.int32)),), (None,))
        call = rows.Call({"columns": (0, 3), "source": 0, "pooling": "sum", "padding_id": None}, fake, 2, loops=True)
        call.xs, call.y = [values, None], fake.zeros((2, 3))
        rows.gather_pool_forward(call)
        assert orders.launches == 0


@needs_gpp
def test_float64_takes_array_functions() -> None:
    _double()


@needs_gpp
@pytest.mark.parametrize("mistake", WRAPPER + LAUNCHER, ids=str)
def test_a_mistake_of_the_launcher_is_found(mistake: Mistake, monkeypatch: pytest.MonkeyPatch) -> None:
    _plant(mistake, monkeypatch)
    kinds = (HardwareError,) if mistake.lane == "numbers" else (TypeError, AssertionError)
    with pytest.raises((*kinds, AssertionError)):  # noqa: PT012  (two ways to come across it)
        _double()
        LANES["numbers"]("rows.cu", source("rows.cu"))


def test_at_least_forty_mistakes_are_planted() -> None:
    from tests.gpu.test_transfer import MISTAKES as OF_TRANSFER

    assert len(MISTAKES + WRAPPER + LAUNCHER + OF_TRANSFER) >= 40


@pytest.mark.gpu
@pytest.mark.parametrize("name", NAMES)
def test_a_gpu_gives_the_numbers_of_numpy(name: str) -> None:
    assert gpu_available()
    CHECKS[name](namespace("gpu"))
