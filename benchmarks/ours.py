"""HeterPS through its public API: ``launch(plan)``, or with ``--variant=inline`` in one thread without Dask."""

from __future__ import annotations

import time

import numpy as np

import heterps as hps
from benchmarks.serve import DENSE_LR, Settings, serve, settings
from benchmarks.workload import Samples
from graphs.deepfm import deepfm
from graphs.dlrm import dlrm
from graphs.wide_deep import wide_deep
from heterps.hardware import Hardware
from heterps.planner import plan

MODELS = {"wide_deep": wide_deep, "deepfm": deepfm, "dlrm": dlrm}
FOREVER = 1_000_000
SPLITS = 8


def graph(chosen: Settings) -> hps.Graph:
    return MODELS[chosen.model](slots=chosen.shape.slots, dense=chosen.shape.dense, dim=chosen.dim)


def dataset(chosen: Settings, samples: Samples) -> hps.Dataset:
    """The samples as our reader takes them: ids are arbitrary 64-bit numbers, not places in an array."""
    slot = np.arange(chosen.shape.slots, dtype=np.uint64) << np.uint64(32)
    ids = chosen.shape.tokens(samples.index).astype(np.uint64) | slot
    # Lanes work on Splits: the default of 262,144 rows would leave one lane without work on small data.
    return hps.arrays({"x": samples.dense, "ids": ids, "y": samples.label}, split_cost=max(1, len(samples) // SPLITS))


class Ours:
    """A session, trained window by window."""

    def __init__(self, chosen: Settings) -> None:
        self.chosen, self.data = chosen, dataset(chosen, chosen.read_train())
        inline = chosen.variant == "inline"
        rows = hps.ElementAdaGrad(lr=chosen.lr) if chosen.rule == "adagrad" else hps.SGD(lr=chosen.lr)
        made = hps.Plan.fused(graph(chosen), batch_size=chosen.batch) if inline else self.plan()
        splits = len(self.data.splits())
        if splits < 2 * made.lanes:
            raise SystemExit(f"{splits} Splits for {made.lanes} lanes: some would idle and the figure would mislead")
        self.session = hps.launch(
            made,
            engine="inline" if inline else "auto",
            sparse=rows,
            dense=hps.SGD(lr=DENSE_LR),
            seed=chosen.shape.seed,
            metrics=(),
            report_s=0.25,
        )

    def plan(self) -> hps.Plan:
        """The plan that the planner makes for this machine."""
        return plan(graph(self.chosen), Hardware.local(), batch_size=self.chosen.batch)

    def window(self, seconds: float) -> tuple[int, float]:
        """Train until that long after the first report; leaving the loop stops the run, so that nothing goes on.

        The peers run on from window to window while ours starts anew, so counting begins at the first report.
        """
        first = began = cpu = None
        for progress in self.session.train(self.data, FOREVER):
            now = time.perf_counter()
            if first is None or began is None:
                first, began, cpu = progress.samples, now, time.process_time()
            elif now - began >= seconds:
                print(progress, dict(progress.phases), flush=True)
                # The in-process cluster is this process: its CPU time between the two reports is exact.
                self.cpu_seconds = time.process_time() - cpu
                return progress.samples - first, now - began
        raise RuntimeError("the run ended before its window did")

    def learn(self, samples: int) -> tuple[int, float]:
        """One pass, in the order of the data as the peers do."""
        began = time.perf_counter()
        *_, last = self.session.train(self.data.shuffle("none"), 1)
        return last.samples, time.perf_counter() - began

    def score(self) -> float:
        """AUC on the held-out samples."""
        return float(self.session.evaluate(dataset(self.chosen, self.chosen.read_test()), ["auc"])["auc"])


if __name__ == "__main__":
    chosen = settings()
    serve(lambda: Ours(chosen))
