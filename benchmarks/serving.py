"""Serving on one core: a row and 256 rows against onnxruntime and PyTorch, the start from 1 GB, memory shared by four.

    python -m benchmarks.serving [--gigabytes 1] [--calls 2000] [--torch PYTHON]

The model is Wide & Deep with 26 categories, 13 numbers, rows of 16 + 1 and three layers of 400; the export has as many
rows as fit the size. ``ours`` goes from raw cells (dicts) to probabilities, ``ours, columns`` from ready-made ids;
``onnxruntime`` and ``PyTorch eager`` compute the dense part alone, with rows that were looked up for them (PyTorch also
takes them from an embedding of its own). Times are of the wall and, where others use the machine, of the processor.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.machine import describe
from heterps.data import Category, DataForm, Number, Schema, dense, label, sparse
from heterps.export.onnx_graph import dense_to_onnx
from heterps.export.row_writing import RowWriter, write_dense
from heterps.models import wide_deep
from heterps.runtime.batch.model import Model
from heterps.serving.lookups import looked_up
from heterps.serving.manifest import ONNX, Export, Origin
from heterps.serving.plain_values import hash_texts
from heterps.serving.predictor import Predictor
from heterps.tables.snapshots.disk import HashedFile
from heterps.tables.snapshots.manifest import StoredFile

SLOTS, NUMBERS, DIM = 26, 13, 16
VALUES = 20_000  # of each category that requests have; the other rows only take their place
BYTES = 8 + 4 * (DIM + 1)


def fields() -> Schema:
    """Raw columns c0 .. c25 and n0 .. n12, as a reader of Criteo's files would describe them."""
    return Schema.of(
        sparse("ids", *(Category(f"c{i}") for i in range(SLOTS))),
        dense("x", *(Number(f"n{i}", log=True) for i in range(NUMBERS))),
        label("y", Number("y")),
    )


def cell(column: int, value: int) -> str:
    return f"{column:02d}{value:06x}"


def export(folder: Path, gigabytes: float) -> None:
    """Write an exported model with random rows."""
    graph, rng = wide_deep(slots=SLOTS, dense=NUMBERS, dim=DIM), np.random.default_rng(0)
    ids = np.concatenate(
        [
            hash_texts([cell(i, v).encode() for v in range(VALUES)], np.full(VALUES, recipe.salt, np.uint64))
            for i, recipe in enumerate(fields()["ids"].of)
        ]
    )
    others = max(0, int(gigabytes * 1e9 / BYTES) - len(ids))
    ids = np.unique(np.concatenate([ids, rng.integers(0, 2**64 - 2, others, np.uint64)]))
    (group,) = Model(graph).groups
    columns: dict[str, Any] = {"id": ids}
    for table in group.tables:
        columns[table.name] = rng.standard_normal((len(ids), table.dim), np.float32) * np.float32(0.1)
    generation = folder / "00000001"
    generation.mkdir(parents=True)
    writer = RowWriter(generation, "arrow", "float32")
    made = writer.write("rows-000-0000", columns)
    parameters = {spec.name: rng.normal(0, 0.05, spec.shape).astype(np.float32) for spec in Model(graph).parameters}
    with HashedFile(generation / "dense.onnx") as file:
        file.write(dense_to_onnx(graph, parameters))
    files = (
        StoredFile(made[0], group.name, 0, group.n_shards - 1, len(ids), made[1], made[2]),
        write_dense(writer, parameters),
        StoredFile("dense.onnx", ONNX, 0, 0, 0, file.size, file.sha256),
    )
    form = DataForm(fields())
    shards = {group.name: group.n_shards}
    Export("full", graph, form, "arrow", "float32", shards, files, Origin("", 0)).write(generation)


