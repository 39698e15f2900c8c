from __future__ import annotations

import threading
from contextlib import nullcontext

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from heterps.errors import TableError
from heterps.protocol import BatchKey, deal_shards, owned_by
from heterps.tables import (
    SGD,
    Adam,
    DenseSpec,
    GroupSpec,
    KeyedShard,
    Normal,
    RowGradients,
    Sum,
    TableSpec,
    Uniform,
    Xavier,
    Zeros,
    sum_lanes,
)
from heterps.tables.hashing import RESERVED, shard_of, shards_of
from tests.unit.tables.snapshots.test_snapshot import rows_of

WIDE_DEEP = GroupSpec("ids", (TableSpec("wide", 1, SGD(0.1), Zeros()), TableSpec("deep", 4, SGD(0.1), Uniform(0.1))))


def test_a_push_counts_once_in_any_order() -> None:
    shard = KeyedShard([WIDE_DEEP], [DenseSpec("w", (2, 2), Sum())])
    ids = np.array([5, 9], np.uint64)
    first = shard.pull("ids", ids)
    g = np.ones((2, 5), np.float32)
    for n in (1, 0, 1, 1, 0):
        shard.push(BatchKey(0, 0, n), {"ids": RowGradients(ids, g, first.rows)}, np.ones(4, np.float32))
    np.testing.assert_allclose(shard.pull("ids", ids).values, first.values - 0.2, rtol=1e-6)
    np.testing.assert_array_equal(shard.pull_dense(), np.full(4, 2, np.float32))
    assert shard.version == 2


def test_staleness_counts_pushes_between_pull_and_push() -> None:
    shard = KeyedShard([WIDE_DEEP])
    ids = np.array([5], np.uint64)
    pulled = shard.pull("ids", ids)
    g = np.ones((1, 5), np.float32)
    late = RowGradients(ids, g, pulled.rows, version=pulled.version)
    for n in range(3):
        assert shard.push(BatchKey(0, 0, n), {"ids": late}).staleness == n


def test_first_values_depend_on_seed_table_and_id_only() -> None:
    for init in (Uniform(0.1), Normal(0.1), Xavier()):
        group = GroupSpec("g", (TableSpec("t", 6, init=init),))
        ids = np.arange(500, dtype=np.uint64)
        one, other = KeyedShard([group], seed=1), KeyedShard([group], seed=1, threads=3)
        values = one.pull("g", ids).values
        assert len(np.unique(values)) > 2900
        np.testing.assert_array_equal(other.pull("g", ids[::-1].copy()).values[::-1], values)
        assert (KeyedShard([group], seed=2).pull("g", ids).values != values).mean() > 0.99
    spread = KeyedShard([GroupSpec("g", (TableSpec("t", 8, init=Normal(0.5)),))]).pull("g", np.arange(5000)).values
    assert abs(spread.std() - 0.5) < 0.01
    assert abs(spread.mean()) < 0.01


def test_hosts_hold_their_own_logical_shards() -> None:
    hosts = deal_shards(1024, 3)
    shards = [KeyedShard([WIDE_DEEP], owned=owned_by(hosts, h)) for h in range(3)]
    ids = np.arange(2000, dtype=np.uint64)
    whole = KeyedShard([WIDE_DEEP]).pull("ids", ids).values
    home = np.array(hosts)[shards_of(ids, 1024)]
    for h, shard in enumerate(shards):
        np.testing.assert_array_equal(shard.pull("ids", ids[home == h]).values, whole[home == h])
    stranger = next(int(i) for i in ids if hosts[shard_of(int(i), 1024)] != 0)
    with pytest.raises(TableError, match=f"id {stranger} belongs to a logical shard"):
        shards[0].pull("ids", np.array([stranger], np.uint64))


