"""A checkpoint and the changes after it: together they are the full snapshot, whatever breaks in between."""

from __future__ import annotations

import json
import logging
import resource
import signal
from pathlib import Path

import numpy as np
import pytest

from heterps.errors import CheckpointError
from heterps.tables import KeyedShard, Manifest, Snapshots, find_generation, load_table, restore, save_shard, verify
from heterps.tables.hashing import shards_of
from heterps.tables.live import changes
from heterps.tables.live.group import RowGroup
from heterps.tables.snapshots.snapshot import FULL_EVERY, since_of, write_part
from tests.unit.tables.snapshots.test_snapshot import (
    DENSE_SPECS,
    GROUPS,
    contents,
    die_at,
    in_child,
    new_shard,
    split_owned,
    train,
)


def churn(shard: KeyedShard, n: int) -> None:
    """Updates, inserts, deletions, ageing."""
    train(shard, 2 * n, 2 * n + 2)
    shard.groups["ids"].delete(np.arange(n, 400, 17))
    if n % 3 == 2:
        shard.shrink("ctr")


def restored(path: Path, hosts: int = 1) -> list[KeyedShard]:
    shards = [new_shard(owned) for owned in split_owned(hosts)]
    for h, shard in enumerate(shards):
        if h:
            shard.dense.specs = ()
        restore(shard, path)
    return shards


@pytest.fixture
def saved(tmp_path: Path) -> tuple[KeyedShard, list[Path], list[dict]]:
    """A checkpoint and three times changes, with what the tables held each time."""
    shard, folders, states = new_shard(), [], []
    for n in range(4):
        churn(shard, n)
        folders.append(save_shard(shard, tmp_path, kind="changes", keep=9))
        states.append(contents(shard))
    return shard, folders, states


@pytest.mark.parametrize("hosts", [1, 3])
def test_base_and_changes_are_the_full_snapshot_row_by_row(saved: tuple, hosts: int, tmp_path: Path) -> None:
    shard, folders, states = saved
    assert [Manifest.read(folder).kind for folder in folders] == ["checkpoint", "changes", "changes", "changes"]
    for folder, state in zip(folders, states, strict=True):
        assert contents(*restored(folder, hosts)) == state
    found = restored(tmp_path)[0]
    assert found.window == shard.window
    np.testing.assert_array_equal(found.pull_dense(), shard.pull_dense())
    for each in (found, shard):
        churn(each, 4)
    assert contents(found) == contents(shard)


def test_changes_hold_less(saved: tuple) -> None:
    shard, folders, _ = saved
    train(shard, 100, 101)
    small = Manifest.read(save_shard(shard, folders[0].parent, kind="changes"))
    assert small.rows("ids") == 60
    assert small.rows("ids") < Manifest.read(folders[0]).rows("ids")


def test_several_hosts_write_changes_together_and_any_number_reads_them(tmp_path: Path) -> None:
    """One of three hosts has lost its marks: it writes all of its rows, and what they say counts."""
    shards, snapshots, states, done = [new_shard(owned) for owned in split_owned(3)], Snapshots(tmp_path), [], None
    for n in range(3):
        for shard in shards:
            for group in (*shard.groups.values(), shard.groups["rare"].waiting):
                assert group is not None
                group.create(_mine(group, n))
        if n == 2:
            shards[1].forget("cuts")
            shards[1].groups["ids"].delete(_mine(shards[1].groups["ids"], 0))
        folder = snapshots.begin(done)
        parts = []
        for h, shard in enumerate(shards):
            with shard.cut("cuts", moment=folder.name, since=since_of(folder)) as cut:
                kind = "changes" if cut.partial else "checkpoint"
                parts.append(write_part(cut, folder, host=h, kind=kind))
        done = snapshots.commit(
            folder, parts, ledger=shards[0].window, seed=7, groups=GROUPS, dense=DENSE_SPECS, kind=kind
        )
        states.append(contents(*shards))
    manifest = Manifest.read(done)
    assert set(manifest.whole) == {"ids", "ctr", "rare", "rare/waiting"}
    assert manifest.whole["rare"] == split_owned(3)[1]["rare"]
    for hosts in (1, 2):
        assert contents(*(_only_rows(shard, done) for shard in restored_empty(hosts))) == states[-1]


