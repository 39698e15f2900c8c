"""The inline engine: the contract, and what is its own."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import threadpoolctl

import heterps as hps
from heterps.errors import CheckpointError, PlanError, UnknownKindError
from tests.unit.session.contract import EngineContract, plan, same, tables, trained
from tests.unit.session.models import data


class TestInline(EngineContract):
    def launch(self, plan: hps.Plan, **options: Any) -> hps.Session:
        return hps.launch(plan, engine="inline", **options)


launch = partial(hps.launch, engine="inline")


def blas_threads() -> set[int]:
    return {info["num_threads"] for info in threadpoolctl.threadpool_info() if info["user_api"] == "blas"}


def test_blas_threads_are_set_while_open_and_put_back() -> None:
    before = blas_threads()
    with launch(plan(), threads=2):
        assert blas_threads() == {2}
        with launch(plan()):
            assert blas_threads() == {1}
    assert blas_threads() == before


def test_modes_by_name_and_value() -> None:
    modes: list[Any] = ["sync", hps.Async(depth=3), {"mode": "async", "depth": 2}, None]
    for mode, wanted in zip(
        modes, [hps.Sync(), hps.Async(depth=3), hps.Async(depth=2), hps.Async(depth=1)], strict=True
    ):
        with launch(plan(), mode=mode) as session:
            assert session.job.mode == wanted
    with pytest.raises(UnknownKindError, match="use one of async, geo, sync"):
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


def test_geo_is_refused() -> None:
    with pytest.raises(PlanError, match="geo"):
        launch(plan(), mode="geo")