@pytest.mark.parametrize(
    ("ids", "match"),
    [
        ([-1], "-1 is not an id"),
        ([2**64], "18446744073709551616 is not an id"),
        ([1.5], "must be integers"),
        (np.array([RESERVED], np.uint64), "reserved"),
        (np.zeros((2, 2), np.uint64), "one-dimensional"),
    ],
)
def test_what_is_not_an_id_is_named(ids: object, match: str) -> None:
    with pytest.raises(TableError, match=match):
        KeyedShard([WIDE_DEEP]).pull("ids", ids)


def test_the_largest_and_smallest_ids_are_ids() -> None:
    ids = np.array([0, 1, RESERVED - 1], np.uint64)
    shard = KeyedShard([WIDE_DEEP])
    shard.push(BatchKey(0, 0, 0), {"ids": RowGradients(ids, np.ones((3, 5), np.float32))})
    assert len(shard.groups["ids"]) == 3


def test_evaluation_creates_nothing_and_reads_zeros() -> None:
    shard = KeyedShard([WIDE_DEEP])
    pulled = shard.pull("ids", np.array([3], np.uint64), train=False)
    np.testing.assert_array_equal(pulled.values, np.zeros((1, 5), np.float32))
    assert len(shard.groups["ids"]) == 0


@given(n=st.integers(1, 150), seed=st.integers(0, 10**6), cut=st.booleans())
@settings(max_examples=40, deadline=None)
def test_hints_of_any_kind_change_nothing(n: int, seed: int, cut: bool) -> None:
    """Right, wrong and impossible hints, new ids and gradients that are skipped, mixed within and across blocks."""
    rng = np.random.default_rng(seed)
    ids = rng.permutation(2 * n).astype(np.uint64)
    values = rng.standard_normal((2 * n, 5), np.float32)
    values[rng.random(2 * n) < 0.1, 2] = np.nan
    ends = []
    for hinted in (True, False):
        shard = KeyedShard([WIDE_DEEP])
        shard.pull("ids", np.arange(n, dtype=np.uint64))
        hints = shard.pull("ids", ids, train=False).rows
        wrong = rng.random(2 * n) < 0.2
        hints[wrong] = rng.integers(0, [n, 2**32][seed % 2], wrong.sum())
        with shard.cut() if cut else nullcontext():
            done = shard.push(BatchKey(0, 0, 0), {"ids": RowGradients(ids, values, hints if hinted else None)})
        ends.append((done.counts, shard.pull("ids", ids, train=False).values))
    assert ends[0][0] == ends[1][0]
    np.testing.assert_array_equal(ends[0][1], ends[1][1])


def test_wrong_hints_do_no_harm() -> None:
    shard = KeyedShard([WIDE_DEEP])
    ids = np.arange(200, dtype=np.uint64)
    before = shard.pull("ids", ids)
    hints = np.random.default_rng(0).integers(0, 2**32, 200, dtype=np.uint32)
    hints[:50] = before.rows[::-1][:50]
    shard.push(BatchKey(0, 0, 0), {"ids": RowGradients(ids, np.ones((200, 5), np.float32), hints)})
    np.testing.assert_allclose(shard.pull("ids", ids).values, before.values - np.float32(0.1), rtol=1e-6)


def test_lanes_are_summed_in_lane_order() -> None:
    rng = np.random.default_rng(0)
    lanes = []
    for _ in range(3):
        ids = rng.choice(50, 20, replace=False).astype(np.uint64)
        lanes.append(RowGradients(ids, rng.normal(size=(20, 4)).astype(np.float32), show=np.ones(20, np.float32)))
    total = sum_lanes(lanes)
    expected: dict[int, np.ndarray] = {}
    for lane in lanes:
        for id_, value in zip(lane.ids.tolist(), lane.values, strict=True):
            expected[id_] = expected.get(id_, np.zeros(4, np.float32)) + value
    assert total.ids.tolist() == sorted(expected)
    np.testing.assert_array_equal(total.values, [expected[i] for i in sorted(expected)])
    assert total.show is not None
    assert total.show.sum() == 60


