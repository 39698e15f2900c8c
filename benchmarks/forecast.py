"""Ten plans, each mode: forecast, played and measured throughput on this machine, workers in processes.

Run ``python -m benchmarks.forecast`` on a quiet machine (about seven minutes). Wide & Deep on Criteo-shaped text. The
Profile comes from micro-measurements only (:mod:`heterps.runtime.measure.measuring`), made anew before each run; no run
of a plan is used in it. ``played`` is what :func:`heterps.planner.play` says, ``forecast`` the sum of times without
waiting. Geo trains with SGD, whose rule is cheaper than the one that was measured. At the end: the median and the worst
error of what was played, beside the spread of repeating one plan.

On a machine that others use too, or a virtual one, not all cores are there for who wants them: ``given`` is what part,
found by spinning on as many cores as the plan keeps busy, before and after the run; what was played counts times that.
``work`` is how much more processor time a batch took than was played, with what processes take to be there for as long
as it took: whatever waits, or is kept waiting, is not in it.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import heterps as hps
from benchmarks import planner as base
from graphs.wide_deep import wide_deep
from heterps.hardware import Hardware
from heterps.kernels.program.param_layout import ParamLayout
from heterps.planner import Plan, Profile, Sample, play, sample_dataset
from heterps.planner.costs.expectation import forecast
from heterps.protocol import Async, Geo, Mode, Sync
from heterps.simulator.timed.play import Played

CORES = base.CORES


@dataclass(frozen=True)
class ModeCase:
    """A plan of :mod:`benchmarks.planner` in a mode."""

    case: base.Case
    mode: Mode
    reduced: bool = False
    replicas: int = 1

    @property
    def name(self) -> str:
        """What the table calls it."""
        more = ", all-reduced" if self.reduced else ", backups" if self.replicas > 1 else ""
        if isinstance(self.mode, Async) and self.mode.merge > 1:
            more += f", {self.mode.merge} merged"
        return f"{self.case.name}, {self.mode.name}{more}"

    def plan(self, hardware: Hardware) -> Plan:
        """The plan, made by hand."""
        made = replace(self.case.plan(hardware), mode=self.mode, replicas=self.replicas)
        if not self.reduced:
            return made
        return replace(made, parameters={piece.op: "allreduce" for piece in ParamLayout(made.graph)})


FUSED, STAGED, WIDER, SERVERS = base.CASES
CASES = (
    ModeCase(FUSED, Async()),
    ModeCase(STAGED, Async()),
    ModeCase(WIDER, Async()),
    ModeCase(SERVERS, Async(), replicas=2),
    ModeCase(FUSED, Sync()),
    ModeCase(WIDER, Sync()),
    ModeCase(FUSED, Sync(), reduced=True),
    ModeCase(FUSED, Geo(10)),
    ModeCase(FUSED, Async(merge=8)),
    ModeCase(WIDER, Async(merge=8)),
)


def splits_of(rows: int) -> tuple[int, ...]:
    """Batches of the Splits of the data."""
    found = base.data().splits()
    total = sum(split.cost for split in found)
    return tuple(max(1, round(split.cost / total * rows / base.BATCH)) for split in found)


def expected(case: ModeCase, hardware: Hardware, profile: Profile, sample: Sample) -> tuple[float, Played]:
    """Rows per second as forecast, and as played."""
    plan = case.plan(hardware)
    added_up = forecast(plan, hardware, profile, sample).forecast
    assert added_up is not None
    return added_up.rows_per_second, play(plan, hardware, profile, sample, splits=splits_of(base.ROWS))


def work_error(case: ModeCase, profile: Profile, played: Played, found: dict[str, Any]) -> float:
    """Processor time of a batch, over what was played and the processes' being there for as long as it took."""
    idle = profile.pools["io"].idle_cores
    cores = max(CORES - idle * (CORES + 3), 0.5)  # as the plan was played
    worked = played.busy["cores of local"] * cores / played.batches_per_second
    plan = case.case
    there = idle * (plan.servers + plan.io + plan.compute + 2)  # and the scheduler, and the driver
    return base.BATCH * CORES / found["processor"] / (worked + there * base.BATCH / found["wall"]) - 1


_SPIN = """
import time
wall, cpu = time.perf_counter(), time.process_time()
while time.perf_counter() - wall < 1.5:
    pass
print((time.process_time() - cpu) / (time.perf_counter() - wall))
"""


