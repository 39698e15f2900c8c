"""Who may use how many cores: task threads x BLAS threads of all workers stay within the machine."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import threadpoolctl

from heterps.errors import ClusterError
from heterps.runtime.cluster.gpu_share import is_gpu_pool
from heterps.runtime.cluster.resources import COMPUTE

__all__ = ["Threads", "allot", "available_cores", "blas_libraries", "limit_blas", "thread_environment"]

_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS", "NUMBA_NUM_THREADS")


@dataclass(frozen=True)
class Threads:
    """Task threads of one worker, and the threads that each of its BLAS calls uses."""

    tasks: int
    blas: int


def available_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0))


def allot(pools: Sequence[str], cores: int) -> tuple[Threads, ...]:
    """Divide ``cores`` between workers of the given pools, one entry per worker.

    A compute worker runs one batch at a time and gives its cores to BLAS; the others give them to tasks. Cores left
    over go to compute workers first. A worker always gets one, so more workers than cores share.

    >>> allot(["server", "io", "compute"], cores=4)
    (Threads(tasks=1, blas=1), Threads(tasks=1, blas=1), Threads(tasks=1, blas=2))
    """
    if cores < 1:
        raise ClusterError(f"cannot divide {cores} cores between workers")
    if not pools:
        return ()
    share, over = divmod(cores, len(pools))
    computing = [pool == COMPUTE or is_gpu_pool(pool) for pool in pools]
    first = sorted(range(len(pools)), key=lambda i: not computing[i])  # stable: in order within a kind
    shares = [max(1, share)] * len(pools)
    for i in first[:over] if share else ():
        shares[i] += 1
    return tuple(Threads(1, n) if heavy else Threads(n, 1) for n, heavy in zip(shares, computing, strict=True))


def thread_environment(blas: int) -> Mapping[str, str]:
    """Environment under which a process started afresh uses that many threads per BLAS call."""
    return dict.fromkeys(_VARIABLES, str(blas))


def limit_blas(threads: int) -> None:
    """Set the threads of BLAS and OpenMP in this process for good."""
    threadpoolctl.threadpool_limits(threads)


def blas_libraries() -> tuple[tuple[str, int], ...]:
    """Return name with version, and threads, of every BLAS that is loaded; equal runs need equal ones."""
    loaded = (info for info in threadpoolctl.threadpool_info() if info["user_api"] == "blas")
    return tuple(sorted(_named(info) for info in loaded))


def _named(info: Mapping[str, object]) -> tuple[str, int]:
    threads = info["num_threads"]
    assert isinstance(threads, int)
    return f"{info['internal_api']} {info['version']} {info.get('architecture') or ''}".strip(), threads
