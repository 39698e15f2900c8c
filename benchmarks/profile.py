"""What the profile costs that is always on: training with its clocks and without, as ratios in one run.

``python -m benchmarks.profile [--rounds 5] [--batch 1024]`` trains Wide & Deep on the inline engine in interleaved
rounds, one pass each after one to warm up. Without means that every clock reading of a batch is patched away. Since the
ratio is within what two equal runs differ by, the cost is also measured by itself: clocks read in a pass x time of one.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
from collections.abc import Iterator
from time import process_time
from unittest import mock

import numpy as np

import heterps as hps
from graphs.wide_deep import wide_deep
from heterps.kernels.program import bound
from heterps.runtime.batch.phases import Phases

ROWS, SLOTS, IDS = 81_920, 26, 100_000


def data() -> hps.Dataset:
    rng = np.random.default_rng(11)
    picks = np.minimum(rng.zipf(1.1, (ROWS, SLOTS)), IDS * 50) % IDS + np.arange(SLOTS) * IDS
    x = rng.standard_normal((ROWS, 13), dtype=np.float32)
    y = (rng.random(ROWS) < 0.25).astype(np.float32)
    return hps.arrays({"ids": picks.astype(np.uint64), "x": x, "y": y})


@contextlib.contextmanager
def without_clocks() -> Iterator[None]:
    nothing = contextlib.nullcontext()
    with (
        mock.patch.multiple(Phases, __call__=lambda self, phase: nothing, carve=lambda self, parts: None),
        mock.patch.multiple(bound, _timed=lambda run, *rest: run, perf_counter=lambda: 0.0),
    ):
        yield


def measure(batch: int, dataset: hps.Dataset) -> float:
    """CPU seconds of a pass; the whole engine is one thread."""
    plan = hps.Plan.fused(wide_deep(), batch_size=batch)
    with hps.launch(plan, engine="inline", metrics=(), sparse=hps.SGD(lr=0.01), dense=hps.SGD(lr=0.01)) as session:
        list(session.train(dataset))
        start = process_time()
        list(session.train(dataset))
        return process_time() - start


def clocks(batch: int, dataset: hps.Dataset) -> int:
    """How often a phase, or a part of one, is timed in a pass."""
    read, add, make = mock.Mock(), Phases.add, bound._timed

    def counting(run, *rest):
        inner = make(run, *rest)
        return lambda call: (read(), inner(call))

    with (
        mock.patch.multiple(Phases, add=lambda self, *rest: (read(), add(self, *rest))),
        mock.patch.multiple(bound, _timed=counting),
    ):
        plan = hps.Plan.fused(wide_deep(), batch_size=batch)
        with hps.launch(plan, engine="inline", metrics=()) as session:
            list(session.train(dataset))
    return read.call_count


def clock_s(times: int = 100_000) -> float:
    """Seconds that timing a phase once takes."""
    phases = Phases()
    start = process_time()
    for _ in range(times):
        with phases("read"):
            pass
    return (process_time() - start) / times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch", type=int, default=1024)
    chosen = parser.parse_args()
    dataset, ratios = data(), []
    for i in range(chosen.rounds):
        ways = [contextlib.nullcontext, without_clocks]
        seconds = {}
        for way in ways if i % 2 else reversed(ways):
            with way():
                seconds[way] = measure(chosen.batch, dataset)
        with_, without = (seconds[way] for way in ways)
        ratios.append(without / with_)
        print(f"  with {with_:.3f} s, without {without:.3f} s: speed with the profile {ratios[-1]:.3f}", flush=True)
    print(f"batch {chosen.batch}: {statistics.median(ratios):.3f} (median of {chosen.rounds})")
    count, each = clocks(chosen.batch, dataset), clock_s()
    a_batch = count / -(-ROWS // chosen.batch)
    share = count * each / with_
    print(f"{a_batch:.0f} clocks a batch of {each * 1e6:.2f} µs each: {100 * share:.3f} % of the time")


if __name__ == "__main__":
    main()
