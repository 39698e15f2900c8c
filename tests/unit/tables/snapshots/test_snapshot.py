"""Snapshots: exact, readable by ordinary tools, whole or absent, and damage is named."""

from __future__ import annotations

import json
import os
import resource
import signal
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from heterps.errors import CheckpointError, TableFullError
from heterps.protocol import BatchKey, Window, deal_shards, owned_by
from heterps.tables import (
    SGD,
    AdaGrad,
    Adam,
    CountEntry,
    CtrAccessor,
    DenseSpec,
    GroupSpec,
    KeyedShard,
    Manifest,
    Normal,
    RowGradients,
    RowWiseAdaGrad,
    SnapshotPart,
    Snapshots,
    TableSpec,
    Uniform,
    find_generation,
    load_table,
    restore,
    save_shard,
    verify,
    write_part,
)
from heterps.tables.hashing import mix, shards_of
from heterps.tables.live.shard_cut import GroupCut
from heterps.tables.loops.row_loops import NO_ROW
from heterps.tables.snapshots.load import read_rows
from heterps.tables.snapshots.records import RowBuffer
from heterps.tables.snapshots.snapshot import DENSE

GROUPS = (
    GroupSpec("ids", (TableSpec("wide", 1, SGD(0.1)), TableSpec("deep", 8, Adam(0.1), Uniform(0.1)))),
    GroupSpec("ctr", (TableSpec("ctr", 4, RowWiseAdaGrad(), Normal(0.1), accessor=CtrAccessor(), dtype="float16"),)),
    GroupSpec("rare", (TableSpec("rare", 2, SGD(), entry=CountEntry(2)),), n_shards=16),
)
DENSE_SPECS = (DenseSpec("w", (4, 3), Adam(), Normal(0.1)), DenseSpec("b", (3,), SGD()))
ONES = np.ones((50, 2), np.float32)
WIDTHS = {group.name: group.width for group in GROUPS}


def batch(seed: int, n: int = 60, top: int = 400) -> dict[str, RowGradients]:
    rng = np.random.default_rng(seed)
    out = {}
    for name, width in WIDTHS.items():
        ids = rng.choice(top, n, replace=False).astype(np.uint64)
        show = rng.integers(1, 5, n).astype(np.float32)
        grads = rng.normal(size=(n, width)).astype(np.float32)
        out[name] = RowGradients(ids, grads, None, show, np.minimum(show, 1))
    return out


def dense_batch(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=15).astype(np.float32)


def train(shard: KeyedShard, first: int, last: int) -> None:
    for n in range(first, last):
        shard.push(BatchKey(0, 0, n), batch(n), dense_batch(n))


def rows_of(group: GroupCut) -> dict[str, np.ndarray]:
    """All rows of a group at a cut, as columns."""
    owned, layout = group.group.owned, group.group.layout
    n = sum(map(group.rows, owned))
    buffer = RowBuffer(layout, np.empty(2 * (n + 1) * layout.stride, np.uint32))
    assert sum(group.read(owned, buffer)) == n
    return buffer.columns(n)


def contents(*shards: KeyedShard) -> dict[str, dict[int, bytes]]:
    """Everything a set of shards holds, by group and id, as bytes."""
    out: dict[str, dict[int, bytes]] = {}
    for shard in shards:
        with shard.cut() as cut:
            for name, group in cut.groups.items():
                columns = rows_of(group)
                rows = np.concatenate([array.reshape(len(array), -1).view(np.uint32) for array in columns.values()], 1)
                out.setdefault(name, {}).update(zip(columns["id"].tolist(), map(bytes, rows), strict=True))
    return out


def new_shard(owned: object = None, **kwargs: object) -> KeyedShard:
    return KeyedShard(GROUPS, DENSE_SPECS, seed=7, owned=owned, **kwargs)  # type: ignore[arg-type]


@pytest.fixture
def trained() -> KeyedShard:
    shard = new_shard()
    train(shard, 0, 6)
    return shard


def split_owned(n: int) -> list[dict[str, list[int]]]:
    return [{group.name: list(owned_by(deal_shards(group.n_shards, n), h)) for group in GROUPS} for h in range(n)]


