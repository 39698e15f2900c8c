"""Budget, eviction, entries, accessor, shrink: on examples computed by hand."""

from __future__ import annotations

import errno
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from heterps.errors import TableError, TableFullError
from heterps.protocol import BatchKey
from heterps.tables import (
    ENTRIES,
    SGD,
    AdaGrad,
    Applied,
    Constant,
    CountEntry,
    CtrAccessor,
    Entry,
    GroupSpec,
    KeyedShard,
    ProbabilityEntry,
    RowGradients,
    ShowClickEntry,
    Sum,
    TableSpec,
    Zeros,
)
from heterps.tables.live.cold_rows import DiskTier
from heterps.tables.specs.accessor import Counters


def ids(*values: int) -> np.ndarray:
    return np.array(values, np.uint64)


def grads(
    keys: np.ndarray, width: int = 1, show: list[float] | None = None, click: list[float] | None = None
) -> RowGradients:
    as32 = [None if x is None else np.array(x, np.float32) for x in (show, click)]
    return RowGradients(keys, np.ones((len(keys), width), np.float32), None, *as32)


def counters(shard: KeyedShard, keys: np.ndarray) -> Counters:
    group = shard.groups["g"]
    columns = []
    for key in keys:
        row = group.find(np.array([key])).astype(np.int64)
        part = next(p for p in group.partitions if row in p.live() and p.ids(row) == key)
        columns.append(part.counters(row))
    return Counters(*np.concatenate(columns, axis=1))


def test_a_full_table_refuses_and_stays_as_it_was() -> None:
    shard = KeyedShard([GroupSpec("g", (TableSpec("t", 1, Sum(), Zeros()),), budget=3)])
    shard.pull("g", ids(1, 2))
    with pytest.raises(TableFullError, match=r"group 'g' holds 2 of at most 3 rows and 2 new ids need one"):
        shard.pull("g", ids(1, 3, 4))
    assert len(shard.groups["g"]) == 2
    shard.pull("g", ids(1, 2, 3))
    with pytest.raises(TableFullError):
        shard.push(BatchKey(0, 0, 0), {"g": grads(ids(9))})
    assert BatchKey(0, 0, 0) not in shard.window
    assert not shard.push(BatchKey(0, 0, 0), {"g": grads(ids(1))}).duplicate


def test_a_refused_push_is_refused_for_all_groups() -> None:
    table = lambda name: TableSpec(name, 1, Sum(), Zeros())  # noqa: E731
    shard = KeyedShard([GroupSpec("a", (table("a"),)), GroupSpec("b", (table("b"),), budget=1, create_on="push")])
    with pytest.raises(TableFullError):
        shard.push(BatchKey(0, 0, 0), {"a": grads(ids(1)), "b": grads(ids(1, 2))})
    assert shard.pull("a", ids(1)).values[0, 0] == 0


def test_least_recent_rows_go_first() -> None:
    shard = KeyedShard([GroupSpec("g", (TableSpec("t", 1, Sum(), Zeros()),), budget=3, when_full="least_recent")])
    for n, key in enumerate((1, 2, 3, 1)):
        shard.push(BatchKey(0, 0, n), {"g": grads(ids(key))})
    shard.push(BatchKey(0, 0, 9), {"g": grads(ids(4))})
    found = shard.pull("g", ids(1, 2, 3, 4), train=False).values[:, 0]
    assert found.tolist() == [2, 0, 1, 1]
    assert shard.groups["g"].evicted == 1


def test_rows_with_the_lowest_score_go_first_and_present_ids_stay() -> None:
    table = TableSpec("t", 1, Sum(), Zeros(), accessor=CtrAccessor())
    shard = KeyedShard([GroupSpec("g", (table,), budget=3, when_full="lowest_score")])
    shard.push(BatchKey(0, 0, 0), {"g": grads(ids(1, 2, 3), show=[1, 9, 5], click=[0, 1, 0])})
    # 1 is worth 0.1, 3 is worth 0.5, 2 is worth 1.8; but 1 is asked for again together with 4.
    shard.push(BatchKey(0, 0, 1), {"g": grads(ids(1, 4), show=[1, 1], click=[0, 0])})
    assert shard.pull("g", ids(1, 2, 3, 4), train=False).values[:, 0].tolist() == [2, 1, 0, 1]
    with pytest.raises(TableFullError):
        shard.push(BatchKey(0, 0, 2), {"g": grads(ids(5, 6, 7, 8))})


def test_create_on_push_reads_zeros_until_then() -> None:
    shard = KeyedShard([GroupSpec("g", (TableSpec("t", 1, SGD(1.0), Constant(5.0)),), create_on="push")])
    assert shard.pull("g", ids(1)).values.tolist() == [[0]]
    assert len(shard.groups["g"]) == 0
    shard.push(BatchKey(0, 0, 0), {"g": grads(ids(1))})
    assert shard.pull("g", ids(1)).values.tolist() == [[4]]


