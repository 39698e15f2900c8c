"""How long it takes to begin: import, help, and the first trained batch, with nothing compiled and with everything.

Run ``python -m benchmarks.first_minute`` (about a minute). Each figure is seconds of the wall from the start of a
process to the line that tells of it, and seconds of the processor of that process and those it started, the least of
some rounds. Beside each stands its ratio to a process of the same round that imports numpy, numba, dask and distributed
and does nothing. ``cold`` gives numba an empty folder for its cache; compiled Python files are there.
"""

from __future__ import annotations

import argparse
import compileall
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
TOLD = "begun"
EMPTY = f"import numpy, numba, dask, distributed; print({TOLD!r}, flush=True)"
IMPORT = f"import heterps; print({TOLD!r}, flush=True)"
HELP = f"from heterps.cli import main; main(['--help'], standalone_mode=False); print({TOLD!r}, flush=True)"
# The model and the data of `make demo`; reports come often, so that the first batch is seen when it is there.
FIRST_BATCH = f"""
from examples.adult_wide_deep import BATCH_SIZE, DENSE, DIM, HIDDEN, SEED, SPARSE, hps, wide_deep
plan = hps.plan(wide_deep(slots=19, dense=5, dim=DIM, hidden=HIDDEN), hps.Hardware.local(), batch_size=BATCH_SIZE)
with hps.launch(plan, sparse=SPARSE, dense=DENSE, seed=SEED, report_s=0.02) as session:
    for progress in session.train(hps.adult("train").shuffle("local")):
        if progress.samples:
            print({TOLD!r}, flush=True)
            break
"""
QUICK = {"four imports": EMPTY, "import heterps": IMPORT, "heterps --help": HELP}


class Spent(NamedTuple):
    """Seconds of the wall until a process tells that it has begun, and of the processor until it ends."""

    wall_s: float
    cpu_s: float


def spent(program: str, cache: Path) -> Spent:
    """Run a program with a folder for what numba compiles."""
    env = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    before, start = _children_s(), time.perf_counter()
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        told = next((time.perf_counter() - start for line in process.stdout if line == f"{TOLD}\n"), None)
        process.stdout.read()
    if told is None or process.returncode:
        raise SystemExit(f"a process ended with {process.returncode} before it had begun:\n{program}")
    return Spent(told, _children_s() - before)


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def rounds(count: int, cold: int) -> Iterator[dict[str, Spent]]:
    """Yield what each program took, one round after another, the first ones with a cache of their own each."""
    with tempfile.TemporaryDirectory(prefix="heterps-first-") as folder:
        for number in range(count):
            cache = Path(folder, str(min(number, cold - 1)))
            found = {name: spent(program, cache) for name, program in QUICK.items()}
            if number < cold:
                found["first batch, cold"] = spent(FIRST_BATCH, cache)
            yield {**found, "first batch, cached": spent(FIRST_BATCH, cache)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cold", type=int, default=2, help="of them with nothing compiled")
    chosen = parser.parse_args()
    count, cold = chosen.rounds, max(1, chosen.cold)
    for folder in ("heterps", "examples", "graphs"):
        compileall.compile_dir(ROOT / folder, quiet=1)
    found = list(rounds(count, cold))
    print(f"{count} rounds, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the end")
    print(f"{'':22}{'wall s':>8}{'ratio':>7}{'cpu s':>8}{'ratio':>7}")
    for name in found[0]:
        seen = [each for each in found if name in each]
        wall, cpu = (min(each[name][i] for each in seen) for i in range(2))
        ratios = [min(each[name][i] / each["four imports"][i] for each in seen) for i in range(2)]
        print(f"{name:22}{wall:8.2f}{ratios[0]:7.2f}{cpu:8.2f}{ratios[1]:7.2f}")


if __name__ == "__main__":
    main()
