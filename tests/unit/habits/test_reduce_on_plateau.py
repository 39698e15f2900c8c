"""Rates that fall when the validation gets no better, and go on as they were when a training is resumed."""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import heterps as hps
from heterps.cli import main
from heterps.cli._plateau import parse_plateau
from heterps.errors import RunError
from heterps.protocol import BatchKey
from heterps.runtime.cuts.carried import Carried
from heterps.tables import Cosine, DenseSpec, GroupSpec, RowGradients, Shard, TableSpec
from heterps.testing.engine_contract import plan, same, tables
from heterps.testing.small_model import data

EPOCHS = 6


def slower(patience: int = 2, **rest: Any) -> hps.ReduceOnPlateau:
    """No pass is better by so much, so that rates fall after every so many."""
    return hps.ReduceOnPlateau("logloss", factor=0.5, patience=patience, least=10.0, **rest)


def trained(stop: int | None = None, callbacks: Any = (), rates: list[float] | None = None, **options: Any) -> Any:
    """Train, or leave after so many batches, and return the tables."""
    with hps.launch(plan(lanes=2), engine="inline", mode="sync", report_s=0.0, **options) as session:
        for progress in session.train(data(300), EPOCHS, data(100, seed=8), callbacks=callbacks):
            if rates is not None and progress.epoch_done:
                rates.append(progress.rate)
            if stop is not None and progress.batches >= stop and progress.cut:
                return None
        return tables(session)


def test_rates_fall_after_passes_without_a_better_value() -> None:
    rates: list[float] = []
    reduced = trained(callbacks=slower(), rates=rates)
    assert rates == [1.0, 1.0, 1.0, 0.5, 0.5, 0.25]
    assert not same(reduced, trained())
    rates.clear()
    trained(callbacks=slower(patience=1, lowest=0.3), rates=rates)
    assert rates == [1.0, 1.0, 0.5, 0.3, 0.3, 0.3]


@functools.cache
def undisturbed() -> Any:
    return trained(callbacks=slower())


@pytest.mark.parametrize("stop", [4, 17, 22])  # of five steps a pass, and thirty in all
def test_a_resumed_training_has_the_bits_of_an_undisturbed_one(stop: int, tmp_path: Path) -> None:
    trained(stop, slower(), checkpoint=tmp_path, every_batches=2)
    rates: list[float] = []
    assert same(trained(callbacks=slower(), rates=rates, checkpoint=tmp_path, resume=tmp_path), undisturbed())
    assert rates[-1] == 0.25


def test_the_next_training_of_a_session_begins_with_full_rates() -> None:
    with hps.launch(plan(), engine="inline", mode="sync") as session:
        session.fit(data(300), 4, data(100), callbacks=slower(patience=1))
        assert session.engine.carried.rate < 1
        assert session.fit(data(300)).rate == 1.0


@pytest.mark.parametrize("moved", ["sparse", "dense"])
@pytest.mark.parametrize("mode", ["geo:2", "async", "sync"])
def test_whoever_applies_rules_follows(mode: str, moved: str) -> None:
    """Rows on workers, on hosts, and parameters that an all-reduce group trains; what has no rate tells of nothing."""
    rules: Any = {name: hps.SGD(lr=0.1 if name == moved else 0.0) for name in ("sparse", "dense")}
    rules |= {"parameters": {"fc*": "allreduce", "out*": "allreduce"}} if (mode, moved) == ("sync", "dense") else {}
    found = []
    for callback in (slower(patience=1), hps.ReduceOnPlateau("auc", patience=50)):
        with hps.launch(plan(), engine="inline", mode=mode, **rules) as session:
            assert session.fit(data(300), 4, data(100), callbacks=callback).rate == (0.25 if not found else 1.0)
            found.append(tables(session))
    assert not same(*found)


@pytest.mark.xdist_group("dask")
def test_a_cluster_has_the_bits_of_one_thread() -> None:
    with hps.launch(plan(lanes=2, shard_hosts=2), mode="sync") as session:
        session.fit(data(300), EPOCHS, data(100, seed=8), callbacks=slower())
        assert same(tables(session), undisturbed())