def test_restore_is_exact_and_training_goes_on_as_if_nothing_happened(trained: KeyedShard, tmp_path: Path) -> None:
    save_shard(trained, tmp_path, position={"split": 3})
    other = new_shard(threads=1)
    manifest = restore(other, tmp_path)
    assert manifest.position == {"split": 3}
    assert contents(other) == contents(trained)
    assert other.window == trained.window
    assert other.version == trained.version
    for shard in (trained, other):
        train(shard, 4, 9)
    assert contents(other) == contents(trained)
    np.testing.assert_array_equal(other.pull_dense(), trained.pull_dense())


@pytest.mark.parametrize("hosts", [1, 2, 3, 7])
def test_restore_onto_any_number_of_hosts_and_back(trained: KeyedShard, tmp_path: Path, hosts: int) -> None:
    save_shard(trained, tmp_path / "one")
    shards = [new_shard(owned) for owned in split_owned(hosts)]
    for shard in shards:
        restore(shard, tmp_path / "one")
    assert contents(*shards) == contents(trained)
    snapshots = Snapshots(tmp_path / "many")
    folder, parts = snapshots.begin(), []
    for h, shard in enumerate(shards):
        with shard.cut() as cut:
            parts.append(SnapshotPart.from_json(json.loads(json.dumps(write_part(cut, folder, host=h).to_json()))))
    snapshots.commit(folder, parts, ledger=trained.window, seed=7, groups=GROUPS, dense=DENSE_SPECS)
    single = new_shard()
    restore(single, tmp_path / "many")
    assert contents(single) == contents(trained)
    assert single.window == trained.window


def test_a_cut_is_one_moment_while_training_goes_on(trained: KeyedShard, tmp_path: Path) -> None:
    before, dense_before, window = contents(trained), trained.pull_dense(), trained.window.copy()
    snapshots = Snapshots(tmp_path)
    folder = snapshots.begin()
    with trained.cut() as cut:
        train(trained, 6, 12)
        trained.shrink()
        trained.groups["ids"].delete(np.arange(0, 400, 3))
        train(trained, 12, 14)
        part = write_part(cut, folder)
    assert cut.window is not None
    snapshots.commit(folder, [part], ledger=cut.window, seed=7, groups=GROUPS, dense=DENSE_SPECS)
    after = contents(trained)
    assert after != before
    other = new_shard()
    restore(other, tmp_path)
    assert contents(other) == before
    np.testing.assert_array_equal(other.pull_dense(), dense_before)
    assert other.window == window
    train(other, 6, 12)
    assert contents(trained) == after


def test_a_cut_under_threads_holds_whole_batches(tmp_path: Path) -> None:
    """Two threads add 1 to every value of all rows; at any cut all rows and the dense part have the same number."""
    from heterps.tables import Sum, Zeros

    group = GroupSpec("g", (TableSpec("t", 4, Sum(), Zeros()),))
    shard = KeyedShard([group], [DenseSpec("w", (5,), Sum())])
    ids, stop = np.arange(3000, dtype=np.uint64), threading.Event()
    shard.pull("g", ids)

    def work(lane: int) -> None:
        n = 0
        while not stop.is_set():
            shard.push(
                BatchKey(0, lane, n), {"g": RowGradients(ids, np.ones((3000, 4), np.float32))}, np.ones(5, np.float32)
            )
            n += 1

    threads = [threading.Thread(target=work, args=(lane,)) for lane in range(2)]
    for thread in threads:
        thread.start()
    seen = []
    for k in range(4):
        save_shard(shard, tmp_path / str(k))
        other = KeyedShard([group], [DenseSpec("w", (5,), Sum())])
        restore(other, tmp_path / str(k))
        values = other.pull("g", ids).values
        assert values.min() == values.max() == other.pull_dense()[0] == len(other.window)
        seen.append(values[0, 0])
    stop.set()
    for thread in threads:
        thread.join()
    assert seen == sorted(seen)


def test_only_one_cut_at_a_time(trained: KeyedShard) -> None:
    with trained.cut(), pytest.raises(Exception, match="writing a cut already"):
        trained.cut()
    with trained.cut():
        pass