def _mine(group: RowGroup, n: int) -> np.ndarray:
    ids = np.arange(100 * n, 100 * n + 100, dtype=np.uint64)
    return ids[np.isin(shards_of(ids, group.spec.n_shards), group.owned)]


def restored_empty(hosts: int) -> list[KeyedShard]:
    return [KeyedShard(GROUPS, [], seed=7, owned=owned) for owned in split_owned(hosts)]


def _only_rows(shard: KeyedShard, folder: Path) -> KeyedShard:
    restore(shard, folder)
    return shard


def test_one_table_is_loaded_as_the_newest_changes_say(saved: tuple, tmp_path: Path) -> None:
    shard, folders, _ = saved
    other = KeyedShard(GROUPS[:1], seed=7)
    assert load_table(other, folders[-1], "deep") == len(shard.groups["ids"])
    found, wanted = (each.groups["ids"].changed("x") for each in (other, shard))
    order, same = np.argsort(found.ids), np.argsort(wanted.ids)
    np.testing.assert_array_equal(found.rows["deep"][order], wanted.rows["deep"][same])


def test_the_newest_broken_changes_are_passed_over_with_a_message(
    saved: tuple, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    _, folders, states = saved
    rng = np.random.default_rng(0)
    for path in sorted(folders[-1].iterdir()):
        if path.name == "follows.json":  # of the writing only
            continue
        original = path.read_bytes()
        i = int(rng.integers(len(original)))
        for data in (original[:i] + bytes([original[i] ^ 16]) + original[i + 1 :], original[: len(original) // 2], b""):
            path.write_bytes(data)
            with caplog.at_level(logging.WARNING, "heterps"):
                caplog.clear()
                assert contents(*restored(tmp_path)) == states[-2], path
            assert f"{folders[-1]} cannot be used, going back" in caplog.text
            with pytest.raises(CheckpointError, match=path.name):
                verify(folders[-1])
        path.write_bytes(original)
    assert contents(*restored(tmp_path)) == states[-1]


def test_changes_in_the_middle_take_all_after_them_along(saved: tuple, tmp_path: Path) -> None:
    _, folders, states = saved
    (folders[2] / "manifest.json").write_bytes(b"{}")
    assert find_generation(tmp_path) == folders[1]
    assert contents(*restored(tmp_path)) == states[1]


def test_a_base_that_is_another_or_gone_is_named(saved: tuple, tmp_path: Path) -> None:
    _, folders, _ = saved
    data = json.loads((folders[0] / "manifest.json").read_text())
    other = Manifest.read(folders[0])
    Manifest(**{**vars(other), "position": {"other": 1}}).write(folders[0])
    with pytest.raises(CheckpointError, match="changes to another snapshot"):
        restore(new_shard(), folders[1])
    (folders[0] / "manifest.json").write_text(json.dumps(data))
    restore(new_shard(), folders[1])
    (folders[0] / "manifest.json").unlink()
    with pytest.raises(CheckpointError, match="which is not there"):
        restore(new_shard(), folders[1])


def test_two_states_on_two_checkpoints_are_kept(tmp_path: Path) -> None:
    shard = new_shard()
    kinds = ["changes", "changes", "changes", "checkpoint", "changes", "changes", "checkpoint", "changes"]
    kept = []
    for n, kind in enumerate(kinds):
        churn(shard, n)
        save_shard(shard, tmp_path, kind=kind)  # type: ignore[arg-type]
        kept.append([int(path.name) for path in Snapshots(tmp_path).generations()])
    assert kept == [
        [1],
        [1, 2],
        [1, 2, 3],
        [1, 2, 3, 4],
        [1, 2, 3, 4, 5],
        [1, 2, 3, 4, 5, 6],
        [4, 5, 6, 7],
        [4, 5, 6, 7, 8],
    ]


def test_too_many_deletions_write_everything_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "LEAST_DELETED", 8)
    shard = new_shard()
    train(shard, 0, 3)
    save_shard(shard, tmp_path, kind="changes")
    shard.groups["ids"].delete(np.arange(0, 400, 2))
    manifest = Manifest.read(save_shard(shard, tmp_path, kind="changes"))
    assert len(manifest.whole["ids"]) == GROUPS[0].n_shards
    assert contents(*restored(tmp_path)) == contents(shard)


def test_a_failed_save_loses_no_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shard = new_shard()
    churn(shard, 0)
    save_shard(shard, tmp_path, kind="changes")
    churn(shard, 1)
    with monkeypatch.context() as patch:
        patch.setattr(Snapshots, "commit", lambda *args, **kwargs: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            save_shard(shard, tmp_path, kind="changes")
    train(shard, 90, 91)
    save_shard(shard, tmp_path, kind="changes")
    assert contents(*restored(tmp_path)) == contents(shard)


def test_a_kill_at_every_act_of_a_save_of_changes_loses_nothing(tmp_path: Path) -> None:
    shard, states = new_shard(), []
    for n, kind in enumerate(("changes", "changes", "checkpoint", "changes")):  # the last makes old ones go
        churn(shard, n)
        save_shard(shard, tmp_path, kind=kind)  # type: ignore[arg-type]
        states.append(contents(shard))
    churn(shard, 4)
    states.append(contents(shard))
    outcomes = []
    for n in range(1, 400):

        def save(n: int = n) -> None:
            die_at(n)
            save_shard(shard, tmp_path, kind="changes")

        code = in_child(save)
        assert code in (0, -signal.SIGKILL)
        outcomes.append(states.index(contents(*restored(tmp_path))))
        if code == 0:
            break
    assert len(outcomes) > 15
    assert (outcomes[0], outcomes[-1]) == (3, 4)
    assert outcomes == sorted(outcomes)


def test_a_full_disk_while_changes_are_written_loses_nothing(tmp_path: Path) -> None:
    shard = new_shard()
    churn(shard, 0)
    save_shard(shard, tmp_path, kind="changes")
    before = contents(shard)
    churn(shard, 1)

    def save() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))
        with pytest.raises(CheckpointError, match="cannot write"):
            save_shard(shard, tmp_path, kind="changes")

    assert in_child(save) == 0
    assert contents(*restored(tmp_path)) == before
    save_shard(shard, tmp_path, kind="changes")
    assert contents(*restored(tmp_path)) == contents(shard)


def test_of_so_many_saves_one_holds_everything(tmp_path: Path) -> None:
    """Otherwise a restore reads more with each save, and nothing may ever go."""
    shard, kinds = new_shard(), []
    for n in range(FULL_EVERY + 3):
        train(shard, n, n + 1)
        kinds.append(Manifest.read(save_shard(shard, tmp_path, kind="changes")).kind)
    assert [n for n, kind in enumerate(kinds) if kind == "checkpoint"] == [0, FULL_EVERY]
    found = restored(tmp_path)[0]
    assert found.window == shard.window
    np.testing.assert_array_equal(found.pull_dense(), shard.pull_dense())


def test_a_commit_reads_every_manifest_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shard, read, real = new_shard(), [], Manifest.read
    for n in range(12):
        train(shard, n, n + 1)
        save_shard(shard, tmp_path, kind="changes", keep=99)

    def counted(folder: Path) -> Manifest:
        read.append(folder)
        return real(folder)

    monkeypatch.setattr(Manifest, "read", counted)
    Snapshots(tmp_path, keep=99)._not_needed()
    assert len(read) == 12
