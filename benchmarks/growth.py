"""How cost per sample grows with batch, dim, slots, rows and shard hosts: ``python -m benchmarks.growth [--rows 1e8]``.

Wide & Deep of the peers' workload in one thread, one thing changed at a time; CPU time per sample, and the part of it
that tables take (de-duplicating ids, pulling, pushing). Rows are drawn evenly from all there are, which no cache likes,
and lie on disk (``storage="ssd"``). Prints the exponent of growth between neighbours and writes docs/growth.svg.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

import heterps as hps
from benchmarks.curves import Curve, Panel, panels
from benchmarks.report import DOCS
from heterps import ops

TABLES = ("deduplicate", "pull", "push")
FILL = 1 << 20  # rows made at a time
DENSE = 13


@dataclass(frozen=True)
class Point:
    """One configuration."""

    batch: int = 1024
    dim: int = 16
    slots: int = 26
    rows: int = 1_000_000
    hosts: int = 1
    storage: str = "memory"


@dataclass(frozen=True)
class Axis:
    """What grows, how, and the exponent of cost per sample that needs no explanation."""

    name: str
    points: tuple[Point, ...]
    expected: float


def axes(most_rows: int) -> list[Axis]:
    base = Point()
    rows = [n for n in (100_000, 1_000_000, 10_000_000, 100_000_000) if n <= most_rows]
    return [
        Axis("batch", tuple(replace(base, batch=n) for n in (256, 1024, 4096, 16384)), 0.0),
        Axis("dim", tuple(replace(base, dim=n) for n in (8, 16, 32, 64, 128)), 1.0),
        Axis("slots", tuple(replace(base, slots=n) for n in (13, 26, 52, 104)), 1.0),
        Axis("rows", tuple(replace(base, rows=n, storage="ssd") for n in rows), 0.0),
        Axis("hosts", tuple(replace(base, hosts=n) for n in (1, 2, 4, 8)), 0.0),
    ]


def graph(point: Point) -> hps.Graph:
    ids = ops.input("ids", shape=(point.slots,), dtype="uint64")
    x, y = ops.input("x", shape=(DENSE,)), ops.input("y")
    wide = ops.sum(ops.lookup(ids, table="wide", dim=1, storage=point.storage), name="wide_sum")
    h = ops.concat(ops.lookup(ids, table="deep", dim=point.dim, storage=point.storage), x, name="features")
    for i in range(3):
        h = ops.relu(ops.dense(h, 400, name=f"fc{i}"), name=f"relu{i}")
    return hps.Graph(loss=ops.logloss(ops.add(wide, ops.dense(h, 1, name="out"), name="logit"), y, name="loss"))


def data(point: Point) -> hps.Dataset:
    """Ids drawn evenly: about as many distinct ones in a batch as there are."""
    rng, samples = np.random.default_rng(5), max(65_536, 2 * point.batch)
    ids = rng.integers(1, point.rows + 1, (samples, point.slots), dtype=np.uint64)
    x, y = rng.random((samples, DENSE), np.float32), (rng.random(samples) < 0.3).astype(np.float32)
    return hps.arrays({"ids": ids, "x": x, "y": y}).shuffle("none")


def fill(shard: Any, host: int, rows: int) -> None:
    """Give every id its row."""
    (name, group), *_ = shard.groups.items()
    for start in range(1, rows + 1, FILL):
        ids = np.arange(start, min(start + FILL, rows + 1), dtype=np.uint64)
        shard.pull(name, ids[_owned(group, ids)])


def _owned(group: Any, ids: np.ndarray) -> Any:
    """Which ids belong to this host."""
    if len(group.owned) == group.spec.n_shards:
        return slice(None)
    from heterps.tables.routing import Router

    mine = np.ones(group.spec.n_shards, np.int32)
    mine[list(group.owned)] = 0
    routed = Router(mine).route(ids)
    return np.isin(ids, routed.ids[routed.bounds[0] : routed.bounds[1]])


def cost(point: Point, seconds: float) -> tuple[float, float]:
    """Microseconds of CPU per sample: all of it, and what tables take of it."""
    plan = hps.Plan.fused(graph(point), batch_size=point.batch, shard_hosts=point.hosts)
    rules = {"sparse": hps.RowWiseAdaGrad(lr=0.02), "dense": hps.SGD(lr=0.01)}
    with hps.launch(plan, engine="inline", metrics=(), report_s=0.25, **rules) as session:
        session.engine.each_shard(fill, point.rows)
        return _measured(session.train(data(point), 1_000_000), seconds)


def _measured(reports: Iterator[hps.Progress], seconds: float) -> tuple[float, float]:
    first, used, began, spent = 0, 0.0, 0.0, dict.fromkeys(("all", "tables"), 0.0)
    for progress in reports:
        if not first:
            first, used, began = progress.samples, time.process_time(), time.perf_counter()
            continue
        spent["all"] += sum(progress.phases.values())
        spent["tables"] += sum(progress.phases.get(name, 0.0) for name in TABLES)
        if time.perf_counter() - began >= seconds:
            total = (time.process_time() - used) / (progress.samples - first) * 1e6
            return total, total * spent["tables"] / spent["all"]
    raise RuntimeError("the run ended before it was measured")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2.0, help="length of a measurement")
    parser.add_argument("--rows", type=float, default=1e8, help="most rows; 1e8 take 9 GB of disk for the while")
    parser.add_argument("--only", default="", help="comma-separated axes")
    parser.add_argument("--no-docs", action="store_true", help="print only; leave docs/growth.svg alone")
    chosen = parser.parse_args()
    drawn = []
    for axis in axes(int(chosen.rows)):
        if not chosen.only or axis.name in chosen.only.split(","):
            drawn.append(measure(axis, chosen.seconds))
    if not chosen.no_docs:
        (DOCS / "growth.svg").write_text(panels("CPU microseconds per sample", drawn))


def measure(axis: Axis, seconds: float) -> Panel:
    """Measure an axis and print a line per point."""
    print(f"\n| {axis.name} | CPU us per sample | exponent | tables' part | exponent |\n|---|---|---|---|---|")
    found: list[tuple[float, float, float]] = []
    for point in axis.points:
        found.append((float(getattr(point, axis.name)), *cost(point, seconds)))
        total, tables = (_exponent(found, k) for k in (1, 2))
        at, all_, part = found[-1]
        print(f"| {at:,.0f} | {all_:.1f} | {total} | {part:.2f} | {tables} |", flush=True)
    for k, what in ((1, "all"), (2, "tables")):
        steep = [b[0] for a, b in pairwise(found) if _slope(a, b, k) > axis.expected + 0.1]
        if steep:
            print(f"steeper than {axis.expected:g} ({what}): at {', '.join(f'{at:,.0f}' for at in steep)}")
    curves = tuple(Curve(name, tuple((row[0], row[k]) for row in found)) for k, name in ((1, "all"), (2, "tables")))
    return Panel(axis.name, curves)


def _exponent(found: list[tuple[float, float, float]], k: int) -> str:
    return f"{_slope(found[-2], found[-1], k):.2f}" if len(found) > 1 else ""


def _slope(a: tuple[float, ...], b: tuple[float, ...], k: int) -> float:
    return math.log(b[k] / a[k]) / math.log(b[0] / a[0])


if __name__ == "__main__":
    main()
