"""Geo in the engines: workers train on rows of their own, and every range of batches counts once."""

from pathlib import Path
from typing import Any

import pytest

import heterps as hps
from heterps.errors import PlanError, UnknownKindError
from heterps.protocol.words.modes import Async, Geo, Sync, mode_from_text
from heterps.soak.counted_model import counted_data, counted_plan, shows
from heterps.tables import SGD
from heterps.testing.small_model import data, graph

HOSTS, ROWS = 2, 1600
RULES: dict[str, Any] = {"sparse": SGD(lr=0.5), "dense": SGD(lr=0.1)}


def counted(engine: str, mode: hps.Geo, **options: Any) -> hps.Session:
    return hps.launch(counted_plan(HOSTS, lanes=2), engine=engine, mode=mode, **RULES, **options)


@pytest.mark.parametrize("engine", ["inline", "dask"])
@pytest.mark.parametrize("k", [3, pytest.param(1000, marks=pytest.mark.full)])
def test_every_batch_counts_once(engine: str, k: int, tmp_path: Path) -> None:
    with counted(engine, Geo(k), checkpoint=tmp_path / "cuts", every_batches=20) as session:
        train = counted_data(session, ROWS)
        last = list(session.train(train, epochs=2))[-1]
        assert shows(session.save(tmp_path / "end"), HOSTS) == [2 * ROWS] * HOSTS
    assert last.samples == 2 * ROWS
    assert 0 < last.exchange.local_rows <= 4000
    assert last.exchange.sent_bytes > 0
    assert last.exchange.received_bytes > 0
    assert "own rows a worker" in str(last)


def test_a_run_goes_on_from_a_cut_and_counts_every_batch_once(tmp_path: Path) -> None:
    with counted("inline", Geo(3), checkpoint=tmp_path, every_batches=3, report_s=0.0) as session:
        train = counted_data(session, ROWS)
        for progress in session.train(train, epochs=3):
            if progress.samples > ROWS + ROWS // 2 and list(tmp_path.glob("checkpoint/0*")):
                break
    with counted("inline", Geo(3), checkpoint=tmp_path, resume=tmp_path) as session:
        list(session.train(train, epochs=3))
        assert shows(session.save(tmp_path / "end"), HOSTS) == [3 * ROWS] * HOSTS


def test_one_training_after_another_goes_on_with_its_rows(tmp_path: Path) -> None:
    with counted("inline", Geo(5)) as session:
        train = counted_data(session, ROWS)
        for _ in range(2):
            list(session.train(train))
        session.shrink()
        list(session.train(train))
        assert shows(session.save(tmp_path / "end"), HOSTS)[0] > 2 * ROWS


@pytest.mark.parametrize("local_rows", [None, 20])
def test_it_learns_and_few_rows_are_kept_where_few_are_allowed(local_rows: int | None) -> None:
    plan = hps.Plan.fused(graph(), batch_size=64, shard_hosts=2, lanes=1)
    with hps.launch(plan, engine="inline", mode="geo:4", local_rows=local_rows, **RULES) as session:
        last = list(session.train(data(), epochs=4))[-1]
        assert session.evaluate(data(seed=8))["auc"] > 0.93
    bound = 120 if local_rows is None else 119
    assert 0 < last.exchange.local_rows <= bound


def test_less_is_sent_than_batch_by_batch() -> None:
    plan, sent = hps.Plan.fused(graph(), batch_size=64, lanes=1), {}
    for mode in (Async(), Geo(8)):
        with hps.launch(plan, engine="inline", mode=mode, **RULES) as session:
            sent[mode.name] = list(session.train(data(), epochs=2))[-1].exchange.total_bytes
    assert 3 * sent["geo"] < sent["async"]


def test_default_rules_are_refused_with_what_to_give() -> None:
    plan = hps.Plan.fused(graph(), batch_size=64)
    with pytest.raises(PlanError, match=r"'geo': table '\w+' has the rule ElementAdaGrad.*sparse=, dense="):
        hps.launch(plan, engine="inline", mode="geo:4")
    with pytest.raises(PlanError, match=r"dense parameter '.*' has the rule Adam"):
        hps.launch(plan, engine="inline", mode="geo:4", sparse=SGD())


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        ("sync", Sync()),
        ("async", Async()),
        ("async:4", Async(4)),
        ("async:2:8", Async(2, merge=8)),
        ("geo", Geo()),
        ("geo:7", Geo(7)),
    ],
)
def test_modes_as_text(text: str, mode: hps.Geo) -> None:
    assert mode_from_text(text) == mode


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("geo:x", "geo:K with whole numbers"),
        ("geo:", "geo:K"),
        ("geo:1:2", "geo:K"),
        ("async:2:x", "async:DEPTH or async:DEPTH:MERGE"),
        ("sync:3", "use sync alone"),
        ("geo:0", "k"),
    ],
)
def test_modes_that_make_no_sense_are_named(text: str, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        mode_from_text(text)
    with pytest.raises(UnknownKindError, match="use one of async, cache, geo, sync"):
        mode_from_text("asynch")
