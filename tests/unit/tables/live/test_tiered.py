"""Tables beyond memory hold what tables in memory hold, bit by bit, whatever is done to both."""

from __future__ import annotations

import errno
import gc
import mmap
import os
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from heterps.errors import TableError
from heterps.protocol import BatchKey
from heterps.tables import (
    FTRL,
    SGD,
    Adam,
    CountEntry,
    CtrAccessor,
    GroupSpec,
    KeyedShard,
    RowGradients,
    RowWiseAdaGrad,
    Sum,
    TableSpec,
    Warmup,
    Zeros,
    restore,
    save_shard,
)
from heterps.tables.live.changed_ids import ChangedIds
from heterps.tables.live.cold_rows import DiskTier
from heterps.tables.live.hot_rows import BESIDE
from heterps.tables.live.scratch_file import ScratchFile
from heterps.tables.live.tiered import TieredPartition
from heterps.tables.snapshots.load import load_table
from heterps.tables.snapshots.records import RowBuffer
from tests.unit.tables.snapshots.test_snapshot import equal_hashes

U64 = np.ndarray[Any, np.dtype[np.uint64]]
UNIVERSE = 3_000  # ids: far more than fit into memory here, some segments of a thousand rows


@pytest.fixture(autouse=True)
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heterps.tables.live.shard.DiskTier", partial(DiskTier, block_bytes=1, compaction=1e12))


SPECS: dict[str, Callable[[], GroupSpec]] = {
    "rowwise": lambda: GroupSpec("g", (TableSpec("t", 16, RowWiseAdaGrad(0.1)),)),
    "two tables": lambda: GroupSpec(
        "g", (TableSpec("t", 3, Adam(Warmup(0.1, 5))), TableSpec("u", 1, FTRL())), create_on="push"
    ),
    "ctr": lambda: GroupSpec(
        "g", (TableSpec("t", 5, Adam(), accessor=CtrAccessor(embed=1, embedx_threshold=2, delete_threshold=0.4)),)
    ),
    "entry": lambda: GroupSpec("g", (TableSpec("t", 4, SGD(0.1), entry=CountEntry(3)),)),
    "half rowwise": lambda: GroupSpec("g", (TableSpec("t", 16, RowWiseAdaGrad(0.1), dtype="float16"),)),
    "half": lambda: GroupSpec("g", (TableSpec("t", 6, SGD(0.1), dtype="float16"),)),
    "least recent": lambda: GroupSpec("g", (TableSpec("t", 2, SGD(0.1)),), budget=900, when_full="least_recent"),
    "lowest score": lambda: GroupSpec(
        "g", (TableSpec("t", 2, SGD(0.1), accessor=CtrAccessor()),), budget=900, when_full="lowest_score"
    ),
}


class Pair:
    """The same table in memory and beyond, and what is done to both."""

    def __init__(self, spec: GroupSpec, folder: Path, threads: int = 1, hot_rows: int = 300) -> None:
        self.folder = folder
        on_disk = GroupSpec.from_json({**spec.to_json(), "storage": "ssd"})
        self.memory = KeyedShard([spec], seed=3, threads=threads)
        row = self.memory.group("g").layout.row_bytes + BESIDE
        hot_bytes = threads * hot_rows * row
        self.disk = KeyedShard([on_disk], seed=3, threads=threads, folder=folder / "rows", hot_bytes=hot_bytes)
        self.steps = 0
        self.marks: list[int | None] = [None, None]

    @property
    def both(self) -> tuple[KeyedShard, KeyedShard]:
        return self.memory, self.disk

    @property
    def parts(self) -> list[TieredPartition]:
        found = self.disk.group("g").partitions
        assert all(isinstance(part, TieredPartition) for part in found)
        return found  # type: ignore[return-value]

    def pull(self, ids: U64, train: bool = True) -> list[Any]:
        found = [shard.pull("g", ids, train=train) for shard in self.both]
        assert found[0].values.tobytes() == found[1].values.tobytes()
        return [each.rows for each in found]

    def push(self, ids: U64, gradients: Any, hints: list[Any] | None = None, **counts: Any) -> None:
        found = []
        for k, shard in enumerate(self.both):
            rows = RowGradients(ids, gradients, None if hints is None else hints[k], **counts)
            found.append(shard.push(BatchKey(0, 0, self.steps), {"g": rows}).counts)
        assert found[0] == found[1]
        self.steps += 1

    def check(self) -> None:
        assert len(self.memory.group("g")) == len(self.disk.group("g"))
        found = [rows_of(shard) for shard in self.both]
        assert found[0] == found[1]

    def changes(self) -> None:
        """Ask both what changed since the last time."""
        found = []
        for k, shard in enumerate(self.both):
            changes = shard.group("g").changed("reader", since=self.marks[k])
            self.marks[k] = changes.mark
            order = np.argsort(changes.rows["id"])
            rows = {name: array[order].tobytes() for name, array in changes.rows.items()}
            found.append((rows, sorted(changes.deleted.tolist()), changes.everything))
        assert found[0] == found[1]

    def save(self, kind: Any) -> None:
        """Save both: the same files."""
        files = []
        for name, shard in zip(("memory", "disk"), self.both, strict=True):
            done = save_shard(shard, self.folder / name, kind=kind)
            files.append({path.name: path.read_bytes() for path in done.glob("*.parquet")})
        assert files[0].keys() == files[1].keys()
        assert files[0] == files[1]

    def restore(self) -> None:
        """Restore from what the other one saved."""
        for other, shard in (("disk", self.memory), ("memory", self.disk)):
            restore(shard, self.folder / other)
        self.marks = [None, None]


