"""How cost per sample grows with batch, dim, slots, rows and shard hosts: ``python -m benchmarks.growth [--rows 1e8]``.

Wide & Deep of the peers' workload in one thread, one thing changed at a time; CPU time per sample, and the part of it
that tables take (de-duplicating ids, pulling, pushing). Rows are drawn evenly from all there are, which no cache likes,
and lie on disk (``storage="ssd"``). Exponents of growth between neighbours; the page and docs/growth.svg are written.

Beside rows and hosts stands what explains their growth, per sample: page faults and the kernel's CPU time; the phases
of a batch, and what is left of the CPU time after them (Python around the calls).
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import heterps as hps
from benchmarks.curves import Curve, Panel, panels
from benchmarks.report import DOCS
from benchmarks.workload import DATA_FOLDER
from heterps import ops

PHASES = ("deduplicate", "pull", "push", "rule", "forward", "backward")
TABLES = ("deduplicate", "pull", "push", "rule")
KERNEL, REST = "kernel us", "rest"
FAULTS = (KERNEL, "minor faults", "major faults", "bytes read", "bytes written")
MICRO = 1e6
FILL = 1 << 20  # rows made at a time
DENSE = 13
TOLERANCE = 0.15  # of exponents: the clock of the machine wanders
RESULTS = DATA_FOLDER / "growth-2.json"  # 2: rows with what explains them
BEGIN, END = "<!-- growth -->", "<!-- end of growth -->"
Row = dict[str, float]
Found = list[Row]


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
    """What grows, how, the exponent of cost per sample that needs no explanation, and what explains a higher one."""

    name: str
    points: tuple[Point, ...]
    expected: float
    because: tuple[str, ...] = ()


def axes(most_rows: int) -> list[Axis]:
    base = Point()
    rows = [n for n in (100_000, 1_000_000, 10_000_000, 100_000_000) if n <= most_rows]
    return [
        Axis("batch", tuple(replace(base, batch=n) for n in (256, 1024, 4096, 16384)), 0.0),
        Axis("dim", tuple(replace(base, dim=n) for n in (8, 16, 32, 64, 128)), 1.0),
        Axis("slots", tuple(replace(base, slots=n) for n in (13, 26, 52, 104)), 1.0),
        Axis("rows", tuple(replace(base, rows=n, storage="ssd") for n in rows), 0.0, FAULTS),
        Axis("hosts", tuple(replace(base, hosts=n) for n in (1, 2, 4, 8)), 0.0, (*PHASES, REST)),
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
    from heterps.tables.live.routing import Router

    mine = np.ones(group.spec.n_shards, np.int32)
    mine[list(group.owned)] = 0
    routed = Router(mine).route(ids)
    return np.isin(ids, routed.ids[routed.bounds[0] : routed.bounds[1]])


def cost(point: Point, seconds: float) -> Row:
    """Microseconds of CPU per sample: all of it, what tables take of it, and what explains it."""
    plan = hps.Plan.fused(graph(point), batch_size=point.batch, shard_hosts=point.hosts)
    rules = {"sparse": hps.RowWiseAdaGrad(lr=0.02), "dense": hps.SGD(lr=0.01)}
    with hps.launch(plan, engine="inline", metrics=(), report_s=0.25, **rules) as session:
        session.engine.each_shard(fill, point.rows)
        return _measured(session.train(data(point), 1_000_000), seconds)


def _measured(reports: Iterator[hps.Progress], seconds: float) -> Row:
    first, began = None, 0.0
    for progress in reports:
        now = time.perf_counter()
        if first is None and progress.samples:
            first, began = Reading.now(progress), now
        elif first is not None and now - began >= seconds:
            return Reading.now(progress).since(first)
    raise RuntimeError("the run ended before it was measured")


@dataclass(frozen=True)
class Reading:
    """What clocks and counters say: samples, CPU time, seconds by phase, page faults, bytes of the disk."""

    samples: int
    phases: dict[str, float]
    counts: dict[str, float]

    @classmethod
    def now(cls, progress: hps.Progress) -> Reading:
        """Look at all of them."""
        used, disk = resource.getrusage(resource.RUSAGE_SELF), _disk_bytes()
        counts = {
            "all": MICRO * (used.ru_utime + used.ru_stime),
            KERNEL: MICRO * used.ru_stime,
            "minor faults": used.ru_minflt,
            "major faults": used.ru_majflt,
            "bytes read": disk["read_bytes"],
            "bytes written": disk["write_bytes"],
        }
        return cls(progress.samples, dict(progress.phases), counts)

    def since(self, first: Reading) -> Row:
        """Per sample, since an earlier reading."""
        samples = self.samples - first.samples
        row = {name: (count - first.counts[name]) / samples for name, count in self.counts.items()}
        spent = {name: MICRO * (s - first.phases[name]) / samples for name, s in self.phases.items()}
        row |= {name: spent[name] for name in PHASES}
        row["tables"] = row["all"] * sum(spent[name] for name in TABLES) / sum(spent.values())
        row[REST] = row["all"] - sum(spent.values())
        return row


def _disk_bytes() -> dict[str, int]:
    """What this process has caused the disk to read and write; zeros where the system does not say."""
    try:
        lines = Path("/proc/self/io").read_text().splitlines()
    except OSError:
        return dict.fromkeys(("read_bytes", "write_bytes"), 0)
    return {name: int(value) for name, _, value in (line.partition(": ") for line in lines)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2.0, help="length of a measurement")
    parser.add_argument("--rows", type=float, default=1e8, help="most rows; 1e8 take 9 GB of disk for the while")
    parser.add_argument("--only", default="", help="comma-separated axes; the others keep their older figures")
    parser.add_argument("--no-docs", action="store_true", help="print only; leave the page alone")
    chosen = parser.parse_args()
    known = axes(int(chosen.rows))
    held: dict[str, Found] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for axis in known:
        if not chosen.only or axis.name in chosen.only.split(","):
            held[axis.name] = [measured(axis, point, chosen.seconds) for point in axis.points]
            RESULTS.parent.mkdir(parents=True, exist_ok=True)
            RESULTS.write_text(json.dumps(held))
            print(table(axis, held[axis.name]))
    if not chosen.no_docs:
        write([(axis, held[axis.name]) for axis in known if axis.name in held])


def measured(axis: Axis, point: Point, seconds: float) -> Row:
    """Where a point lies on its axis, its cost, the tables' part of that, and what explains it."""
    found = {"at": float(getattr(point, axis.name)), **cost(point, seconds)}
    print(f"  {axis.name} {found['at']:,.0f}: {found['all']:.1f} us", file=sys.stderr, flush=True)
    return found


