"""What noting changes costs a push, and what cuts of changes save, in one run.

``python -m benchmarks.changes --rows 1e7`` prints ratios: a push with a reader against one without (wanted: at most
1.03 over those between two marks), and bytes and throughput of full cuts against cuts of changes while a table is
trained with ids drawn by Zipf 1.1, a cut every so many seconds (wanted: at least 5 times fewer bytes). Cuts follow the
rule of a run: when changes outweigh what they build on, everything is written again. The faster batches come, the more
rows change between cuts: first as many as Wide & Deep trains on two cores, 40,000 samples a second, then as many as the
table alone takes, which is also where throughput lost means something. Seconds are counted in pushes, so that bytes do
not depend on what else the machine does; nor do the processor's seconds for a cut, which are what is used beyond that
of as many pushes without cuts: the writing, and the rows that pushes save for it.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import threading
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from heterps.mixing import GOLDEN
from heterps.protocol import BatchKey, Window
from heterps.tables import (
    GroupSpec,
    Kind,
    Manifest,
    RowGradients,
    RowWiseAdaGrad,
    Shard,
    Snapshots,
    TableSpec,
    Uniform,
    since_of,
    write_part,
)
from heterps.tables.live.group import RowGroup

DIM, BATCH = 16, 4096 * 26
GROUP = GroupSpec("g", (TableSpec("t", DIM, RowWiseAdaGrad(0.01), Uniform(0.01)),))


def filled(rows: int) -> Shard:
    """A table with every row present."""
    shard = Shard([GROUP])
    for first in range(0, rows, 1 << 18):
        shard.pull("g", ids_of(np.arange(first, min(first + (1 << 18), rows), dtype=np.uint64)))
    return shard


def ids_of(numbers: np.ndarray) -> np.ndarray:
    return numbers * np.uint64(GOLDEN) + np.uint64(1)


class Zipf:
    """Ids by rank, drawn with a probability that falls as ``rank ** -1.1``: the continuous law, cut off and rounded."""

    def __init__(self, rows: int) -> None:
        self._rows, self._rng = rows, np.random.default_rng(0)

    def batch(self) -> np.ndarray:
        """Return the unique ids of a batch in any order."""
        least = (self._rows + 1.0) ** -0.1
        ranks = (1 - self._rng.random(BATCH) * (1 - least)) ** -10
        numbers = np.unique(np.minimum(ranks, self._rows).astype(np.uint64) - np.uint64(1))
        return self._rng.permutation(ids_of(numbers))


def follow(group: RowGroup) -> None:
    """Begin to note changes, without the copy of all rows that a reader gets first."""
    with group.readers.marking("benchmark") as mark:
        for part in group.partitions:
            with part.lock:
                part.close_stretch(mark, None)


class PushTimes(NamedTuple):
    """Seconds of a push without a reader, and how many times as long those between marks, and the first, take."""

    plain_s: float
    between: float
    first: float


def push_times(shard: Shard, zipf: Zipf, pushes: int, rounds: int) -> PushTimes:
    """Measure so many pushes from a mark to the next with and without a reader, in turns."""
    group = shard.groups["g"]
    batches = [
        RowGradients(ids, np.ones((len(ids), DIM), np.float32), shard.pull("g", ids).rows)
        for ids in (zipf.batch() for _ in range(pushes))
    ]
    numbers = iter(range(1 << 40))

    def times() -> list[float]:
        out = []
        for batch in batches:
            start = time.thread_time()
            shard.apply(BatchKey(0, 0, next(numbers)), {"g": batch})
            out.append(time.thread_time() - start)
        return out

    plain, noted = [], []
    for _ in range(rounds):
        plain.append(times())
        follow(group)
        noted.append(times())
        group.readers.forget("benchmark")
    before, after = (np.median(np.array(each), axis=0) for each in (plain, noted))
    return PushTimes(float(before.mean()), float(after.sum() / before.sum()), float(after[0] / before[0]))


class Trained(NamedTuple):
    """Bytes that cuts wrote, how many pushes were made beside them, in how many seconds, also of the processor."""

    size: int
    pushes: int
    seconds: float
    cpu_s: float

    def cut_s(self, none: Trained, cuts: int) -> float:
        """Return the processor's seconds for a cut, given the same without cuts."""
        return (self.cpu_s - self.pushes * none.cpu_s / none.pushes) / cuts

    def lost(self, none: Trained) -> float:
        """Return which part of the pushes a second is lost, given the same without cuts."""
        return 1 - self.pushes / self.seconds * none.seconds / none.pushes