def test_count_entry_admits_at_the_nth_show() -> None:
    shard = KeyedShard([GroupSpec("g", (TableSpec("t", 1, SGD(1.0), Constant(5.0), CountEntry(3)),))])
    values = []
    for n in range(4):
        assert shard.pull("g", ids(7)).values[0, 0] == (0 if n < 3 else 4)
        applied = shard.push(BatchKey(0, 0, n), {"g": grads(ids(7))})
        shard.push(BatchKey(0, 0, n), {"g": grads(ids(7))})
        values.append((applied.counts.dropped, applied.counts.created))
    assert values == [(1, 0), (1, 0), (0, 1), (0, 0)]
    assert shard.groups["g"].waiting is not None
    assert len(shard.groups["g"].waiting) == 0
    assert shard.pull("g", ids(7)).values[0, 0] == 3


def test_count_entry_counts_shows_within_a_batch() -> None:
    shard = KeyedShard([GroupSpec("g", (TableSpec("t", 1, Sum(), Zeros(), CountEntry(3)),))])
    shard.push(BatchKey(0, 0, 0), {"g": grads(ids(1, 2), show=[3, 2])})
    assert shard.pull("g", ids(1, 2)).values[:, 0].tolist() == [1, 0]


def test_show_click_entry_weighs_both() -> None:
    entry = ShowClickEntry(show_coeff=0.1, click_coeff=1.0, threshold=1.0)
    shard = KeyedShard([GroupSpec("g", (TableSpec("t", 1, Sum(), Zeros(), entry),))])
    shard.push(BatchKey(0, 0, 0), {"g": grads(ids(1, 2, 3), show=[9, 1, 5], click=[0, 1, 0])})
    assert shard.pull("g", ids(1, 2, 3)).values[:, 0].tolist() == [0, 1, 0]
    shard.push(BatchKey(0, 0, 1), {"g": grads(ids(1, 3), show=[1, 4], click=[0, 0])})
    assert shard.pull("g", ids(1, 2, 3)).values[:, 0].tolist() == [1, 1, 0]


def test_probability_entry_admits_its_share_and_repeats_itself() -> None:
    group = GroupSpec("g", (TableSpec("t", 1, Sum(), Zeros(), ProbabilityEntry(0.25)),))
    keys = np.arange(4000, dtype=np.uint64)
    first, second = KeyedShard([group], seed=3), KeyedShard([group], seed=3, threads=2)
    for shard in (first, second):
        shard.push(BatchKey(0, 1, 0), {"g": grads(keys)})
    admitted = first.pull("g", keys).values[:, 0]
    np.testing.assert_array_equal(admitted, second.pull("g", keys).values[:, 0])
    assert 0.22 < admitted.mean() < 0.28
    first.push(BatchKey(0, 1, 1), {"g": grads(keys)})
    assert 0.40 < (first.pull("g", keys).values[:, 0] > 0).mean() < 0.47


def test_an_entry_from_outside() -> None:
    from dataclasses import dataclass

    @ENTRIES.add
    @dataclass(frozen=True)
    class EvenEntry(Entry):
        def admit(self, ids, shows, clicks, key):  # type: ignore[no-untyped-def]
            return ids % np.uint64(2) == 0

    shard = KeyedShard([GroupSpec("g", (TableSpec("t", 1, Sum(), Zeros(), EvenEntry()),))])
    shard.push(BatchKey(0, 0, 0), {"g": grads(ids(1, 2))})
    assert shard.pull("g", ids(1, 2)).values[:, 0].tolist() == [0, 1]
    assert ENTRIES.from_json(EvenEntry().to_json()) == EvenEntry()


CTR = TableSpec(
    "t",
    3,
    SGD(1.0),
    Zeros(),
    accessor=CtrAccessor(embedx_rule=AdaGrad(0.5, show_scale=False), embedx_init=Constant(2.0)),
)


def test_embedx_comes_with_the_score_and_has_its_own_rule() -> None:
    shard = KeyedShard([GroupSpec("g", (CTR,))])
    # Score 0.1 * 5 + 1 * 9 = 9.5: only w moves.
    shard.push(BatchKey(0, 0, 0), {"g": grads(ids(1), 3, show=[14], click=[9])})
    assert shard.pull("g", ids(1)).values.tolist() == [[-1, 0, 0]]
    # Score 10.5: embedx gets its first values, this gradient was for its absence.
    shard.push(BatchKey(0, 0, 1), {"g": grads(ids(1), 3, show=[1], click=[1])})
    assert shard.pull("g", ids(1)).values.tolist() == [[-2, 2, 2]]
    # AdaGrad: G is 0, so the first step is the whole rate.
    shard.push(BatchKey(0, 0, 2), {"g": grads(ids(1), 3, show=[1], click=[0])})
    assert shard.pull("g", ids(1)).values.tolist() == [[-3, 1.5, 1.5]]
    c = counters(shard, ids(1))
    assert (c.show[0], c.click[0], c.live[0], c.unseen_days[0]) == (16, 10, 1, 0)
    assert c.delta_score[0] == pytest.approx(9.5 + 1.0 + 0.1)


