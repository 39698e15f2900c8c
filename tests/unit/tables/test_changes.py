"""Readers of changes: whatever happens to rows, a copy that follows the answers is the table."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from heterps.protocol import BatchKey
from heterps.tables import (
    SGD,
    CountEntry,
    CtrAccessor,
    GroupSpec,
    KeyedShard,
    Momentum,
    RowGradients,
    Sum,
    TableSpec,
    Uniform,
    Zeros,
)
from heterps.tables.live import changes
from heterps.tables.live.group import RowGroup

CTR = TableSpec("t", 4, Momentum(0.1), Uniform(0.1), accessor=CtrAccessor(embed=2, delete_threshold=0.4))


@pytest.fixture(autouse=True, params=[3, 99], ids=["stamped", "plain"])
def long(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """From how many words on rows have room for a stamp, if their number is odd."""
    monkeypatch.setattr("heterps.tables.live.row_layout.LONG", request.param)


def ids(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.uint64)


class Copy:
    """What a reader has: rows by id, as bytes."""

    def __init__(self, group: RowGroup, name: str = "copy") -> None:
        self.group, self.name = group, name
        self.rows: dict[int, bytes] = {}
        self.mark: int | None = None

    def read(self, *, lost: bool = False) -> tuple[set[int], set[int], bool]:
        """Ask, follow the answer unless it gets lost, and return what it said."""
        found = self.group.changed(self.name, self.mark)
        if not lost:
            self.rows = {} if found.everything else self.rows
            for id_ in found.deleted.tolist():
                self.rows.pop(id_, None)
            self.rows |= as_bytes(found.rows)
            self.mark = found.mark
        return set(found.ids.tolist()), set(found.deleted.tolist()), found.everything


def as_bytes(columns: dict[str, np.ndarray]) -> dict[int, bytes]:
    if not len(columns["id"]):
        return {}
    parts = [np.ascontiguousarray(a.reshape(len(a), -1)).view(np.uint32) for a in columns.values()]
    return dict(zip(columns["id"].tolist(), map(bytes, np.concatenate(parts, 1)), strict=True))


def table(group: RowGroup) -> dict[int, bytes]:
    """All rows now, as a reader that was never seen before gets them."""
    found = group.changed("oracle")
    group.readers.forget("oracle")
    return as_bytes(found.rows)


def shard_of(spec: GroupSpec, **options: Any) -> KeyedShard:
    return KeyedShard([spec], seed=1, **options)


numbers = iter(range(10**9))


def push(shard: KeyedShard, which: np.ndarray, shows: float = 1.0) -> None:
    width = shard.groups["g"].spec.width
    show = np.full(len(which), shows, np.float32)
    grads = RowGradients(which, np.ones((len(which), width), np.float32), None, show, show * 0)
    shard.push(BatchKey(0, 0, next(numbers)), {"g": grads})


def test_the_first_answer_is_everything_and_later_ones_what_changed() -> None:
    shard = shard_of(GroupSpec("g", (TableSpec("t", 2, SGD(0.1)),)))
    group = shard.groups["g"]
    push(shard, ids(*range(100)))
    copy = Copy(group)
    assert copy.read() == (set(range(100)), set(), True)
    assert copy.read() == (set(), set(), False)
    push(shard, ids(3, 5, 200))
    assert copy.read() == ({3, 5, 200}, set(), False)
    group.delete(ids(5, 200, 7))
    shard.pull("g", ids(7, 300))  # 7 comes back at its first values
    assert copy.read() == ({7, 300}, {5, 200}, False)
    assert copy.rows == table(group)


CHANGES: dict[str, Callable[[KeyedShard], object]] = {
    "update": lambda shard: push(shard, ids(1, 2)),
    "insert by a pull": lambda shard: shard.pull("g", ids(900)),
    "insert by a push": lambda shard: push(shard, ids(901)),
    "deletion": lambda shard: shard.groups["g"].delete(ids(4)),
    "decay and shrink": lambda shard: shard.shrink(),
    "day's end": lambda shard: shard.after_save("base"),
    "values set": lambda shard: shard.groups["g"].set_table("t", ids(9), np.full((1, 4), 7, np.float32)),
    "slots set": lambda shard: shard.groups["g"].set_table(
        "t", ids(9), np.zeros((1, 4), np.float32), np.ones((1, 4), np.float32)
    ),
    "nothing that counts": lambda shard: shard.pull("g", ids(1, 5000), train=False),
}


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("storage", ["memory", "ssd", "float16"])
@pytest.mark.parametrize("change", list(CHANGES))
def test_every_kind_of_change_counts(
    change: str, storage: str, threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("heterps.tables.live.owners.WORTH_IT", 1)
    made = TableSpec(**{**vars(CTR), "dtype": "float16"}) if storage == "float16" else CTR
    kept = "ssd" if storage == "ssd" else "memory"
    shard = shard_of(GroupSpec("g", (made,), storage=kept), threads=threads, folder=tmp_path)
    push(shard, ids(*range(60)), shows=8)
    push(shard, ids(*range(10)), shows=100)
    copy = Copy(shard.groups["g"])
    copy.read()
    CHANGES[change](shard)
    assert not copy.read()[2]
    assert copy.rows == table(shard.groups["g"])


def test_evictions_and_last_uses_count() -> None:
    spec = GroupSpec("g", (TableSpec("t", 1, Sum(), Zeros()),), budget=50, when_full="least_recent")
    shard = shard_of(spec)
    copy = Copy(shard.groups["g"])
    for first in range(0, 300, 20):
        push(shard, ids(*range(first, first + 30)))
        shard.pull("g", ids(*range(first, first + 5)))  # a later use, nothing else
        copy.read()
        assert copy.rows == table(shard.groups["g"])
    assert shard.groups["g"].evicted


def test_admissions_count_and_so_does_what_waits() -> None:
    shard = shard_of(GroupSpec("g", (TableSpec("t", 1, Sum(), Zeros(), CountEntry(3)),)))
    group = shard.groups["g"]
    assert group.waiting is not None
    copies = Copy(group), Copy(group.waiting)
    for n in range(4):
        for copy in copies:
            copy.read()
            assert copy.rows == table(copy.group)
        push(shard, ids(1, 2, 10 + n))
    assert set(copies[0].rows) == {1, 2}


def test_an_answer_that_was_lost_comes_again() -> None:
    shard = shard_of(GroupSpec("g", (TableSpec("t", 2, SGD(0.1)),)))
    group = shard.groups["g"]
    push(shard, ids(1, 2, 3, 99))
    slow, quick = Copy(group, "slow"), Copy(group, "quick")
    slow.read(), quick.read()
    for n in range(100):  # far more marks than are kept: those that no reader can tell apart become one
        push(shard, ids(2, 100 + n))
        group.delete(ids(100 + n - 1))
        assert quick.read() == ({2, 100 + n}, {100 + n - 1}, False)
        assert slow.read(lost=True)[2] is False
    assert slow.read() == ({2, 199}, set(range(99, 199)), False)
    assert slow.rows == quick.rows == table(group)


def test_a_reader_that_falls_too_far_behind_gets_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "LEAST_DELETED", 8)
    shard = shard_of(GroupSpec("g", (TableSpec("t", 2, SGD(0.1)),)))
    group = shard.groups["g"]
    push(shard, ids(*range(20)))
    copy = Copy(group)
    copy.read()
    group.delete(ids(*range(6)))
    assert copy.read() == (set(), set(range(6)), False)
    group.delete(ids(*range(6, 18)))  # more than a quarter of all rows
    assert copy.read() == ({18, 19}, set(), True)
    assert copy.rows == table(group)
    push(shard, ids(18))
    assert copy.read() == ({18}, set(), False)


def test_more_marks_than_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "STRETCHES", 4)
    shard = shard_of(GroupSpec("g", (TableSpec("t", 2, SGD(0.1)),)))
    group = shard.groups["g"]
    copies = [Copy(group, str(n)) for n in range(8)]
    for n, copy in enumerate(copies):
        push(shard, ids(n))
        copy.read()
    assert not copies[-1].read()[2]
    assert copies[0].read()[2]
    assert copies[0].rows == copies[-1].rows == table(group)
    (part,) = group.partitions
    assert part._changes is not None
    assert len(part._changes._closed) <= 4


def test_unknown_marks_and_tables_that_were_cleared() -> None:
    shard = shard_of(GroupSpec("g", (TableSpec("t", 2, SGD(0.1)),)))
    group = shard.groups["g"]
    push(shard, ids(1))
    copy = Copy(group)
    copy.read()
    assert group.changed("copy", 999).everything
    shard.clear()
    push(shard, ids(5))
    assert copy.read() == ({5}, set(), True)


def test_a_mark_is_the_readers_own() -> None:
    """One that another was given, or this one before it was forgotten, may be of other tables: numbers repeat."""
    shard = shard_of(GroupSpec("g", (TableSpec("t", 2, SGD(0.1)),)))
    group = shard.groups["g"]
    push(shard, ids(1, 2))
    keeper, copy = Copy(group, "keeper"), Copy(group)
    keeper.read(), copy.read()
    push(shard, ids(2))
    assert group.changed("stranger", keeper.mark).everything
    group.readers.forget("copy")
    assert copy.read() == ({1, 2}, set(), True)
    push(shard, ids(1))
    assert copy.read() == ({1}, set(), False)
    assert keeper.read() == ({1, 2}, set(), False)


def test_nothing_is_noted_without_a_reader() -> None:
    shard = shard_of(GroupSpec("g", (TableSpec("t", 2, SGD(0.1)),)))
    group, (part,) = shard.groups["g"], shard.groups["g"].partitions
    push(shard, ids(*range(1000)))
    before = group.nbytes
    assert part.store.changed.size == 0
    group.changed("copy")
    push(shard, ids(1))
    group.changed("copy", 1)
    assert group.nbytes - before <= 8 * 1000
    group.readers.forget("copy")
    assert part.store.changed.size == 0
    assert group.nbytes == before


def test_a_copy_follows_while_pulls_pushes_and_deletions_go_on() -> None:
    """Rows carry equal numbers: one that is copied while it changes would show."""
    shard = shard_of(GroupSpec("g", (TableSpec("t", 15, Sum(), Zeros()),)), threads=2)
    group, stop, failed = shard.groups["g"], threading.Event(), []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        try:
            while not stop.is_set():
                some = rng.choice(20000, 6000, replace=False).astype(np.uint64)
                push(shard, some)
                shard.pull("g", some[:100])
                group.delete(some[:300])
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(2)]
    copies = [Copy(group, str(n)) for n in range(2)]
    for thread in threads:
        thread.start()
    for n in range(40):
        found = group.changed("torn")
        values = found.rows["t"]
        assert (values.min(axis=1) == values.max(axis=1)).all()
        copies[n % 2].read(lost=n % 5 == 0)
    stop.set()
    for thread in threads:
        thread.join()
    assert not failed
    for copy in copies:
        copy.read()
        assert copy.rows == table(group)