def test_ordinary_tools_read_the_rows(trained: KeyedShard, tmp_path: Path) -> None:
    folder = save_shard(trained, tmp_path)
    file = Manifest.read(folder).files_of("ids")[0]
    path = folder / file.name
    ids = np.sort(pq.read_table(path).column("id").to_numpy())
    values = trained.pull("ids", ids, train=False).values
    frame = pd.read_parquet(path).sort_values("id")
    np.testing.assert_array_equal(np.stack(frame["deep"].tolist()), values[:, 1:])
    got = duckdb.sql(f"select id, wide[1] as w, len(deep) as n from '{path}' order by id").fetchall()
    assert [row[0] for row in got] == ids.tolist()
    np.testing.assert_array_equal(np.array([row[1] for row in got], np.float32), values[:, 0])
    assert {row[2] for row in got} == {8}
    assert set(frame.columns) == {"id", "wide", "deep", "deep.slots"}
    dense = pd.read_parquet(folder / Manifest.read(folder).files_of(DENSE)[0].name)
    assert dense["name"].tolist() == ["w", "b"]


def test_files_hold_the_logical_shards_they_say(
    trained: KeyedShard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("heterps.tables.snapshots.snapshot.FILE_BYTES", 5000)
    monkeypatch.setattr("heterps.tables.snapshots.snapshot.ROW_GROUP_BYTES", 2000)
    folder = save_shard(trained, tmp_path)
    manifest = Manifest.read(folder)
    files = manifest.files_of("ids")
    assert len(files) > 3
    for file in files:
        shards = shards_of(read_rows(folder, file)["id"], 1024)
        assert len(shards) == file.rows
        assert ((shards >= file.first) & (shards <= file.last)).all()
    other = new_shard()
    restore(other, tmp_path)
    assert contents(other) == contents(trained)


def equal_hashes(n: int) -> np.ndarray:
    """Ids of one logical shard whose hashes have the same upper half: the hash run backwards."""

    def undo(z: int, shift: int) -> int:
        out = z
        for _ in range(64 // shift + 1):
            out = z ^ out >> shift
        return out

    def id_of(h: int) -> int:
        z = undo(h, 31) * pow(0x94D049BB133111EB, -1, 2**64) % 2**64
        z = undo(z, 27) * pow(0xBF58476D1CE4E5B9, -1, 2**64) % 2**64
        return (undo(z, 30) - 0x9E3779B97F4A7C15) % 2**64

    return np.array([id_of(7 << 32 | k << 10 | 5) for k in range(n)], np.uint64)


def test_the_order_of_rows_depends_on_the_ids_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """By logical shard, then hash; ids of equal hash by id. Whatever the order in which they came, and the turns."""
    same, rng = equal_hashes(20), np.random.default_rng(0)
    assert {int(mix(np.uint64(i))) >> 32 for i in same} == {7}
    ids = np.concatenate([same, rng.integers(0, 2**63, 3000, dtype=np.uint64)])
    for turn in (8192, 7):
        monkeypatch.setattr("heterps.tables.live.part_cut.TURN", turn)
        shard = KeyedShard([GroupSpec("g", (TableSpec("t", 2, SGD()),))])
        shard.pull("g", rng.permutation(ids))
        with shard.cut() as cut:
            shard.groups["g"].delete(same[::2])
            found = rows_of(cut.groups["g"])["id"]
        hashes = np.array([int(mix(np.uint64(i))) for i in ids], np.uint64)
        wanted = np.lexsort((ids, hashes >> np.uint64(32), hashes % np.uint64(1024)))
        np.testing.assert_array_equal(found, ids[wanted])


def test_an_id_saved_by_two_hosts_is_refused(tmp_path: Path) -> None:
    folder, shards = Snapshots(tmp_path).begin(), [new_shard(), new_shard()]
    parts = []
    for host, shard in enumerate(shards):
        train(shard, 0, 1)
        with shard.cut() as cut:
            parts.append(write_part(cut, folder, host=host))
    Snapshots(tmp_path).commit(folder, parts, ledger=Window(), seed=7, groups=GROUPS, dense=DENSE_SPECS)
    with pytest.raises(CheckpointError, match=r"id \d+ has two rows"):
        restore(new_shard(), tmp_path)


def test_restore_keeps_to_a_budget_that_was_lowered(tmp_path: Path) -> None:
    def shard(**options: Any) -> KeyedShard:
        return KeyedShard([GroupSpec("g", (TableSpec("t", 2, SGD()),), **options)])

    full = shard(when_full="least_recent", budget=100)
    for first in (0, 50):
        full.push(BatchKey(0, 0, first), {"g": RowGradients(np.arange(first, first + 50, dtype=np.uint64), ONES)})
    save_shard(full, tmp_path)
    less = shard(when_full="least_recent", budget=60)
    restore(less, tmp_path)
    assert (less.group("g").find(np.arange(100, dtype=np.uint64)) == NO_ROW).nonzero()[0].tolist() == [*range(40)]
    with pytest.raises(TableFullError, match="holds 100 of at most 60 rows"):
        restore(shard(budget=60), tmp_path)


def test_delta_and_base_saves(trained: KeyedShard, tmp_path: Path) -> None:
    everything = save_shard(trained, tmp_path / "all")
    base = save_shard(trained, tmp_path / "base", kind="base")
    assert 0 < Manifest.read(base).rows("ctr") < Manifest.read(everything).rows("ctr")
    assert "ctr.slots" not in read_rows(base, Manifest.read(base).files_of("ctr")[0])
    delta = save_shard(trained, tmp_path / "delta", kind="delta")
    assert Manifest.read(delta).rows("ctr") == 0  # the base save began a new delta
    ids = np.array([1, 2], np.uint64)
    many = RowGradients(ids, np.ones((2, 4), np.float32), None, np.full(2, 90, np.float32), np.full(2, 9, np.float32))
    trained.push(BatchKey(0, 0, 99), {"ctr": many})
    delta = save_shard(trained, tmp_path / "delta", kind="delta")
    saved = read_rows(delta, Manifest.read(delta).files_of("ctr")[0])["id"]
    assert saved.tolist() == ids[np.argsort(shards_of(ids, 1024))].tolist()
    with pytest.raises(CheckpointError, match="delta save: it has no optimiser state"):
        restore(new_shard(), tmp_path / "delta")


def test_load_of_one_table_and_warm_start(trained: KeyedShard, tmp_path: Path) -> None:
    save_shard(trained, tmp_path)
    ids = np.arange(400, dtype=np.uint64)
    present = ids[trained.groups["ids"].find(ids) != 2**32 - 1]
    expected = trained.pull("ids", present, train=False).values[:, 1:]
    model = GroupSpec(
        "other", (TableSpec("left", 2, SGD(), Uniform(0.5)), TableSpec("right", 8, Adam(0.1), Uniform(0.5)))
    )
    for owned in (None, list(range(0, 1024, 2))):
        shard, fresh = KeyedShard([model], seed=1, owned=owned), KeyedShard([model], seed=1, owned=owned)
        mine = present if owned is None else present[shards_of(present, 1024) % 2 == 0]
        assert load_table(shard, tmp_path, "deep", into="right") == len(mine)
        values = shard.pull("other", mine, train=False).values
        np.testing.assert_array_equal(values[:, 2:], expected[np.isin(present, mine)])
        np.testing.assert_array_equal(values[:, :2], fresh.pull("other", mine).values[:, :2])
    with pytest.raises(CheckpointError, match="has no table 'nothing'"):
        load_table(shard, tmp_path, "nothing")
    with pytest.raises(CheckpointError, match="this model has no table 'wide'"):
        load_table(shard, tmp_path, "wide")
    with pytest.raises(CheckpointError, match="has dim 8, 'left' here has 2"):
        load_table(shard, tmp_path, "deep", into="left")


def test_two_generations_are_kept(trained: KeyedShard, tmp_path: Path) -> None:
    for n in range(4):
        train(trained, 10 + n, 11 + n)
        save_shard(trained, tmp_path)
    assert [path.name for path in Snapshots(tmp_path).generations()] == ["00000003", "00000004"]
    assert find_generation(tmp_path).name == "00000004"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["00000003", "00000004"]


def test_another_model_is_refused_by_name(trained: KeyedShard, tmp_path: Path) -> None:
    save_shard(trained, tmp_path)
    changed = GroupSpec("ids", (TableSpec("wide", 1, AdaGrad(0.1)), TableSpec("deep", 8, Adam(0.1), Uniform(0.1))))
    with pytest.raises(
        CheckpointError, match=r"group 'ids' was saved as wide\[1\] float32 SGD.*this model has.*AdaGrad"
    ):
        restore(KeyedShard([changed], seed=7), tmp_path)
    with pytest.raises(CheckpointError, match="seed 7, this run has 8"):
        restore(KeyedShard(GROUPS, seed=8), tmp_path)
    with pytest.raises(CheckpointError, match=r"'b' was saved as \(3,\), this model has \(4,\)"):
        restore(KeyedShard(GROUPS, [DENSE_SPECS[0], DenseSpec("b", (4,), SGD())], seed=7), tmp_path)
    with pytest.raises(CheckpointError, match="no dense parameters \\['other'\\]"):
        restore(KeyedShard(GROUPS, [DenseSpec("other", (2,))], seed=7), tmp_path)


def test_another_format_is_refused(trained: KeyedShard, tmp_path: Path) -> None:
    folder = save_shard(trained, tmp_path)
    data = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(data | {"format": 99}))
    with pytest.raises(CheckpointError, match="snapshot format 99; this version reads 1"):
        restore(new_shard(), tmp_path)


def test_every_flipped_bit_and_every_truncation_is_named(trained: KeyedShard, tmp_path: Path) -> None:
    save_shard(trained, tmp_path)
    folder = save_shard(trained, tmp_path)
    rng = np.random.default_rng(0)
    for path in sorted(folder.iterdir()):
        original = path.read_bytes()
        spots = rng.integers(0, len(original), 12).tolist()
        damaged = [original[:i] + bytes([original[i] ^ 1 << int(rng.integers(8))]) + original[i + 1 :] for i in spots]
        for data in (*damaged, original[: len(original) // 2], b""):
            path.write_bytes(data)
            with pytest.raises(CheckpointError, match=path.name) as error:
                restore(new_shard(), tmp_path)
            assert "00000001" in str(error.value)  # the previous generation is offered
            with pytest.raises(CheckpointError, match=path.name):
                verify(tmp_path)
        path.write_bytes(original)
    verify(tmp_path)


def test_nothing_in_a_snapshot_is_unpickled(
    trained: KeyedShard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pickle

    save_shard(trained, tmp_path)

    def forbidden(*args: object, **kwargs: object) -> None:
        raise AssertionError("unpickled")

    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, name, forbidden)
    restore(new_shard(), tmp_path)


def in_child(work: Callable[[], None]) -> int:
    """Run in a forked child and return its exit code (negative: killed by a signal)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException:
            os._exit(3)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def die_at(n: int) -> None:
    """Kill this process at the n-th act on the disk, before the act."""
    acts = {"count": 0}

    def wrap(module: object, name: str) -> None:
        real = getattr(module, name)

        def act(*args: object, **kwargs: object) -> object:
            acts["count"] += 1
            if acts["count"] == n:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args, **kwargs)

        setattr(module, name, act)

    from heterps.tables.snapshots.disk import HashedFile

    wrap(HashedFile, "write")
    for name in ("fsync", "rename", "replace", "unlink", "rmdir", "mkdir"):
        wrap(os, name)


def test_a_kill_at_every_act_of_a_save_loses_nothing(trained: KeyedShard, tmp_path: Path) -> None:
    save_shard(trained, tmp_path)
    old = contents(trained)
    train(trained, 6, 8)
    save_shard(trained, tmp_path)
    middle = contents(trained)
    train(trained, 8, 10)
    new = contents(trained)
    outcomes = []
    for n in range(1, 400):

        def save(n: int = n) -> None:
            die_at(n)
            save_shard(trained, tmp_path)

        code = in_child(save)
        assert code in (0, -signal.SIGKILL)
        found = new_shard()
        restore(found, tmp_path)
        outcomes.append([old, middle, new].index(contents(found)))
        if code == 0:
            break
    assert code == 0
    assert len(outcomes) > 20
    assert outcomes == sorted(outcomes)
    assert outcomes[0] == 1
    assert outcomes[-1] == 2
    assert not list(tmp_path.glob(".unfinished*"))


def test_a_full_disk_is_named_and_loses_nothing(trained: KeyedShard, tmp_path: Path) -> None:
    save_shard(trained, tmp_path)
    size = max(path.stat().st_size for path in Snapshots(tmp_path).latest().iterdir())

    def save() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size // 2, size // 2))
        with pytest.raises(CheckpointError, match="cannot write"):
            save_shard(trained, tmp_path)

    assert in_child(save) == 0
    assert len(Snapshots(tmp_path).generations()) == 1
    found = new_shard()
    restore(found, tmp_path)
    assert contents(found) == contents(trained)
    assert not list(tmp_path.glob(".unfinished*"))


def test_no_snapshot_is_a_named_error(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="has no finished snapshot"):
        restore(new_shard(), tmp_path)
