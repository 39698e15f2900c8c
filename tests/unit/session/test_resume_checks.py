"""A run goes on only with what it began with, or knowingly; a saved description is noticed to be damaged to the bit."""

import json
import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import heterps as hps
from heterps.data import Category, Number, Schema, arrays, csv, dense, frame, label, parquet, sparse
from heterps.errors import CheckpointError, HeterpsError
from heterps.runtime.cuts.saved_model import SavedModel
from heterps.testing.small_model import columns, graph

FIELDS = Schema.of(
    sparse("ids", *(Category(name) for name in "abc")), dense("x", Number("d"), Number("e")), label("y", Number("y"))
)


def table(rows: int = 300, seed: int = 3) -> pa.Table:
    rng = np.random.default_rng(seed)
    found = {name: rng.integers(0, 9, rows) for name in "abc"} | {name: rng.normal(size=rows) for name in "de"}
    return pa.table(found | {"y": rng.integers(0, 2, rows)})


def text(folder: Path, seed: int = 3, rows: int = 300) -> hps.Dataset:
    folder.mkdir(exist_ok=True)
    table(rows, seed).to_pandas().to_csv(folder / "a.csv", index=False)
    os.utime(folder / "a.csv", (1e9, 1e9))
    return csv(folder / "a.csv", FIELDS)


def stored(folder: Path, seed: int = 3, rows: int = 300) -> hps.Dataset:
    folder.mkdir(exist_ok=True)
    pq.write_table(table(rows, seed), folder / "a.parquet")
    return parquet(folder / "a.parquet", FIELDS)


def memory(folder: Path, seed: int = 3, rows: int = 300) -> hps.Dataset:
    return arrays(columns(rows, seed))


def framed(folder: Path, seed: int = 3, rows: int = 300) -> hps.Dataset:
    return frame(table(rows, seed), FIELDS)


DATA = {"csv": text, "parquet": stored, "arrays": memory, "frame": framed}
every_kind = pytest.mark.parametrize("make", DATA.values(), ids=DATA)


def begun(folder: Path, data: hps.Dataset, **options: Any) -> None:
    with hps.launch(plan(), engine="inline", checkpoint=folder, **options) as session:
        session.fit(data)


def plan() -> hps.Plan:
    return hps.Plan.fused(graph(4), batch_size=64)


def resumed(folder: Path, data: hps.Dataset, **options: Any) -> hps.Progress:
    with hps.launch(plan(), engine="inline", checkpoint=folder, resume=folder, **options) as session:
        return session.fit(data, epochs=2)


@every_kind
def test_the_same_data_from_anywhere_goes_on(tmp_path: Path, make: Any) -> None:
    begun(tmp_path / "run", make(tmp_path / "one"))
    assert resumed(tmp_path / "run", make(tmp_path / "two")).samples == 600


@every_kind
def test_other_data_is_refused_with_the_difference_unless_forced(tmp_path: Path, make: Any) -> None:
    begun(tmp_path / "run", make(tmp_path))
    other = make(tmp_path, seed=4, rows=200)
    with pytest.raises(
        CheckpointError, match=r"not the one that made the cut:\n  data, (files|rows|split).*\n"
    ) as found:
        resumed(tmp_path / "run", other)
    assert "force=True (--force)" in str(found.value)
    assert "200" in str(found.value) or "bytes" in str(found.value)
    assert resumed(tmp_path / "run", other, force=True).samples == 500


@every_kind
def test_data_of_the_same_size_is_told_apart(tmp_path: Path, make: Any) -> None:
    begun(tmp_path / "run", make(tmp_path))
    other = make(tmp_path, seed=4)
    if make is text:
        os.utime(tmp_path / "a.csv", (2e9, 2e9))
    with pytest.raises(CheckpointError, match=r"\n  data, (files|digest)"):
        resumed(tmp_path / "run", other)


def test_other_shuffling_columns_rules_and_metrics_are_refused(tmp_path: Path) -> None:
    data = text(tmp_path)
    begun(tmp_path / "run", data)
    again = Schema(tuple(dense("x", Number("d"), Number("e", log=True)) if f.name == "x" else f for f in FIELDS))
    for said, other, options in (
        (r"data, shuffle: had none, has local", data.shuffle("local"), {}),
        (r"data, columns, x: was \w+, is \w+", csv(tmp_path / "a.csv", again), {}),
        (r"data, settings, trim: was False, is True", csv(tmp_path / "a.csv", FIELDS, trim=True), {}),
        (r"rules, dense, lr: was 0\.001, is 0\.5", data, {"dense": hps.Adam(lr=0.5)}),
        (r"rules, sparse, lr: was 0\.01, is 0\.5", data, {"sparse": hps.ElementAdaGrad(lr=0.5)}),
        (r"metrics: had auc, has nothing else", data, {"metrics": []}),
    ):
        with pytest.raises(CheckpointError, match=said):
            resumed(tmp_path / "run", other, **options)
    assert resumed(tmp_path / "run", data.shuffle("local"), dense=hps.Adam(lr=0.5), metrics=[], force=True).done


def test_what_decides_batches_is_refused_even_so(tmp_path: Path) -> None:
    begun(tmp_path / "run", memory(tmp_path))
    with (
        hps.launch(
            hps.Plan.fused(graph(4), batch_size=32), engine="inline", resume=tmp_path / "run", force=True
        ) as one,
        pytest.raises(CheckpointError, match="the run had batch_size 64, this one has 32"),
    ):
        one.fit(memory(tmp_path))


# --- model.json


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    with hps.launch(plan(), engine="inline") as session:
        session.save(tmp_path / "model")
    return tmp_path / "model"


def test_every_bit_of_a_description_counts(saved: Path) -> None:
    path = saved / "model.json"
    whole = path.read_bytes()
    SavedModel.read(saved)
    places = random.Random(0).sample(range(8 * len(whole)), 1500)
    for place in [*places, *range(8 * len(whole) - 900, 8 * len(whole))]:
        damaged = bytearray(whole)
        damaged[place // 8] ^= 1 << place % 8
        path.write_bytes(damaged)
        with pytest.raises(CheckpointError, match=r"model\.json"):
            SavedModel.read(saved)


def test_an_edited_description_is_refused(saved: Path) -> None:
    path = saved / "model.json"
    value = json.loads(path.read_text())
    for change in ({"batch_size": 65}, {"sha256": "0" * 64}, {"extra": 1}, {"format": "heterps-model/1"}):
        path.write_text(json.dumps(value | change, indent=1) + "\n")
        with pytest.raises(CheckpointError, match=r"model\.json"):
            hps.load(saved, engine="inline")


@pytest.mark.parametrize("data", [b"", b"[]", b"\xff\xfe", b"[" * 100_000, b"{}"])
def test_what_is_no_description_is_refused(saved: Path, data: bytes) -> None:
    (saved / "model.json").write_bytes(data)
    with pytest.raises(HeterpsError, match=r"model\.json"):
        hps.load(saved, engine="inline")


@pytest.mark.timeout(20)
def test_a_pipe_is_no_description(saved: Path) -> None:
    (saved / "model.json").unlink()
    os.mkfifo(saved / "model.json")
    with pytest.raises(CheckpointError):
        hps.load(saved, engine="inline")
