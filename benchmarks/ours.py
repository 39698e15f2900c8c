"""HeterPS through its public API: ``launch(plan)`` in an in-process cluster.

Variants: ``inline`` (one thread, without Dask), ``tcp`` (scheduler, 1 server and 2 trainers as processes of their own).
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

import heterps as hps
from benchmarks import tree
from benchmarks.serve import DENSE_LR, Settings, serve, settings
from benchmarks.workload import ListSamples, Samples, Workload
from graphs.deepfm import deepfm
from graphs.dlrm import dlrm
from graphs.wide_deep import wide_deep
from heterps import ops
from heterps.data import Salted, Schema, parquet, sparse
from heterps.data.text.criteo import CATEGORIES, criteo_schema
from heterps.hardware import Hardware
from heterps.planner import plan

MODELS = {"wide_deep": wide_deep, "deepfm": partial(deepfm, linear=False), "dlrm": dlrm}
RULES = {"sgd": hps.SGD, "adagrad": hps.ElementAdaGrad, "rowwise": hps.RowWiseAdaGrad}
FOREVER = 1_000_000
#: Two for each lane, so that none is left without work. On real data a Split has hundreds of batches: here as many as
#: there can be.
SPLITS = max(4, 2 * (os.cpu_count() or 1))
TRAINERS = 2


def graph(chosen: Settings) -> hps.Graph:
    if chosen.model == "sparse_heavy":
        return sparse_heavy(chosen.shape)
    return MODELS[chosen.model](slots=chosen.shape.slots, dense=chosen.shape.dense, dim=chosen.dim)


def sparse_heavy(shape: Workload) -> hps.Graph:
    """Slots with an id each and slots with lists that are added up, all in one table, and a small tower."""
    lists = [ops.input(f"list{k}", dtype="uint64", ragged=True, mean_length=shape.mean_ids) for k in range(shape.lists)]
    ids, x = ops.input("ids", shape=(shape.single,), dtype="uint64"), ops.input("x", shape=(shape.dense,))
    found = [ops.lookup(ids, table="deep", dim=shape.dim)]
    found += [ops.lookup(some, table="deep", dim=shape.dim, pooling="sum") for some in lists]
    h = ops.concat(x, *found)
    for i, width in enumerate(shape.hidden):
        h = ops.relu(ops.dense(h, width, name=f"fc{i}"))
    return hps.Graph(loss=ops.logloss(ops.dense(h, 1, name="out"), ops.input("y", shape=())))


def in_memory(chosen: Settings, samples: Samples) -> hps.Dataset:
    """The samples as our reader takes them: ids are arbitrary 64-bit numbers, not places in an array."""
    columns = {"x": samples.dense, "ids": hashed(chosen.shape, samples.index), "y": samples.label}
    if isinstance(samples, ListSamples):
        columns |= {f"list{k}": in_lists(chosen.shape, samples, k) for k in range(chosen.shape.lists)}
    # Lanes work on Splits: the default of 262,144 rows would leave one lane without work on small data.
    return hps.arrays(columns, split_cost=max(1, len(samples) // SPLITS))


def hashed(shape: Workload, index: np.ndarray, first: int = 0) -> np.ndarray:
    """64-bit ids of slots from the first on."""
    slot = np.arange(first, first + index.shape[1], dtype=np.uint64) << np.uint64(32)
    return shape.tokens(index, first).astype(np.uint64) | slot


def in_lists(shape: Workload, samples: ListSamples, k: int) -> hps.Ragged:
    """The lists of one slot."""
    mine = samples.listed[samples.slot_of_listed() == k]
    offsets = np.concatenate([[0], np.cumsum(samples.lengths[:, k])])
    return hps.Ragged(hashed(shape, mine[:, None], shape.single + k)[:, 0], offsets)


def training_data(chosen: Settings) -> hps.Dataset:
    if chosen.source == "tsv":
        size = sum(path.stat().st_size for path in Path(chosen.file).iterdir())
        return hps.Criteo(f"{chosen.file}/*.tsv", split_cost=-(-size // SPLITS))
    if chosen.source == "parquet":
        x, y = (criteo_schema()[name] for name in ("x", "y"))
        ids = sparse("ids", *(Salted(name) for name in CATEGORIES))
        return parquet(f"{chosen.file}/*.parquet", Schema.of(ids, x, y), split_cost=1)  # a Split per file
    return in_memory(chosen, chosen.read_train())


@contextlib.contextmanager
def processes() -> Iterator[str]:
    """A scheduler, a server and trainers that talk over TCP; yields the scheduler's address."""
    with tempfile.TemporaryDirectory(prefix="bench-") as logs:
        words = ["-m", "heterps", "launch", "--servers", "1", "--io", str(TRAINERS), "--logs", logs]
        over_tcp = {"DASK_HETERPS__NETWORK__UNIX_SOCKETS": "false"}  # processes of one machine would not
        environment = os.environ | over_tcp
        launcher = subprocess.Popen([sys.executable, *words], stderr=subprocess.PIPE, text=True, env=environment)
        assert launcher.stderr is not None
        try:
            line = next((line for line in launcher.stderr if "DASK_SCHEDULER_ADDRESS=" in line), "")
            if not line:
                raise RuntimeError("the cluster did not start")
            yield line.split("DASK_SCHEDULER_ADDRESS=")[1].split()[0]
        finally:
            launcher.send_signal(signal.SIGTERM)
            launcher.wait(30)