def rows_of(shard: KeyedShard) -> dict[str, bytes]:
    rows = shard.group("g").changed("check").rows
    shard.group("g").readers.forget("check")
    order = np.argsort(rows["id"])
    return {name: array[order].tobytes() for name, array in rows.items()}


def play(pair: Pair, seed: int, steps: int) -> None:
    rng = np.random.default_rng(seed)
    width, saved = pair.memory.group("g").spec.width, False
    accessor = pair.memory.group("g").spec.accessor is not None

    def some(n: int) -> U64:
        return np.unique(rng.zipf(1.3, n).astype(np.uint64) * 7919 % UNIVERSE)

    for step in range(steps):
        act = rng.integers(0, 13)
        ids = rng.integers(0, UNIVERSE, 400).astype(np.uint64) if act == 0 else some(400)
        ids = np.unique(ids)
        gradients = rng.normal(size=(len(ids), width)).astype(np.float32)
        counts = {"show": np.ones(len(ids), np.float32), "click": np.float32(rng.integers(0, 2, len(ids)))}
        if act <= 4:
            hints = pair.pull(ids)
            pair.push(ids, gradients, hints if act % 2 else None, **(counts if accessor else {}))
        elif act == 5:
            pair.pull(ids, train=False)
        elif act == 6:
            assert len({shard.group("g").delete(ids[:50]) for shard in pair.both}) == 1
        elif act == 7 and accessor:
            assert len({shard.shrink() for shard in pair.both}) == 1
        elif act == 8:
            for shard in pair.both:
                shard.group("g").set_table("t", ids[:200], gradients[:200, : shard.group("g").spec.tables[0].dim])
        elif act == 9:
            pair.changes()
        elif act == 10:
            pair.save("changes" if step % 2 else "checkpoint")
            saved = True
        elif act == 11 and saved and step % 3 == 0:
            pair.restore()
        elif act == 12:
            pair.disk.prefetch("g", ids)
            for part in pair.parts:
                part.compact(0.01)
        if step % 10 == 9:
            pair.check()
    pair.check()
    for part in pair.parts:
        audit(part)


def audit(part: TieredPartition) -> None:
    """What a partition counts is what there is: rows of each segment, and nobody in two places."""
    with part.lock:
        cold, hot = part.cold.positions(), part.hot.live()
        homes = part.hot.homes(hot)
        meant = np.concatenate([cold, homes[homes >= 0]])
        live = np.bincount(meant >> part.cold.log.shift, minlength=len(part.cold.log.live))
        np.testing.assert_array_equal(part.cold.log.live, live)
        ids = np.concatenate([part.hot.ids(hot), part.ids(cold | 1 << 31)])
        assert len(np.unique(ids)) == len(ids) == len(part)
        same = homes >= 0
        np.testing.assert_array_equal(part.cold.log.read(homes[same]), part.hot.words[hot[same]])


