"""What noting changes costs a push, and what cuts of changes save, in one run each.

``python -m benchmarks.changes --rows 1e6`` prints ratios: a push with a reader against one without (wanted: at most
1.03), and bytes and throughput of full cuts against cuts of changes while a table is trained with ids drawn by
Zipf 1.1, a cut every so many seconds (wanted: at least 5 times fewer bytes). Batches come at the rate at which Wide &
Deep trains on two cores, 40,000 samples a second, unless told otherwise: the faster, the more rows change between cuts.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import threading
import time
from pathlib import Path

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


def push_ratio(shard: Shard, zipf: Zipf, rounds: int) -> tuple[float, float]:
    """Return seconds of a push without a reader and how many times as long it takes with one."""
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

    without, with_ = [], []
    for _ in range(rounds):
        times()
        without += [times() for _ in range(3)]
        follow(group)
        times()
        with_ += [times() for _ in range(3)]
        group.readers.forget("benchmark")
    plain, noted = (np.median(np.array(each), axis=0).sum() for each in (without, with_))
    return float(plain) / len(batches), float(noted / plain)


def trained(shard: Shard, zipf: Zipf, *, every_s: float, cuts: int, rate: float, changes: bool) -> tuple[int, float]:
    """Train while cuts are made, at most so many batches a second; return the bytes they wrote and pushes a second."""
    with tempfile.TemporaryDirectory() as name:
        shard.forget("cuts")
        size = [0]
        writer = threading.Thread(target=_cut, args=(shard, Path(name), every_s, cuts, changes, size))
        pushed, start = 0, time.perf_counter()
        writer.start()
        while writer.is_alive():
            ids = zipf.batch()
            pulled = shard.pull("g", ids)
            shard.apply(BatchKey(1, 0, pushed), {"g": RowGradients(ids, pulled.values, pulled.rows)})
            pushed += 1
            time.sleep(max(0.0, pushed / rate - (time.perf_counter() - start)) if rate else 0.0)
        return size[0], pushed / (time.perf_counter() - start)


def _cut(shard: Shard, root: Path, every_s: float, cuts: int, changes: bool, size: list[int]) -> None:
    snapshots, last = Snapshots(root), None
    for _ in range(cuts):
        begun = time.perf_counter()
        folder = snapshots.begin(last if changes else None)
        with shard.cut("cuts", moment=folder.name, since=since_of(folder)) as cut:
            kind: Kind = "changes" if cut.partial else "checkpoint"
            part = write_part(cut, folder, kind=kind)
        last = snapshots.commit(folder, [part], ledger=Window(), seed=0, groups=[GROUP], kind=kind)
        size[0] += Manifest.read(last).size
        time.sleep(max(0.0, every_s - (time.perf_counter() - begun)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=float, default=1e6)
    parser.add_argument("--every", type=float, default=5.0, help="seconds from cut to cut")
    parser.add_argument("--cuts", type=int, default=10, help="the first of them full in any case")
    parser.add_argument("--rate", type=float, default=10.0, help="batches of 4,096 samples a second; 0: all it can")
    parser.add_argument("--rounds", type=int, default=60)
    options = parser.parse_args()
    rows = int(options.rows)
    shard, zipf = filled(rows), Zipf(rows)
    ratios = [push_ratio(shard, zipf, options.rounds // 3) for _ in range(3)]
    plain, ratio = (statistics.median(each) for each in zip(*ratios, strict=True))
    print(f"{rows:,} rows: a push takes {1e3 * plain:.2f} ms, with a reader {ratio:.3f} times as long", flush=True)
    every = {"every_s": options.every, "cuts": options.cuts, "rate": options.rate}
    full, slow = trained(shard, zipf, changes=False, **every)
    some, quick = trained(shard, zipf, changes=True, **every)
    print(f"{options.cuts} cuts, one in {options.every:g} s: full {full / 1e6:,.0f} MB, changes {some / 1e6:,.0f} MB")
    print(f"    {full / some:.1f} times fewer bytes, {quick / slow:.3f} times as many pushes a second ({quick:.0f})")


if __name__ == "__main__":
    main()
