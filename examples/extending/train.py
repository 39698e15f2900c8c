"""All five at once: a model with the own op, rule and accessor, on the own device, from files of the own format.

Runs in this process. On a cluster the parts travel with the job, as do all files beside the program that is started:
``heterps launch --servers 1 --io 1 examples/extending/train.py``.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import own_device
from own_accessor import HalfLife
from own_op import softplus
from own_reader import npz
from own_rule import Lion

import heterps as hps
from heterps import ops

ROWS, FILES, IDS = 2000, 4, 300
BATCH_SIZE, EPOCHS, SEED = 200, 3, 0
KEEP = 70.0  # rows with a smaller score go: a show counts 0.1, a click 1


def write_files(folder: Path) -> None:
    """Write clicks that depend on the first id and on the first number."""
    rng = np.random.default_rng(SEED)
    for n in range(FILES):
        ids, x = rng.integers(0, IDS, (ROWS, 2)), rng.normal(size=(ROWS, 3)).astype("f4")
        y = (rng.normal(size=ROWS) < np.where(ids[:, 0] < IDS // 2, 1.5, -1.5) + x[:, 0]).astype("f4")
        np.savez(folder / f"part-{n}.npz", ids=ids, x=x, y=y)


def model() -> hps.Graph:
    """Return a small Wide & Deep."""
    ids, x, y = ops.input("ids", shape=(2,), dtype="uint64"), ops.input("x", shape=(3,)), ops.input("y")
    rows = ops.lookup(ids, table="rows", dim=4, rule=Lion(lr=0.01), accessor=HalfLife(embed=4, keep=KEEP))
    h = softplus(ops.dense(ops.concat(rows, x), 16, name="fc"), name="bend")
    return hps.Graph(loss=ops.logloss(ops.dense(h, 1, name="out"), y))


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        write_files(Path(folder))
        data = npz(f"{folder}/*.npz", split_cost=60_000)
        plan = hps.Plan.fused(model(), batch_size=BATCH_SIZE)
        with hps.launch(plan, dense=Lion(lr=0.002), device="metered", seed=SEED) as session:
            *_, last = session.train(data.shuffle("local"), epochs=EPOCHS)
            print(f"{last.samples} samples, {session.shrink()} rows were not worth keeping")
            print(f"trained: AUC {session.evaluate(data)['auc']:.4f}")
            session.save(f"{folder}/model")
        with hps.load(f"{folder}/model") as session:
            print(f"loaded: AUC {session.evaluate(data)['auc']:.4f}")
    if own_device.CALLS:  # on a cluster others have counted
        print("asked of the device:", ", ".join(f"{name} {count}" for name, count in own_device.CALLS.most_common(5)))


if __name__ == "__main__":
    main()
