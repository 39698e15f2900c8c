"""What distribution costs: the inline engine, an in-process cluster, and processes over sockets, as ratios in one run.

``python -m benchmarks.runtime [--rounds 3] [--seconds 6] [--batch 1024] [--only TCP Unix]`` trains Wide & Deep of the
peers' workload in interleaved rounds. ``--balance`` shows how batches go round a slow compute worker instead.

Each system runs in a process (or processes) of its own, so that none inherits another's threads. Samples per second
count from some reports after the first, when every loop is there, to the last of a window. CPU time of a sample is that
of all processes of the system in that window, by what they are: of a loaded machine it says more than the rates do.
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
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

SCRIPT = """
import json, os, sys, time
import numpy as np
import psutil
import heterps as hps
from heterps.models import wide_deep

engine, workers, batch, seconds, mode, out = sys.argv[1], *map(int, sys.argv[2:4]), float(sys.argv[4]), *sys.argv[5:]

def data(rows=327_680, slots=26, ids=100_000):
    rng = np.random.default_rng(11)
    picks = np.minimum(rng.zipf(1.1, (rows, slots)), ids * 50) % ids + np.arange(slots) * ids
    x = rng.standard_normal((rows, 13), dtype=np.float32)
    y = (rng.random(rows) < 0.25).astype(np.float32)
    return hps.arrays({"ids": picks.astype(np.uint64), "x": x, "y": y}, split_cost=rows // 8)

def spent():
    "CPU seconds of each process of this system, user and system, by what it is."
    family = [psutil.Process()]
    if os.environ.get("IN_FAMILY"):
        family = psutil.Process(os.getppid()).children(recursive=True)
    found = {}
    for process in family:
        words, times = process.cmdline(), process.cpu_times()
        role = "scheduler" if "scheduler" in words else "driver"
        role = words[words.index("--name") + 1] if "--name" in words else role
        found[role] = [times.user, times.system]
    return found

def main():
    plan = hps.Plan.fused(wide_deep(), batch_size=batch, workers=workers)
    rules = {"sparse": hps.SGD(lr=0.01), "dense": hps.SGD(lr=0.01)}
    with hps.launch(plan, engine=engine, mode=mode, metrics=(), **rules) as session:
        first, reports = None, 0
        for progress in session.train(data(), epochs=1_000_000):
            now = time.perf_counter()
            reports += bool(progress.samples)
            if first is None and reports == 3:
                first = progress.samples, now, spent()
            elif first is not None and now - first[1] >= seconds:
                cpu = spent()
                break
    samples = progress.samples - first[0]
    both = {role: zip(first[2][role], cpu[role]) for role in cpu if role in first[2]}
    us = {role: [1e6 * (b - a) / samples for a, b in times] for role, times in both.items()}
    json.dump({"rate": samples / (now - first[1]), "us": us, "staleness": progress.staleness}, open(out, "w"))

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


class Measured(NamedTuple):
    """One window: samples a second, and microseconds of the processor that a sample takes, user and system, by role."""

    rate: float
    us: Mapping[str, tuple[float, float]]

    @property
    def cpu_us(self) -> float:
        """Microseconds of the processor that a sample takes, of all processes together."""
        return sum(map(sum, self.us.values()))

    def __str__(self) -> str:
        parts = (f"{role} {user:.1f}+{system:.1f}" for role, (user, system) in sorted(self.us.items()))
        return f"{self.rate:10,.0f} samples/s, {self.cpu_us:6.1f} us of CPU a sample ({', '.join(parts)})"


def measure(name: str, batch: int, seconds: float, mode: str) -> Measured:
    """One system in one window."""
    engine, workers, launch = SYSTEMS[name]
    with tempfile.TemporaryDirectory() as folder:
        script, out = Path(folder, "train.py"), Path(folder, "out.json")
        script.write_text(textwrap.dedent(SCRIPT))
        words = [str(script), engine, str(workers), str(batch), str(seconds), mode, str(out)]
        start = [sys.executable]
        if launch:
            start += ["-m", "heterps", "launch", "--logs", f"{folder}/logs", *launch]
        environment = os.environ | (OVER_TCP if "TCP" in name else {}) | ({"IN_FAMILY": "1"} if launch else {})
        subprocess.run([*start, *words], check=True, timeout=300, stdout=subprocess.DEVNULL, env=environment)
        told = json.loads(out.read_text())
        return Measured(told["rate"], told["us"])


def compare(rounds: int, seconds: float, batch: int, mode: str, names: list[str]) -> None:
    found: dict[str, list[Measured]] = {name: [] for name in names}
    for _ in range(rounds):
        for name in names:
            found[name].append(measure(name, batch, seconds, mode))
            print(f"  {name:36} {found[name][-1]}", flush=True)
    base = found[names[0]]
    print(f"\nbatch {batch}, {mode}, medians of {rounds} rounds, load {os.getloadavg()[0]:.1f}; ratios of rates are")
    print("against as many inline threads as workers, those of CPU time (inline to this) against a sample of one")
    for name in names:
        workers, windows = SYSTEMS[name][1], found[name]
        rate = statistics.median(w.rate / (workers * b.rate) for w, b in zip(windows, base, strict=True))
        cpu = statistics.median(b.cpu_us / w.cpu_us for w, b in zip(windows, base, strict=True))
        print(f"  {name:36} {statistics.median(w.rate for w in windows):10,.0f} samples/s {rate:5.2f}  CPU {cpu:5.2f}")


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
    parser.add_argument("--mode", default="async:2")
    parser.add_argument("--only", nargs="+", default=[], help="words of the systems to measure beside inline")
    parser.add_argument("--balance", action="store_true")
    chosen = parser.parse_args()
    if chosen.balance:
        balance(chosen.seconds)
    else:
        wanted = [name for name in SYSTEMS if not chosen.only or any(word in name for word in chosen.only)]
        names = list(dict.fromkeys(["inline, 1 thread", *wanted]))
        compare(chosen.rounds, chosen.seconds, chosen.batch, chosen.mode, names)


if __name__ == "__main__":
    main()
