"""Trains one workload in one mode on the cluster it is told of, and prints what happened line by line.

    python -m benchmarks.geo_driver SCHEDULER WORKLOAD MODE SECONDS

``benchmarks.geo_links`` runs it beside a scheduler in the lab, or without one.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np

import heterps as hps

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.geo_workloads import WORKLOADS


def main() -> None:
    """Train for some seconds after the first batches, or to the end of the data where seconds is 0."""
    scheduler, name, mode, seconds = sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4])
    workload = WORKLOADS[name]()
    client = None
    if scheduler != "none":
        from distributed import Client

        client = Client(scheduler)
    plan = hps.Plan.fused(workload.graph, batch_size=workload.batch_size, shard_hosts=2, lanes=2, workers=2)
    with hps.launch(plan, client, mode=mode, sparse=workload.rule, dense=workload.rule, report_s=0.5) as session:
        began = 0.0
        for progress in session.train(workload.data, epochs=1 if not seconds else 1000):
            told = {"samples": progress.samples, "exchanged": progress.exchange.total_bytes, "at": time.monotonic()}
            print(json.dumps(told | {"local_rows": progress.exchange.local_rows}), flush=True)
            began = began or (time.monotonic() if progress.samples else 0.0)
            if seconds and began and time.monotonic() - began > seconds:
                break
        if not seconds:
            print(json.dumps({"quality": float(np.mean(workload.judge(session)))}), flush=True)


if __name__ == "__main__":
    main()
