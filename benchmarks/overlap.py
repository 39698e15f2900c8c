"""Whether reading overlaps training: ``python -m benchmarks.overlap [--rounds 8] [--seconds 2]``.

Wide & Deep of the peers' workload from memory, TSV and Parquet files, through ``launch(plan)`` with the plan that the
planner makes, in interleaved windows. Beside samples per second: what reading takes of a core when nothing else runs,
and how much of it training waits for. Were reading not overlapped, it would wait for all; whatever more a file costs
than that wait is the CPU time that the reading threads take from the trainers.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks import ours
from benchmarks.contender import Contender, Entry, Window
from benchmarks.run import FILES, TEST_SAMPLES
from benchmarks.serve import settings
from benchmarks.workload import SOURCES, Workload, data_file

SHAPE = Workload()


def common(source: str, samples: int, batch: int) -> dict[str, Any]:
    """What a trainer of this source is told."""
    data = data_file(SHAPE, samples + TEST_SAMPLES)
    told = {"data": data, "train": samples, "test": TEST_SAMPLES, "source": source, "batch": batch}
    return told | ({"file": FILES[source](SHAPE, samples)} if source in FILES else {})


def alone(told: dict[str, Any], rounds: int = 3) -> float:
    """Microseconds of one core that reading a sample takes when nothing else runs; the median of passes over all."""
    data = ours.training_data(settings([f"--{name}={value}" for name, value in told.items()]))
    times = []
    for _ in range(rounds + 1):
        began, count = time.thread_time(), 0
        for split in data.splits():
            count += sum(batch.size for batch in data.read(split, batch_size=told["batch"], ring=4))
        times.append((time.thread_time() - began) / count * 1e6)
    return statistics.median(times[1:])  # the first compiles and brings the files in


def trained(told: dict[str, dict[str, Any]], rounds: int, seconds: float) -> dict[str, list[Window]]:
    """Windows of every source, in turning order."""
    running = {source: Contender(Entry(f"from {source}", "benchmarks.ours"), Path(sys.executable), told[source])
               for source in told}  # fmt: skip
    windows: dict[str, list[Window]] = {source: [] for source in told}
    try:
        for contender in running.values():
            contender.wait_ready()
            contender.warm_up(seconds / 2)
        sources = list(told)
        for number in range(rounds):
            turn = number % len(sources)
            for source in sources[turn:] + sources[:turn]:
                windows[source].append(running[source].go(seconds))
    finally:
        for contender in running.values():
            contender.close()
    return windows


def row(source: str, windows: list[Window], memory: list[Window], reading: float) -> str:
    ratios = [window.rate / base.rate for window, base in zip(windows, memory, strict=True)]
    per_cpu = statistics.median(w.rate_per_core / b.rate_per_core for w, b in zip(windows, memory, strict=True))
    waited = statistics.median(window.read_seconds / window.samples * 1e6 for window in windows)
    # A sample takes a trainer as long as its CPU time, but for what it waits.
    share = statistics.median(w.read_seconds / (w.cpu_seconds + w.read_seconds) for w in windows)
    spread = f"{statistics.median(ratios):.3f} ({min(ratios):.2f}-{max(ratios):.2f})"
    rate = statistics.median(window.rate for window in windows)
    return f"| {source} | {rate:,.0f} | {spread} | {per_cpu:.3f} | {reading:.2f} | {waited:.2f} | {100 * share:.1f} % |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=2.0, help="length of a window")
    parser.add_argument("--samples", type=int, default=204_800, help="in the files and in memory")
    parser.add_argument("--batch", type=int, default=1024)
    chosen = parser.parse_args()
    told = {source: common(source, chosen.samples, chosen.batch) for source in SOURCES}
    reading = {source: alone(told[source]) for source in SOURCES}
    windows = trained(told, chosen.rounds, chosen.seconds)
    print(
        "| from | samples/s | / memory | per CPU second | reading alone, us | waited for, us | share of time waited |"
    )
    print("|---|---|---|---|---|---|---|")
    for source in SOURCES:
        print(row(source, windows[source], windows["memory"], reading[source]))


if __name__ == "__main__":
    main()
