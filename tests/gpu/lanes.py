"""The ways in which a CUDA source is tried without a GPU. Each lane raises where it finds something."""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from heterps.device import CUDA_OPTIONS, CudaModule, namespace
from heterps.device.arrays import Namespace
from heterps.device.fake import FakeArray
from heterps.kernels.checks import CHECKS as OF_KERNELS
from heterps.tables.hashing import mix
from heterps.tables.on_device.checks import CHECKS as OF_TABLES
from tests.gpu.host import HostRawModule, host_kernels, replay

CHECKS: dict[str, Callable[[Namespace], None]] = {**OF_KERNELS, **OF_TABLES}

Lane = Callable[[str, str], None]  # name of the file, its text


def numbers(name: str, text: str) -> None:
    """The launcher and the kernels, compiled for the host, against NumPy."""
    with host_kernels({_original(name): text}) as orders:
        CHECKS[name](namespace("fake"))
        assert orders.launches, "no kernel was launched"


def orders(name: str, text: str) -> None:
    """The same with device threads in other orders and on several host threads."""
    for seed, workers in ((5, 1), (11, 3)):
        with host_kernels({_original(name): text}, seed=seed, workers=workers):
            CHECKS[name](namespace("fake"))


def fibers(name: str, text: str) -> None:
    """The same with device threads that are preempted at atomic operations, in seeded orders."""
    for seed in range(1, 9):
        with host_kernels({_original(name): text}, seed=seed, fibers=True):
            CHECKS[name](namespace("fake"))


def memory(name: str, text: str) -> None:
    """The launches of the check once more under AddressSanitizer and UBSan."""
    _sanitize(name, text, "address", "undefined")


def threads(name: str, text: str) -> None:
    """The launches of the check once more on four threads under ThreadSanitizer."""
    _sanitize(name, text, "thread")


