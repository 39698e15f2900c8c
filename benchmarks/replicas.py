"""What a backup costs: throughput and CPU of primary and backup per batch, with and without one, in turns.

    python -m benchmarks.replicas [--rounds 3] [--seconds 8] [--hidden 256,128]

One shard host on a cluster of two servers and one io worker, so that each process has one role: with ``replicas=2``
the primary is one server and its backup the other. Wide & Deep with 26 ids by Zipf 1.1.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
from distributed import Client

import heterps as hps
from benchmarks.workload import Workload
from graphs.wide_deep import wide_deep
from heterps.runtime.cluster.launcher import Launch, launch_cluster
from heterps.runtime.run.dask_engine import ClusterEngine

BATCH, SAMPLES = 1024, 1 << 18
SPARSE, DENSE = hps.ElementAdaGrad(lr=0.05), hps.ElementAdaGrad(lr=0.02)


@dataclass(frozen=True)
class Window:
    """What happened in some seconds of a run."""

    rate: float  # samples per second
    primary: float  # CPU milliseconds per batch
    backup: float  # of the server that is not the primary
    servers: float  # cores that both used


def main() -> None:
    """Start a cluster around the rounds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--hidden", default="256,128")
    parser.add_argument("--modes", default="async,sync")
    asked = parser.parse_args()
    if "DASK_SCHEDULER_ADDRESS" in os.environ:
        measure(asked)
        return
    with tempfile.TemporaryDirectory() as logs:
        words = ("-m", "benchmarks.replicas", *sys.argv[1:])
        sys.exit(launch_cluster(Launch({"server": 2, "io": 1}, words, Path(logs)), tell=lambda line: None))


def measure(asked: argparse.Namespace) -> None:
    """Play the rounds and print a line for each, and the medians."""
    load = Workload(ids=20_000, hidden=tuple(int(width) for width in asked.hidden.split(",")))
    data, graph = _clicks(load), wide_deep(slots=load.slots, dense=load.dense, dim=load.dim, hidden=load.hidden)
    print(f"batches of {BATCH}, hidden {asked.hidden}; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    print("mode   replicas  samples/s  primary ms/batch  backup ms/batch  cores of servers")
    with Client(set_as_default=False) as client:
        for mode in asked.modes.split(","):
            plan = hps.Plan.fused(graph, batch_size=BATCH, shard_hosts=1, lanes=1, workers=1)
            found: dict[int, list[Window]] = {1: [], 2: []}
            for _ in range(asked.rounds):
                for replicas, windows in found.items():
                    windows.append(window(client, plan, mode, replicas, data, asked.seconds))
                    w = windows[-1]
                    print(f"{mode:6} {replicas:8} {w.rate:10,.0f} {w.primary:17.2f} {w.backup:16.2f} {w.servers:17.2f}")
            ratios = [two.rate / one.rate for one, two in zip(found[1], found[2], strict=True)]
            more = median(w.primary for w in found[2]) / median(w.primary for w in found[1])
            print(
                f"{mode}: throughput {median(ratios):.2f} of replicas=1 ({min(ratios):.2f} to {max(ratios):.2f}), "
                f"primary {more:.2f} of its CPU without a backup"
            )


def window(client: Client, plan: hps.Plan, mode: str, replicas: int, data: hps.Dataset, seconds: float) -> Window:
    """Train for some seconds after the start and its copy to the backup are over."""
    with hps.launch(plan, client, mode=mode, replicas=replicas, report_s=0.1, sparse=SPARSE, dense=DENSE) as session:
        began = None
        for progress in session.train(data, epochs=10_000):
            settled = progress.samples > 32 * BATCH and not progress.unprotected
            if began is None and settled:
                began = (time.monotonic(), progress.samples, _cpu(client))
            elif began is not None and time.monotonic() - began[0] > seconds:
                break
        assert began is not None
        elapsed, now = time.monotonic() - began[0], _cpu(client)
        batches = (progress.samples - began[1]) // BATCH
        assert isinstance(session.engine, ClusterEngine)
        primary = session.engine._places.answering[0]
    used = {address: now[address] - began[2][address] for address in now}
    (other,) = set(used) - {primary}
    return Window(
        rate=batches * BATCH / elapsed,
        primary=1000 * used[primary] / batches,
        backup=1000 * used[other] / batches,
        servers=sum(used.values()) / elapsed,
    )


def _cpu(client: Client) -> dict[str, float]:
    """CPU seconds of each server's process so far."""
    servers = [a for a, info in client.scheduler_info()["workers"].items() if "server" in str(info["name"])]
    return dict(client.run(time.process_time, workers=servers))


def _clicks(load: Workload) -> hps.Dataset:
    made = load.generate(SAMPLES)
    ids = made.index.astype(np.uint64) + np.arange(load.slots, dtype=np.uint64) * np.uint64(load.ids)
    return hps.arrays({"ids": ids, "x": made.dense, "y": made.label}, split_cost=1 << 17)


if __name__ == "__main__":
    main()
