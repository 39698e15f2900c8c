"""What the engine takes besides the work: per batch, and while it only waits.

A model of one number is trained on batches of a few rows in a small cluster: what that takes per batch is protocol,
queues, threads and events. An idle cluster shows what schedulers, workers and drivers take to watch over each other.
Where workers are to be processes, so are those of the small cluster: each has an event loop and monitors of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
from distributed import Client

from heterps.data import arrays
from heterps.graph import Graph, ops
from heterps.planner.costs.profile import Rates
from heterps.planner.plan import Plan
from heterps.protocol.words.modes import Async
from heterps.runtime.batch.job import Job
from heterps.runtime.batch.model import Model
from heterps.runtime.cluster.in_process import local_cluster
from heterps.runtime.measure.own_processes import engine_in_processes
from heterps.runtime.report.progress import Progress
from heterps.runtime.run.open import open_cluster

__all__ = ["WORKERS", "engine_taken", "with_engine"]

_ROWS = 8
_BATCHES = 20_000
_SECONDS = 1.0
_WARM, _LEAST = 50, 200  # batches until all loops are loaded, and to be timed
_TURNS, _SETTLED = 12, 0.7  # measurements of an idle cluster, and what part of the last one says that it is idle
_AT_WORK = 0.1  # of a core for each process: above, it does something
WORKERS = {"server": 1, "io": 1}
_THERE = len(WORKERS) + 2  # and the scheduler, and the driver
_CALLS = 4  # of a batch: rows and gradients, a caller and a host each


def with_engine(rates: Rates, processes: bool) -> Rates:
    """Return rates with the engine's time per batch, and what a worker that waits takes of a core."""
    if processes:
        batch_s, idle = engine_in_processes()
        batch_s = max(0.0, batch_s - _CALLS * rates.call_s)  # which are counted by themselves
    else:
        with local_cluster(WORKERS) as client:
            batch_s, idle = engine_taken(client, time.process_time)
    return replace(rates, batch_s=batch_s, idle_cores=idle / _THERE)


def engine_taken(client: Client, clock: Callable[[], float]) -> tuple[float, float]:
    """Processor seconds of a batch that holds next to nothing, and those of a second without work, by a clock.

    It is first trained, then waited: workers that have just begun still import and load loops, which is not idling.
    """
    cpu, wall, batches = _trained(client, clock)
    time.sleep(0.2)
    idle = _idle(clock)
    return max(0.0, cpu - idle * wall) / batches, idle


def _idle(clock: Callable[[], float]) -> float:
    """Cores that a cluster takes while it waits: the least of measurements, until they are small and do not fall.

    Processes that still load or compile take whole cores, which would be taken off all that a Host has.
    """
    taken = [_cores(clock)]
    for _ in range(_TURNS):
        taken.append(_cores(clock))
        if min(taken) <= _AT_WORK * _THERE and taken[-1] >= _SETTLED * taken[-2]:
            break
    return min(taken)


def _cores(clock: Callable[[], float]) -> float:
    cpu, wall = clock(), time.perf_counter()
    time.sleep(_SECONDS / 2)
    return (clock() - cpu) / (time.perf_counter() - wall)


def _trained(client: Client, clock: Callable[[], float]) -> tuple[float, float, int]:
    """Processor seconds and seconds of some batches that hold next to nothing."""
    plan = Plan.fused(_smallest(), batch_size=_ROWS)
    job = Job(Model(plan.graph), _ROWS, Async(depth=plan.depth))
    rows = np.zeros(_ROWS * _BATCHES, np.float32)
    data = arrays({"ids": np.zeros((len(rows), 1), np.uint64), "y": rows})
    engine = open_cluster(job, plan, client, report_s=_SECONDS / 4)
    try:
        return _timed(engine.train(data, 100), clock)
    finally:
        engine.close()


def _timed(run: Iterator[Progress], clock: Callable[[], float]) -> tuple[float, float, int]:
    first = next(progress for progress in run if progress.batches >= _WARM or progress.done)
    last, cpu, wall = first, clock(), time.perf_counter()
    while not last.done and (time.perf_counter() - wall < _SECONDS or last.batches - first.batches < _LEAST):
        last = next(run)
    return clock() - cpu, time.perf_counter() - wall, max(last.batches - first.batches, 1)


def _smallest() -> Graph:
    """One table of one number."""
    ids, y = ops.input("ids", shape=(1,), dtype="uint64"), ops.input("y")
    return Graph(loss=ops.logloss(ops.sum(ops.lookup(ids, table="only", dim=1)), y))
