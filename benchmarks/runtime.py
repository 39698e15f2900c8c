"""What distribution costs: the inline engine, an in-process cluster, and processes over sockets, as ratios in one run.

``python -m benchmarks.runtime [--rounds 3] [--seconds 6] [--batch 1024] [--only TCP Unix]`` trains Wide & Deep of the
peers' workload in interleaved rounds. ``--balance`` shows how batches go round a slow compute worker instead.

Each system runs in a process (or processes) of its own, so that none inherits another's threads. Samples per second
count from some reports after the first, when every loop is there, to the last of a window. CPU time of a sample is that
of all processes of the system in that window, by what they are: of a loaded machine it says more than the rates do.

One inline thread alone has the clock, the caches and the memory of all cores to itself. So two workers are also held
against two inline processes that train at the same time, each on tables of its own: what two cores can do together
without exchanging anything.
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
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

SCRIPT = """
import json, os, sys, time
import numpy as np
import psutil
import heterps as hps
from heterps.models import wide_deep

engine, workers, batch, seconds, mode = sys.argv[1], *map(int, sys.argv[2:4]), float(sys.argv[4]), sys.argv[5]
rows, out, *all_outs = int(sys.argv[6]), *sys.argv[7:]  # of a pass, where to write, and where all that run at once do

def have(ending):
    return all(os.path.exists(path + ending) for path in all_outs)

def data(slots=26, ids=100_000):
    rng = np.random.default_rng(11)
    picks = np.minimum(rng.zipf(1.1, (rows, slots)), ids * 50) % ids + np.arange(slots) * ids
    x = rng.standard_normal((rows, 13), dtype=np.float32)
    y = (rng.random(rows) < 0.25).astype(np.float32)
    return hps.arrays({"ids": picks.astype(np.uint64), "x": x, "y": y}, split_cost=40_960)

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
        first = last = None
        reports = 0
        for progress in session.train(data(), epochs=1_000_000):
            now = time.perf_counter()
            reports += bool(progress.samples)
            if reports == 3:
                open(out + ".ready", "w").close()
            if first is None and reports >= 3 and have(".ready"):
                first = progress.samples, now, spent()
            elif first is not None and last is None and now - first[1] >= seconds:
                last = progress.samples, now, spent()
                open(out + ".done", "w").close()
            if last is not None and have(".done"):  # until then the others are to have company
                break
    samples = last[0] - first[0]
    both = {role: zip(first[2][role], last[2][role]) for role in last[2] if role in first[2]}
    us = {role: [1e6 * (b - a) / samples for a, b in times] for role, times in both.items()}
    json.dump({"rate": samples / (last[1] - first[1]), "us": us, "staleness": progress.staleness}, open(out, "w"))

