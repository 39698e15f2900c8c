"""Sparse tables beside PyTorch's and FBGEMM's, growth, and snapshots: ratios within one run, one core.

Run: ``python -m benchmarks.tables [--rows 2600000 26000000] [--rounds 3] [--seconds 2] [--grow 20000000]``.

A step looks up 4096 x 26 Zipf ids of dim 16 and applies one gradient to each: for us finding the unique ids, pull,
gather to positions, sum by unique id, push; for the peers forward, backward, update. Times are CPU time of one thread
(a busy machine distorts ratios little); rounds of all systems alternate and the median of the rounds counts.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks import peers
from heterps.kernels.ops.row_loops import NONE, gather, scatter
from heterps.protocol import BatchKey
from heterps.tables import (
    SGD,
    GroupSpec,
    KeyedShard,
    Router,
    RowGradients,
    RowWiseAdaGrad,
    Rule,
    TableSpec,
    Uniform,
    restore,
    save_shard,
)

BATCH, SLOTS, DIM = 4096, 26, 16
PEERS = {"torch": "torch", "torch26": "torch", "fbgemm-sgd": "fbgemm", "fbgemm-rowwise": "fbgemm"}
#: What is wanted: our rule, the peer, how many times as fast.
TARGETS = (
    ("sgd", "torch", 3.0),
    ("sgd", "torch26", 3.0),
    ("sgd", "fbgemm-sgd", 1.0),
    ("rowwise", "fbgemm-rowwise", 2.0),
)


def batches(ids: int, n: int = 20) -> list[np.ndarray]:
    """Zipf ids, spread over all of 64 bits: ours are hashed, not positions in an array."""
    rng = np.random.default_rng(0)
    positions = [np.minimum(rng.zipf(1.1, (BATCH, SLOTS)), 50 * ids) % ids for _ in range(n)]
    return [spread((b + np.arange(SLOTS) * ids).astype(np.uint64).ravel()) for b in positions]


def spread(positions: np.ndarray) -> np.ndarray:
    return positions * np.uint64(0x9E3779B97F4A7C15) + np.uint64(1)


class Ours:
    """One table with every row present, and one step of training."""

    def __init__(self, rows: int, rule: Rule) -> None:
        self.shard = KeyedShard([GroupSpec("g", (TableSpec("t", DIM, rule, Uniform(0.01)),))])
        rng = np.random.default_rng(1)
        for start in range(0, rows, 1 << 18):
            ids = np.arange(start, min(start + (1 << 18), rows), dtype=np.uint64)
            self.shard.pull("g", spread(rng.permutation(ids)))
        self.router, self.n = Router(), 0
        self.out, self.sums = (np.empty((BATCH * SLOTS, DIM), np.float32) for _ in range(2))
        self.at = np.empty((BATCH * SLOTS, DIM), np.float32)
        self.grads = np.ones((BATCH * SLOTS, DIM), np.float32)
        self.offsets = np.zeros(1, np.int64)  # no lists
        self.lookup = np.array([[0, DIM, -1, NONE, BATCH, 0, 0, 0, SLOTS * DIM, SLOTS]])

    def step(self, ids: np.ndarray) -> None:
        """Train one batch."""
        routed = self.router.route(ids)
        n = len(routed)
        pulled = self.shard.pull("g", routed.ids, out=self.out)
        gather(pulled.values, routed.inverse, self.offsets, self.at.reshape(-1), self.lookup)
        self.sums[:n] = 0
        scatter(self.sums[:n], routed.inverse, self.offsets, self.grads.reshape(-1), self.lookup)
        self.n += 1
        self.shard.push(BatchKey(0, 0, self.n), {"g": RowGradients(routed.ids, self.sums[:n], pulled.rows)})


def median_ms(step: Callable[[np.ndarray], None], inputs: list[np.ndarray], seconds: float) -> float:
    for batch in inputs:
        step(batch)
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end:
        for batch in inputs:
            start = time.thread_time()
            step(batch)
            times.append(time.thread_time() - start)
    return 1e3 * statistics.median(times)


def copy_step(rows: np.ndarray) -> Callable[[np.ndarray], None]:
    """The bytes a step cannot avoid, plainly copied: rows out and back, positions out and gradients in."""
    unique = [np.empty((rows.shape[0], DIM), np.float32) for _ in range(2)]
    full = [np.ones((BATCH * SLOTS, DIM), np.float32) for _ in range(2)]

    def step(_: np.ndarray) -> None:
        np.copyto(unique[0], unique[1])
        np.copyto(full[0], full[1])
        np.copyto(full[1], full[0])
        np.copyto(unique[1], unique[0])

    return step


def ask_peer(system: str, ids: int, seconds: float) -> float:
    python = peers.ensure(PEERS[system])
    script = Path(__file__).with_name("peer_tables.py")
    # -P: beside the script lies profile.py, which torch would take for the module of that name in the library.
    command = [str(python), "-P", str(script), system, str(ids), str(seconds)]
    env = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=env)
    return float(json.loads(done.stdout.strip().splitlines()[-1])["median_ms"])


def side_by_side(rows: int, rounds: int, seconds: float, with_peers: bool) -> None:
    ids = rows // SLOTS
    inputs = batches(ids)
    found: dict[str, list[float]] = {}
    for _ in range(rounds):
        for name, rule in (("sgd", SGD(0.01)), ("rowwise", RowWiseAdaGrad(0.01))):
            ours = Ours(rows, rule)
            found.setdefault(name, []).append(median_ms(ours.step, inputs, seconds))
            del ours
        unique = np.unique(inputs[0])
        found.setdefault("copy", []).append(median_ms(copy_step(unique), inputs, seconds / 4))
        for system in PEERS if with_peers else ():
            found.setdefault(system, []).append(ask_peer(system, ids, seconds))
    times = {name: statistics.median(values) for name, values in found.items()}
    print(f"\n{rows:,} rows, {BATCH} x {SLOTS} ids, dim {DIM}: ms of one core per step")
    for name, value in times.items():
        print(f"  {name:15s} {value:8.2f}   (rounds: {', '.join(f'{v:.2f}' for v in found[name])})")
    for ours_name, peer, target in TARGETS:
        if peer in times:
            print(f"  ours {ours_name} is {times[peer] / times[ours_name]:.2f}x {peer} (wanted: {target:.1f}x)")
    print(f"  ours sgd is {times['sgd'] / times['copy']:.1f}x the time of a plain copy of the same bytes")


def growth(rows: int) -> None:
    """Cost of pulls of new ids while a table grows from nothing, and what it takes."""
    shard = KeyedShard([GroupSpec("g", (TableSpec("t", DIM, SGD(0.01), Uniform(0.01)),))])
    out, step = np.empty((4096, DIM), np.float32), 4096
    shard.pull("g", spread(np.arange(10, dtype=np.uint64)))
    times, before = [], rss()
    for start in range(0, rows, step):
        ids = spread(np.arange(start, start + step, dtype=np.uint64))
        begin = time.thread_time()
        shard.pull("g", ids, out=out)
        times.append(time.thread_time() - begin)
    ns = 1e9 * np.array(times) / step
    payload = rows * (8 + 4 * DIM)
    print(f"\ngrowth from 0 to {rows:,} rows, batches of {step} new ids: ns per id")
    print(f"  p50 {np.percentile(ns, 50):.0f}   p99.9 {np.percentile(ns, 99.9):.0f}   max {ns.max():.0f}")
    print(f"  resident memory {(rss() - before) / payload:.2f}x of id + values")


def rss() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def scaling(sizes: list[int], seconds: float) -> None:
    """Cost of pull + push per unique id, uniform ids (no cache helps), as the table grows."""
    print("\npull + push of 32768 uniform ids: ns per id")
    first = 0.0
    for rows in sizes:
        ours = Ours(rows, SGD(0.01))
        rng = np.random.default_rng(2)
        inputs = [spread(rng.choice(rows, 32_768, replace=False).astype(np.uint64)) for _ in range(10)]

        def step(ids: np.ndarray, ours: Ours = ours) -> None:
            pulled = ours.shard.pull("g", ids, out=ours.out)
            ours.n += 1
            ours.shard.push(BatchKey(0, 0, ours.n), {"g": RowGradients(ids, ours.grads[: len(ids)], pulled.rows)})

        ns = median_ms(step, inputs, seconds) * 1e6 / 32_768
        first = first or ns
        print(f"  {rows:>12,} rows: {ns:6.1f}   {ns / first:.2f}x of the smallest")
        del ours


def snapshots(rows: int, rounds: int) -> None:
    """Write and restore against a plain file of the same size on the same disk, alternating; medians of the rounds."""
    _save_and_restore(Ours(1000, RowWiseAdaGrad(0.01)))  # compiles
    ours = Ours(rows, RowWiseAdaGrad(0.01))
    found = [_save_and_restore(ours) for _ in range(rounds)]
    size = found[0]["MB"]
    print(f"\nsnapshot of {rows:,} rows, {size:.0f} MB: MB/s (wanted: at least 0.5x of a plain file)")
    for what, plain in (("write", "plain write"), ("restore", "plain read"), ("restore, cached", "plain read, cached")):
        speeds = [statistics.median(size / one[name] for one in found) for name in (what, plain)]
        each = ", ".join(f"{one[plain] / one[what]:.2f}" for one in found)
        print(f"  {what:15s} {speeds[0]:5.0f}, {plain} {speeds[1]:5.0f}: {speeds[0] / speeds[1]:.2f}x (rounds: {each})")


def _save_and_restore(ours: Ours) -> dict[str, float]:
    """Seconds of each act. Every file is new, and not in the page cache unless said.

    Memory that the host of a virtual machine has yet to provide can be slower than the disk (here 0.27 GB/s, against 8
    when used before), so before each act as much as it needs is touched and given back: for both.
    """
    with tempfile.TemporaryDirectory(dir=".") as folder:
        touch(ours)
        write = seconds(lambda: save_shard(ours.shard, folder))
        (done,) = Path(folder).iterdir()
        size = sum(path.stat().st_size for path in done.iterdir())
        plain = Path(folder) / "plain"
        found = {"MB": size / 1e6, "write": write, "plain write": seconds(lambda: write_plain(plain, size))}
        for path in (plain, *done.iterdir()):
            forget(path)
        for cached in ("", ", cached"):
            touch(ours)
            found[f"plain read{cached}"] = seconds(plain.read_bytes)
            touch(ours)
            other = KeyedShard([group.spec for group in ours.shard.groups.values()])
            found[f"restore{cached}"] = seconds(lambda other=other: restore(other, done))
    return found


def touch(ours: Ours) -> None:
    """Use twice the memory of a table, and give it back."""
    np.ones(2 * ours.shard.nbytes, np.uint8)


def seconds(act: Callable[[], object]) -> float:
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def write_plain(path: Path, size: int) -> None:
    block = os.urandom(1 << 22)
    with open(path, "wb", buffering=0) as file:
        for _ in range(-(-size // len(block))):
            file.write(block)
        os.fsync(file.fileno())


def forget(path: Path) -> None:
    """Take a file out of the page cache, so that reading it is reading the disk."""
    number = os.open(path, os.O_RDONLY)
    os.posix_fadvise(number, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(number)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="*", default=[2_600_000, 26_000_000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--grow", type=int, default=20_000_000)
    parser.add_argument("--scale", type=int, nargs="*", default=[1_000_000, 10_000_000, 50_000_000])
    parser.add_argument("--snapshot", type=int, default=4_000_000)
    parser.add_argument("--skip-peers", action="store_true")
    args = parser.parse_args()
    for rows in args.rows:
        side_by_side(rows, args.rounds, args.seconds, not args.skip_peers)
    if args.grow:
        growth(args.grow)
    if args.scale:
        scaling(args.scale, args.seconds)
    if args.snapshot:
        snapshots(args.snapshot, args.rounds)


if __name__ == "__main__":
    main()
