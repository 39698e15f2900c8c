from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from heterps.cli import main
from heterps.protocol import BatchKey
from heterps.tables import (
    SGD,
    CtrAccessor,
    DenseSpec,
    GroupSpec,
    KeyedShard,
    RowGradients,
    Sum,
    TableSpec,
    Zeros,
    save_shard,
)
from heterps.tables.snapshots.inspection import compare, describe

GROUPS = (
    GroupSpec("plain", (TableSpec("wide", 1, Sum(), Zeros()), TableSpec("deep", 2, Sum(), Zeros()))),
    GroupSpec("ctr", (TableSpec("ctr", 1, SGD(), Zeros(), accessor=CtrAccessor()),)),
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two generations: three rows of norms 0, 5 and 10; then row 3 changes by (3, 4), row 1 goes and row 9 comes."""
    shard = KeyedShard(GROUPS, [DenseSpec("w", (3,), Sum())])
    ids = np.array([1, 2, 3], np.uint64)
    values = np.array([[1, 0, 0], [2, 3, 4], [3, 6, 8]], np.float32)
    show = np.array([30, 10, 20], np.float32)
    ctr = RowGradients(ids, np.ones((3, 1), np.float32), None, show, np.zeros(3, np.float32))
    shard.push(BatchKey(0, 0, 0), {"plain": RowGradients(ids, values), "ctr": ctr}, np.ones(3, np.float32))
    save_shard(shard, tmp_path)
    shard.groups["plain"].delete([1])
    change = RowGradients(np.array([3, 9], np.uint64), np.array([[0, 3, 4], [1, 1, 1]], np.float32))
    shard.push(BatchKey(0, 0, 1), {"plain": change}, np.array([0, 0, 2], np.float32))
    save_shard(shard, tmp_path)
    return tmp_path


def test_describe_counts_ranks_and_bins(root: Path) -> None:
    folder, manifest, reports = describe(root / "00000001", top=2)
    deep, ctr = reports[1], reports[2]
    assert (folder.name, manifest.version, deep.rows) == ("00000001", 1, 3)
    assert deep.top == ((3, 10.0), (2, 5.0))
    assert deep.ranked_by == "norm"
    assert sum(deep.counts) == 3
    assert (deep.edges[0], deep.edges[-1]) == (0, 10)
    assert [id_ for id_, _ in ctr.top] == [1, 3]
    assert [score for _, score in ctr.top] == pytest.approx([3, 2])


@pytest.mark.parametrize("chunk", [1, 1 << 22])
def test_compare_goes_by_id(root: Path, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heterps.tables.snapshots.inspection.CHUNK_ROWS", chunk)
    wide, deep, ctr, dense = compare(root / "00000001", root)
    assert (deep.added, deep.changed, deep.deleted, deep.unchanged) == (1, 1, 1, 1)
    assert deep.top == ((3, 5.0),)
    assert deep.largest == deep.mean == 5.0
    assert (wide.unchanged, wide.changed) == (2, 0)
    assert ctr.changed == ctr.deleted == 0
    assert (dense.table, dense.changed, dense.largest) == ("w", 1, 2.0)


def test_the_command_shows_both(root: Path) -> None:
    run = CliRunner()
    shown = run.invoke(main, ["inspect", str(root), "--verify"])
    assert shown.exit_code == 0, shown.output
    assert "checkpoint after 2 steps" in shown.output
    assert "top ids by score: 1 (3)" in shown.output
    compared = run.invoke(main, ["inspect", str(root / "00000001"), str(root / "00000002")])
    assert "ids that changed most: 3 (5)" in compared.output
    assert "Examples" in run.invoke(main, ["inspect", "--help"]).output


def test_damage_is_an_error_message_not_a_traceback(root: Path) -> None:
    victim = next((root / "00000002").glob("rows-*"))
    victim.write_bytes(victim.read_bytes()[:-1])
    result = CliRunner().invoke(main, ["inspect", str(root), "--verify"])
    assert result.exit_code == 1
    assert f"{victim.name} is damaged" in result.output.replace("\n", "")


def test_words_of_a_comparison_and_of_changes_are_the_same(tmp_path: Path) -> None:
    shard = KeyedShard(GROUPS)
    ids = np.arange(50, dtype=np.uint64)
    shard.pull("plain", ids)
    first = save_shard(shard, tmp_path, kind="changes")
    shard.groups["plain"].delete(ids[:7])
    shard.pull("plain", ids[-1:] + np.arange(1, 4, dtype=np.uint64))
    values = np.ones((5, shard.groups["plain"].spec.width), np.float32)
    shard.push(BatchKey(0, 0, 0), {"plain": RowGradients(ids[20:25], values)})
    second = save_shard(shard, tmp_path, kind="changes")
    found = compare(first, second)[0]
    assert (found.added, found.changed, found.deleted, found.unchanged) == (3, 5, 7, 38)
    text = CliRunner().invoke(main, ["inspect", str(first), str(second)]).output
    assert all(word in text for word in ("added", "changed", "deleted", "unchanged"))


def test_the_norm_of_large_values_is_finite(tmp_path: Path) -> None:
    """Their squares are beyond float32, which is a warning, hence an error, where a file is damaged."""
    shard = KeyedShard(GROUPS[:1], [])
    large = np.array([[0, 3e30, 4e30]], np.float32)
    shard.push(BatchKey(0, 0, 0), {"plain": RowGradients(np.array([7], np.uint64), large)}, np.empty(0, np.float32))
    save_shard(shard, tmp_path)
    _, _, tables = describe(tmp_path)
    deep = next(report for report in tables if report.table.name == "deep")
    assert deep.top[0] == (7, pytest.approx(5e30))
