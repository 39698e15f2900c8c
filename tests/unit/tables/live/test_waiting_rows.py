"""Rows that take no room for waiting columns are what rows with room for them are, bit by bit, whatever is done."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from heterps.protocol import BatchKey
from heterps.tables import (
    FTRL,
    SGD,
    AdaGrad,
    Adam,
    CountEntry,
    CtrAccessor,
    GroupSpec,
    KeyedShard,
    Momentum,
    RowGradients,
    RowWiseAdaGrad,
    Snapshots,
    TableSpec,
    Uniform,
    Warmup,
    restore,
    write_part,
)
from heterps.tables.live.partition import RowPartition
from heterps.tables.live.row_layout import RowLayout
from heterps.tables.live.twin import RowsOut, take_rows
from heterps.tables.live.waiting_rows import WaitingPartition
from tests.unit.tables.live.test_tiered import Pair, play, rows_of

CTR = CtrAccessor(embed=1, embedx_threshold=2, delete_threshold=0.4)


def ctr(table: TableSpec, *others: TableSpec, **group: Any) -> GroupSpec:
    return GroupSpec("g", (table, *others), **group)


SPECS: dict[str, Callable[[], GroupSpec]] = {
    "adagrad": lambda: ctr(TableSpec("t", 9, AdaGrad(0.1), accessor=CTR)),
    "rules of their own": lambda: ctr(
        TableSpec(
            "t", 17, SGD(0.1), accessor=CtrAccessor(embed=3, embedx_threshold=2, embedx_rule=Adam(Warmup(0.1, 9)))
        )
    ),
    "nothing but counters": lambda: ctr(
        TableSpec("t", 6, RowWiseAdaGrad(0.1), Uniform(0.3), accessor=CtrAccessor(embed=0, embedx_threshold=2))
    ),
    "two tables": lambda: ctr(TableSpec("t", 3, FTRL(), accessor=CTR), TableSpec("u", 5, Momentum(0.1), accessor=CTR)),
    "one of two waits": lambda: ctr(TableSpec("t", 2, SGD(0.1)), TableSpec("u", 5, AdaGrad(0.1), accessor=CTR)),
    "half": lambda: ctr(TableSpec("t", 8, AdaGrad(0.1), dtype="float16", accessor=CTR)),
    "entry": lambda: ctr(TableSpec("t", 4, SGD(0.1), entry=CountEntry(3), accessor=CTR)),
    "least recent": lambda: ctr(TableSpec("t", 5, SGD(0.1), accessor=CTR), budget=900, when_full="least_recent"),
    "lowest score": lambda: ctr(TableSpec("t", 5, SGD(0.1), accessor=CTR), budget=900, when_full="lowest_score"),
}


class Beside(Pair):
    """The same table with room for all columns in every row (``memory``) and in those that have them (``disk``)."""

    def __init__(self, spec: GroupSpec, folder: Path, threads: int = 1) -> None:
        self.folder, self.steps, self.marks = folder, 0, [None, None]
        self.disk = KeyedShard([spec], seed=3, threads=threads)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(RowLayout, "waits", False)
            self.memory = KeyedShard([spec], seed=3, threads=threads)
        assert all(isinstance(part, RowPartition) for part in self.memory.group("g").partitions)
        assert all(isinstance(part, WaitingPartition) for part in self.disk.group("g").partitions)

    @property
    def parts(self) -> list[Any]:
        return []

    def restore(self) -> None:
        restore(self.disk, self.folder / "memory")
        with pytest.MonkeyPatch.context() as patch:  # what is restored into is made anew
            patch.setattr(RowLayout, "waits", False)
            restore(self.memory, self.folder / "disk")
        self.marks = [None, None]


@pytest.mark.parametrize("name", SPECS)
def test_short_rows_give_the_bits_of_whole_ones(name: str, tmp_path: Path) -> None:
    pair = Beside(SPECS[name](), tmp_path)
    play(pair, seed=sum(map(ord, name)), steps=25)
    (part,) = pair.disk.group("g").partitions
    assert isinstance(part, WaitingPartition)
    assert name == "entry" or len(part.long) > 0 < len(part.short)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", SPECS)
def test_short_rows_give_the_bits_of_whole_ones_for_long(
    name: str, threads: int, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("heterps.tables.live.owners.WORTH_IT", 1)
    play(Beside(SPECS[name](), tmp_path, threads), 100 + seed, 150)


@pytest.mark.parametrize("name", ["adagrad", "half"])
def test_a_cut_holds_rows_that_become_whole_while_it_is_read(name: str, tmp_path: Path) -> None:
    pair = Beside(SPECS[name](), tmp_path)
    ids, width = np.arange(500, dtype=np.uint64), pair.memory.group("g").spec.width
    counts: dict[str, Any] = {"show": np.ones(500, np.float32), "click": np.ones(500, np.float32)}
    pair.push(ids, np.ones((500, width), np.float32), **counts)
    before = rows_of(pair.disk)
    cuts = [shard.cut() for shard in pair.both]
    pair.push(ids[100:], np.ones((400, width), np.float32), **{key: some[100:] for key, some in counts.items()})
    assert len(pair.disk.group("g").partitions[0].long) == 400  # type: ignore[union-attr]
    files = []
    for cut, each in zip(cuts, ("a", "b"), strict=True):
        files.append(written(cut, tmp_path / each))
        cut.end()
    assert files[0] == files[1]
    assert before != rows_of(pair.disk) == rows_of(pair.memory)


def written(cut: Any, folder: Path) -> list[bytes]:
    made = Snapshots(folder).begin()
    write_part(cut, made, kind="checkpoint", host=0)
    return [path.read_bytes() for path in sorted(Path(made).glob("*.parquet"))]


def test_a_twin_takes_no_more_room_and_holds_the_same(tmp_path: Path) -> None:
    pair = Beside(SPECS["adagrad"](), tmp_path)
    play(pair, seed=5, steps=30)
    twin = KeyedShard([SPECS["adagrad"]()], seed=3)
    out = RowsOut(pair.disk, "twin")
    for _ in range(2):
        for some in out.read(100):
            take_rows(twin, some)
        ids = np.arange(300, dtype=np.uint64)
        pair.push(ids, np.ones((300, 9), np.float32), show=np.ones(300, np.float32), click=np.ones(300, np.float32))
    for some in out.read(100):
        take_rows(twin, some)
    assert rows_of(twin) == rows_of(pair.disk)
    assert twin.group("g").nbytes < 1.1 * pair.disk.group("g").nbytes


def test_rows_that_wait_take_no_bytes_for_their_columns() -> None:
    """Nine of ten ids are shown once: their rows take what id, embed, its slot and counters take."""
    spec = ctr(TableSpec("t", 33, AdaGrad(0.1), accessor=CtrAccessor(embed=1, embedx_threshold=5)))
    shard = KeyedShard([spec])
    ids = np.arange(10_000, dtype=np.uint64)
    for n, some in enumerate((ids, ids[:1000])):
        clicks = np.full(len(some), 9.0 if n else 0.0, np.float32)
        gradients = RowGradients(some, np.ones((len(some), 33), np.float32), show=clicks + 1, click=clicks)
        shard.push(BatchKey(0, 0, n), {"g": gradients})
    (part,) = shard.group("g").partitions
    assert isinstance(part, WaitingPartition)
    assert (len(part.long), len(part.short)) == (1_000, 9_000)
    assert part.short.layout.row_bytes == 4 * (2 + 1 + 1 + 5)
    assert part.short.high == 10_000  # room of those that became whole is for the next new ids


def test_an_id_that_lost_its_whole_row_and_has_a_short_one_is_not_told_as_deleted(tmp_path: Path) -> None:
    pair = Beside(SPECS["adagrad"](), tmp_path)
    ids, counts = np.arange(20, dtype=np.uint64), np.full(20, 5, np.float32)
    pair.push(ids, np.ones((20, 9), np.float32), show=counts, click=counts)
    pair.changes()
    for shard in pair.both:
        assert shard.group("g").delete(ids[:10]) == 10
    pair.pull(ids[:5])
    assert shard.group("g").readers.deleted_since(pair.marks[1] or 0).tolist() == [5, 6, 7, 8, 9]
    pair.changes()