def given(cores: int) -> float:
    """Part of so many cores that this machine gives to who wants them."""
    command = [sys.executable, "-c", _SPIN]
    spinning = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(cores)]
    return statistics.mean(float(each.communicate()[0]) for each in spinning)


def one_run(number: int, seconds: float, sample: Sample) -> dict[str, Any]:
    """Measure a Profile, then run the plan in processes: both see the machine at about the same time."""
    case, hardware = CASES[number], base.one_machine()
    began = time.perf_counter()
    profile = base.measured(hardware, True)
    added_up, whole = expected(case, hardware, profile, sample)
    played = whole.rows_per_second
    profiled = time.perf_counter() - began
    cores = max(1, round(whole.busy["cores of local"] * CORES))
    before = given(cores)
    found = base.run_in_processes(case.case, seconds, f"benchmarks.forecast:{number}")
    part = (before + given(cores)) / 2
    wall = max(found["wall"], 1e-9)
    return found | {
        "forecast": added_up,
        "played": played,
        "given": part,
        "error": played * part / wall - 1,
        "work": work_error(case, profile, whole, found),
        "forecast error": added_up * part / wall - 1,
        "profile s": profiled,
    }


def script_main(number: int, seconds: float, out: str) -> None:
    """What runs under ``heterps launch``."""
    os.environ["HETERPS_BENCH_ROOT"] = str(os.getppid())
    plan = CASES[number].plan(base.one_machine())
    rules = {"sparse": hps.SGD(lr=0.01), "dense": hps.SGD(lr=0.01)} if plan.mode.adds else {}  # Geo adds changes up
    Path(out).write_text(json.dumps(base.train(plan, seconds, **rules)))


def report(runs: dict[str, list[dict[str, Any]]]) -> Iterator[str]:
    """The table, and what it comes to."""
    heads = f"{'plan':36} {'forecast':>9} {'played':>9} {'measured':>9} {'given':>5} {'error':>6} {'work':>6}"
    yield f"{heads} {'load':>5}  each (forecast)"
    for name, of in runs.items():
        added, played, wall = (statistics.median(run[key] for run in of) for key in ("forecast", "played", "wall"))
        names = ("given", "error", "work", "load")
        part, error, work, load = (statistics.median(run[key] for run in of) for key in names)
        each = ", ".join(f"{run['error']:+.0%} ({run['forecast error']:+.0%})" for run in of)
        rates = f"{added:9,.0f} {played:9,.0f} {wall:9,.0f}"
        yield f"{name:36} {rates} {part:5.0%} {error:+6.0%} {work:+6.0%} {load:5.1f}  {each}"
    for key, what in (("error", "played against measured"), ("work", "processor time against played")):
        errors = [abs(statistics.median(run[key] for run in of)) for of in runs.values()]
        yield f"{what}: median error {statistics.median(errors):.0%}, worst {max(errors):.0%}"


def spread(of: list[dict[str, Any]]) -> str:
    """How much one plan differs from itself."""
    walls = [run["wall"] for run in of]
    middle = statistics.median(walls)
    far = max(abs(wall / middle - 1) for wall in walls)
    return f"one plan {len(walls)} times: {', '.join(f'{wall:,.0f}' for wall in walls)} rows/s, at most {far:.0%} off"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=4.0, help="of each run")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=4, help="times that the first plan is run in all")
    parser.add_argument("--only", type=int, nargs="*", help="numbers of plans, from 0")
    chosen = parser.parse_args()
    sample = sample_dataset(wide_deep(), base.data(), batch_size=base.BATCH)
    runs: dict[str, list[dict[str, Any]]] = {}
    for _ in range(chosen.rounds):
        for number in chosen.only or range(len(CASES)):
            found = one_run(number, chosen.seconds, sample)
            runs.setdefault(CASES[number].name, []).append(found)
            print(json.dumps({"plan": CASES[number].name} | found), flush=True)
    print("\n".join(report(runs)), flush=True)
    first = runs.get(CASES[0].name, [])
    first += [one_run(0, chosen.seconds, sample) for _ in range(max(0, chosen.repeat - len(first)))]
    print(spread(first), flush=True)


if __name__ == "__main__":
    main()
