"""Every CUDA source through every lane, and every lane against planted mistakes."""

from __future__ import annotations

import subprocess
from typing import Any

import numpy as np
import pytest

import heterps.kernels.ops.rows as rows
import heterps.tables.on_device.array_rows as array_rows
import heterps.tables.on_device.cache_check as cache_check
import heterps.tables.on_device.checks as table_checks
import heterps.tables.on_device.device_group as device_group
import heterps.tables.on_device.device_rows as device_rows
import heterps.tables.on_device.group_check as group_check
from heterps.device import cuda_sources, gpu_available, namespace
from heterps.device.fake import xp as fake
from heterps.errors import HardwareError
from tests.gpu.host import host_kernels, needs_gpp, parameters
from tests.gpu.lanes import CHECKS, LANES, WIDE, architectures, nvrtc_cubin, source
from tests.gpu.planted import Mistake

NAMES = [path.name for path in cuda_sources()]
QUICK = ("numbers", "wide", "compiler")  # the other lanes, and mistakes in the other sources, are for make full
ROWS, LAUNCH, RAW = "kernels/ops/rows.cu", "kernels/ops/rows_cuda.py", "device/raw.py"
TABLE, TABLE_LAUNCH = "tables/on_device/device_rows.cu", "tables/on_device/device_rows.py"
GROUP, HOST_ROWS = "tables/on_device/device_group.py", "tables/on_device/host_rows.py"
FUSED = "kernels/ops/fused.cu"
DEDUPE, WORDS = "tables/on_device/dedupe.py", "tables/on_device/row_words.py"
CACHE, SUMS = "tables/on_device/device_cache.py", "tables/on_device/device_gathered.py"


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
@pytest.mark.parametrize("lane", [pytest.param(n, marks=() if n in QUICK else pytest.mark.full) for n in LANES])
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
    Mistake(TABLE, "t[j & 7]", "t[0]", "numbers"),
    Mistake(TABLE, "(1.0f - b2) * g[j] * g[j];\n        w[j]", "(1.0f - b2) * (g[j] * g[j]);\n        w[j]", "numbers"),
    Mistake(TABLE, "bound(p, w[j] - rate * g[j])", "w[j] - rate * g[j]", "numbers"),
    Mistake(TABLE, "    powers[1] *= b2;\n", "", "numbers"),
    Mistake(TABLE, "copysignf(l1, z)", "l1", "numbers"),
    Mistake(TABLE, "scaled ? scales[i] : 1.0f", "1.0f", "numbers"),
    Mistake(TABLE, "if (j + 1 < n) out", "out", "numbers"),
    Mistake(TABLE, "if (i >= count || rows[i] < 0) return;\n    u64", "if (i >= count) return;\n    u64", "numbers"),
    Mistake(TABLE, "    rows[i] = -1;\n", "", "numbers"),
    Mistake(TABLE, "    if (good)\n", "", "compiler"),
    Mistake(TABLE, "slots + i * per_row", "slots + i * n", "numbers"),
    Mistake(TABLE, "g = gradients + i * n;", "g = gradients;", "numbers"),
    Mistake(TABLE, "        atomicAdd(&counts[0], 1);\n}", "        ;\n}", "numbers"),
    Mistake(TABLE, "    atomicAdd(&counts[2], 1);\n", "", "numbers"),
    Mistake(TABLE, "k = starts[id]; k", "k = starts[id] + 1; k", "numbers"),
    Mistake(TABLE, "atomicCAS(&keys[at], FREE, ids[i]) == FREE", "((keys[at] = ids[i]), true)", "fibers"),
    Mistake(TABLE, "atomicAdd(&counts[0], 1);\n    if", "counts[0] = __ldcg(&counts[0]) + 1;\n    if", "fibers"),
    Mistake(FUSED, "relu && v < 0.0f ? 0.0f : v", "relu ? fmaxf(v, 0.0f) : v", "numbers"),
    Mistake(FUSED, "y + (i / width) * stride + column", "y + i", "numbers"),
    Mistake(FUSED, "column] <= 0.0f) dz", "column] < 0.0f) dz", "numbers"),
    Mistake(FUSED, "(u64)(i + 1)", "(u64)i", "numbers"),
    Mistake(FUSED, "(z >> 32) >= threshold", "(z >> 31) >= threshold", "numbers"),
    Mistake(FUSED, "exp(-fabs(x))", "exp(-x)", "numbers"),
    Mistake(FUSED, "i += lanes", "i += n", "numbers"),
    Mistake(FUSED, "weighted ? g * weight[i] : g", "g", "numbers"),
    Mistake(FUSED, "        if (other == field) continue;\n", "", "numbers"),
    Mistake(FUSED, "for (int d = 0; d < dim; ++d) total", "for (int d = dim; d-- > 0;) total", "numbers"),
    # what only large tables show
    Mistake(ROWS, "padding ? 0.0f : values[(long long)row", "padding ? 0.0f : values[row", "wide"),
    Mistake(ROWS, "const float v = values[(long long)row", "const float v = values[row", "wide"),
    Mistake(ROWS, "(long long)blockIdx.x * blockDim.x", "blockIdx.x * blockDim.x", "wide"),
    Mistake(ROWS, "const long long row = i / dim", "const int row = (int)(i / dim)", "wide"),
    Mistake(ROWS, "const long long p = i / dim", "const int p = (int)(i / dim)", "wide"),
    Mistake(ROWS, "const long long s = sample[p]", "const int s = sample[p]", "wide"),
    Mistake(TABLE, "words[row * stride + i % width]", "words[(int)row * (int)stride + i % width]", "wide"),
    Mistake(TABLE, "u64 at = home(id, mask)", "int at = (int)home(id, mask)", "wide"),
    Mistake(TABLE, "(long long)order[k] * width", "order[k] * width", "wide"),
    Mistake(TABLE, "gradients + i * width", "gradients + (int)i * width", "wide"),
    Mistake(TABLE, "gradients[i * width + j]", "gradients[(int)i * width + j]", "wide"),
    Mistake(TABLE, "float* out = words + rows[i] * stride", "float* out = words + rows[i] * (int)stride", "wide"),
    Mistake(TABLE, "float* w = words + rows[i] * stride", "float* w = words + rows[i] * (int)stride", "wide"),
    Mistake(FUSED, "y + (i / width) * stride", "y + (int)(i / width) * (int)stride", "wide"),
    Mistake(FUSED, "a[row * stride + column]", "a[(int)row * (int)stride + column]", "wide"),
    Mistake(FUSED, "y[sample * stride + pair]", "y[(int)sample * (int)stride + pair]", "wide"),
    Mistake(FUSED, "dz[sample * dz_stride", "dz[(int)sample * (int)dz_stride", "wide"),
    # memory and threads
    Mistake(FUSED, "first + chunk < rows ? first + chunk : rows", "first + chunk", "memory"),
    Mistake(FUSED, "if (thread_number() != 0) return;", "", "threads"),
    Mistake(TABLE, "(at + 1) & mask", "at + 1", "memory"),
    Mistake(TABLE, "k < starts[id + 1]", "k <= starts[id + 1]", "memory"),
    Mistake(TABLE, "if (i >= count || rows[i] < 0) return;\n    float", "if (i >= count) return;\n    float", "memory"),
    Mistake(TABLE, "atomicCAS(&keys[at], FREE, ids[i]) == FREE", "((keys[at] = ids[i]), true)", "threads"),
    Mistake(TABLE, "atomicAdd(&counts[1], 1)", "counts[1] += 1", "threads"),
    Mistake(ROWS, "if (i >= count) return;", "", "memory"),
    Mistake(ROWS, "k < starts[row + 1]", "k <= starts[row + 1]", "memory"),
    Mistake(ROWS, "if (row < 0 || row == pad) continue;", "if (row == pad) continue;", "memory"),
    Mistake(ROWS, "if (mode == MAX) winner[i] = best;", "winner[i] = best;", "memory"),
    Mistake(ROWS, "gradient[row * width + low + d] = total;", "gradient[low + d] = total;", "threads"),
    Mistake(ROWS, "if (d == 0) kept[s] = rows;", "kept[s] = rows;", "threads"),
]


