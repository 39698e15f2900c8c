"""A cluster inside this process: the scheduler and workers are threads, arrays pass by reference."""

from __future__ import annotations

import contextlib
import logging
import sys
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any

import dask
import threadpoolctl
from distributed import Client, Scheduler, SpecCluster, Worker
from distributed.system import MEMORY_LIMIT

from heterps.errors import ClusterError
from heterps.runtime.cluster.calm import calm_beats
from heterps.runtime.cluster.core_share import Threads, allot, available_cores
from heterps.runtime.cluster.resources import resource_of
from heterps.runtime.config import settings

__all__ = ["DEFAULT_WORKERS", "local_cluster"]

DEFAULT_WORKERS: Mapping[str, int] = {"server": 1, "io": 1, "compute": 1}
# What a scheduler and workers do all the time to watch over machines. In one process they are many on one event loop,
# which then takes a fifth of a core from training; and spill files would only move bytes that actors keep anyway.
_CALM: Mapping[str, Any] = {
    "worker.memory.spill": False,
    "worker.memory.target": False,
    "worker.memory.monitor-interval": "2s",
    "worker.profile.enabled": False,
    "admin.tick.interval": "500ms",
    "admin.system-monitor.interval": "5s",
    "admin.system-monitor.disk": False,
    "admin.system-monitor.gil.enabled": False,
    "scheduler.active-memory-manager.start": False,
    "scheduler.work-stealing": False,
}
_LOOPBACK = "127.0.0.1:0"  # both kinds of server answer /health over HTTP, dashboard or not


@contextlib.contextmanager
def local_cluster(
    workers: Mapping[str, int] | None = None,
    *,
    threads: Threads | None = None,
    memory_bytes: int | None = None,
    calm: bool = True,
) -> Iterator[Client]:
    """Start an in-process cluster, yield a client of it, end it quietly.

    Parameters
    ----------
    workers
        Number of workers by pool; by default one of each kind.
    threads
        Task threads of each worker and threads of a BLAS call; by default the cores are divided. BLAS threads are a
        setting of the process and are put back afterwards.
    memory_bytes
        Memory limit of each worker; by default the machine's memory is divided.
    calm
        Whether scheduler and workers watch over each other less closely than those of many machines do.

    Examples
    --------
    >>> with local_cluster({"io": 2, "compute": 1}) as client:
    ...     len(client.scheduler_info()["workers"])
    3
    """
    pools = _names(DEFAULT_WORKERS if workers is None else workers)
    shares = [threads] * len(pools) if threads else allot(list(pools.values()), available_cores())
    memory = MEMORY_LIMIT // len(pools) if memory_bytes is None else memory_bytes
    specs = {
        name: _worker(name, pool, share.tasks, memory)
        for (name, pool), share in zip(pools.items(), shares, strict=True)
    }
    blas = settings().blas_threads or max(share.blas for share in shares)
    with contextlib.ExitStack() as stack:
        for block in (_scratch(), _quiet(calm), _prepared(blas)):
            stack.enter_context(block)
        cluster = stack.enter_context(_cluster(specs))
        if calm:
            calm_beats(cluster.scheduler)
        yield stack.enter_context(Client(cluster, set_as_default=False))


@contextlib.contextmanager
def _scratch() -> Iterator[None]:
    """Let scheduler and workers keep their files in a folder that goes with them; Dask leaves its own behind."""
    made = tempfile.TemporaryDirectory(prefix="heterps-workers-", ignore_cleanup_errors=True)
    with made as folder, dask.config.set({"temporary-directory": folder}):
        yield


def _names(workers: Mapping[str, int]) -> dict[str, str]:
    names = {f"{pool}-{i}": pool for pool, count in workers.items() for i in range(count)}
    if not names:
        raise ClusterError("a cluster without workers: ask for at least one")
    return names


def _worker(name: str, pool: str, nthreads: int, memory_bytes: int) -> dict[str, Any]:
    options = {
        "name": name,
        "nthreads": nthreads,
        "resources": {resource_of(pool): 1},
        "memory_limit": memory_bytes,
        "dashboard": False,
        "dashboard_address": _LOOPBACK,
        "silence_logs": False,
    }
    return {"cls": Worker, "options": options}


def _cluster(workers: dict[str, Any]) -> SpecCluster:
    options = {"protocol": "inproc://", "port": 0, "dashboard": False, "dashboard_address": _LOOPBACK}
    return SpecCluster(
        workers=workers, scheduler={"cls": Scheduler, "options": options}, name="heterps", silence_logs=False
    )


@contextlib.contextmanager
def _prepared(blas: int) -> Iterator[None]:
    """Do for this process what the preload does for a worker's own, and undo it."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(settings().switch_interval_s or interval)
    try:
        with threadpoolctl.threadpool_limits(blas):
            yield
    finally:
        sys.setswitchinterval(interval)


@contextlib.contextmanager
def _quiet(calm: bool) -> Iterator[None]:
    """Keep what Dask says about coming and going off the user's screen: errors only."""
    logger = logging.getLogger("distributed")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with dask.config.set({f"distributed.{key}": value for key, value in _CALM.items()} if calm else {}):
            yield
    finally:
        logger.setLevel(before)
