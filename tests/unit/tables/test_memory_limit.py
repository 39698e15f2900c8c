"""A limit of bytes for all groups of a shard host together: refused by name, or old rows go."""

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import heterps as hps
from heterps import ops
from heterps.errors import ClusterError, GraphError, TableFullError
from heterps.protocol import BatchKey
from heterps.runtime.config import bytes_of
from heterps.tables import SGD, GroupSpec, KeyedShard, RowGradients, Shard, TableSpec, Zeros
from heterps.testing.engine_contract import plan
from heterps.testing.small_model import data

MIB = 1 << 20


def spec(name: str, when_full: str = "refuse", **rest: object) -> GroupSpec:
    return GroupSpec(name, (TableSpec(name, 16, SGD(0.1), Zeros()),), when_full=when_full, **rest)  # type: ignore[arg-type]


def fill(shard: Shard, group: str, upto: int, step: int = 1000) -> int:
    """Pull new ids until there is no room; return how many fitted."""
    for start in range(0, upto, step):
        ids = np.arange(start, start + step, dtype=np.uint64)
        try:
            shard.pull(group, ids)
        except TableFullError:
            return start
    return upto


@pytest.mark.parametrize("threads", [1, 2])
def test_new_ids_are_refused_by_name_before_the_limit_is_passed(threads: int) -> None:
    shard = KeyedShard([spec("a"), spec("b")], threads=threads, memory_bytes=4 * MIB)
    fitted = fill(shard, "a", 1_000_000)
    assert 10_000 < fitted < 60_000
    assert 2 * MIB < shard.nbytes <= 4 * MIB
    with pytest.raises(
        TableFullError, match=r"group 'b' has no memory for 50000 new ids: .* of at most 4,194,304 byte"
    ):
        shard.pull("b", np.arange(50_000, dtype=np.uint64))
    old = np.arange(1000, dtype=np.uint64)
    shard.pull("a", old)  # what is there is served and trained
    shard.push(BatchKey(0, 0, 0), {"a": RowGradients(old, np.ones((1000, 16), np.float32))})


def test_a_group_that_evicts_goes_on_within_the_limit() -> None:
    shard = Shard([spec("a", when_full="least_recent")], memory_bytes=2 * MIB)
    assert fill(shard, "a", 200_000) == 200_000
    assert shard.nbytes <= 2 * MIB
    assert shard.groups["a"].evicted > 100_000


def test_tables_with_a_limit_go_without_a_collection() -> None:
    gc.disable()
    try:
        shard = Shard([spec("a")], memory_bytes=MIB)
        gone = weakref.ref(shard.groups["a"])
        del shard
        assert gone() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("engine", ["inline", "dask"])
def test_a_user_meets_the_limit_by_name(engine: str) -> None:
    with (
        hps.launch(plan(), engine=engine, memory=5_000) as session,
        pytest.raises(TableFullError, match=r"of at most 5,000 bytes\. Give it more"),
    ):
        session.fit(data())


@pytest.mark.parametrize(("given", "found"), [(None, None), ("8GiB", 8 << 30), ("1 MB", 1_000_000), (5, 5)])
def test_memory_is_read(given: str | int | None, found: int | None) -> None:
    assert bytes_of(given) == found


@pytest.mark.parametrize("given", ["lots", 0, -3, ""])
def test_what_is_no_memory_is_refused(given: str | int) -> None:
    with pytest.raises(ClusterError, match="must be a number of bytes"):
        bytes_of(given)


def budgeted(**rest: Any) -> hps.Plan:
    ids, y = ops.input("ids", (3,), "uint64"), ops.input("y")
    wide = ops.sum(ops.lookup(ids, "wide", 1, **rest))
    return hps.Plan.fused(hps.Graph(loss=ops.logloss(wide, y)), batch_size=64)


def test_a_graph_says_how_many_rows_a_host_may_hold_and_what_goes() -> None:
    with (
        hps.launch(budgeted(budget=50), engine="inline") as session,
        pytest.raises(TableFullError, match="of at most 50 rows"),
    ):
        session.fit(data())
    saved = hps.Graph.from_json(budgeted(budget=110, when_full="least_recent").graph.to_json())
    with hps.launch(hps.Plan.fused(saved, batch_size=8), engine="inline") as session:
        session.fit(data())
        (rows,) = session.engine.each_shard(_rows)
        assert rows <= 110


def _rows(shard: Shard, host: int) -> int:
    return sum(map(len, shard.groups.values()))


@pytest.mark.parametrize("rest", [{"budget": 0}, {"when_full": "explode"}, {"when_full": "lowest_score"}])
def test_a_budget_that_makes_no_sense_is_a_mistake_in_the_graph(rest: dict[str, Any]) -> None:
    with pytest.raises(GraphError, match=r"lookup: (budget|when_full) is|tables wide: group"):
        hps.launch(budgeted(**rest), engine="inline").job.model.groups  # noqa: B018
