"""Trains clicks with ids by Zipf 1.1 through a cache of some of the rows, and prints what happened line by line.

    python -m benchmarks.cache_driver SCHEDULER PERCENT STALENESS SECONDS

``benchmarks.cache`` runs it beside a scheduler in the lab, or without one. PERCENT 0 is no cache.
"""

from __future__ import annotations

import json
import os
import sys
import time
from functools import cache
from pathlib import Path

import numpy as np

import heterps as hps

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.workload import Workload
from graphs.wide_deep import wide_deep

SAMPLES, HELD_OUT = int(os.environ.get("HETERPS_SAMPLES", 1 << 19)), 1 << 16
BATCH, WORKERS = int(os.environ.get("HETERPS_BATCH", 128)), 2
LOAD = Workload(ids=20_000, hidden=(16,))
ROWS = LOAD.slots * LOAD.ids
RULES = {"sparse": hps.ElementAdaGrad(lr=0.05), "dense": hps.ElementAdaGrad(lr=0.02)}


@cache
def clicks() -> tuple[hps.Dataset, hps.Dataset]:
    """What is trained on, and what is held out."""
    made = LOAD.generate(SAMPLES + HELD_OUT)
    ids = made.index.astype(np.uint64) + np.arange(LOAD.slots, dtype=np.uint64) * np.uint64(LOAD.ids)
    columns = {"ids": ids, "x": made.dense, "y": made.label}
    train = {name: column[:-HELD_OUT] for name, column in columns.items()}
    held = {name: column[-HELD_OUT:] for name, column in columns.items()}
    return hps.arrays(train, split_cost=1 << 17), hps.arrays(held)


def main() -> None:
    """Train for some seconds after the first batches, or once over the data where seconds is 0."""
    scheduler, percent, staleness, seconds = sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
    client, (train, held) = None, clicks()
    if scheduler != "none":
        from distributed import Client

        client = Client(scheduler)
    graph = wide_deep(slots=LOAD.slots, dense=LOAD.dense, dim=LOAD.dim, hidden=LOAD.hidden)
    plan = hps.Plan.fused(graph, batch_size=BATCH, shard_hosts=2, lanes=WORKERS, workers=WORKERS)
    options = {"cache_rows": int(ROWS * percent / 100), "staleness": staleness} if percent else {"mode": "async:2"}
    with hps.launch(plan, client, report_s=0.5, **RULES, **options) as session:
        began = 0.0
        for progress in session.train(train, epochs=1 if not seconds else 1000):
            exchange = progress.exchange
            told = {"samples": progress.samples, "exchanged": exchange.total_bytes, "at": time.monotonic()}
            told |= {"local_rows": exchange.local_rows, **{k: u.hit_rate for k, u in exchange.caches.items()}}
            print(json.dumps(told), flush=True)
            began = began or (time.monotonic() if progress.samples else 0.0)
            if seconds and began and time.monotonic() - began > seconds:
                break
        if not seconds:
            each = exchange.total_bytes / progress.samples
            uses = {name: [use.hit_rate, use.staleness] for name, use in exchange.caches.items()}
            told = {"auc": session.evaluate(held)["auc"], "bytes/sample": each, "caches": uses}
            print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
