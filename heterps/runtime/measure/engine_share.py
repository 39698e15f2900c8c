"""What the engine takes besides the work: per batch, and while it only waits.

A model of one number is trained on batches of a few rows in a small cluster of this process: what that takes per batch
is protocol, queues, threads and events. An idle cluster shows what schedulers and workers take to watch over each
other.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
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
from heterps.runtime.report.progress import Progress
from heterps.runtime.run.open import open_cluster

__all__ = ["with_engine"]

_ROWS = 8
_BATCHES = 20_000
_SECONDS = 1.0
_WORKERS = {"server": 1, "io": 1}


def with_engine(rates: Rates, processes: bool) -> Rates:
    """Return rates with the engine's time per batch, and what an idle worker takes of a core."""
    with local_cluster(_WORKERS, calm=not processes) as client:
        time.sleep(0.2)
        cpu = time.process_time()
        time.sleep(_SECONDS)
        idle = (time.process_time() - cpu) / _SECONDS
        seconds = _batch_s(client, idle)
    return replace(rates, batch_s=seconds, idle_cores=idle / (len(_WORKERS) + 1))  # and the scheduler


def _batch_s(client: Client, idle: float) -> float:
    """Processor seconds of a batch that holds next to nothing, what an idle cluster takes left out."""
    plan = Plan.fused(_smallest(), batch_size=_ROWS)
    job = Job(Model(plan.graph), _ROWS, Async(depth=plan.depth))
    rows = np.zeros(_ROWS * _BATCHES, np.float32)
    data = arrays({"ids": np.zeros((len(rows), 1), np.uint64), "y": rows})
    engine = open_cluster(job, plan, client, report_s=_SECONDS / 4)
    try:
        return _timed(engine.train(data, 100), idle)
    finally:
        engine.close()


def _timed(run: Iterator[Progress], idle: float) -> float:
    first = last = next(run)
    cpu, wall = time.process_time(), time.perf_counter()
    while not last.done and time.perf_counter() - wall < _SECONDS:
        last = next(run)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return max(0.0, cpu - idle * wall) / max(last.batches - first.batches, 1)


def _smallest() -> Graph:
    """One table of one number."""
    ids, y = ops.input("ids", shape=(1,), dtype="uint64"), ops.input("y")
    return Graph(loss=ops.logloss(ops.sum(ops.lookup(ids, table="only", dim=1)), y))