class Ours:
    """A session, trained window by window."""

    def __init__(self, chosen: Settings) -> None:
        self.chosen, self.data = chosen, training_data(chosen)
        self.kept = contextlib.ExitStack()
        made, client = self.plan(), self.client()
        splits = len(self.data.splits())
        if splits < 2 * made.lanes:
            raise SystemExit(f"{splits} Splits for {made.lanes} lanes: some would idle and the figure would mislead")
        session = hps.launch(
            made,
            client,
            engine="inline" if chosen.variant == "inline" else "dask",
            sparse=RULES[chosen.rule](lr=chosen.lr),
            dense=hps.SGD(lr=DENSE_LR),
            seed=chosen.seed,
            metrics=(),
            report_s=0.25,
        )
        self.session = self.kept.enter_context(session)

    def plan(self) -> hps.Plan:
        """The plan that the planner makes for this machine; by hand where the comparison says what runs where."""
        made, size = graph(self.chosen), self.chosen.batch
        if self.chosen.variant == "inline":
            return hps.Plan.fused(made, batch_size=size)
        if self.chosen.variant == "tcp":
            return hps.Plan.fused(made, batch_size=size, workers=TRAINERS)
        return plan(made, Hardware.local(), batch_size=size)

    def client(self) -> object:
        """A client of the processes; none where the cluster is this process."""
        if self.chosen.variant != "tcp":
            return None
        from distributed import Client

        return self.kept.enter_context(Client(self.kept.enter_context(processes()), set_as_default=False))

    def window(self, seconds: float) -> tuple[int, float]:
        """Train until that long after the first report; leaving the loop stops the run, so that nothing goes on.

        The peers run on from window to window while ours starts anew, so counting begins at the first report.
        """
        first = began = cpu = None
        read = 0.0
        for progress in self.session.train(self.data, FOREVER):
            now = time.perf_counter()
            if not first or began is None:
                first, began, cpu = progress.samples, now, tree.cpu_seconds(os.getpid())
                read = progress.phases["read"]
            elif now - began >= seconds:
                print(progress, dict(progress.phases), flush=True)
                self.own = {
                    "cpu_seconds": tree.cpu_seconds(os.getpid()) - cpu,
                    "read_seconds": progress.phases["read"] - read,
                }
                return progress.samples - first, now - began
        raise RuntimeError("the run ended before its window did")

    def learn(self, samples: int) -> tuple[int, float]:
        """One pass, in the order of the data as the peers do."""
        began = time.perf_counter()
        *_, last = self.session.train(self.data.shuffle("none"), 1)
        return last.samples, time.perf_counter() - began

    def score(self) -> float:
        """AUC on the held-out samples."""
        return float(self.session.evaluate(in_memory(self.chosen, self.chosen.read_test()), ["auc"])["auc"])

    def close(self) -> None:
        """End the session and what was started for it."""
        self.kept.close()


if __name__ == "__main__":
    chosen = settings()
    serve(lambda: Ours(chosen))
