"""Measure the machine the program runs on."""

from __future__ import annotations

import functools
import os
import pathlib
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from heterps.hardware.catalogue import catalogue
from heterps.hardware.values import Device, Hardware, Host, Pool
from heterps.hardware.visible import listed_gpus, words_of

__all__ = ["local_gpus", "measure_local", "memory_limit_bytes"]

_GEMM_SIDE = 512
_COPY_FLOATS = 8 << 20  # 32 MB: beyond the caches of most machines
_SECONDS = 0.02


@functools.cache
def measure_local() -> Hardware:
    """One unit is one core of this machine; all units share its memory bandwidth."""
    cores, memory = len(os.sched_getaffinity(0)), memory_limit_bytes()
    with threadpool_limits(1):
        pair = _to_copy()
        flops, copy = _gemm_flops(), _copy_bytes_per_s(pair, 1)
        together = _copy_bytes_per_s(pair, cores) if cores > 1 else copy
    host = Host("local", cores, memory, max(together, copy))
    device = Device(
        "local-core", "cpu", {"float32": flops}, memory / cores, copy, copy / 2, launch_s=5e-6, source="measured here"
    )
    return Hardware((Pool("cpu", device, cap=cores, host="local"), *_gpu_pools()), (host,))


def memory_limit_bytes() -> float:
    """Memory that this process may use: the machine's, or its control group's where that is less."""
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            text = pathlib.Path(path).read_text().strip()
        except OSError:
            continue
        if text.isdigit():
            return float(min(physical, int(text)))
    return float(physical)


def local_gpus(folder: str = "/proc/driver/nvidia/gpus") -> tuple[str, ...]:
    """Model names of the GPUs that the NVIDIA driver lists; no CUDA library is loaded for it."""
    return tuple(gpu.model for gpu in listed_gpus(folder))


def _gpu_pools() -> tuple[Pool, ...]:
    models = local_gpus()
    devices = [_known_gpu(model) for model in sorted(set(models))]
    return tuple(
        Pool("gpu" if i == 0 else f"gpu{i}", device, cap=models.count(device.name), serves=False)
        for i, device in enumerate(devices)
    )


def _known_gpu(model: str) -> Device:
    """Data-sheet figures of the catalogue's device whose name is part of the driver's, else those of the slowest."""
    gpus = [device for device in catalogue().values() if device.kind == "gpu"]
    match = next((device for device in gpus if words_of(model).issuperset(device.name.split("-"))), None)
    known = match or min(gpus, key=lambda d: d.flops["float32"])
    note = known.source if match else f"unknown model, taken as {known.name}: {known.source}"
    return replace(known, name=model, price_per_hour=0.0, sold_in=1, source=note)


def _gemm_flops() -> float:
    a = np.ones((_GEMM_SIDE, _GEMM_SIDE), np.float32)
    out = np.empty_like(a)
    return 2.0 * _GEMM_SIDE**3 / _seconds_per_call(lambda: np.matmul(a, a, out=out))


def _copy_bytes_per_s(pair: npt.NDArray[np.float32], threads: int) -> float:
    """Bytes read plus bytes written per second, by all threads together, each with a part of a pair of arrays."""
    parts = np.array_split(pair, threads, axis=1)
    with ThreadPoolExecutor(threads) as executor:
        times = executor.map(lambda part: _seconds_per_call(lambda: np.copyto(part[0], part[1])), parts)
        return pair.nbytes / max(times)


def _to_copy() -> npt.NDArray[np.float32]:
    """A target and a source, written to: memory that never was is one page of zeros, out of a cache."""
    return np.ones((2, _COPY_FLOATS), np.float32)


def _seconds_per_call(call: Callable[[], object]) -> float:
    """Least processor time of this thread over the calls that fit into a short time: nothing waits in it."""
    call()
    best, until = float("inf"), time.perf_counter() + _SECONDS
    while time.perf_counter() < until or best == float("inf"):
        start = time.thread_time()
        call()
        best = min(best, time.thread_time() - start)
    return max(best, 1e-9)
