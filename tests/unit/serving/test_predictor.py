"""A predictor answers as the session did, without Dask and compilation, and changes its model between two answers."""

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import heterps as hps
from heterps import ops
from heterps.data import Bucket, Categories, Category, Match, Number, Schema, dense, label, ragged, sparse
from heterps.data.columnar.tables_in_memory import frame
from heterps.errors import CheckpointError, DataError, GraphError
from heterps.export import export_model
from heterps.ragged import Ragged
from heterps.serving.manifest import newest

NO_TAGS = {"tags": Ragged.from_lists([[], []])}
FIELDS = Schema.of(
    sparse("ids", Category("city"), Bucket("age", (18.0, 40.0))),
    dense("x", Number("age", mean=40, std=12), Number("visits", log=True)),
    ragged("tags", Categories("tags", separator=";")),
    label("y", Match("outcome", "bought")),
)


def graph() -> hps.Graph:
    ids, x = ops.input("ids", (2,), "uint64"), ops.input("x", (2,))
    tags = ops.input("tags", dtype="uint64", ragged=True)
    pooled = [
        ops.lookup(tags, table="tags", dim=2, pooling=pooling, padding_id=hps_id("b"), name=pooling)
        for pooling in ("sum", "mean", "max")
    ]
    slots = [
        ops.lookup(ids, table="t", dim=3, pooling=pooling, name=f"t_{pooling}") for pooling in ("none", "max", "mean")
    ]
    seen = ops.sequence_mean(ops.lookup(tags, table="tags", dim=2, name="seen"), name="interest")
    h = ops.concat(*slots, *pooled, seen, x, name="features")
    bent = ops.tanh(ops.dense(h, 4, name="fc"), name="bent")
    return hps.Graph(loss=ops.logloss(ops.dense(bent, 1, name="out"), ops.input("y")), outputs={"vector": bent})


def hps_id(tag: str) -> int:
    from heterps.data import hash_bytes, salt_of

    return hash_bytes(tag.encode(), salt_of("tags"))


def rows(n: int, seed: int = 0) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    return [
        {
            "city": ["Oslo", "Rome", "815"][rng.integers(3)],
            "age": int(rng.integers(10, 80)),
            "visits": float(rng.integers(0, 999)),
            "tags": ";".join(rng.choice(["a", "b", "c"], rng.integers(4))),
            "outcome": "bought" if rng.random() < 0.5 else "left",
        }
        for _ in range(n)
    ]


def data(n: int = 100, seed: int = 1) -> hps.Dataset:
    return frame(pd.DataFrame(rows(n, seed)), FIELDS)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, np.ndarray, np.ndarray]:
    folder = tmp_path_factory.mktemp("trained")
    with hps.launch(hps.Plan.fused(graph(), batch_size=16), engine="inline", mode="sync") as session:
        session.fit(data(), epochs=2)
        session.export(folder / "export")
        asked = [{k: v for k, v in row.items() if k != "outcome"} for row in rows(300, 2)]
        return folder / "export", session.predict(asked), session.predict(asked, fetch="vector")


def test_rows_in_any_shape_are_scored_as_by_the_session(trained: Any) -> None:
    path, wanted, vectors = trained
    predictor, asked = hps.Predictor(path), rows(300, 2)
    for given in (
        asked,
        iter(asked),
        "\n".join(map(json.dumps, asked)),
        pd.DataFrame(asked),
        pa.Table.from_pylist(asked),
    ):
        np.testing.assert_allclose(predictor(given), wanted, atol=1e-6)
    for i in (0, 7, 299):
        np.testing.assert_allclose(predictor(asked[i]), wanted[i : i + 1], atol=1e-6)
    both = predictor.predict(iter(asked), ["prediction", "vector"])
    np.testing.assert_allclose(both["vector"], vectors, atol=1e-6)
    np.testing.assert_array_equal(predictor(asked, {"v": "bent"})["v"], both["vector"])
    np.testing.assert_allclose(hps.Predictor(path, "onnx", verify=True)(asked), wanted, atol=1e-6)


def test_lookups_themselves_can_be_fetched(trained: Any) -> None:
    predictor = hps.Predictor(trained[0])
    assert predictor(rows(5), "sum").shape == (5, 2)
    assert predictor({"tags": "a;c"}, "sum").shape == (1, 2)  # what leads to it needs no other column
    assert not predictor({"tags": "never seen"}, "max").any()


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (lambda p: p({"city": "Oslo"}), "the rows have no column 'age'"),
        (lambda p: p(rows(1), "vectr"), "nothing to fetch is called 'vectr'; there are prediction, vector"),
        (lambda p: p(rows(1), "seen"), "nothing to fetch is called 'seen'"),
        (lambda p: p(rows(1), []), "nothing is fetched"),
        (
            lambda p: p({"ids": np.zeros((2, 2), np.uint64), "x": np.zeros((3, 2)), **NO_TAGS}),
            "same number of rows",
        ),
        (lambda p: p({"ids": np.zeros((2, 3), np.uint64), "x": np.zeros((2, 2)), **NO_TAGS}), "has shape"),
        (
            lambda p: p({"ids": -np.ones((2, 2), int), "x": np.zeros((2, 2)), **NO_TAGS}),
            "whole numbers from 0 on",
        ),
        (lambda p: hps.Predictor(p.path, "torch"), "engine of a predictor is numpy or onnx"),
    ],
    ids=range(8),
)
def test_what_cannot_be_answered_is_named(trained: Any, ask: Any, says: str) -> None:
    with pytest.raises((DataError, GraphError), match=says):
        ask(hps.Predictor(trained[0]))