@pytest.mark.parametrize("kind", SPECS)
def test_beyond_memory_are_the_same_bits(kind: str, tmp_path: Path) -> None:
    play(Pair(SPECS[kind](), tmp_path), 1, 30)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("kind", SPECS)
def test_beyond_memory_are_the_same_bits_for_long(
    kind: str, threads: int, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("heterps.tables.live.owners.WORTH_IT", 1)
    monkeypatch.setattr("heterps.tables.live.sorted_rows.IN_MEMORY", 1 << 16)
    play(Pair(SPECS[kind](), tmp_path, threads), 100 + seed, 150)


@pytest.fixture
def trained(tmp_path: Path) -> Pair:
    pair = Pair(SPECS["rowwise"](), tmp_path)
    ids = np.arange(UNIVERSE, dtype=np.uint64)
    pair.push(ids, np.ones((len(ids), 16), np.float32))
    return pair


def file_of(part: TieredPartition) -> int:
    return part.cold.log._file.number


def test_a_file_cut_short_is_an_error_with_a_name(trained: Pair) -> None:
    (part,) = trained.parts
    with part.lock:  # rows are moved together in the background
        part.cold.log._land(0)  # what is being written would make the file long again
    os.ftruncate(file_of(part), 4096)
    with pytest.raises(TableError, match=r"rows in .*rows was cut short: it has 4096 bytes.*last checkpoint"):
        trained.disk.pull("g", np.arange(UNIVERSE, dtype=np.uint64))


def test_a_disk_that_fails_is_an_error_with_a_name(trained: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: object) -> int:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("os.pwrite", broken)
    ids = np.arange(10 * UNIVERSE, dtype=np.uint64)
    gradients = RowGradients(ids, np.ones((len(ids), 16), np.float32))
    with pytest.raises(TableError, match=r"cannot write table rows in .*: Input/output error at byte"):
        trained.disk.push(BatchKey(1, 0, 0), {"g": gradients})


def test_a_folder_that_cannot_be_used_is_an_error_with_a_name(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    spec = GroupSpec("g", (TableSpec("t", 2),), storage="ssd")
    with pytest.raises(TableError, match=r"cannot keep table rows in .*file"):
        KeyedShard([spec], folder=tmp_path / "file" / "below")


def test_files_have_no_name_and_go_with_the_tables(trained: Pair) -> None:
    (number,) = [file_of(part) for part in trained.parts]
    assert not list((trained.folder / "rows").iterdir())
    del trained.disk
    gc.collect()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(number)


def test_an_index_of_few_rows_takes_a_cell_for_each(tmp_path: Path) -> None:
    """And of many 7 bytes a row (the test of the index)."""
    pair = Pair(SPECS["rowwise"](), tmp_path)
    group = pair.disk.group("g")
    for first in range(0, 200_000, 20_000):
        ids = np.arange(first, first + 20_000, dtype=np.uint64)
        zeros = np.zeros((len(ids), 16), np.float32)
        group.append({"id": ids, "t": zeros, "t.slots": zeros[:, :1]})
        assert pair.parts[0].cold.nbytes <= 9_000_000
    group.build_index()


def test_rows_used_most_stay_in_memory(tmp_path: Path) -> None:
    """A hand that asks only whether a row was used since it passed has 1.5 times the fewest misses that there are."""
    rows, hot, rng = 8_000, 1_000, np.random.default_rng(1)
    spec = GroupSpec("g", (TableSpec("t", 2, SGD(0.1)),), storage="ssd")
    shard = KeyedShard([spec], folder=tmp_path, hot_bytes=hot * (spec.width * 4 + 8 + BESIDE))
    shard.pull("g", np.arange(rows, dtype=np.uint64))
    (part,) = shard.group("g").partitions
    assert isinstance(part, TieredPartition)
    misses, fewest, take_in = [0], 0, part._take_in

    def counted(words: Any, *rest: Any) -> int:
        misses[0] += len(words)
        return take_in(words, *rest)

    part._take_in = counted  # type: ignore[method-assign]
    for step in range(2000):
        ranks = ((1 + rng.random(40) * (float(rows) ** -0.1 - 1)) ** -10 - 1).astype(np.uint64)
        ids = np.unique(ranks)
        if step == 1000:
            misses, fewest = [0], 0
        fewest += int((ids >= part.capacity).sum())
        shard.pull("g", ids)
    assert misses[0] < 1.22 * fewest, "1.25 where counts are not taken along"


@pytest.mark.parametrize(("first", "second"), [(5, 6), (5, 900), (800, 900)])
def test_an_id_with_two_rows_is_refused(first: int, second: int, tmp_path: Path) -> None:
    """Both in memory, one of them on disk, both there: memory takes the first 300 rows."""
    pair = Pair(SPECS["rowwise"](), tmp_path)
    group, ids = pair.disk.group("g"), np.arange(1000, dtype=np.uint64)
    ids[second] = ids[first]
    for some in np.split(ids, 10):
        zeros = np.zeros((len(some), 16), np.float32)
        group.append({"id": some, "t": zeros, "t.slots": zeros[:, :1]})
    with pytest.raises(TableError, match=f"id {first} has two rows"):
        group.build_index()


def test_restored_rows_are_in_memory_while_there_is_room(tmp_path: Path) -> None:
    """The index of rows on disk does not grow for those that will be in memory."""
    pair = Pair(SPECS["rowwise"](), tmp_path)
    group, (part,) = pair.disk.group("g"), pair.parts
    for some in np.split(np.arange(1000, dtype=np.uint64), 10):
        values = np.repeat(some[:, None], 16, 1).astype(np.float32)
        group.append({"id": some, "t": values, "t.slots": values[:, :1]})
    group.build_index()
    assert (len(part.hot), len(part.cold)) == (part.capacity, 1000 - part.capacity)
    np.testing.assert_array_equal(pair.disk.pull("g", np.arange(1000), train=False).values[:, 3], np.arange(1000))
    audit(part)


def test_rows_of_long_groups_have_no_odd_word_on_disk(tmp_path: Path) -> None:
    pair = Pair(SPECS["rowwise"](), tmp_path)
    assert [shard.group("g").layout.row_bytes for shard in pair.both] == [80, 76]


def test_rows_that_did_not_change_are_not_written_again(trained: Pair) -> None:
    log = trained.parts[0].cold.log
    trained.disk.pull("g", np.arange(UNIVERSE, dtype=np.uint64), train=False)  # all that changed are on disk by now
    before = log.live.copy()
    written = log.traffic.written
    for _ in range(5):
        trained.disk.pull("g", np.arange(UNIVERSE, dtype=np.uint64), train=False)
    assert log.traffic.written == written
    assert log.live.tolist() == before.tolist()


def test_a_log_stays_small_however_often_rows_change(trained: Pair) -> None:
    rng = np.random.default_rng(0)
    (part,) = trained.parts
    for _ in range(15):  # which would leave hardly a segment without rows
        ids = np.sort(rng.permutation(UNIVERSE)[:1000]).astype(np.uint64)
        trained.push(ids, np.ones((len(ids), 16), np.float32))
        while part.compact(0.3):
            pass
    assert part.cold.log.extent <= 3 * UNIVERSE
    trained.check()
    audit(part)


def test_rows_that_move_on_disk_while_they_are_read_are_not_new_ones(
    trained: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    (part,) = trained.parts
    log, read, moved = part.cold.log, part.cold.log.read, list[int]()

    def moving(positions: Any) -> Any:
        words = read(positions)
        if threading.current_thread() is threading.main_thread() and not moved:
            with part.lock:  # as compaction does
                moved.append(part._move(words, positions))
        return words

    monkeypatch.setattr(log, "read", moving)
    trained.pull(np.arange(0, UNIVERSE, 40, dtype=np.uint64))
    assert moved[0]
    trained.check()


def test_changes_write_what_changed(trained: Pair) -> None:
    """A cut after few changes has few rows, wherever these are by now."""
    trained.save("changes")
    some = np.arange(0, UNIVERSE, 10, dtype=np.uint64)
    trained.push(some, np.ones((len(some), 16), np.float32))
    trained.pull(np.arange(UNIVERSE, dtype=np.uint64), train=False)  # they leave memory
    with trained.disk.cut("reader", moment="a") as cut:
        assert sum(cut.groups["g"].rows(shard) for shard in range(1024)) == UNIVERSE
    trained.push(some[:7], np.ones((7, 16), np.float32))
    trained.pull(np.arange(UNIVERSE, dtype=np.uint64), train=False)
    with trained.disk.cut("reader", moment="b", since="a") as cut:
        assert sum(cut.groups["g"].rows(shard) for shard in range(1024)) == 7
    trained.save("changes")


def test_a_cut_is_what_was_while_training_goes_on(trained: Pair) -> None:
    """Rows change, leave memory and move on disk between the cut and its reading."""
    ids = np.arange(UNIVERSE, dtype=np.uint64)
    wanted = rows_of(trained.disk)
    with trained.disk.cut() as cut:
        for n in range(4):
            trained.push(ids, np.full((UNIVERSE, 16), n + 1, np.float32))
            for shard in trained.both:
                shard.group("g").delete(ids[n::10])
            for part in trained.parts:
                part.compact(0.01)
        layout = trained.disk.group("g").layout
        buffer = RowBuffer(layout, np.empty(500 * layout.stride, np.uint32))
        pieces = [
            {name: array.copy() for name, array in buffer.columns(n).items()}
            for n in cut.groups["g"].read(range(1024), buffer)
        ]
    rows = {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}
    order = np.argsort(rows["id"])
    assert {name: array[order].tobytes() for name, array in rows.items()} == wanted


def test_several_threads_pull_push_and_read_at_once(tmp_path: Path) -> None:
    """Each adds ones to ids of its own and of all: nothing is lost, nothing counts twice."""
    spec = GroupSpec("g", (TableSpec("t", 4, Sum(), Zeros()),), storage="ssd")
    shard = KeyedShard([spec], folder=tmp_path, hot_bytes=300 * 60)
    rounds, n = 6, 4

    def work(thread: int) -> None:
        rng = np.random.default_rng(thread)
        for k in range(rounds):
            ids = rng.permutation(2000).astype(np.uint64)
            shard.prefetch("g", ids[:100])
            shard.pull("g", ids)
            shard.push(BatchKey(0, thread, k), {"g": RowGradients(ids, np.ones((2000, 4), np.float32))})

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    values = shard.pull("g", np.arange(2000, dtype=np.uint64), train=False).values
    np.testing.assert_array_equal(values, rounds * n)
    audit(shard.group("g").partitions[0])  # type: ignore[arg-type]


def test_warm_starts_and_restores_of_more_rows_than_memory(trained: Pair, tmp_path: Path) -> None:
    trained.save("checkpoint")
    other = Pair(SPECS["rowwise"](), tmp_path / "other")
    for shard in other.both:
        assert load_table(shard, tmp_path / "memory", "t") == UNIVERSE
    other.check()


def test_too_many_changes_are_everything() -> None:
    changes = ChangedIds(1)
    changes.change(np.arange(70_000, dtype=np.uint64), 100)
    changes.close(2, np.empty(0, np.uint64), 100)
    assert changes.since(1) is None
    changes.change(np.arange(10, dtype=np.uint64), 100)
    changes.close(3, np.arange(8, 12, dtype=np.uint64), 100)
    found = changes.since(2)
    assert found is not None
    assert found.changed.tolist() == list(range(12))


def test_ids_of_one_hash_are_told_apart(tmp_path: Path) -> None:
    """The index knows half of a hash; the ids are on disk."""
    pair = Pair(SPECS["rowwise"](), tmp_path, hot_rows=64)
    same = equal_hashes(300)
    pair.push(same[:200], np.arange(3200, dtype=np.float32).reshape(200, 16))
    pair.pull(np.arange(500, dtype=np.uint64))  # they leave memory
    pair.pull(same, train=False)
    pair.push(same[150:250], np.ones((100, 16), np.float32))
    for shard in pair.both:
        assert shard.group("g").delete(same[::3]) == 84
    pair.pull(same)
    pair.check()
    pair.save("checkpoint")
    audit(pair.parts[0])


def test_a_file_that_grows_while_it_is_looked_at_was_not_cut_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, look = ScratchFile(tmp_path), os.fstat
    file.allocate(0, 4096)

    def meanwhile(number: int) -> os.stat_result:
        found = look(number)
        monkeypatch.setattr("os.fstat", look)
        file.allocate(4096, 4096)  # as another thread does
        return found

    monkeypatch.setattr("os.fstat", meanwhile)
    file.write(np.frombuffer(mmap.mmap(-1, 4096), np.uint32), 0)
