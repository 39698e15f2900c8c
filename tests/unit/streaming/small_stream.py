"""Small passes on disk, and a stream over them: for tests of streaming, also in processes of their own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

import heterps as hps
from heterps import ops
from heterps.parquet import read_parquet
from heterps.streaming import read_log
from heterps.tables import CtrAccessor, Manifest, find_generation

SLOTS = 2
HEAD = "user,item,age,click"
COLUMNS = {"label": "click", "categorical": ["user", "item"], "numeric": ["age"]}


def write_pass(path: Path, seed: int, rows: int = 150) -> Path:
    """Write clicks that hidden weights of users and items decide."""
    rng, hidden = np.random.default_rng(seed), np.random.default_rng(1).normal(size=(SLOTS, 30))
    picks = rng.integers(0, 30, (rows, SLOTS))
    score = hidden[np.arange(SLOTS), picks].sum(axis=1) + rng.normal(scale=0.3, size=rows)
    lines = [f"u{u},i{i},{rng.integers(20, 60)},{int(s > 0)}" for (u, i), s in zip(picks, score, strict=True)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([HEAD, *lines]) + "\n")
    return path


def write_days(folder: Path, days: int = 2, passes: int = 3, rows: int = 150) -> str:
    """Write passes of some days; return the pattern of their names."""
    for day in range(days):
        for name in range(passes):
            write_pass(folder / f"2026110{day + 1}" / f"{name:02d}.csv", 10 * day + name, rows)
    return f"{folder}/{{day}}/{{pass}}.csv"


def read_clicks(paths: Any) -> hps.Dataset:
    """Open a pass."""
    return hps.csv(paths, **COLUMNS)


def model() -> hps.Graph:
    """Return a model with tables that age."""
    kept = CtrAccessor(decay_rate=0.5, delete_threshold=0.6, base_threshold=0.1)
    ids, x, y = ops.input("ids", shape=(SLOTS,), dtype="uint64"), ops.input("x", shape=(1,)), ops.input("y")
    vectors = ops.lookup(ids, table="vectors", dim=4, name="vectors", accessor=kept.to_json())
    hidden = ops.relu(ops.dense(ops.concat(vectors, x), 8, name="fc"))
    return hps.Graph(loss=ops.logloss(ops.dense(hidden, 1, name="out"), y))


def session(**options: Any) -> hps.Session:
    """Launch it in this thread."""
    plan = hps.Plan.fused(model(), batch_size=32)
    given = {"engine": "inline", "mode": "sync", "sparse": hps.ElementAdaGrad(lr=0.1), **options}
    return hps.launch(plan, **given)


def run(pattern: Any, out: Path, **options: Any) -> list[hps.streaming.PassReport]:  # type: ignore[name-defined]
    """Stream until it ends."""
    options = {"schema": COLUMNS, "poll_s": (0.01, 0.05), **options}
    with session() as open_session:
        return list(hps.stream(open_session, pattern, out, **options))


def rows(out: Path) -> dict[str, bytes]:
    """Return every row, slot and parameter of the newest checkpoint, in an order that does not depend on chance."""
    with session() as again:
        again.load(out)
        folder = out / "whole"
        again.save(folder)
    return content(find_generation(folder / "checkpoint"))


def content(snapshot: Path) -> dict[str, bytes]:
    """Return what the files of a snapshot hold."""
    return {file.name: _sorted(snapshot / file.name) for file in Manifest.read(snapshot).files}


def _sorted(path: Path) -> bytes:
    table = read_parquet(path)
    key = "id" if "id" in table.column_names else "name"
    return repr(table.sort_by(key).to_pydict()).encode()


def logged(out: Path) -> list[dict[str, Any]]:
    """Return the log without the times of the clock."""
    return read_log(out).drop_columns(["at"]).to_pylist()


def published(out: Path) -> list[dict[str, Any]]:
    """Return what others may take."""
    path = out / "published.json"
    return json.loads(path.read_text())["outputs"] if path.exists() else []