ALONE = """
import sys
from numba.core import event
seen = []
class Listener(event.Listener):
    def on_start(self, event): seen.append(str(event.data["dispatcher"]))
    def on_end(self, event): pass
event.register("numba:compile", Listener())
import heterps as hps
predictor = hps.Predictor(sys.argv[1])
row = {"city": "Oslo", "age": 31, "visits": 3.5, "tags": "a;c"}
print(len(predictor(row)), len(predictor([row] * 300)), predictor(row, "vector").shape)
print(seen, sorted(name for name in ("dask", "distributed", "onnxruntime") if name in sys.modules))
"""


def test_nothing_is_compiled_and_no_dask_is_imported(trained: Any, tmp_path: Path) -> None:
    environment = {"PATH": "/usr/bin", "NUMBA_CACHE_DIR": str(tmp_path)}  # nothing compiled before can be found
    made = subprocess.run(
        [sys.executable, "-c", ALONE, str(trained[0])], capture_output=True, text=True, env=environment, timeout=120
    )
    assert made.stdout.splitlines() == ["1 300 (1, 4)", "[] []"], made.stderr
    assert list(tmp_path.rglob("*.nb?")) == []


def test_answers_come_from_one_export_whole_while_it_is_replaced(trained: Any, tmp_path: Path) -> None:
    """Threads ask without pause while generations follow each other: each answer is that of its version, none fails."""
    asked = hps.Predictor(trained[0]).columns(rows(20))
    with hps.launch(hps.Plan.fused(graph(), batch_size=16), engine="inline", mode="sync") as session:
        session.fit(data(40))
        session.export(tmp_path / "a", kind="changes", onnx="no")
        predictor, answers, more, stop = hps.Predictor(tmp_path / "a"), [], threading.Condition(), threading.Event()
        truth = {predictor.version: predictor(asked, ["prediction", "vector"])}

        def ask() -> None:
            while not stop.is_set():
                answer = predictor.answer(asked, ["prediction", "vector"])
                with more:
                    answers.append(answer)
                    more.notify()

        threads = [threading.Thread(target=ask) for _ in range(2)]
        for thread in threads:
            thread.start()
        for kind in ("changes", "full", "changes"):
            session.fit(data(30, len(truth) + 5))
            before = len(answers)
            session.export(tmp_path / "a", kind=kind, onnx="no")
            assert predictor.reload()
            truth[predictor.version] = hps.Predictor(tmp_path / "a")(asked, ["prediction", "vector"])
            with more:
                assert more.wait_for(lambda wanted=before + 5: len(answers) >= wanted, 60)
        stop.set()
        for thread in threads:
            thread.join(60)
    assert {version for _, version in answers} >= set(list(truth)[1:])
    for values, version in answers:
        for name, wanted in truth[version].items():
            np.testing.assert_array_equal(values[name], wanted)
    assert len({value["prediction"].tobytes() for value in truth.values()}) == len(truth)
    assert not predictor.reload()


def test_a_newer_export_that_cannot_be_used_changes_nothing(trained: Any, tmp_path: Path) -> None:
    with hps.launch(hps.Plan.fused(graph(), batch_size=16), engine="inline") as session:
        session.fit(data(40))
        session.save(tmp_path / "model")
    export_model(tmp_path / "model", tmp_path / "a", onnx="no")
    predictor = hps.Predictor(tmp_path / "a")
    before, version = predictor(rows(3)), predictor.version
    export_model(tmp_path / "model", tmp_path / "a", onnx="no")
    next(newest(tmp_path / "a").glob("rows-000-*")).write_bytes(b"ARROW1")
    with pytest.raises(CheckpointError, match="damaged: it has 6 bytes"):
        predictor.reload()
    assert predictor.version == version
    np.testing.assert_array_equal(predictor(rows(3)), before)


def test_models_without_recipes_take_ready_made_columns(tmp_path: Path) -> None:
    from heterps.testing import small_model

    with hps.launch(hps.Plan.fused(small_model.graph(), batch_size=16), engine="inline") as session:
        session.fit(small_model.data(100))
        session.export(tmp_path / "a", onnx="no")
    predictor, columns = hps.Predictor(tmp_path / "a"), small_model.columns(3)
    assert predictor(columns).shape == (3,)
    assert predictor({"ids": columns["ids"].astype(np.int64), "x": columns["x"].tolist()}).shape == (3,)
    with pytest.raises(DataError, match="Give the columns of a batch as a dict of arrays: ids, x"):
        predictor([{"ids": 5}])
