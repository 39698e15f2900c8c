"""Embedding caches in the engines: rows stay with workers for a while, and every batch counts once."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import heterps as hps
from heterps.errors import PlanError
from heterps.protocol.words.modes import Async, Cached, mode_from_text
from heterps.soak.counted_model import counted_data, counted_plan, shows
from heterps.tables import Manifest
from heterps.testing.small_model import data, graph

HOSTS, ROWS = 2, 1600


def saved(session: hps.Session, folder: Path) -> dict[str, np.ndarray]:
    """Return all that a session's tables hold: rows in the order of their ids, dense parameters."""
    path, found = session.save(folder), {}
    for file in Manifest.read(path).files:
        table = pq.read_table(path / file.name) if file.name.endswith(".parquet") else None
        if table is not None and "id" in table.column_names:
            table = table.sort_by("id")
        for name in [] if table is None else table.column_names:
            column = table[name].combine_chunks()
            values = column.flatten() if hasattr(column, "flatten") and column.type != "string" else column
            found[f"{file.name}/{name}"] = np.asarray(values.to_numpy(zero_copy_only=False))
    return found


@pytest.mark.parametrize("rows", [20, 1000])
def test_without_staleness_one_worker_trains_to_the_same_bits_as_without_a_cache(rows: int, tmp_path: Path) -> None:
    plan, tables = hps.Plan.fused(graph(), batch_size=64, shard_hosts=2), []
    for name, options in (("plain", {"mode": Async(1)}), ("cache", {"cache_rows": rows, "staleness": 0})):
        with hps.launch(plan, engine="inline", **options) as session:
            list(session.train(data(), epochs=2))
            tables.append(saved(session, tmp_path / name))
    assert len(tables[0]) > 4
    assert tables[0].keys() == tables[1].keys()
    for name, values in tables[0].items():
        np.testing.assert_array_equal(tables[1][name], values, err_msg=name)


@pytest.mark.parametrize("engine", ["inline", "dask"])
def test_every_batch_counts_once(engine: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"cache_rows": 300, "staleness": 5, "checkpoint": tmp_path / "cuts", "every_batches": 20}
    with hps.launch(counted_plan(HOSTS, lanes=2), engine=engine, **options) as session:
        assert session.job.mode == Cached(5)
        last = list(session.train(counted_data(session, ROWS), epochs=2))[-1]
        assert shows(session.save(tmp_path / "end"), HOSTS) == [2 * ROWS] * HOSTS
    assert last.samples == 2 * ROWS
    use = last.exchange.caches["seen"]
    assert 0 < use.asked < use.rows
    assert 0 < use.oldest <= 5
    assert use.saved_bytes > 0
    assert "seen hits" in str(last)
    assert "cache of seen: hits" in str(last.profile)
    assert last.profile.to_json()["exchange"]["caches"]["seen"]["rows"] == use.rows


def test_a_run_goes_on_from_a_cut_and_counts_every_batch_once(tmp_path: Path) -> None:
    options: dict[str, Any] = {"cache_rows": "64kB", "staleness": 3, "engine": "inline"}
    with hps.launch(
        counted_plan(HOSTS, lanes=2), checkpoint=tmp_path, every_batches=3, report_s=0.0, **options
    ) as session:
        train = counted_data(session, ROWS)
        for progress in session.train(train, epochs=3):
            if progress.samples > ROWS + ROWS // 2 and list(tmp_path.glob("checkpoint/0*")):
                break
    with hps.launch(counted_plan(HOSTS, lanes=2), checkpoint=tmp_path, resume=tmp_path, **options) as session:
        list(session.train(train, epochs=3))
        assert shows(session.save(tmp_path / "end"), HOSTS) == [3 * ROWS] * HOSTS


def test_it_learns_with_less_said_and_a_saved_model_is_launched_without_a_cache(tmp_path: Path) -> None:
    plan, told, bytes_ = hps.Plan.fused(graph(), batch_size=64), {}, {}
    for name, options in (("plain", {}), ("cache", {"cache_rows": {"*": 120}, "staleness": 7})):
        with hps.launch(plan, engine="inline", sparse=hps.SGD(lr=0.5), dense=hps.Adam(0.01), **options) as session:
            last = list(session.train(data(), epochs=6))[-1]
            told[name], bytes_[name] = session.evaluate(data(seed=8))["auc"], last.exchange.total_bytes
            session.save(tmp_path / name)
    assert told["cache"] > 0.93
    assert bytes_["plain"] > 1.5 * bytes_["cache"]
    with hps.load(tmp_path / "cache", engine="inline") as session:
        assert session.evaluate(data(seed=8))["auc"] == told["cache"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"staleness": 4}, r"staleness=4, but no table has a cache.*--cache-rows"),
        ({"mode": "cache:4"}, r"mode 'cache', but no table has a cache"),
        ({"cache_rows": {"deap": 5}}, r"cache_rows: 'deap' matches no table; there are vectors, wide"),
        ({"cache_rows": 0}, r"cache:rows with a whole number of at least 1, or with bytes"),
        ({"cache_rows": "lots"}, r"'cache:lots' is not understood"),
        ({"cache_rows": {"wide": 5}}, r"share rows and so a way: vectors table, wide cache:5"),
        ({"cache_rows": 5, "mode": "sync"}, r"has a cache.*not 'sync'"),
        ({"cache_rows": 5, "mode": Async(2, merge=2)}, r"gathers gradients itself"),
        ({"cache_rows": 5, "staleness": -1}, r"staleness"),
    ],
)
def test_what_makes_no_sense_is_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        hps.launch(hps.Plan.fused(graph(), batch_size=64), engine="inline", **options)


@pytest.mark.parametrize(("text", "mode"), [("cache", Cached()), ("cache:0", Cached(0)), ("cache:7", Cached(7))])
def test_modes_as_text(text: str, mode: Cached) -> None:
    assert mode_from_text(text) == mode