def table(axis: Axis, found: Found) -> str:
    """An axis as Markdown, with what is steeper than it should be in bold."""
    names = [axis.name, "CPU us per sample", "exponent", "tables' part", "exponent", *axis.because]
    lines = ["| " + " | ".join(names) + " |", "|---" * len(names) + "|"]
    for number, row in enumerate(found):
        slopes = [""] * 2 if not number else [_slope(found[number - 1], row, k) for k in ("all", "tables")]
        marked = [_marked(slope, axis.expected) for slope in slopes]
        cells = [f"{row['at']:,.0f}", f"{row['all']:.1f}", marked[0], f"{row['tables']:.2f}", marked[1]]
        lines.append("| " + " | ".join([*cells, *(f"{row[name]:,.2f}" for name in axis.because)]) + " |")
    return "\n".join([*lines, ""])


def _slope(a: Row, b: Row, name: str) -> float:
    return math.log(b[name] / a[name]) / math.log(b["at"] / a["at"])


def _marked(slope: float | str, expected: float) -> str:
    if isinstance(slope, str):
        return slope
    return f"**{slope:.2f}**" if slope > expected + TOLERANCE else f"{slope:.2f}"


def write(known: list[tuple[Axis, Found]]) -> None:
    """Put the tables into docs/benchmarks.md between their marks, and the curves beside it."""
    charts = []
    for axis, found in known:
        curves = [Curve(name, tuple((row["at"], row[name]) for row in found)) for name in ("all", "tables")]
        charts.append(Panel(axis.name, tuple(curves)))
    (DOCS / "growth.svg").write_text(panels("CPU microseconds per sample", charts))
    page = DOCS / "benchmarks.md"
    before, _, rest = page.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    parts = [BEGIN, "", "![growth](growth.svg)", "", *(table(axis, found) for axis, found in known), END]
    page.write_text(before + "\n".join(parts) + after)


if __name__ == "__main__":
    main()
