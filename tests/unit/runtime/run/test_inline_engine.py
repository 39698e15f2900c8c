"""The inline engine: the contract, and what is its own."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import threadpoolctl

import heterps as hps
from heterps import ops
from heterps.data import feature_importance
from heterps.errors import CheckpointError, DataError, UnknownKindError
from heterps.metrics import GAUC
from heterps.tables import Manifest
from heterps.testing.engine_contract import EngineContract, plan, same, tables, trained
from heterps.testing.small_model import columns, data


class TestInline(EngineContract):
    def launch(self, plan: hps.Plan, **options: Any) -> hps.Session:
        return hps.launch(plan, engine="inline", **options)


launch = partial(hps.launch, engine="inline")


def blas_threads() -> set[int]:
    return {info["num_threads"] for info in threadpoolctl.threadpool_info() if info["user_api"] == "blas"}


def test_blas_threads_are_set_while_something_is_computed_and_put_back() -> None:
    """An open session that rests leaves other libraries of the process alone."""
    before = blas_threads()
    for threads in (1, 2):
        with launch(plan(), threads=threads) as session:
            assert blas_threads() == before
            assert [blas_threads() for _ in session.train(data(200))] == [{threads}]
            assert blas_threads() == before
    assert blas_threads() == before


def test_modes_by_name_and_value() -> None:
    modes: list[Any] = ["sync", hps.Async(depth=3), {"mode": "async", "depth": 2}, None]
    for mode, wanted in zip(
        modes, [hps.Sync(), hps.Async(depth=3), hps.Async(depth=2), hps.Async(depth=1)], strict=True
    ):
        with launch(plan(), mode=mode) as session:
            assert session.job.mode == wanted
    with pytest.raises(UnknownKindError, match="use one of async, cache, geo, sync"):
        launch(plan(), mode="both")


def test_unknown_engines_and_metrics() -> None:
    with pytest.raises(UnknownKindError, match="there are auto, dask, inline"):
        hps.launch(plan(), engine="gpu")
    with pytest.raises(UnknownKindError, match="no metric is called 'aux'"):
        launch(plan(), metrics=["aux"])


def test_adult_reaches_its_auc() -> None:
    from graphs.wide_deep import wide_deep

    graph = wide_deep(slots=19, dense=5, dim=8, hidden=(64, 32))
    with launch(hps.Plan.fused(graph, batch_size=256), sparse=hps.ElementAdaGrad(lr=0.02)) as session:
        last = session.fit(hps.adult("train").shuffle("local"))
        found = session.evaluate(hps.adult("test"))
    assert last.samples == 32561
    assert found["auc"] >= 0.905


def test_fit_shows_each_pass(capsys: pytest.CaptureFixture[str]) -> None:
    with launch(plan()) as session:
        last = session.fit(data(), epochs=2, valid=data(seed=8))
    lines = capsys.readouterr().out.splitlines()
    text = " ".join(lines)
    assert "epoch 1/2" in text
    assert "valid auc" in text
    assert last.done


def test_load_needs_only_the_folder(tmp_path: Path) -> None:
    rule = hps.RowWiseAdaGrad(lr=0.05)
    with launch(plan(), mode="sync", sparse=rule, seed=5) as session:
        wanted = trained(session)
        session.save(tmp_path / "m")
    with hps.load(tmp_path / "m", engine="inline") as session:
        assert same(wanted, tables(session))
        assert (session.job.mode, session.job.batch_size) == (hps.Sync(), 64)
        assert (session.job.model.sparse, session.job.model.seed) == (rule, 5)
    with pytest.raises(CheckpointError, match=r"is not a saved model: it does not exist; .* has m$"):
        hps.load(tmp_path / "n")
    (tmp_path / "m" / "model.json").write_text("{")
    with pytest.raises(CheckpointError, match="damaged"):
        hps.load(tmp_path / "m", engine="inline")


def test_metrics_may_use_other_columns() -> None:
    people = np.arange(1500, dtype=np.uint64) % 50
    with launch(plan(), metrics=["auc", GAUC("person")]) as session:
        last = list(session.train(hps.arrays({**columns(), "person": people})))[-1]
        found = session.evaluate(hps.arrays({**columns(), "person": people}), [GAUC("person")])
        with pytest.raises(DataError, match=r"metric 'gauc': .*'person'; there are ids, x"):
            session.evaluate(data(), [GAUC("person")])
    assert 0.4 < last.metrics["gauc"] < 1
    assert 0.4 < found["gauc"] < 1


def test_feature_importance_finds_the_slots_that_decide() -> None:
    with launch(plan(), sparse=hps.ElementAdaGrad(lr=0.1)) as session:
        list(session.train(data(), epochs=3))
        found = feature_importance(data(seed=8), lambda d: session.evaluate(d)["auc"])
    assert {(one.column, one.element) for one in found[:3]} == {("ids", 0), ("ids", 1), ("ids", 2)}


def test_classes_and_regression() -> None:
    x = np.random.default_rng(0).normal(size=(600, 4)).astype(np.float32)
    source = ops.input("x", shape=(4,))
    classes = hps.Graph(ops.softmax_cross_entropy(ops.dense(source, 4, name="z"), ops.input("y", dtype="int64")))
    with launch(hps.Plan.fused(classes, batch_size=50), dense=hps.Adam(lr=0.05)) as session:
        last = list(session.train(hps.arrays({"x": x, "y": x.argmax(axis=1).astype(np.float32)}), epochs=5))[-1]
        assert last.metrics["acc1"] > 0.8
        assert session.evaluate(hps.arrays({"x": x, "y": x.argmax(axis=1).astype(np.float32)}))["acc5"] == 1
        assert np.asarray(session.predict(hps.arrays({"x": x}))).shape == (600, 4)
    regression = hps.Graph(ops.mse(ops.dense(source, 1, name="z"), ops.input("y", shape=(1,))))
    with launch(hps.Plan.fused(regression, batch_size=50), dense=hps.Adam(lr=0.05)) as session:
        list(session.train(hps.arrays({"x": x, "y": x.sum(axis=1)}), epochs=5))
        assert session.evaluate(hps.arrays({"x": x, "y": x.sum(axis=1)}))["rmse"] < 0.2


def test_cuts_lie_at_multiples_but_for_what_is_in_flight(tmp_path: Path) -> None:
    options = {"engine": "inline", "mode": "sync", "checkpoint": tmp_path, "every_batches": 20, "report_s": 1e9}
    with hps.launch(plan(), **options) as session:
        list(session.train(data()))
    counted = [Manifest.read(cut).position["counts"]["batches"] for cut in sorted(tmp_path.glob("checkpoint/0*"))]
    assert counted[-1] == 26
    assert counted[0] in (20, 21)