def _tier(mistake: Mistake) -> Any:
    quick = mistake.lane in QUICK and mistake.file == ROWS
    return pytest.param(mistake, marks=() if quick else pytest.mark.full, id=str(mistake))


@needs_gpp
@pytest.mark.parametrize("mistake", [_tier(m) for m in MISTAKES])
def test_its_lane_finds(mistake: Mistake) -> None:
    name = mistake.file.rsplit("/", 1)[1]
    with pytest.raises(Exception) as found:
        LANES[mistake.lane](name, mistake.text())
    refused = "NVRTC_ERROR_COMPILATION" in str(found.value) and mistake.lane == "compiler"
    assert refused or isinstance(found.value, (HardwareError, AssertionError, IndexError))
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
TABLES = [
    Mistake(WORDS, "s.slot - ID_WORDS", "s.slot", "numbers"),
    Mistake(WORDS, "            words[:kept] = self.words[:kept]\n", "            pass\n", "numbers"),
    Mistake(TABLE_LAUNCH, "self._enter(ids[: self._used]", "self._enter(ids[:1]", "numbers"),
    Mistake(TABLE_LAUNCH, "self._used - 1 + self", "self._used + self", "numbers"),
    Mistake(TABLE_LAUNCH, "rows = self.xp.where(absent, numbers, rows)", "rows = numbers", "numbers"),
    Mistake(WORDS, "numbers[k], self.words", "numbers[0], self.words", "numbers"),
    Mistake(WORDS, "rows, values, np.int64(n * width)", "rows, values, n * width", "arguments"),
    Mistake(TABLE_LAUNCH, "np.uint64(self._keys.shape[0] - 1)", "np.int64(self._keys.shape[0] - 1)", "arguments"),
    # rows that go up and come down
    Mistake(TABLE_LAUNCH, "        self._changed[rows] = True\n", "", "numbers"),
    Mistake(TABLE_LAUNCH, "        self._changed[: self._used] = False\n        return", "        return", "numbers"),
    Mistake(TABLE_LAUNCH, "        self._changed[rows] = False\n", "        self._changed[rows] = True\n", "numbers"),
    Mistake(TABLE_LAUNCH, "        self._clear_index(int(self._ids.shape[0]))\n", "", "numbers"),
    Mistake(TABLE_LAUNCH, "        self._used = 0\n        self._changed[", "        self._changed[", "numbers"),
    Mistake(
        TABLE_LAUNCH, "rows = self._number(there, rows, missing) if missing else rows\n", "rows = rows\n", "numbers"
    ),
    Mistake(GROUP, "            self.settle()\n            self.forget()", "            self.forget()", "numbers"),
    Mistake(GROUP, "            self._built += 1\n", "", "numbers"),
    Mistake(GROUP, "            give_words(self.below, ids, words)\n", "", "numbers"),
    Mistake(GROUP, "            self._raise(ids)\n", "            self._raise(ids[:1])\n", "numbers"),
    Mistake(GROUP, "ids[to_host(rows) < 0]", "ids", "numbers"),
    Mistake(GROUP, "hint.built == self._built", "True", "numbers"),
    Mistake(GROUP, "values[piece], step", "values[: len(rows)], step", "numbers"),
    Mistake(GROUP, "low in range(0, n, most)", "low in range(0, n - 1, most)", "numbers"),
    Mistake(GROUP, "len(self._above) + missing > self._most", "missing > self._most", "numbers"),
    Mistake(GROUP, "self._skipped += ", "self._skipped = ", "numbers"),
    Mistake(HOST_ROWS, "if layout.slots:", "if not layout.slots:", "numbers"),
    Mistake(HOST_ROWS, "words[at, layout.width :]", "words[at, : layout.slots]", "numbers"),
    # rows of a cache
    Mistake(CACHE, "values[newer], lacking", "values[: len(rows)], lacking", "numbers"),
    Mistake(CACHE, "            lacking[room] = open_\n", "            pass\n", "numbers"),
    Mistake(CACHE, 'rows[at].astype(np.int32), "values"', 'rows[at][::-1].astype(np.int32), "values"', "numbers"),
    Mistake(CACHE, "    return len(rows) - 1 - at\n", "    return np.unique(rows, return_index=True)[1]\n", "numbers"),
    Mistake(CACHE, "    return len(rows) - 1 - at\n", "    return np.arange(len(rows))\n", "numbers"),
    Mistake(CACHE, "self._came, self._came_slots = [], []\n", "self._came = []\n", "numbers"),
    Mistake(CACHE, "        self._make_room(self._group.only.high)\n", "", "numbers"),
    Mistake(CACHE, "                changes[:, :room] = self._changes\n", "                pass\n", "numbers"),
    Mistake(CACHE, "self._words.grow(rows, room)", "self._words.grow(rows, 0)", "numbers"),
    Mistake(CACHE, 'words[there["slot_rows"], width:] = there["slots"]', "pass", "numbers"),
    Mistake(CACHE, "stepped = values + self.xp", "stepped = self.xp", "numbers"),
    Mistake(CACHE, ".reshape(-1, 1), stepped, values)", ".reshape(-1, 1), values, stepped)", "numbers"),
    Mistake(CACHE, "words[rows, :width] = values", "words[rows, :width] = there['values']", "numbers"),
    Mistake(CACHE, 'gradients = xp.take(there["rows"], there["at"]), xp', 'gradients = there["rows"], xp', "numbers"),
    Mistake(CACHE, 'xp.take(gradients, there["at"], axis=0)', 'gradients[: there["at"].shape[0]]', "numbers"),
    Mistake(CACHE, "self._words.read(rows) - before", "self._words.read(rows)", "numbers"),
    Mistake(CACHE, ".reshape(-1, 1), added, changes)", ".reshape(-1, 1), changes, added)", "numbers"),
    Mistake(CACHE, "self._changes[room, rows] = ", "self._changes[1 - room, rows] = ", "numbers"),
    Mistake(CACHE, 'self._there.get("first"), gradients)', "None, gradients)", "numbers"),
    Mistake(CACHE, "if not first.all():", "if first.any():", "numbers"),
    Mistake(SUMS, "gradients, added)", "added, gradients)", "numbers"),
    Mistake(SUMS, "self.xp.where(first.reshape(-1, 1), gradients, added)", "added", "numbers"),
    Mistake(SUMS, "                sums[:room] = self._sums\n", "                pass\n", "numbers"),
    Mistake(SUMS, "        at += n * width\n", "", "numbers"),
    Mistake(DEDUPE, ', kind="stable"', "", "numbers"),
    Mistake(DEDUPE, "inverse[order] = ", "inverse[:] = ", "numbers"),
    Mistake(DEDUPE, "ordered[1:] != ordered[:-1]", "ordered[1:] > ordered[:-1] + ordered.dtype.type(1)", "numbers"),
]