def test_shrink_decays_and_deletes() -> None:
    shard = KeyedShard([GroupSpec("g", (CTR,))])
    # Scores after decay by 0.98: 0.98 * (10 * 0.1) = 0.98 stays, 0.98 * (8 * 0.1) = 0.784 goes.
    shard.push(BatchKey(0, 0, 0), {"g": grads(ids(1, 2), 3, show=[10, 8], click=[0, 0])})
    assert shard.shrink() == 1
    assert len(shard.groups["g"]) == 1
    c = counters(shard, ids(1))
    assert c.show[0] == pytest.approx(9.8)
    for _ in range(31):
        shard.after_save("base")
    assert counters(shard, ids(1)).unseen_days[0] == 31
    shard.push(BatchKey(0, 0, 1), {"g": grads(ids(3), 3, show=[90], click=[0])})
    assert shard.shrink("g") == 1
    assert shard.groups["g"].find(ids(3))[0] != 2**32 - 1


def test_shrink_needs_an_accessor() -> None:
    shard = KeyedShard([GroupSpec("g", (TableSpec("t", 1),))])
    assert shard.shrink() == 0
    with pytest.raises(TableError, match="none of its tables"):
        shard.shrink("g")


def test_delta_and_base_select_by_the_formula() -> None:
    accessor = CtrAccessor()
    show, click = np.array([15, 14, 30, 30, 30], np.float32), np.array([0, 0, 0, 0, 1], np.float32)
    delta, days = np.array([0.3, 9, 0.2, 0.25, 0.3], np.float32), np.array([0, 0, 0, 16, 17], np.float32)
    c = Counters(show, click, delta, days, np.zeros(5, np.float32))
    assert accessor.in_base(c).tolist() == [True, False, True, True, False]
    assert accessor.in_delta(c).tolist() == [True, False, False, True, False]


@pytest.mark.parametrize("storage", ["memory", "ssd"])
def test_storages_hold_the_same(storage: str, tmp_path: Path) -> None:
    shard = KeyedShard([GroupSpec("g", (TableSpec("t", 8, SGD(0.1)),), storage=storage)], seed=1, folder=tmp_path)
    keys = np.arange(30_000, dtype=np.uint64)
    before = shard.pull("g", keys).values.copy()
    shard.push(BatchKey(0, 0, 0), {"g": grads(keys, 8)})
    np.testing.assert_allclose(shard.pull("g", keys).values, before - np.float32(0.1), rtol=1e-5)
    assert not list(tmp_path.iterdir())  # the file has no name, so a killed process leaves nothing


def test_ssd_needs_a_folder() -> None:
    with pytest.raises(TableError, match="give the shard a folder"):
        KeyedShard([GroupSpec("g", (TableSpec("t", 8),), storage="ssd")])


def test_a_full_disk_refuses_rows_and_loses_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of the file run out: the push is refused as a whole, what is there stays, and later it can be repeated."""
    monkeypatch.setattr("heterps.tables.live.shard.DiskTier", partial(DiskTier, block_bytes=1))
    spec = GroupSpec("g", (TableSpec("t", 64, Sum(), Zeros()),), storage="ssd")
    shard = KeyedShard([spec], folder=tmp_path, hot_bytes=250 * 300)

    def push(n: int, first: int) -> Applied:
        some = np.arange(first, first + 200, dtype=np.uint64)
        return shard.push(BatchKey(0, 0, n), {"g": RowGradients(some, np.ones((200, 64), np.float32))})

    def full(*args: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    push(0, 0)
    n = 1
    with monkeypatch.context() as patch:
        patch.setattr("os.posix_fallocate", full)
        while n < 10:  # there is room for a segment of 1024 rows, and for those in memory
            try:
                push(n, 200 * n)
            except TableFullError:
                break
            n += 1
        assert 5 <= n < 8
        with pytest.raises(TableFullError, match="no room on disk for table rows: No space left on device after"):
            push(n, 200 * n)
        assert len(shard.group("g")) == 200 * n
        assert BatchKey(0, 0, n) not in shard.window
    every = np.arange(200 * n, dtype=np.uint64)
    assert shard.pull("g", every, train=False).values.tolist() == [[1.0] * 64] * len(every)
    assert not push(n, 200 * n).duplicate
    assert len(shard.group("g")) == 200 * (n + 1)
