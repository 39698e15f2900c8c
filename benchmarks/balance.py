"""How batches are shared between compute workers of unequal speed: 4 io workers, 3 compute workers, one slow."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np

import heterps as hps
from heterps import ops
from heterps.protocol.words.modes import Async
from heterps.runtime.batch.job import Job
from heterps.runtime.batch.model import Model
from heterps.runtime.cluster.core_share import Threads
from heterps.runtime.cluster.in_process import local_cluster
from heterps.runtime.run.dask_engine import ClusterEngine
from heterps.runtime.run.roles import Roles
from heterps.runtime.workers.stage import StageService
from heterps.stages import partition


def graph() -> hps.Graph:
    ids = ops.input("ids", (2,), "uint64")
    h = ops.relu(ops.dense(ops.concat(ops.lookup(ids, "t", 4)), 64, name="fc"))
    return hps.Graph(loss=ops.logloss(ops.dense(h, 1, name="out"), ops.input("y")))


@contextmanager
def slowed(seconds: Mapping[str, float]) -> Iterator[None]:
    """Make the forward of compute workers of this process take so much longer, by the worker's name."""
    forward = StageService._forward

    def slow(stage: StageService, *args: Any) -> dict[str, Any]:
        time.sleep(next(s for name, s in seconds.items() if f"worker {name} " in stage.where))
        return forward(stage, *args)

    with mock.patch.object(StageService, "_forward", slow):
        yield


def throughput(step_s: float, slow: float, seconds: float) -> tuple[dict[str, int], float]:
    """Train for a while; return the steps of each compute worker and the time they took."""
    made = graph()
    stages = tuple(part.ops for part in partition(made).parts)
    job = Job(Model(made), 8, Async(depth=3), stages=stages)
    rng = np.random.default_rng(0)
    ids = rng.integers(0, 100, (20_000, 2)).astype(np.uint64)
    data = hps.arrays({"ids": ids, "y": (ids[:, 0] % 2).astype(np.float32)}, split_cost=1000)
    pools = {"server": 1, "io": 4, "compute": 3}
    with local_cluster(pools, threads=Threads(1, 1)) as client:
        engine = ClusterEngine(job, client, Roles(stages=("io", "compute")), report_s=0.2)
        first: dict[str, int] = {}
        began = now = 0.0
        with slowed({"compute-0": slow, "compute-1": step_s, "compute-2": step_s}):
            for progress in engine.train(data, 1000):
                now = time.perf_counter()
                if not first and progress.samples:
                    there = engine.stage_steps()  # workers join one after another
                    first, began = (there if len(there) == pools["compute"] else {}), now
                elif first and now - began >= seconds:
                    break
            last = engine.stage_steps()
        engine.close()
    return {name: last[name] - first[name] for name in last}, now - began
