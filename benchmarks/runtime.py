"""What distribution costs: the inline engine, an in-process cluster, and processes over sockets, as ratios in one run.

``python -m benchmarks.runtime [--rounds 3] [--seconds 6] [--batch 1024]`` trains Wide & Deep of the peers' workload in
interleaved rounds. ``--balance`` shows how batches go round a slow compute worker instead.

Each system runs in a process (or processes) of its own, so that none inherits another's threads. Samples per second
count from the first report of a window to its last.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

SCRIPT = """
import json, sys, time
import numpy as np
import heterps as hps
from graphs.wide_deep import wide_deep

engine, workers, batch, seconds, out = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]), sys.argv[5]

def data(rows=163_840, slots=26, ids=100_000):
    rng = np.random.default_rng(11)
    picks = np.minimum(rng.zipf(1.1, (rows, slots)), ids * 50) % ids + np.arange(slots) * ids
    x = rng.standard_normal((rows, 13), dtype=np.float32)
    y = (rng.random(rows) < 0.25).astype(np.float32)
    return hps.arrays({"ids": picks.astype(np.uint64), "x": x, "y": y}, split_cost=rows // 8)

def main():
    plan = hps.Plan.fused(wide_deep(), batch_size=batch, workers=workers)
    rules = {"sparse": hps.SGD(lr=0.01), "dense": hps.SGD(lr=0.01)}
    with hps.launch(plan, engine=engine, metrics=(), report_s=0.5, **rules) as session:
        first = None
        for progress in session.train(data(), epochs=1_000_000):
            now = time.perf_counter()
            if first is None and progress.samples:
                first = progress.samples, now
            elif first is not None and now - first[1] >= seconds:
                break
    rate = (progress.samples - first[0]) / (now - first[1])
    json.dump({"rate": rate, "staleness": progress.staleness}, open(out, "w"))

main()
"""

SYSTEMS = {
    "inline, 1 thread": ("inline", 1, ()),
    "in-process cluster, 1 worker": ("dask", 1, ()),
    "in-process cluster, 2 workers": ("dask", 2, ()),
    "1 server + 2 trainers, Unix sockets": ("dask", 2, ("--servers", "1", "--io", "2")),
    "1 server + 2 trainers, TCP": ("dask", 2, ("--servers", "1", "--io", "2")),
}
# Processes of one machine take Unix sockets unless they are told not to.
OVER_TCP = {"DASK_HETERPS__NETWORK__UNIX_SOCKETS": "false"}


def measure(name: str, batch: int, seconds: float) -> float:
    """Samples per second of one system in one window."""
    engine, workers, launch = SYSTEMS[name]
    with tempfile.TemporaryDirectory() as folder:
        script, out = Path(folder, "train.py"), Path(folder, "out.json")
        script.write_text(textwrap.dedent(SCRIPT))
        words = [str(script), engine, str(workers), str(batch), str(seconds), str(out)]
        start = [sys.executable]
        if launch:
            start += ["-m", "heterps", "launch", "--logs", f"{folder}/logs", *launch]
        environment = os.environ | (OVER_TCP if "TCP" in name else {})
        subprocess.run([*start, *words], check=True, timeout=300, stdout=subprocess.DEVNULL, env=environment)
        return float(json.loads(out.read_text())["rate"])


def compare(rounds: int, seconds: float, batch: int) -> None:
    rates: dict[str, list[float]] = {name: [] for name in SYSTEMS}
    for _ in range(rounds):
        for name in SYSTEMS:
            rates[name].append(measure(name, batch, seconds))
            print(f"  {name:36} {rates[name][-1]:10,.0f} samples/s", flush=True)
    base = rates["inline, 1 thread"]
    print(f"\nbatch {batch}, medians of {rounds} rounds; ratios are against as many inline threads as workers")
    for name, (_, workers, _) in SYSTEMS.items():
        ratio = statistics.median(r / (workers * b) for r, b in zip(rates[name], base, strict=True))
        print(f"  {name:36} {statistics.median(rates[name]):10,.0f} samples/s   {ratio:5.2f}")
    two, tcp = rates["in-process cluster, 2 workers"], rates["1 server + 2 trainers, TCP"]
    ratio = statistics.median(t / p for t, p in zip(tcp, two, strict=True))
    print(f"  processes against the in-process cluster with as many workers: {ratio:.2f}")


def balance(seconds: float) -> None:
    """4 io workers, 3 compute workers that sleep instead of computing, one of them five times as long."""
    from benchmarks.balance import throughput

    step_s = 0.02
    steps, elapsed = throughput(step_s, slow=5 * step_s, seconds=seconds)
    ideal = 2 / step_s + 1 / (5 * step_s)
    rate = sum(steps.values()) / elapsed
    print(f"{rate:.1f} steps/s of {ideal:.1f} possible: {rate / ideal:.2f}; steps by worker {steps}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--balance", action="store_true")
    chosen = parser.parse_args()
    if chosen.balance:
        balance(chosen.seconds)
    else:
        compare(chosen.rounds, chosen.seconds, chosen.batch)


if __name__ == "__main__":
    main()
