"""SIGTERM to a worker or its nanny: what it has is given back first, then Dask ends the process."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from types import FrameType

from distributed import Nanny, Worker

from heterps.runtime.cluster.letting_go import ACTOR_PREFIX, retire_when_free
from heterps.runtime.own_threads import logged, start_thread

__all__ = ["end_by_force", "leave_on_sigterm"]

#: Seconds that Dask has to end a process: one whose scheduler goes at the same moment may wait for it for ever.
_ENDING_S = 20.0


def leave_on_sigterm(server: Worker | Nanny) -> None:
    """Have the first SIGTERM wait until runs have let the worker go, at most ``heterps.timeouts.leave``.

    A second one does not wait. What the process did before at SIGTERM, Dask's own way to end or the system's, it does
    then. A worker inside another program, such as a cluster in this process, has no signals of its own.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    loop, before = asyncio.get_running_loop(), signal.getsignal(signal.SIGTERM)
    leaving: set[asyncio.Task[None]] = set()  # a loop keeps no task alive

    async def leave() -> None:
        if worker := _worker_of(server):
            await retire_when_free(server.scheduler, worker)
        end_by_force(_ENDING_S)
        signal.raise_signal(signal.SIGTERM)

    def begin() -> None:
        leaving.add(loop.create_task(leave()))

    def handle(number: int, frame: FrameType | None) -> None:
        signal.signal(number, before)
        loop.call_soon_threadsafe(begin)

    signal.signal(signal.SIGTERM, handle)


def end_by_force(after_s: float) -> None:
    """End this process as SIGTERM does, if it is still there after some seconds."""

    def end() -> None:
        time.sleep(after_s)
        os._exit(128 + signal.SIGTERM)

    start_thread("ending", end, failed=logged("ending"))


def _worker_of(server: Worker | Nanny) -> str:
    """Return the address of a worker that may have something of a run; empty if there is nothing to give back."""
    if isinstance(server, Nanny):
        return str(server.worker_address or "")
    return server.address if any(str(key).startswith(ACTOR_PREFIX) for key in server.state.actors) else ""
