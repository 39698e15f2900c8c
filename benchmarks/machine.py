"""What a figure was measured on."""

from __future__ import annotations

import multiprocessing
import os
import platform
import time
from pathlib import Path

import numpy as np  # noqa: F401  (loads the BLAS that is described)
from threadpoolctl import threadpool_info


def describe() -> dict[str, str]:
    """Processor, memory, BLAS and load of this machine; nothing that names it."""
    info = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    fields = dict(line.split(":", 1) for line in info.split("\n\n")[0].splitlines() if ":" in line)
    fields = {key.strip(): value.strip() for key, value in fields.items()}
    flags = fields.get("flags", "").split()
    vector = next((name for name in ("avx512f", "avx2", "avx") if name in flags), "no AVX")
    gigabytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    blas = "; ".join(f"{b['internal_api']} {b['version']}" for b in threadpool_info() if b["user_api"] == "blas")
    return {
        "processor": f"{fields.get('model name', platform.machine())}, {os.cpu_count()} cores, {vector}",
        "memory": f"{gigabytes:.0f} GiB",
        "BLAS": blas,
        "Python": platform.python_version(),
    }


def spare(seconds: float = 1.0) -> str:
    """How many cores two processes that only count get: what a measurement can hope for."""
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        got = sum(pool.map(_spin, [seconds, seconds], chunksize=1))
    return f"before it two spinning processes got {got:.2f} cores"


def _spin(seconds: float) -> float:
    began, used = time.perf_counter(), time.process_time()
    while time.perf_counter() - began < seconds:
        pass
    return (time.process_time() - used) / (time.perf_counter() - began)


def cpu_of(pid: int) -> float:
    """Return the CPU seconds of the threads that a process has, finer than by ticks."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9
