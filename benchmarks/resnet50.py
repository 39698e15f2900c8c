"""ResNet-50 as for ImageNet, all-reduced: does its loss fall, and what does a step take against the dense table.

    python benchmarks/resnet50.py [--steps 100] [--size 224] [--batch 32] [--workers 1] [--way allreduce]

102 classes; pictures are made here: a class is a pattern of blocks of its own, under noise. Says what ran: steps, the
mean loss of the first and last fifth, seconds of a step. Ends by itself after ``--seconds`` with what it has.
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))  # for graphs/, beside this folder

import heterps as hps
from graphs.resnet import resnet

CLASSES = 102


def pictures(rows: int, size: int, seed: int = 0) -> hps.Dataset:
    rng = np.random.default_rng(seed)
    patterns = np.random.default_rng(1).normal(size=(CLASSES, 4, 4, 3)).astype(np.float32)
    labels = rng.integers(0, CLASSES, rows)
    blocks = patterns[labels].repeat(-(-size // 4), 1).repeat(-(-size // 4), 2)[:, :size, :size]
    noise = rng.normal(scale=0.5, size=(rows, size, size, 3)).astype(np.float32)
    return hps.arrays({"x": blocks + noise, "y": labels.astype(np.int64)})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--lanes", type=int, default=1)
    parser.add_argument("--way", choices=["allreduce", "table"], default="allreduce")
    parser.add_argument("--seconds", type=float, default=3600.0)
    given = parser.parse_args()
    graph = resnet(50, shape=(given.size, given.size, 3), classes=CLASSES, width=given.width, stem="large")
    plan = hps.Plan.fused(graph, batch_size=given.batch // given.lanes, workers=given.workers, lanes=given.lanes)
    rule = hps.Momentum(lr=0.05 / given.lanes, momentum=0.9, l2=1e-4)
    data = pictures(given.batch * min(given.steps, 20), given.size)  # seen again and again, as pictures are
    losses: list[tuple[int, float]] = []
    start = time.perf_counter()
    engine = "inline" if given.workers == 1 else "auto"
    ways = {"*": given.way}
    with hps.launch(plan, engine=engine, mode="sync", dense=rule, parameters=ways, report_s=0.0) as session:
        epochs = -(-given.steps // 20)
        for progress in session.train(data, epochs=epochs):
            if not losses or progress.batches > losses[-1][0]:
                losses.append((progress.batches, progress.loss))
            if time.perf_counter() - start > given.seconds:
                break
    took = time.perf_counter() - start
    steps = losses[-1][0] // given.lanes
    group = f"{given.way}, {given.workers} workers, {given.lanes} lanes"
    print(f"{group}: {steps} steps of {given.batch} pictures of {given.size}x{given.size}")
    print(f"{took / max(steps, 1):.2f} s a step, {took:.0f} s with the start")
    print("batches and loss:", *(f"{batches}:{loss:.3f}" for batches, loss in losses))


if __name__ == "__main__":
    main()
