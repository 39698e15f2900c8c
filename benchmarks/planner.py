"""Forecast against measured throughput of plans on this machine.

Run ``python -m benchmarks.planner`` (about two minutes). The Profile comes from micro-measurements only
(:mod:`heterps.runtime.measure.measuring`): none of the runs below is used in it. Plans, each of Wide & Deep:

- ``fused``: everything in one stage, one worker per core
- ``1 io | 1 compute``, ``2 io | 1 compute``: table access apart from the dense layers
- ``fused, 2 servers``: two shard hosts

``--processes`` runs each plan on a scheduler and workers in processes of their own (``heterps launch``); without it
workers share this process. Columns: rows per second as forecast; as measured by the wall clock; and as measured by the
processor time that the run took, spread over all cores, which is what the wall clock would show if nothing else ran on
the machine and nothing waited. ``error`` compares the forecast with the wall clock; look at ``load`` first: on a busy
machine only the processor's column means something. Rounds are there because machines in a cloud change speed from
minute to minute: each run has a Profile measured just before it, the table shows medians.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil

import heterps as hps
from benchmarks.files import tsv
from benchmarks.workload import Workload
from graphs.wide_deep import wide_deep
from heterps.data import Criteo, Dataset
from heterps.hardware import Device, Hardware, Pool
from heterps.planner import Plan, Profile
from heterps.planner.costs.expectation import by_hand, forecast
from heterps.planner.solve.making import make_problem
from heterps.planner.solve.search import best_price_per_row
from heterps.planner.solve.solvers import solver
from heterps.runtime.measure.measuring import measure_profile

ROWS = 500_000
BATCH = 4096
POOLS = ("server", "io", "compute")


@dataclass(frozen=True)
class Case:
    """One plan: workers by pool, and the layers of its stages."""

    name: str
    servers: int
    io: int
    compute: int

    def plan(self, hardware: Hardware, depth: int = 2) -> Plan:
        """The plan, made by hand."""
        stages = [("io", ["*"], self.io)]
        if self.compute:
            stages = [("io", ["read", "pull*"], self.io), ("compute", ["*"], self.compute)]
        return by_hand(
            wide_deep(), hardware, stages, batch_size=BATCH, shard_hosts=self.servers, shard_pool="server", depth=depth
        )


CHAINS = ((16, 2, np.inf, 1), (16, 2, 40.0, 1), (16, 2, 40.0, 8), (64, 8, np.inf, 1), (64, 8, 40.0, 1))
CORES = len(os.sched_getaffinity(0))
CASES = (
    Case("fused", 1, CORES, 0),
    Case("1 io | 1 compute", 1, 1, 1),
    Case("2 io | 1 compute", 1, 2, 1),
    Case("fused, 2 servers", 2, CORES, 0),
)


def one_machine() -> Hardware:
    """Describe this machine as three pools that share its cores."""
    local = Hardware.local()
    device: Device = local.pool("cpu").device
    return Hardware(tuple(Pool(name, device, cap=CORES, host="local") for name in POOLS), local.hosts)


def data() -> Dataset:
    """Criteo-shaped text in Splits of a few seconds: workers read it where it lies."""
    return replace(Criteo(str(tsv(Workload(), ROWS))), split_cost=16 << 20)


def train(plan: Plan, seconds: float, **rules: Any) -> dict[str, Any]:
    """Train after a warm-up; rows per second by the clock and by processor time."""
    with hps.launch(plan, engine="dask", metrics=(), **rules) as session:
        run = session.train(data(), epochs=1000)
        # Everything is loaded and compiled by then; copies of a worker's own have met most of their rows.
        _after(run, 0.0, rows=3 * ROWS if plan.mode.adds else 10 * BATCH)
        first = _after(run, 1.0)
        busy, began = _busy_s(), time.perf_counter()
        last = _after(run, seconds)
        wall, busy = time.perf_counter() - began, _busy_s() - busy
        run.close()
    rows = last.samples - first.samples
    return {"wall": rows / wall, "processor": rows / busy * CORES, "load": os.getloadavg()[0]}


def _after(run: Iterator[Any], seconds: float, rows: int = 0) -> Any:
    began = time.perf_counter()
    for progress in run:
        if time.perf_counter() - began >= seconds and progress.samples >= rows:
            return progress
    raise RuntimeError("the run ended early: give it more epochs")


def _busy_s() -> float:
    """Processor seconds of this process and of everything that was launched with it."""
    root = psutil.Process(int(os.environ.get("HETERPS_BENCH_ROOT", os.getpid())))
    family = {process.pid: process for process in (root, *root.children(recursive=True))}
    return sum(sum(process.cpu_times()[:2]) for process in family.values())


def run_in_processes(case: Case, seconds: float, what: str = "") -> dict[str, Any]:
    """Start the pools with ``heterps launch``, run the case in its script, read what it wrote.

    ``what`` is another module with a ``script_main``, and the number of its case: ``benchmarks.forecast:3``.
    """
    module, _, number = (what or f"benchmarks.planner:{case.name!r}").partition(":")
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.json"
        script = Path(folder) / "script.py"
        script.write_text(
            f"from {module} import script_main\nif __name__ == '__main__':\n"
            f"    script_main({number}, {seconds}, {str(out)!r})\n"
        )
        words = ["--logs", folder, "--servers", case.servers, "--io", case.io, "--compute", case.compute, script]
        path = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
        command = [sys.executable, "-m", "heterps", "launch", *map(str, words)]
        subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, check=True, stdout=subprocess.DEVNULL)
        return dict(json.loads(out.read_text()))


def script_main(name: str, seconds: float, out: str) -> None:
    """What runs under ``heterps launch``."""
    os.environ["HETERPS_BENCH_ROOT"] = str(os.getppid())
    case = next(case for case in CASES if case.name == name)
    Path(out).write_text(json.dumps(train(case.plan(one_machine()), seconds)))


def time_solver(chains: int = 20) -> None:
    """Exact least price per row of random chains: processor milliseconds, solves and gap."""
    heads = f"{'layers x types':>14} {'caps':>6} {'sold in':>8} {'median ms':>10} {'most ms':>8} {'solves':>7}"
    print(f"{heads} {'most gap':>9}")
    for layers, types, cap, pack in CHAINS:
        found = [_solved(np.random.default_rng(max(seed, 0)), layers, types, cap, pack) for seed in range(-1, chains)]
        times, solves, gaps = zip(*found[1:], strict=True)  # the first loads the compiled loops
        row = f"{layers:>10} x {types} {cap:>6} {pack:>8} {1e3 * np.median(times):>10.1f} {1e3 * max(times):>8.1f}"
        print(f"{row} {max(solves):>7} {max(gaps):>9.2%}", flush=True)


def _solved(rng: np.random.Generator, layers: int, types: int, cap: float, pack: int) -> tuple[float, int, float]:
    seconds = rng.uniform(0.001, 0.01, (2, layers, types)) / layers
    fractions, prices = rng.uniform(0.9, 1, seconds.shape), rng.uniform(1, 10, types)
    problem = make_problem(seconds, fractions, prices, cap=cap, sold_in=pack)
    start = time.process_time()
    found = best_price_per_row(problem, 1000.0, solver("exact").solve)
    spent = time.process_time() - start
    return spent, found.solves if found else 0, found.gap if found else 0.0


def measured(hardware: Hardware, processes: bool) -> Profile:
    """The Profile of all three pools: micro-measurements only."""
    profile = measure_profile(wide_deep(), hardware.pool("io"), data(), sockets=processes)
    return Profile(dict.fromkeys(POOLS, profile.pools["io"]), profile.batch_sizes, profile.unique_fraction)


def one_run(case: Case, processes: bool, seconds: float) -> dict[str, Any]:
    """Measure a Profile, then run the plan: both see the machine at about the same time."""
    hardware = one_machine()
    plan = forecast(case.plan(hardware), hardware, measured(hardware, processes))
    assert plan.forecast is not None
    expected = plan.forecast.rows_per_second
    found = run_in_processes(case, seconds) if processes else train(plan, seconds)
    error = expected / max(found["wall"], 1e-9) - 1
    return found | {"forecast": expected, "error": error, "bound by": plan.forecast.bottleneck}


def print_row(name: str, runs: list[dict[str, Any]]) -> None:
    """Medians over the rounds; the errors of single rounds beside them."""
    names = ("forecast", "wall", "processor", "error", "load")
    expected, wall, processor, error, load = (float(np.median([run[k] for run in runs])) for k in names)
    each = ", ".join(f"{run['error']:+.0%}" for run in runs)
    row = f"{name:20} {expected:10,.0f} {wall:10,.0f} {error:+7.0%} {processor:10,.0f} {load:6.1f}"
    print(f"{row}  {each:22} {runs[-1]['bound by']}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", action="store_true", help="workers in processes of their own")
    parser.add_argument("--solver", action="store_true", help="only the time that the exact solver takes")
    parser.add_argument("--seconds", type=float, default=4.0, help="of each run")
    parser.add_argument("--rounds", type=int, default=2)
    chosen = parser.parse_args()
    if chosen.solver:
        time_solver()
        return
    runs: dict[str, list[dict[str, Any]]] = {case.name: [] for case in CASES}
    for number, case in itertools.product(range(chosen.rounds), CASES):
        runs[case.name].append(run := one_run(case, chosen.processes, chosen.seconds))
        print(
            f"round {number}: {case.name:20} {run['forecast']:10,.0f} {run['wall']:10,.0f}", file=sys.stderr, flush=True
        )
    print(f"{'plan':20} {'forecast':>10} {'wall':>10} {'error':>7} {'processor':>10} {'load':>6}  each round")
    for name, of in runs.items():
        print_row(name, of)


if __name__ == "__main__":
    main()
