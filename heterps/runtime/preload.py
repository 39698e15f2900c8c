"""What ``--preload heterps.runtime.preload`` does in a worker before it takes work, in its nanny, in a scheduler."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

from distributed import Nanny, Scheduler, Worker

from heterps.runtime.cluster.calm import calm_down
from heterps.runtime.cluster.core_share import limit_blas
from heterps.runtime.cluster.ending import leave_on_sigterm
from heterps.runtime.cluster.exposure import refuse_open
from heterps.runtime.cluster.letting_go import LettingGo
from heterps.runtime.cluster.notices import NoticeBoard
from heterps.runtime.config import settings
from heterps.runtime.own_threads import logged, start_thread

__all__ = ["dask_setup", "prepare_process", "warm_all"]


def dask_setup(server: Any) -> None:
    """Refuse to be open to strangers, prepare the process, see to it that workers give back what they have before they
    leave; Dask calls this by name once it listens.
    """
    refuse_open(server)
    if settings().calm:
        calm_down(server)
    if isinstance(server, Scheduler):
        for plugin in (LettingGo(), NoticeBoard()):
            server.add_plugin(plugin, idempotent=True)  # started with the scheduler
    if isinstance(server, Worker | Nanny):
        leave_on_sigterm(server)
    if not isinstance(server, Worker):
        return
    prepare_process()
    if settings().warm:
        start_thread("warm", warm_all, failed=logged("compiling loops ahead of time"))


def warm_all() -> None:
    """Compile every loop, or read it from the cache, beside the worker's start: its first batch then finds them."""
    for part in ("tables", "kernels", "data"):
        importlib.import_module(f"heterps.{part}.warm").warm()


def prepare_process() -> None:
    """Set BLAS threads and the switch interval from ``heterps.worker`` in Dask's config.

    A nanny sets OMP_NUM_THREADS=1 for its workers, and a worker without one may find nothing set and take all cores;
    so a number is always set, from the config, else the environment, else 1.
    """
    found = settings()
    limit_blas(found.blas_threads or _from_environment())
    # Calls are answered by the event loop, which otherwise waits 5 ms for each thread of pure Python.
    sys.setswitchinterval(found.switch_interval_s or sys.getswitchinterval())


def _from_environment() -> int:
    value = os.environ.get("OMP_NUM_THREADS", "")
    return int(value) if value.isdigit() and int(value) > 0 else 1
