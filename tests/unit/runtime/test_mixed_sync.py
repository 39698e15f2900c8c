"""Some tables by Geo, layers all-reduced, the rest by their tables: one run, the same bits whoever runs its lanes."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heterps as hps
from heterps.protocol.words.keys import BatchKey
from heterps.protocol.words.modes import MixedSync, Sync
from heterps.runtime.batch.geo_copy import GeoCopy
from heterps.runtime.batch.payload import PushedGradients, sum_pushed
from heterps.tables import RowGradients
from tests.unit.runtime.test_mixed import IDS, ROWS, data, graph, shows

ALL = {"out*": "allreduce", "user*": "geo:5", "*": "table"}
TABLES = {"user": "geo:5"}


def plan(hosts: int = 1, workers: int = 1, lanes: int = 2) -> hps.Plan:
    return hps.Plan.fused(graph(), batch_size=16, shard_hosts=hosts, lanes=lanes, workers=workers)


def digest(session: hps.Session) -> str:
    ids = np.arange(IDS, dtype=np.uint64).reshape(-1, 2)
    found = session.predict(hps.arrays({"users": ids, "items": ids}), fetch=["prediction", "user_rows", "item_rows"])
    return hashlib.sha256(b"".join(np.ascontiguousarray(found[name]).tobytes() for name in sorted(found))).hexdigest()


def trained(folder: Path, ways: dict[str, str], made: hps.Plan, **options: Any) -> tuple[str, dict[str, int]]:
    with hps.launch(made, mode="sync", parameters=ways, checkpoint=folder, **options) as session:
        assert session.job.mode == MixedSync(5)
        last = list(session.train(data(), epochs=2))[-1]
        assert last.samples == 2 * ROWS
        assert last.exchange.local_rows > 0
        return digest(session), shows(session.save(folder / "end"))


def test_every_batch_counts_once_in_each_way_and_nobody_can_tell_who_ran_the_lanes(tmp_path: Path) -> None:
    """Cuts come in the middle of ranges, whose ends all lanes go on to."""
    runs = [("inline", TABLES, 1, 1, None), ("inline", ALL, 2, 1, 7), ("dask", ALL, 2, 2, 7), ("dask", TABLES, 1, 2, 9)]
    found = [
        trained(tmp_path / f"{n}", ways, plan(hosts, workers), engine=engine, every_batches=every)
        for n, (engine, ways, hosts, workers, every) in enumerate(runs)
    ]
    assert len({bits for bits, _ in found}) == 1
    assert all(counts == {"user": 4 * ROWS, "item": 4 * ROWS} for _, counts in found)


def test_a_run_goes_on_from_a_cut_and_counts_every_batch_once(tmp_path: Path) -> None:
    options: dict[str, Any] = {"parameters": ALL, "engine": "inline", "mode": "sync", "checkpoint": tmp_path}
    with hps.launch(plan(), every_batches=10, report_s=0.0, **options) as session:
        for progress in session.train(data(), epochs=3):
            if progress.samples > ROWS + ROWS // 2 and list(tmp_path.glob("checkpoint/0*")):
                break
    with hps.launch(plan(hosts=2), resume=tmp_path, **options) as session:
        list(session.train(data(), epochs=3))
        assert shows(session.save(tmp_path / "end")) == {"user": 6 * ROWS, "item": 6 * ROWS}
    with hps.load(tmp_path / "end", engine="inline") as session:
        assert session.job.mode == Sync()


def test_rows_of_others_are_heard_with_the_first_batch_after_a_range(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both lanes meet the same users: what one has learned reaches the other, which learns better for it."""

    def auc_and_bits() -> tuple[float, str]:
        with hps.launch(plan(), engine="inline", mode="sync", parameters=ALL) as session:
            list(session.train(data(), epochs=4))
            return session.evaluate(data(4))["auc"], digest(session)

    (told, bits), free = auc_and_bits(), GeoCopy.free
    with hps.launch(plan(), engine="inline", mode="sync") as session:
        list(session.train(data(), epochs=4))
        assert told > session.evaluate(data(4))["auc"] - 0.02 > 0.6

    def deaf(self: GeoCopy, unit: BatchKey) -> None:
        free(self, unit)
        self._curious.clear()

    monkeypatch.setattr(GeoCopy, "free", deaf)
    assert auc_and_bits()[1] != bits


def test_lanes_that_settle_nothing_with_a_step_leave_those_that_do_alone() -> None:
    def pushed(dense: float, **rows: float) -> PushedGradients:
        ids = np.arange(2, dtype=np.uint64)
        given = {name: RowGradients(ids, np.full((2, 1), value, np.float32)) for name, value in rows.items()}
        return PushedGradients(given, np.array([dense], np.float32), 1, 0.5, 2)

    total = sum_pushed([pushed(1, item=1), pushed(2, item=2, user=8), pushed(4, item=4, user=16)])
    assert {name: rows.values.tolist() for name, rows in total.rows.items()} == {"item": [[7]] * 2, "user": [[24]] * 2}
    assert (total.dense, total.samples, total.skipped) == (np.array([7]), 3, 6)


def test_the_example_of_the_three_ways() -> None:
    ids, y = hps.ops.input("ids", shape=(2,), dtype="uint64"), hps.ops.input("y")
    users = hps.ops.lookup(ids, table="user_rows", dim=2, rule=hps.SGD(0.1))
    items = hps.ops.lookup(hps.ops.input("items", shape=(2,), dtype="uint64"), table="items_rows", dim=2)
    hidden = hps.ops.relu(hps.ops.dense(hps.ops.concat(users, items), 4, name="fc1"))
    model = hps.Graph(loss=hps.ops.logloss(hps.ops.dense(hidden, 1, name="out"), y))
    ways = {"fc*": "allreduce", "user_*": "geo:100", "*": "table"}
    made = hps.Plan.fused(model, batch_size=16, lanes=2)
    with hps.launch(made, engine="inline", mode="sync", parameters=ways) as session:
        assert [spec.name for spec in session.job.reduced] == ["fc1.weight", "fc1.bias"]
        assert len(session.job.own_groups) == 1
