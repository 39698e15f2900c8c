"""What a GPU and its libraries are good for, found out by using them; for `heterps doctor`.

Each function takes CuPy (or a stand-in for it) and returns a line on what is there. What is wrong is an
:class:`AilmentError`, with the sentence that mends it.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from heterps.device.raw import CUDA_OPTIONS, cuda_sources, cuda_text
from heterps.errors import HardwareError

__all__ = ["AbsentError", "AilmentError", "blas", "copies", "driver", "has_driver", "load_cupy", "nvrtc"]

COPY_BYTES = 64 << 20
LIBRARIES = "install the CUDA libraries beside CuPy: pip install 'heterps[gpu13-ctk]' (gpu12-ctk for CUDA 12)"


class AilmentError(HardwareError):
    """Something does not work; ``remedy`` is the sentence that mends it."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(f"{problem}: {remedy}")
        self.problem, self.remedy = problem, remedy


class AbsentError(AilmentError):
    """Something is not there, which is no fault unless it is wanted."""


def has_driver() -> bool:
    """Whether NVIDIA's driver library can be loaded."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


def load_cupy(driver_there: bool) -> Any:
    """Import CuPy."""
    try:
        import cupy
    except ImportError as error:
        remedy = "pip install 'heterps[gpu13]' (gpu12 for drivers before CUDA 13)"
        if driver_there:
            raise AilmentError(f"there is a driver but CuPy cannot be imported ({error})", remedy) from error
        raise AbsentError("no driver and no CuPy, so everything is computed on the CPU", remedy) from error
    return cupy


def driver(cupy: Any, driver_there: bool) -> str:
    """Name the devices, with the versions of driver and runtime."""
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise _no_device(str(error), driver_there) from error
    if not count:
        raise _no_device("no device", driver_there)
    names = [cupy.cuda.runtime.getDeviceProperties(i)["name"].decode() for i in range(count)]
    have, need = cupy.cuda.runtime.driverGetVersion(), cupy.cuda.runtime.runtimeGetVersion()
    return f"{', '.join(names)}; driver for CUDA {_version(have)}, runtime {_version(need)}"


def _no_device(error: str, driver_there: bool) -> AilmentError:
    if not driver_there:
        return AbsentError(
            "CuPy is installed but there is no driver, so everything is computed on the CPU",
            "install NVIDIA's driver for this machine's GPU if it has one",
        )
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return AilmentError(
            f"CUDA_VISIBLE_DEVICES={visible!r} leaves no device ({error})", "unset it, or name devices that exist"
        )
    if "InsufficientDriver" in error:
        return AilmentError(
            f"the driver is older than CuPy's CUDA ({error})", "update the driver, or install 'heterps[gpu12]'"
        )
    return AilmentError(f"the driver finds no device ({error})", "run nvidia-smi, which says why; then restart")


def _version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"


def blas(cupy: Any) -> str:
    """Multiply matrices with cuBLAS and compare."""
    a = np.random.default_rng(0).standard_normal((33, 65)).astype(np.float32)
    try:
        there = cupy.asarray(a)
        product = cupy.asnumpy(cupy.matmul(there, there.T))
    except (ImportError, OSError, RuntimeError) as error:
        raise AilmentError(f"cuBLAS cannot be used ({error})", LIBRARIES) from error
    worst = float(np.abs(product - a @ a.T).max())
    if not worst < 1e-3:  # a NaN is not
        raise AilmentError(f"cuBLAS gives wrong products (off by {worst:g})", "update driver and CuPy; test the memory")
    return f"products within {worst:.1g} of NumPy's"


def nvrtc(cupy: Any) -> str:
    """Compile every CUDA source of the package; needs no device."""
    try:
        compiler = cupy.cuda.nvrtc
        version = compiler.getVersion()
    except (ImportError, OSError, RuntimeError, AttributeError) as error:
        raise AilmentError(f"NVRTC cannot be loaded ({error})", LIBRARIES) from error
    for path in cuda_sources():
        program = compiler.createProgram(cuda_text(path), path.name, (), ())
        try:
            compiler.compileProgram(program, ["-arch=sm_80", *CUDA_OPTIONS])
        except Exception as error:  # NVRTCError has no base of its own
            raise AilmentError(f"NVRTC does not compile {path.name} ({error})", LIBRARIES) from error
    names = ", ".join(path.name for path in cuda_sources())
    return f"NVRTC {version[0]}.{version[1]} compiles {names}"


def copies(cupy: Any, clock: Callable[[], float] = time.perf_counter) -> str:
    """Measure copies to the device from pageable and from pinned memory."""
    there = cupy.empty(COPY_BYTES, np.uint8)
    pinned = np.frombuffer(cupy.cuda.alloc_pinned_memory(COPY_BYTES), np.uint8, COPY_BYTES)
    rates = [_rate(cupy, there, host, clock) for host in (np.zeros(COPY_BYTES, np.uint8), pinned)]
    text = f"{rates[0]:.1f} GB/s from pageable memory, {rates[1]:.1f} GB/s from pinned memory"
    if rates[1] < 1.0:
        raise AilmentError(text, "the device is connected by too few lanes or is busy: see nvidia-smi -q -d PCI")
    return text


def _rate(cupy: Any, there: Any, host: Any, clock: Callable[[], float]) -> float:
    stream, best = cupy.cuda.get_current_stream(), 1e9
    for _ in range(4):
        begun = clock()
        there.set(host)
        stream.synchronize()
        best = min(best, clock() - begun)
    return COPY_BYTES / max(best, 1e-9) / 1e9