main()
"""


class System(NamedTuple):
    """What is measured: the engine, workers of a plan, options of ``heterps launch``, programs that run at once."""

    engine: str
    workers: int
    launch: tuple[str, ...] = ()
    at_once: int = 1

    @property
    def cores(self) -> int:
        """Batches that are computed at the same time."""
        return self.workers * self.at_once


ONE, TWO = "inline, 1 thread", "inline, 2 processes at once"
SYSTEMS = {
    ONE: System("inline", 1),
    TWO: System("inline", 1, at_once=2),
    "in-process cluster, 1 worker": System("dask", 1),
    "in-process cluster, 2 workers": System("dask", 2),
    "1 server + 2 trainers, Unix sockets": System("dask", 2, ("--servers", "1", "--io", "2")),
    "1 server + 2 trainers, TCP": System("dask", 2, ("--servers", "1", "--io", "2")),
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

    @classmethod
    def together(cls, parts: Sequence[Measured]) -> Measured:
        """Return what programs did that ran at the same time: rates add up, a sample takes what it takes on average."""
        rate = sum(part.rate for part in parts)
        us = {
            role if len(parts) == 1 else f"{role} {number}": (user * part.rate / rate, system * part.rate / rate)
            for number, part in enumerate(parts)
            for role, (user, system) in part.us.items()
        }
        return cls(rate, us)


def measure(name: str, batch: int, seconds: float, mode: str, rows: int) -> Measured:
    """One system in one window, with passes of so many rows."""
    system = SYSTEMS[name]
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "train.py")
        script.write_text(textwrap.dedent(SCRIPT))
        outs = [str(Path(folder, f"out{number}.json")) for number in range(system.at_once)]
        given = [str(script), system.engine, str(system.workers), str(batch), str(seconds), mode, str(rows)]
        start = [sys.executable]
        if system.launch:
            start += ["-m", "heterps", "launch", "--logs", f"{folder}/logs", *system.launch]
        environment = os.environ | (OVER_TCP if "TCP" in name else {}) | ({"IN_FAMILY": "1"} if system.launch else {})
        run_all([[*start, *given, out, *outs] for out in outs], environment)
        told = [json.loads(Path(out).read_text()) for out in outs]
        return Measured.together([Measured(each["rate"], each["us"]) for each in told])


def run_all(commands: Sequence[Sequence[str]], environment: Mapping[str, str], limit_s: float = 300) -> None:
    """Run programs at the same time; when one fails the others are ended, as they would wait for it."""
    running = [subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment) for command in commands]
    until = time.monotonic() + limit_s
    try:
        while None in (codes := [process.poll() for process in running]) and not any(codes):
            if time.monotonic() > until:
                raise RuntimeError(f"no end after {limit_s:g} s: {commands}")
            time.sleep(0.05)
    finally:
        for process in running:
            process.kill()
            process.wait()
    if any(codes):
        raise RuntimeError(f"ended with {codes}: {commands}")


def compare(rounds: int, seconds: float, batch: int, mode: str, rows: int, names: list[str]) -> None:
    found: dict[str, list[Measured]] = {name: [] for name in names}
    for _ in range(rounds):
        for name in names:
            found[name].append(measure(name, batch, seconds, mode, rows))
            print(f"  {name:36} {found[name][-1]}", flush=True)
    load = f"load {os.getloadavg()[0]:.1f}"
    print(f"\nbatch {batch}, {mode}, passes of {rows:,} rows, medians of {rounds} rounds, {load};")
    print("ratios of rates are against as many inline threads as workers, those of CPU time (inline to this) against")
    print(f"a sample of one; for two workers then both against {TWO}")
    for name in names:
        windows, cores = found[name], SYSTEMS[name].cores
        figures = against(windows, found[ONE], cores)
        if cores == SYSTEMS[TWO].cores:
            figures += f"   of two at once {against(windows, found[TWO], 1)}"
        print(f"  {name:36} {statistics.median(w.rate for w in windows):10,.0f} samples/s {figures}")


def against(windows: Sequence[Measured], base: Sequence[Measured], times: int) -> str:
    """Return the ratios to a base, of which so many would run: samples a second, and CPU time of a sample."""
    pairs = list(zip(windows, base, strict=True))
    rate = statistics.median(w.rate / (times * b.rate) for w, b in pairs)
    return f"{rate:5.2f}  CPU {statistics.median(b.cpu_us / w.cpu_us for w, b in pairs):5.2f}"


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
    parser.add_argument("--rows", type=int, default=327_680, help="of a pass: at its end workers wait for the last one")
    parser.add_argument("--only", nargs="+", default=[], help="words of the systems to measure beside inline")
    parser.add_argument("--balance", action="store_true")
    chosen = parser.parse_args()
    if chosen.balance:
        balance(chosen.seconds)
    else:
        wanted = [name for name in SYSTEMS if not chosen.only or any(word in name for word in chosen.only)]
        names = list(dict.fromkeys([ONE, TWO, *wanted]))
        compare(chosen.rounds, chosen.seconds, chosen.batch, chosen.mode, chosen.rows, names)


if __name__ == "__main__":
    main()
