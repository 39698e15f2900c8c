"""Some tables by Geo, others by their tables: in the engines every batch counts once in both."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import heterps as hps
from heterps import ops
from heterps.errors import PlanError
from heterps.protocol.words.modes import Async, Cached, Mixed, MixedSync
from heterps.tables import SGD, CountEntry, CtrAccessor, Manifest

ROWS, IDS = 640, 200
WAYS = {"user": "geo:3", "*": "table"}


def graph(dim: int = 2, **user: Any) -> hps.Graph:
    users, items = (ops.input(name, shape=(2,), dtype="uint64") for name in ("users", "items"))
    accessor = {} if user else {"accessor": CtrAccessor(embed=dim)}
    user = {"rule": SGD(lr=0.5), **accessor, **user}
    mine = ops.lookup(users, table="user", dim=dim, name="user_rows", **user)
    other = ops.lookup(items, table="item", dim=dim, name="item_rows", accessor=CtrAccessor(embed=dim))
    logit = ops.dense(ops.concat(mine, other, name="both"), 1, name="out")
    return hps.Graph(loss=ops.logloss(logit, ops.input("y"), name="loss"))


def data(seed: int = 3) -> hps.Dataset:
    """Half of what decides a label is in the ids of users, half in those of items."""
    rng, hidden = np.random.default_rng(seed), np.random.default_rng(1).normal(size=(2, IDS))
    users, items = rng.integers(0, IDS, (2, ROWS, 2))
    y = (hidden[0][users].sum(1) + hidden[1][items].sum(1) > 0).astype(np.float32)
    columns = {"users": users.astype(np.uint64), "items": items.astype(np.uint64), "y": y}
    return hps.arrays(columns, split_cost=190)  # 12 batches of 16: no multiple of every k


def plan(lanes: int = 2, **user: Any) -> hps.Plan:
    return hps.Plan.fused(graph(**user), batch_size=16, shard_hosts=2, lanes=lanes, workers=lanes)


def shows(snapshot: Path) -> dict[str, int]:
    """Return how many shows the rows of each table have."""
    found: dict[str, int] = {}
    for file in Manifest.read(snapshot).files:
        if file.name.startswith("rows-"):
            table = pq.read_table(snapshot / file.name)
            name = next(name for name in ("user", "item") if any(name in column for column in table.column_names))
            found[name] = found.get(name, 0) + int(table["show"].to_numpy().sum())
    return found


@pytest.mark.parametrize("engine", ["inline", "dask"])
def test_every_batch_counts_once_in_both(engine: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"engine": engine, "checkpoint": tmp_path / "cuts", "every_batches": 25}
    with hps.launch(plan(), parameters=WAYS | {"user": "geo:5"}, **options) as session:
        assert isinstance(session.job.mode, Mixed)
        assert (session.job.mode.k, session.job.mode.unit) == (5, 1)
        last = list(session.train(data(), epochs=2))[-1]
        assert shows(session.save(tmp_path / "end")) == {"user": 4 * ROWS, "item": 4 * ROWS}
    assert last.samples == 2 * ROWS
    assert 0 < last.exchange.local_rows <= 2 * IDS, "of the users alone; of two copies while an attempt ends"


def test_a_run_goes_on_from_a_cut_and_counts_every_batch_once(tmp_path: Path) -> None:
    options: dict[str, Any] = {"parameters": WAYS, "engine": "inline", "checkpoint": tmp_path}
    with hps.launch(plan(), every_batches=10, report_s=0.0, **options) as session:
        for progress in session.train(data(), epochs=3):
            if progress.samples > ROWS + ROWS // 2 and list(tmp_path.glob("checkpoint/0*")):
                break
    with hps.launch(plan(), resume=tmp_path, **options) as session:
        list(session.train(data(), epochs=3))
        assert shows(session.save(tmp_path / "end")) == {"user": 6 * ROWS, "item": 6 * ROWS}


def test_it_learns_with_less_said_and_a_saved_model_is_launched_without(tmp_path: Path) -> None:
    told, said = {}, {}
    for name, options in (("plain", {}), ("mixed", {"parameters": {"user": "geo:12"}})):
        with hps.launch(plan(lanes=1), engine="inline", mode="async:1", dense=hps.Adam(0.01), **options) as session:
            last = list(session.train(data(), epochs=5))[-1]
            told[name], said[name] = session.evaluate(data(4))["auc"], last.exchange.total_bytes
            session.save(tmp_path / name)
    assert told["mixed"] > told["plain"] - 0.02 > 0.6
    assert said["mixed"] < 0.85 * said["plain"], "users are met again and again"
    with hps.load(tmp_path / "mixed", engine="inline") as session:
        assert session.job.mode == Async(1)
        assert session.evaluate(data(4))["auc"] == told["mixed"]


@pytest.mark.parametrize(
    ("options", "user", "message"),
    [
        ({"mode": "geo:3"}, {}, r"table 'user' travels by 'geo:3' while others do not.*not 'geo'"),
        ({"mode": Async(2, merge=2)}, {}, r"Async\(merge=2\) beside the way 'geo:3'"),
        ({"cache_rows": {"item": 5}}, {}, r"'geo:3' while others do not.*leave the cache of 'item' out.*not 'cache'"),
        ({"parameters": {"user": "geo:3", "item": "geo:4"}}, {}, r"give all the same k: user geo:3, item geo:4"),
        ({"parameters": {"*": "geo:3"}}, {}, r"dense parameter 'out.*' cannot travel by 'geo:3'.*--mode geo:K"),
        (
            {"parameters": {"user": "geo:3", "out*": "allreduce"}},
            {},
            r"'out.*' is all-reduced.*mode 'sync'.*not 'mixed'",
        ),
        ({"parameters": {"user": "geo"}}, {}, r"write geo:k with a whole number"),
        ({"parameters": {"user": "table"}, "mode": Mixed(3)}, {}, r"mode 'mixed', but no table travels by geo"),
        ({"parameters": {}, "mode": MixedSync(3)}, {}, r"mode 'mixed-sync', but no table travels by geo"),
        ({"mode": "sync"}, {"rule": hps.Adam()}, r"way 'geo:3': table 'user' has the rule Adam.*SGD and Momentum"),
        ({}, {"rule": hps.Adam()}, r"way 'geo:3': table 'user' has the rule Adam.*SGD and Momentum"),
        ({}, {"entry": CountEntry(3)}, r"way 'geo:3': table 'user' has the entry CountEntry"),
    ],
)
def test_what_makes_no_sense_is_named(options: dict[str, Any], user: dict[str, Any], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        hps.launch(plan(**user), engine="inline", **{"parameters": WAYS, **options})


def test_other_tables_keep_their_rules_beside_it() -> None:
    with hps.launch(plan(), engine="inline", parameters=WAYS, sparse=hps.Adam()) as session:
        assert session.job.own_groups == {session.job.model.groups[0].name}
        list(session.train(data()))
    assert isinstance(session.job.mode, Mixed)
    assert not isinstance(session.job.mode, Cached)