def test_a_shard_steps_by_the_rate_and_schedules_are_scaled() -> None:
    key = BatchKey(0, 0, 0)
    steps = []
    for rate in (1.0, 0.25):
        rule = hps.SGD(lr=Cosine(0.8, steps=10))
        shard = Shard([GroupSpec("g", (TableSpec("t", 2, rule),))], [DenseSpec("w", (2,), hps.SGD(lr=0.4))])
        shard.set_rate(rate)
        before, dense = shard.pull("g", np.array([7], np.uint64)).values.copy(), shard.pull_dense().copy()
        grads = RowGradients(np.array([7], np.uint64), np.ones((1, 2), np.float32))
        shard.apply(key, {"g": grads}, np.ones(2, np.float32))
        steps.append((before - shard.pull("g", np.array([7], np.uint64)).values, dense - shard.pull_dense()))
    for full, reduced in zip(*steps, strict=True):
        np.testing.assert_allclose(reduced, 0.25 * full, rtol=1e-5)
        assert np.all(full > 0.1)


def test_rules_without_a_rate_stay() -> None:
    assert hps.Sum().at_rate(0.5) == hps.Sum()
    assert hps.Adam(lr=0.1).at_rate(0.5) == hps.Adam(lr=0.05)
    assert hps.Adam(lr=0.1).at_rate(1.0) == hps.Adam(lr=0.1)


def test_what_is_carried_comes_back_from_json() -> None:
    carried = Carried(0.5).noted("plateau auc", [0.7, 1])
    assert Carried.from_json(carried.to_json()) == carried
    assert Carried.from_json(None) == Carried()


def test_values_that_are_no_numbers_are_never_better() -> None:
    class Session:
        class engine:  # noqa: N801
            carried = Carried()

    report = hps.Progress(1, 2, 1, 1, 1.0, 1.0, 0.5, valid={"auc": math.nan})
    callback = hps.ReduceOnPlateau("auc")
    callback.on_begin(Session)
    callback.on_pass(report)
    assert Session.engine.carried == Carried(0.5, {"plateau auc": [None, 0]})
    callback.on_pass(replace(report, valid={"auc": 0.7}))
    assert Session.engine.carried == Carried(0.5, {"plateau auc": [0.7, 0]})


def test_mistakes_are_said_before_anything_runs() -> None:
    with hps.launch(plan(), engine="inline") as session:
        with pytest.raises(RunError, match=r"ReduceOnPlateau goes by the validation after each pass"):
            session.train(data(), callbacks=hps.ReduceOnPlateau("auc"))
        with pytest.raises(RunError, match=r"no metric 'acu' is measured at the end of a pass; there are .*auc"):
            session.fit(data(100), valid=data(100), callbacks=hps.ReduceOnPlateau("acu"))
    for wrong in ({"factor": 1.0}, {"factor": 0.0}, {"patience": 0}, {"lowest": 2.0}):
        with pytest.raises(RunError, match=f"ReduceOnPlateau\\({next(iter(wrong))}="):
            hps.ReduceOnPlateau("auc", **wrong)  # type: ignore[arg-type]


def test_the_command_takes_it(tmp_path: Path) -> None:
    lines = [f"{i % 4 == 0:d},c{i % 7},{i % 5}" for i in range(200)]
    (tmp_path / "clicks.csv").write_text("\n".join(["click,colour,size", *lines]) + "\n")
    file = str(tmp_path / "clicks.csv")
    given = ["train", "wide_deep", "--data", file, "--valid", file, "--label", "click", "--engine", "inline"]
    words = ["--epochs", "3", "--reduce-on-plateau", "logloss:factor=0.5,least=10"]
    result = CliRunner().invoke(main, [*given, *words])
    assert (result.exit_code, "rates x 0.5" in result.output) == (0, True), result.output
    result = CliRunner().invoke(main, [*given, "--reduce-on-plateau", "auc:pace=2"])
    assert (result.exit_code, "'pace=2' is none" in result.output) == (1, True)
    assert parse_plateau(None) == []