class Cuts:
    """Makes so many cuts of a shard, each when it is due: all full, or with changes between."""

    def __init__(self, shard: Shard, cuts: int, changes: bool) -> None:
        self._shard, self._cuts, self._changes = shard, cuts, changes
        self._chain: list[tuple[Path, int]] = []
        self.due, self.size = threading.Semaphore(0), 0

    def run(self) -> None:
        """Make them, in a folder of their own."""
        with tempfile.TemporaryDirectory() as name:
            snapshots = Snapshots(Path(name))
            for _ in range(self._cuts):
                self.due.acquire()
                self._cut(snapshots)

    def _cut(self, snapshots: Snapshots) -> None:
        (_, base), *changes = self._chain or [(Path(), 0)]
        follows = self._changes and sum(size for _, size in changes) < base
        folder = snapshots.begin(self._chain[-1][0] if follows else None)
        with self._shard.cut("cuts", moment=folder.name, since=since_of(folder)) as cut:
            kind: Kind = "changes" if cut.partial else "checkpoint"
            part = write_part(cut, folder, kind=kind)
        done = snapshots.commit(folder, [part], ledger=Window(), seed=0, groups=[GROUP], kind=kind)
        size = Manifest.read(done).size
        self._chain = [*self._chain, (done, size)] if follows else [(done, size)]
        self.size += size


def trained(shard: Shard, zipf: Zipf, pushes: int, cuts: int, changes: bool | None) -> Trained:
    """Train while a cut is made every so many pushes; None for the same without cuts."""
    shard.forget("cuts")
    made = Cuts(shard, cuts if changes is not None else 0, bool(changes))
    writer = threading.Thread(target=made.run)
    pushed, start, cpu = 0, time.perf_counter(), time.process_time()
    writer.start()
    while pushed < pushes * cuts or writer.is_alive():
        if pushed % pushes == 0:
            made.due.release()
        ids = zipf.batch()
        pulled = shard.pull("g", ids)
        shard.apply(BatchKey(1, 0, pushed), {"g": RowGradients(ids, pulled.values, pulled.rows)})
        pushed += 1
    return Trained(made.size, pushed, time.perf_counter() - start, time.process_time() - cpu)


def compare(shard: Shard, zipf: Zipf, pushes: int, cuts: int) -> tuple[Trained, Trained, Trained]:
    """Print what cuts write and cost; return what was measured without cuts, with full ones and with changes."""
    none, full, some = (trained(shard, zipf, pushes, cuts, changes) for changes in (None, False, True))
    costs = [each.cut_s(none, cuts) for each in (full, some)]
    print(f"{cuts} cuts, one in {pushes} pushes: {full.size / some.size:.1f} times fewer bytes as changes", end="")
    print(f", {costs[0] / costs[1]:.1f} times less of the processor")
    for name, each, cost in zip(("full", "changes"), (full, some), costs, strict=True):
        print(f"    {name:8s}{each.size / 1e6:7,.0f} MB, {cost:5.2f} s of the processor for a cut", flush=True)
    return none, full, some


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=float, default=1e6)
    parser.add_argument("--every", type=float, default=5.0, help="seconds from cut to cut")
    parser.add_argument("--cuts", type=int, default=10, help="the first of them full in any case")
    parser.add_argument("--rate", type=float, default=10.0, help="batches of 4,096 samples a second")
    parser.add_argument("--rounds", type=int, default=30)
    options = parser.parse_args()
    rows = int(options.rows)
    shard, zipf = filled(rows), Zipf(rows)
    between = round(options.rate * options.every)
    measured = [push_times(shard, zipf, between, options.rounds // 3) for _ in range(3)]
    plain, noted, first = (statistics.median(each) for each in zip(*measured, strict=True))
    print(f"{rows:,} rows: a push takes {1e3 * plain:.2f} ms, with a reader {noted:.3f} times as long", end="")
    print(f" ({between} pushes from mark to mark; the first of them {first:.3f} times)", flush=True)
    compare(shard, zipf, between, options.cuts)
    tried = trained(shard, zipf, 100, 1, None)
    none, full, some = compare(shard, zipf, round(tried.pushes / tried.seconds * options.every), options.cuts)
    print(f"    {none.pushes / none.seconds:.1f} pushes a second without cuts,", end="")
    print(f" {full.lost(none):.0%} of them lost to full cuts, {some.lost(none):.0%} to changes")


if __name__ == "__main__":
    main()