def rows(n: int, seed: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    picks, numbers = rng.integers(0, VALUES, (n, SLOTS)), rng.integers(0, 1000, (n, NUMBERS))
    return [
        {f"c{i}": cell(i, v) for i, v in enumerate(p)} | {f"n{i}": v for i, v in enumerate(x)}
        for p, x in zip(picks.tolist(), numbers.tolist(), strict=True)
    ]


def timed(call: Callable[[int], Any], calls: int) -> dict[str, float]:
    """Return milliseconds at the 50th and 99th percentile: wall, and processor of this thread."""
    for i in range(min(50, calls)):
        call(i)
    wall, used = np.empty(calls), np.empty(calls)
    for i in range(calls):
        began, spent = time.perf_counter(), time.thread_time()
        call(i)
        used[i], wall[i] = time.thread_time() - spent, time.perf_counter() - began
    found = {}
    for name, seconds in (("wall", wall), ("cpu", used)):
        found |= {f"{name} p{p}": float(np.percentile(seconds, p) * 1e3) for p in (50, 99)}
    return found


def in_process(folder: Path, calls: int) -> dict[str, dict[str, float]]:
    """Measure this process: ours by NumPy and onnxruntime, and onnxruntime alone."""
    return {
        f"{n:3d} {name}": times
        for n in (1, 256)
        for name, times in of_size(folder, n, calls if n == 1 else max(50, calls // 20)).items()
    }


def of_size(folder: Path, n: int, calls: int) -> dict[str, dict[str, float]]:
    ours, other = Predictor(folder), Predictor(folder, "onnx")
    batches = [rows(n, seed) for seed in range(min(calls, 200))]
    columns = [ours.columns(batch) for batch in batches]
    feeds = [{**some, **looked_up_for(other.model, some)} for some in columns[:20]]
    pick = len(batches)
    return {
        "ours, raw cells": timed(lambda i: ours(batches[i % pick]), calls),
        "ours, columns": timed(lambda i: ours(columns[i % pick]), calls),
        "ours, raw cells, engine onnx": timed(lambda i: other(batches[i % pick]), calls),
        "onnxruntime, dense part alone": timed(
            lambda i: other.model._dense.run("prediction", feeds[i % len(feeds)], n), calls
        ),
    }


def looked_up_for(model: Any, columns: dict[str, Any]) -> dict[str, Any]:
    return looked_up(model._lowered, model.wanted("prediction").gathers, model.rows, columns)


TORCH = """
import json, sys, time
import numpy as np, torch
from torch import nn
torch.set_num_threads(1)
slots, numbers, dim, vocabulary, calls = map(int, sys.argv[1:])
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.deep, self.wide = nn.Embedding(vocabulary, dim), nn.Embedding(vocabulary, 1)
        widths = [slots * dim + numbers, 400, 400, 400]
        layers = []
        for a, b in zip(widths, widths[1:]):
            layers += [nn.Linear(a, b), nn.ReLU()]
        self.top = nn.Sequential(*layers, nn.Linear(400, 1))
    def forward(self, ids, x):
        h = torch.cat([self.deep(ids).flatten(1), x], 1)
        return torch.sigmoid(self.top(h).squeeze(1) + self.wide(ids).sum((1, 2)))
net = Net().eval()
found = {}
with torch.inference_mode():
    for n in (1, 256):
        count = calls if n == 1 else max(50, calls // 20)
        ids, x = torch.randint(0, vocabulary, (200, n, slots)), torch.randn(200, n, numbers)
        wall, used = np.empty(count), np.empty(count)
        for i in range(-50, count):
            began, spent = time.perf_counter(), time.thread_time()
            net(ids[i % 200], x[i % 200])
            if i >= 0:
                used[i], wall[i] = time.thread_time() - spent, time.perf_counter() - began
        found[f"{n:3d} PyTorch eager, ids to probabilities"] = {
            f"{name} p{p}": float(np.percentile(s, p) * 1e3)
            for name, s in (("wall", wall), ("cpu", used)) for p in (50, 99)}
print(json.dumps(found))
"""

START = """
import sys, time
began, times = time.perf_counter(), [time.process_time()]
import heterps as hps
import heterps.serving.predictor
imported = time.perf_counter()
times[0] = time.process_time()
predictor = hps.Predictor(sys.argv[1])
opened = time.perf_counter()
times.append(time.process_time())
import json
predictor(json.loads(sys.argv[2]))
print(json.dumps([imported - began, opened - imported, time.perf_counter() - opened, times[1] - times[0]]))
"""

SHARED = """
import sys, json
import heterps as hps
from benchmarks.serving import rows
predictor = hps.Predictor(sys.argv[1])
for seed in range(40):
    predictor(rows(256, seed))
print("ready", flush=True)
sys.stdin.readline()
found, mapped = {}, False
for line in open("/proc/self/smaps"):
    if "-" in line.split()[0] and ":" not in line.split()[0]:
        mapped = line.rstrip().endswith(".arrow")
    for name in ("Rss:", "Pss:"):
        if line.startswith(name):
            found[name] = found.get(name, 0) + int(line.split()[1])
            if mapped:
                found["rows " + name] = found.get("rows " + name, 0) + int(line.split()[1])
print(json.dumps(found), flush=True)
sys.stdin.readline()
"""


def started(folder: Path) -> list[float]:
    row = json.dumps(rows(1, 1)[0])
    made = subprocess.run([sys.executable, "-c", START, str(folder), row], capture_output=True, text=True, check=True)
    return list(json.loads(made.stdout))


def shared(folder: Path, processes: int) -> list[dict[str, int]]:
    """Return kilobytes of each of several processes that serve one export, all alive while they are measured."""
    command = [sys.executable, "-c", SHARED, str(folder)]
    made = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(processes)
    ]
    try:
        for process in made:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        found = []
        for process in made:
            assert process.stdin is not None
            assert process.stdout is not None
            print(file=process.stdin, flush=True)
            found.append(json.loads(process.stdout.readline()))
        return found
    finally:
        for process in made:
            process.communicate("\n")


def show(found: dict[str, dict[str, float]]) -> None:
    names = list(next(iter(found.values())))
    print(f"{'milliseconds':44s}" + "".join(f"{name:>11s}" for name in names))
    for what, times in found.items():
        print(f"{what:44s}" + "".join(f"{times[name]:11.3f}" for name in names), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--torch", metavar="PYTHON", help="interpreter that has torch")
    parser.add_argument("--folder", type=Path, help="where the export goes, and stays")
    args = parser.parse_args()
    print(*(f"{name}: {value}" for name, value in describe().items()), f"load: {os.getloadavg()[0]:.1f}", sep="\n")
    with tempfile.TemporaryDirectory() as temporary, threadpool_limits(1):
        folder = (args.folder or Path(temporary)) / "export"
        if not folder.exists():
            export(folder, args.gigabytes)
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        print(f"export: {size / 1e9:.2f} GB, {size // BYTES:,} rows")
        for attempt in ("first", "second"):
            imported, opened, answered, used = started(folder)
            print(
                f"{attempt} start: import {imported:.2f} s, open {opened:.3f} s, first answer {answered:.3f} s; "
                f"processor to open {used:.3f} s"
            )
        show(in_process(folder, args.calls))
        if args.torch:
            words = map(str, (SLOTS, NUMBERS, DIM, 1_000_000, args.calls))
            made = subprocess.run([args.torch, "-c", TORCH, *words], capture_output=True, text=True, check=True)
            show(json.loads(made.stdout))
        for processes in (1, 4):
            found = shared(folder, processes)
            mean = {name: sum(each.get(name, 0) for each in found) / len(found) / 1024 for name in found[0]}
            print(
                f"{processes} processes, each on average (MiB): " + ", ".join(f"{n} {v:.0f}" for n, v in mean.items())
            )


if __name__ == "__main__":
    main()