def _sanitize(name: str, text: str, *sanitizers: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        tape = Path(folder) / "launches"
        with tape.open("wb") as file, host_kernels(tape=file):  # recorded with the right kernels
            CHECKS[name](namespace("fake"))
        run = replay(text, tape, *sanitizers)
    found = "Sanitizer" in run.stderr or "runtime error" in run.stderr
    if run.returncode or found:
        raise AssertionError(run.stderr[:3000])


def compiler(name: str, text: str) -> None:
    """NVRTC, for one architecture."""
    nvrtc_cubin(text, name, 80)


def architectures() -> list[int]:
    """Those of the supported ones that the installed NVRTC knows."""
    try:
        from cupy.cuda import nvrtc as cupy_nvrtc

        known = cupy_nvrtc.getSupportedArchs()
    except (ImportError, RuntimeError):
        return []
    return [a for a in (75, 80, 86, 89, 90, 100) if a in known]


def nvrtc_program(text: str, name: str, architecture: int, *options: str) -> Any:
    """Compile and return NVRTC's program."""
    if not architectures():
        pytest.skip("NVRTC is not installed")
    from cupy.cuda import nvrtc as cupy_nvrtc

    program = cupy_nvrtc.createProgram(text, name, (), ())
    cupy_nvrtc.compileProgram(program, [f"-arch=sm_{architecture}", *CUDA_OPTIONS, *options])
    return program


def nvrtc_cubin(text: str, name: str, architecture: int) -> bytes:
    """What a GPU of that architecture would load."""
    from cupy.cuda import nvrtc as cupy_nvrtc

    return bytes(cupy_nvrtc.getCUBIN(nvrtc_program(text, name, architecture)))


# Index arithmetic beyond 32 bits


def sparse(count: int, dtype: Any) -> FakeArray:
    """An array of gigabytes, of which only the touched pages exist, with room before it for wrong negative indices."""
    dtype = np.dtype(dtype)
    before, size = 2**35 * dtype.itemsize, count * dtype.itemsize
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000  # MAP_NORESERVE, which the module names since Python 3.13
    try:
        memory = mmap.mmap(-1, before + size + mmap.PAGESIZE, flags=flags)
    except OSError as error:
        pytest.skip(f"no address space for the wide lane: {error}")
    return FakeArray(np.frombuffer(memory, dtype, count, before))


def wide(name: str, text: str) -> None:
    """Rows, samples and positions beyond 2**31, in memory of which only the touched pages exist."""
    with host_kernels():
        WIDE[name](CudaModule(text, HostRawModule))


def _small(values: Any, dtype: Any) -> FakeArray:
    return FakeArray(np.array(values, dtype))


def _wide_rows(module: CudaModule) -> None:
    _wide_gather_row(module)
    _wide_gather_position(module)
    _wide_pool(module)
    for mode in (0, 1, 2, 3):
        _wide_scatter(module, mode)


FAR, WIDTH = 2**20 + 1, 2**12  # a row whose first number is beyond 2**32


def _wide_gather_row(module: CudaModule) -> None:
    values, y = sparse((FAR + 1) * WIDTH, "float32"), _small([0, 0], "float32")
    values._data[FAR * WIDTH + 3 : FAR * WIDTH + 5] = 5, 6
    i, q = np.int32, np.int64
    args = (values, i(WIDTH), i(3), i(2), _small([FAR], "int32"), i(-1), y, q(2), i(1), q(2))
    module.launch("gather_rows", 2, args)
    assert y._data.tolist() == [5, 6]


def _wide_gather_position(module: CudaModule) -> None:
    last, i, q = 2**31 + 3, np.int32, np.int64
    inverse, y = sparse(last + 1, "int32"), sparse(2 * (last + 1), "float32")
    inverse._data[last] = 1
    count = 2 * (last + 1)
    with host_kernels(first=2**31):
        args = (_small([1, 2, 3, 4], "float32"), i(2), i(0), i(2), inverse, i(-1), y, q(2), i(1), q(count))
        module.launch("gather_rows", count, args)
    assert y._data[2 * last :].tolist() == [3, 4]


def _wide_pool(module: CudaModule) -> None:
    values, i, q = sparse((FAR + 1) * WIDTH, "float32"), np.int32, np.int64
    values._data[FAR * WIDTH] = 9
    y, kept, winner = sparse(2**32 + 1, "float32"), _small([0, 0], "int32"), _small([0], "int32")
    args = (values, i(WIDTH), i(0), i(1), _small([FAR], "int32"), _small([0, 0, 1], "int64"), i(-1), i(1), y)
    module.launch("pool_rows", 2, (*args, q(2**32), kept, winner, q(2)))
    assert y._data[2**32] == 9
    assert kept._data.tolist() == [0, 1]


def _wide_scatter(module: CudaModule, mode: int) -> None:
    """The last of a million wide rows has one position, in a sample as far out."""
    i, q, dim = np.int32, np.int64, WIDTH
    gradient, dy = sparse((FAR + 1) * WIDTH, "float32"), sparse((FAR + 1) * WIDTH, "float32")
    starts, winner, kept = sparse(FAR + 2, "int64"), sparse((FAR + 1) * dim, "int32"), sparse(FAR + 1, "int32")
    position = FAR if mode == 0 else 1
    starts._data[FAR + 1] = 1
    gradient._data[FAR * WIDTH], dy._data[FAR * WIDTH], winner._data[FAR * dim] = 1, 2, position
    count = (FAR + 1) * dim
    with host_kernels(first=2**31):
        args = (gradient, i(WIDTH), i(0), i(dim), _small([position], "int32"), starts, i(-1), i(mode))
        args += (_small([0, FAR], "int32"), kept, winner, dy, q(WIDTH), i(1), q(count))  # type: ignore[assignment]
        module.launch("scatter_rows", count - dim + 1, args)
    assert gradient._data[FAR * WIDTH] == 3


def _wide_device_rows(module: CudaModule) -> None:
    _wide_words(module)
    _wide_gradients(module)
    _wide_index(module)


def _wide_words(module: CudaModule) -> None:
    """A row whose words are beyond 2**32 is drawn, read and updated."""
    i, q, words, row = np.int32, np.int64, sparse((FAR + 1) * WIDTH, "float32"), _small([FAR], "int32")
    ids = _small([5], "uint64")
    draw = (words, q(WIDTH), row, ids, i(1), i(1), i(0), np.float64(3), np.float64(3), np.uint64(7), q(1))
    module.launch("draw_values", 1, draw)
    values, p = _small([0, 0], "float32"), _small([-9, 9, 1, 0, 0, 0, 0, 0], "float32")
    gradient = _small([0, 1], "float32")
    head = (i(0), p, words, q(WIDTH), row, gradient, i(2), i(0), i(2), i(2), gradient, i(0), q(1))
    module.launch("apply_rule", 1, head)
    module.launch("read_values", 2, (words, q(WIDTH), i(2), row, values, q(2)))
    assert values._data.tolist() == [0, 2]


def _wide_gradients(module: CudaModule) -> None:
    """The gradient of a position, and of a row, whose numbers are beyond 2**32."""
    i, q, gradients = np.int32, np.int64, sparse((FAR + 1) * WIDTH, "float32")
    gradients._data[FAR * WIDTH] = 4
    merged, order, starts = _small(np.zeros(WIDTH), "float32"), _small([FAR], "int32"), _small([0, 1], "int64")
    module.launch("merge_gradients", 256, (gradients, i(WIDTH), order, starts, merged, q(WIDTH)))
    assert merged._data[0] == 4
    rows, counts, words = sparse(FAR + 1, "int32"), _small([0], "int32"), _small([0], "float32")
    rows._data[FAR - 256 :] = -1
    rows._data[FAR] = 0
    p = _small([-9, 9, 1, 0, 0, 0, 0, 0], "float32")
    with host_kernels(first=2**31):
        args = (i(0), p, words, q(1), rows, gradients, i(WIDTH), i(0), i(1), i(1), p, i(0), q(FAR + 1))
        module.launch("apply_rule", FAR + 1, args)
        assert words._data[0] == -4
        gradients._data[FAR * WIDTH] = np.nan
        module.launch("skip_rows", FAR + 1, (gradients, i(WIDTH), rows, counts, q(FAR + 1)))
    assert (counts._data[0], rows._data[FAR]) == (1, -1)


def _wide_index(module: CudaModule) -> None:
    """An id whose place is beyond 2**31."""
    id_ = next(k for k in range(100) if int(mix(np.uint64(k))) >> 63)
    place, q = int(mix(np.uint64(id_))) >> 32, np.int64
    keys, places, mask = sparse(2**32, "uint64"), sparse(2**32, "int32"), np.uint64(2**32 - 1)
    keys._data[place] = 2**64 - 1
    counts, got = _small([0, 0, 0], "int32"), _small([0], "int32")
    head = (keys, places, mask, _small([id_], "uint64"))
    module.launch("insert_ids", 1, (*head, _small([77], "int32"), counts, q(1)))
    assert (int(keys._data[place]), places._data[place]) == (id_, 77)
    module.launch("find_rows", 1, (*head, got, counts, q(1)))
    assert got._data[0] == 77


def _wide_fused(module: CudaModule) -> None:
    """Samples that lie 2**32 numbers apart, and positions beyond 2**32."""
    i, q, far = np.int32, np.int64, 2**32
    a, b, one = sparse(far + 2, "float32"), sparse(far + 2, "float32"), _small([1], "float32")
    module.launch("add_bias", 2, (a, q(far), one, i(1), i(1), q(2)))
    assert (a._data[far], a._data[0]) == (1, 1)
    module.launch("relu_slope", 2, (a, q(far), b, q(far), i(1), q(2)))
    assert a._data[far] == 0
    a._data[far : far + 2], sums = (3, 4), _small([0, 0], "float32")
    module.launch("sum_columns", 2, (a, q(far), q(2), i(2), q(64), sums, q(2)))
    assert sums._data.tolist() == [3, 4]
    b._data[[0, 1]], pairs = (5, 6), sparse(far + 1, "float32")
    module.launch("dot_pairs", 2, (a, q(far), i(1), i(1), pairs, q(far), q(2)))
    assert pairs._data[far] == 12
    module.launch("dot_pairs_slope", 4, (a, q(far), i(2), i(1), pairs, q(far), b, q(far), q(4)))
    assert b._data[far:].tolist() == [48, 36]
    with host_kernels(first=2**31):
        n, u = far + 2, np.uint64
        module.launch("drop", n, (a, b, u(1), u(0), np.float32(2), q(n)))
        assert b._data[far:].tolist() == [6, 8]
        module.launch("logloss_slope", n, (a, a, a, i(1), b, np.float32(1), q(n)))
    assert b._data[far:].tolist() == [0, 0]


WIDE: dict[str, Callable[[CudaModule], None]] = {
    "rows.cu": _wide_rows,
    "device_rows.cu": _wide_device_rows,
    "fused.cu": _wide_fused,
}

LANES: dict[str, Lane] = {
    "numbers": numbers,
    "orders": orders,
    "fibers": fibers,
    "memory": memory,
    "threads": threads,
    "compiler": compiler,
    "wide": wide,
}


def source(name: str) -> str:
    """The text of a source by its file name."""
    return _original(name)


def _original(name: str) -> str:
    from heterps.device import cuda_sources

    (path,) = (path for path in cuda_sources() if path.name == name)
    return path.read_text()
