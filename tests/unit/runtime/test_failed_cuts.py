"""Cuts that cannot be written and models that diverge: said at once, never in place of something good."""

import errno
from pathlib import Path
from typing import Any

import dask
import numpy as np
import pytest

import heterps as hps
from heterps.errors import CheckpointError, RunError, UnsavedError
from heterps.runtime.batch.batch_work import BatchWork
from heterps.runtime.batch.bench import Workbench
from heterps.runtime.cuts.cut_store import CutStore
from heterps.runtime.workers import cut_writer
from heterps.tables import Manifest, find_generation
from heterps.testing.engine_contract import plan
from heterps.testing.small_model import columns, data

pytestmark = pytest.mark.xdist_group("dask")
ENGINES = pytest.mark.parametrize("engine", ["inline", "dask"])


def fail(monkeypatch: pytest.MonkeyPatch, where: str, times: int) -> None:
    """Let the disk be full for so many cuts."""
    owner: Any
    owner, name = (cut_writer, "write_part") if where == "part" else (CutStore, "publish")
    good, left = getattr(owner, name), [times]

    def write(*args: Any, **rest: Any) -> Any:
        left[0] -= 1
        if left[0] >= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return good(*args, **rest)

    monkeypatch.setattr(owner, name, write)


@ENGINES
@pytest.mark.parametrize("where", ["part", "manifest"])
def test_a_cut_that_fails_is_a_warning_and_the_next_one_is_made(
    engine: str, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fail(monkeypatch, where, times=1)
    with hps.launch(plan(), engine=engine, report_s=0.0, checkpoint=tmp_path, every_batches=10) as session:
        last = list(session.train(data(), epochs=2))[-1]
    assert last.samples == 3000
    assert last.failed_cuts == 1
    assert "1 cuts failed" in str(last)
    assert "a cut could not be written, the one before stays: OSError: [Errno 28] No space" in caplog.text
    assert not list((tmp_path / "checkpoint").glob(".unfinished*"))
    assert Manifest.read(find_generation(tmp_path / "checkpoint")).position["cut"]["pass"] == 1


@ENGINES
@pytest.mark.parametrize("where", ["part", "manifest"])
def test_a_last_cut_that_fails_is_an_error_after_which_the_session_can_be_used(
    engine: str, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail(monkeypatch, where, times=1)
    with hps.launch(plan(), engine=engine, checkpoint=tmp_path / "full") as session:
        with pytest.raises(UnsavedError, match="everything is trained, but the last cut could not be written: OSError"):
            session.fit(data(), epochs=4)
        assert session.evaluate(data())["auc"] > 0.6
        folder = session.save(tmp_path / "elsewhere")
        assert Manifest.read(folder).position["passes"] == 4
        assert session.fit(data()).samples == 1500  # and can go on


POISON = np.float32(1e6)


@pytest.fixture(autouse=True)
def _no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a batch with poison in it have a loss that is no number; readers let none through that has one already."""
    good = Workbench.compute

    def compute(bench: Workbench, work: BatchWork, *rest: Any) -> None:
        good(bench, work, *rest)
        work.loss = float("nan") if (work.read["x"] == POISON).any() else work.loss

    monkeypatch.setattr(Workbench, "compute", compute)


def poisoned(rows: int) -> hps.Dataset:
    """Data whose first rows are good and whose others have no finite loss."""
    table = columns()
    table["x"] = np.where(np.arange(len(table["x"]))[:, None] < rows, table["x"], POISON)
    return hps.arrays(table, split_cost=10_000)


@ENGINES
def test_a_loss_that_is_no_number_ends_the_run_and_replaces_nothing_good(engine: str, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    with (
        dask.config.set({"heterps.bad-losses": 3}),
        hps.launch(plan(), engine=engine, mode=hps.Async(depth=1), checkpoint=folder) as session,
    ):
        session.fit(data())
        with pytest.raises(RunError, match="the loss of 3 batches in a row is not a finite number") as caught:
            session.fit(poisoned(640))
        good = find_generation(folder / "checkpoint")
        assert f"The last good cut is {good}" in str(caught.value)
        assert Manifest.read(good).position["counts"]["bad_streak"] == 0
        with pytest.raises(CheckpointError, match="is not replaced by that"):
            session.save(folder)
        session.save(tmp_path / "other")
        session.load(good)
        session.save(folder)


@ENGINES
def test_a_last_cut_of_a_model_without_a_finite_loss_is_not_made(engine: str, tmp_path: Path) -> None:
    with hps.launch(plan(), engine=engine, mode=hps.Async(depth=1), checkpoint=tmp_path) as session:
        session.fit(data())
        good = find_generation(tmp_path / "checkpoint")
        with pytest.raises(RunError, match="the last cut could not be written: CheckpointError: the loss of the last"):
            session.fit(poisoned(1400))
        assert find_generation(tmp_path / "checkpoint") == good


def test_a_few_losses_that_are_no_numbers_are_counted(tmp_path: Path) -> None:
    with dask.config.set({"heterps.bad-losses": 0}), hps.launch(plan(), engine="inline") as session:
        last = session.fit(poisoned(640))
    assert last.bad_losses == 14
    assert "14 batches without a finite loss" in str(last)
