"""What Dask takes for many workers: its scheduler, the workers and a client, each in a process of its own.

``python -m benchmarks.scale --dask 300 [--calm]``: all workers are in one process, on one event loop; ``--calm`` lets
scheduler and workers look at themselves as seldom as with our preload. Printed is what the start, tasks, calls of
actors, looks at all workers and five seconds of nothing take of a core, by process, and by the clock.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psutil
from distributed import Client, Worker, wait

from benchmarks.machine import cpu_of
from heterps.runtime.cluster.calm import calm_down
from heterps.runtime.cluster.identity import identity_of

__all__ = ["measure_dask"]

_PRELOAD = "benchmarks.dask_workers"  # makes the scheduler calm
_IDLE_S = 5.0
_LOOKS = 20


class Counter:
    """An actor."""

    def __init__(self) -> None:
        self.n = 0

    async def add(self) -> int:
        """Count a call."""
        self.n += 1
        return self.n


def dask_setup(server: Any) -> None:
    """Let a server be calm; Dask calls this by name."""
    calm_down(server)


class Meter:
    """CPU seconds of processes by name, and seconds, since it was last read."""

    def __init__(self, processes: dict[str, int]) -> None:
        self._processes = {name: psutil.Process(pid) for name, pid in processes.items()}
        self._last, self._then = self._read(), time.perf_counter()

    def _read(self) -> dict[str, float]:
        return {name: cpu_of(process.pid) for name, process in self._processes.items()}

    def reset(self) -> None:
        """Begin anew."""
        self._last, self._then = self._read(), time.perf_counter()

    def told(self, what: str, count: int) -> None:
        """Print what each of so many things took."""
        now, took = self._read(), time.perf_counter() - self._then
        each = ", ".join(f"{name} {1e6 * (now[name] - self._last[name]) / count:,.0f}" for name in now)
        print(f"{what}: {count / took:,.1f} a second; us of a core each: {each}", flush=True)
        self.reset()

    def idle(self) -> None:
        """Print what is taken while nothing happens."""
        self.reset()
        time.sleep(_IDLE_S)
        now, took = self._read(), time.perf_counter() - self._then
        each = ", ".join(f"{name} {(now[name] - self._last[name]) / took:.3f}" for name in now)
        memory = ", ".join(f"{name} {each.memory_info().rss / 2**20:.0f}" for name, each in self._processes.items())
        print(f"while nothing happens, of a core: {each}; MB: {memory}", flush=True)


@contextmanager
def started(words: list[str]) -> Iterator[int]:
    """Run a process around a block."""
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


def measure_dask(workers: int, tasks: int, calm: bool) -> None:
    """Start the processes, and measure."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        file = str(Path(folder, "scheduler.json"))
        words = [sys.executable, "-m", "dask", "scheduler", "--host", "127.0.0.1", "--port", "0"]
        words += ["--dashboard-address", "127.0.0.1:0", "--scheduler-file", file]
        scheduler = stack.enter_context(started(words + (["--preload", _PRELOAD] if calm else [])))
        began = time.perf_counter()
        many = [sys.executable, "-m", "benchmarks.dask_workers", file, str(workers), str(int(calm))]
        there = stack.enter_context(started(many))
        client = stack.enter_context(Client(scheduler_file=file))
        client.wait_for_workers(workers, timeout=300)
        meter = Meter({"scheduler": scheduler, "workers": there, "client": os.getpid()})
        took = time.perf_counter() - began
        print(
            f"{workers} workers{', calm' if calm else ''}: start {took:.1f} s, load {os.getloadavg()[0]:.1f}",
            flush=True,
        )
        meter.idle()
        _use(client, meter, tasks)


def _use(client: Client, meter: Meter, tasks: int) -> None:
    workers = list(identity_of(client)["workers"])
    for rounds in range(2):
        meter.reset()
        futures = [
            client.submit(int, n, key=f"task-{rounds}-{n}", workers=[workers[n % len(workers)]], pure=False)
            for n in range(tasks)
        ]
        wait(futures)
        meter.told("tasks", tasks)
        del futures
    made = [client.submit(Counter, actor=True, workers=[worker], key=f"actor-{worker}") for worker in workers]
    actors = [future.result() for future in made]
    rounds = max(1, tasks // len(actors))
    meter.reset()
    for _ in range(rounds):
        for answer in [actor.add() for actor in actors]:
            answer.result()
    meter.told("calls of actors", rounds * len(actors))
    for _ in range(_LOOKS):
        identity_of(client)
    meter.told("looks at all workers", _LOOKS)


async def be_workers(file: str, count: int, calm: bool) -> None:
    """Be so many workers until the process ends."""
    options: dict[str, Any] = {"nthreads": 1, "memory_limit": 0, "dashboard_address": "127.0.0.1:0"}
    preload = {"preload": [_PRELOAD]} if calm else {}
    for number in range(count):
        await Worker(scheduler_file=file, name=number, host="127.0.0.1", **options, **preload)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(be_workers(sys.argv[1], int(sys.argv[2]), bool(int(sys.argv[3]))))
