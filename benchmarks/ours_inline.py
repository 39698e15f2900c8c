"""HeterPS without Dask, in one thread: what the engine and the tables cost by themselves."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.serve import DENSE_LR, Settings, serve, settings
from benchmarks.workload import Samples
from graphs.deepfm import deepfm
from graphs.dlrm import dlrm
from graphs.wide_deep import wide_deep
from heterps.data import Arrays, arrays
from heterps.graph import Graph
from heterps.protocol.modes import Async
from heterps.runtime.inline import InlineEngine
from heterps.runtime.job import Job
from heterps.runtime.model import Model
from heterps.runtime.progress import Progress
from heterps.tables import SGD, ElementAdaGrad, Rule

MANY = 1_000_000


def graph(chosen: Settings) -> Graph:
    make = {"wide_deep": wide_deep, "deepfm": deepfm, "dlrm": dlrm}[chosen.model]
    return make(slots=chosen.shape.slots, dense=chosen.shape.dense, dim=chosen.dim)


def rows_rule(chosen: Settings) -> Rule:
    return ElementAdaGrad(lr=chosen.lr) if chosen.rule == "adagrad" else SGD(lr=chosen.lr)


def dataset(chosen: Settings, samples: Samples) -> Arrays:
    """The samples as our reader takes them: ids are arbitrary 64-bit numbers, not places in an array."""
    slot = np.arange(chosen.shape.slots, dtype=np.uint64) << np.uint64(32)
    ids = chosen.shape.tokens(samples.index).astype(np.uint64) | slot
    return arrays({"x": samples.dense, "ids": ids, "y": samples.label})


class Inline:
    """The inline engine, advanced report by report."""

    def __init__(self, chosen: Settings) -> None:
        self.limits = threadpool_limits(1)
        model = Model(graph(chosen), sparse=rows_rule(chosen), dense=SGD(lr=DENSE_LR), seed=chosen.shape.seed)
        self.engine = InlineEngine(Job(model, chosen.batch, Async()), every_s=0.25)
        self.chosen, self.data = chosen, dataset(chosen, chosen.read_train())
        self.run: Iterator[Progress] = self.engine.train(self.data, MANY)
        self.samples = 0

    def window(self, seconds: float) -> tuple[int, float]:
        """Let the engine run until it reports after that long."""
        began, before = time.perf_counter(), self.samples
        while time.perf_counter() - began < seconds:
            progress = next(self.run)
            self.samples = progress.samples
        print(progress, dict(progress.phases), flush=True)
        return self.samples - before, time.perf_counter() - began

    def learn(self, samples: int) -> tuple[int, float]:
        """One pass."""
        began = time.perf_counter()
        *_, last = self.engine.train(self.data, 1)
        return last.samples, time.perf_counter() - began

    def score(self) -> float:
        """Judged through a session, see `benchmarks.ours`."""
        raise NotImplementedError("the inline engine is timed only; a session evaluates")


if __name__ == "__main__":
    chosen = settings()
    serve(lambda: Inline(chosen))