def _plant(mistake: Mistake, monkeypatch: pytest.MonkeyPatch) -> None:
    module = mistake.module()
    if mistake.file == RAW:
        monkeypatch.setattr("tests.gpu.host.CudaModule", module.CudaModule)
    for name in ("cuda_rows", "gather_cuda", "scatter_cuda") if mistake.file == LAUNCH else ():
        monkeypatch.setattr(rows, name, getattr(module, name))
    if mistake.file == TABLE_LAUNCH:
        monkeypatch.setattr(table_checks, "DeviceRows", module.DeviceRows)
        monkeypatch.setattr(array_rows, "DeviceRows", module.DeviceRows)
    if mistake.file == GROUP:
        monkeypatch.setattr(group_check, "DeviceGroup", module.DeviceGroup)
    for name in ("give_words", "take_words") if mistake.file == HOST_ROWS else ():
        monkeypatch.setattr(device_group, name, getattr(module, name))
    for name in ("_slot", "read", "apply", "grow") if mistake.file == WORDS else ():
        monkeypatch.setattr(device_rows.RowWords, name, getattr(module.RowWords, name))
    if mistake.file == CACHE:
        monkeypatch.setattr(cache_check, "DeviceCachedRows", module.DeviceCachedRows)
    for name in ("DeviceGathered", "take_gathered") if mistake.file == SUMS else ():
        monkeypatch.setattr(cache_check, name, getattr(module, name))
    if mistake.file == DEDUPE:
        monkeypatch.setattr(device_rows, "distinct", module.distinct)


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


@needs_gpp
@pytest.mark.full
@pytest.mark.parametrize("mistake", TABLES, ids=str)
def test_a_mistake_of_the_table_is_found(mistake: Mistake, monkeypatch: pytest.MonkeyPatch) -> None:
    _plant(mistake, monkeypatch)
    kinds = (HardwareError, IndexError, ValueError) if mistake.lane == "numbers" else (TypeError,)
    with pytest.raises(kinds):
        LANES["numbers"]("device_rows.cu", source("device_rows.cu"))


def test_at_least_forty_mistakes_are_planted() -> None:
    from tests.gpu.test_transfer import MISTAKES as OF_TRANSFER

    assert len(MISTAKES + WRAPPER + LAUNCHER + OF_TRANSFER) >= 40


@pytest.mark.gpu
@pytest.mark.parametrize("name", NAMES)
def test_a_gpu_gives_the_numbers_of_numpy(name: str) -> None:
    assert gpu_available()
    CHECKS[name](namespace("gpu"))