def test_threads_share_a_shard_without_torn_rows() -> None:
    """Every push adds the same number to all values of a row, so a torn row would show unequal values."""
    group = GroupSpec("g", (TableSpec("t", 32, Sum(), Zeros()),))
    shard, torn, n = KeyedShard([group]), [], 60
    ids = np.arange(300, dtype=np.uint64)

    def train(worker: int) -> None:
        for step in range(n):
            values = shard.pull("g", ids).values
            torn.extend(values[values.min(1) != values.max(1)])
            shard.push(BatchKey(0, worker, step), {"g": RowGradients(ids, np.ones((300, 32), np.float32))})

    threads = [threading.Thread(target=train, args=(w,)) for w in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not torn
    np.testing.assert_array_equal(shard.pull("g", ids).values, np.full((300, 32), 4 * n, np.float32))


def test_two_threads_with_one_key_apply_it_once() -> None:
    shard = KeyedShard([GroupSpec("g", (TableSpec("t", 2, Sum(), Zeros()),))])
    ids, g = np.arange(1000, dtype=np.uint64), np.ones((1000, 2), np.float32)
    results = []
    push = lambda n: results.append(shard.push(BatchKey(0, 0, n), {"g": RowGradients(ids, g)}))  # noqa: E731
    for n in range(20):
        threads = [threading.Thread(target=push, args=(n,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sum(not applied.duplicate for applied in results) == 20
    assert shard.pull("g", ids).values.max() == 20


def test_a_bad_push_changes_nothing_and_may_be_repeated() -> None:
    shard = KeyedShard([WIDE_DEEP])
    ids = np.array([1], np.uint64)
    with pytest.raises(TableError, match="gradients must be float32"):
        shard.push(BatchKey(0, 0, 0), {"ids": RowGradients(ids, np.ones((1, 4), np.float32))})
    assert not shard.push(BatchKey(0, 0, 0), {"ids": RowGradients(ids, np.ones((1, 5), np.float32))}).duplicate


def test_specs_survive_json_and_refuse_nonsense() -> None:
    assert GroupSpec.from_json(WIDE_DEEP.to_json()) == WIDE_DEEP
    dense = DenseSpec("w", (2, 3), Adam(), Xavier())
    assert DenseSpec.from_json(dense.to_json()) == dense
    with pytest.raises(TableError, match="dim is 0, expected a whole number of at least 1"):
        TableSpec("t", 0)
    with pytest.raises(TableError, match="two tables of one name"):
        GroupSpec("g", (TableSpec("t", 1), TableSpec("t", 2)))
    with pytest.raises(TableError, match="differ in dtype"):
        GroupSpec("g", (TableSpec("t", 1), TableSpec("u", 2, dtype="float16")))
    assert WIDE_DEEP.columns("deep") == slice(1, 5)


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_give_the_same_bits(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heterps.tables.live.owners.WORTH_IT", 1)
    monkeypatch.setattr("heterps.tables.live.partition.RowPartition.turn", 64)
    one, many = KeyedShard([WIDE_DEEP], seed=3), KeyedShard([WIDE_DEEP], seed=3, threads=threads)
    rng = np.random.default_rng(0)
    for n in range(6):
        ids = rng.choice(2000, 700, replace=False).astype(np.uint64)
        values = rng.normal(size=(700, WIDE_DEEP.width)).astype(np.float32)
        values[n] = np.nan
        pulled = [shard.pull("ids", ids) for shard in (one, many)]
        np.testing.assert_array_equal(pulled[0].values, pulled[1].values)
        counts = [
            shard.push(BatchKey(0, 0, n), {"ids": RowGradients(ids, values, rows.rows)}).counts
            for shard, rows in zip((one, many), pulled, strict=True)
        ]
        assert counts[0] == counts[1]
        assert counts[0].skipped == 1
    with one.cut() as first, many.cut() as second:
        columns = [rows_of(cut.groups["ids"]) for cut in (first, second)]
    for name, array in columns[0].items():
        assert array.tobytes() == columns[1][name].tobytes()
