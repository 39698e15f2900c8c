"""What noting changes costs a push, and what cuts of changes save, in one run.

``python -m benchmarks.changes --rows 1e7`` prints ratios: a push with a reader against one without (wanted: at most
1.03), also the first one after a mark, and bytes and throughput of full cuts against cuts of changes while a table is
trained with ids drawn by Zipf 1.1, a cut every so many seconds (wanted: at least 5 times fewer bytes). Cuts follow the
rule of a run: when changes outweigh what they build on, everything is written again. The faster batches come, the more
rows change between cuts: first as many as Wide & Deep trains on two cores, 40,000 samples a second, then as many as the
table alone takes, which is also what throughput is lost against. Seconds are counted in pushes, so that bytes do not
depend on what else the machine does; nor do the processor's seconds.
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
    """Seconds of a push without a reader, and how many times as long the first after a mark and later ones take."""

    plain_s: float
    first: float
    later: float


def push_times(shard: Shard, zipf: Zipf, rounds: int) -> PushTimes:
    """Measure pushes with and without a reader in turns."""
    group = shard.groups["g"]
    batches = [
        RowGradients(ids, np.ones((len(ids), DIM), np.float32), shard.pull("g", ids).rows)
        for ids in (zipf.batch() for _ in range(8))
    ]
    numbers = iter(range(1 << 40))

    def times() -> list[float]:
        out = []
        for batch in batches:
            start = time.thread_time()
            shard.apply(BatchKey(0, 0, next(numbers)), {"g": batch})
            out.append(time.thread_time() - start)
        return out

    plain, first, later = [], [], []
    for _ in range(rounds):
        times()
        plain += [times() for _ in range(2)]
        follow(group)
        first.append(times())
        later += [times() for _ in range(2)]
        group.readers.forget("benchmark")
    base, *noted = (float(np.median(np.array(each), axis=0).sum()) for each in (plain, first, later))
    return PushTimes(base / len(batches), *(each / base for each in noted))


class Trained(NamedTuple):
    """Bytes that cuts wrote, and pushes a second and the processor's seconds for one beside them."""

    size: int
    pushes: float
    cpu_s: float


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
    return Trained(made.size, pushed / (time.perf_counter() - start), (time.process_time() - cpu) / pushed)


def compare(shard: Shard, zipf: Zipf, pushes: int, cuts: int) -> None:
    """Print what cuts write, and what is lost to them where pushes come as fast as they can."""
    none, full, some = (trained(shard, zipf, pushes, cuts, changes) for changes in (None, False, True))
    print(f"{cuts} cuts, one in {pushes} pushes: {full.size / some.size:.1f} times fewer bytes as changes")
    for name, each in (("none", none), ("full", full), ("changes", some)):
        lost, more = 1 - each.pushes / none.pushes, each.cpu_s / none.cpu_s - 1
        print(f"    {name:8s}{each.size / 1e6:7,.0f} MB {each.pushes:7.1f} pushes a second, {lost:4.0%} lost", end="")
        print(f"; {1e3 * each.cpu_s:6.2f} ms of the processor for one, {more:4.0%} more", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=float, default=1e6)
    parser.add_argument("--every", type=float, default=5.0, help="seconds from cut to cut")
    parser.add_argument("--cuts", type=int, default=10, help="the first of them full in any case")
    parser.add_argument("--rate", type=float, default=10.0, help="batches of 4,096 samples a second")
    parser.add_argument("--rounds", type=int, default=60)
    options = parser.parse_args()
    rows = int(options.rows)
    shard, zipf = filled(rows), Zipf(rows)
    measured = [push_times(shard, zipf, options.rounds // 3) for _ in range(3)]
    plain, first, later = (statistics.median(each) for each in zip(*measured, strict=True))
    print(f"{rows:,} rows: a push takes {1e3 * plain:.2f} ms, with a reader {later:.3f} times as long", end="")
    print(f", the first after a mark {first:.3f} times", flush=True)
    compare(shard, zipf, round(options.rate * options.every), options.cuts)
    fastest = trained(shard, zipf, 100, 1, None).pushes
    compare(shard, zipf, round(fastest * options.every), options.cuts)


if __name__ == "__main__":
    main()
