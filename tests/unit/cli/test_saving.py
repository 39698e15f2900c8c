"""What was trained outlives a disk that is full."""

import errno
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from heterps.cli import main
from heterps.runtime.cuts.cut_store import CutStore
from heterps.session import Session

TRAIN = ("train", "wide_deep", "--data", "adult:test", "--set", "hidden=8", "--engine", "inline")


def said(*words: str) -> str:
    result = CliRunner().invoke(main, [*TRAIN, *words])
    assert result.exit_code == 1, result.output
    assert "mistake of heterps" not in result.output
    return result.output


def full(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, times: int) -> None:
    good, left = getattr(owner, name), [times]

    def write(*args: Any, **rest: Any) -> Any:
        left[0] -= 1
        if left[0] >= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return good(*args, **rest)

    monkeypatch.setattr(owner, name, write)


def test_a_model_that_cannot_be_saved_is_saved_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    full(monkeypatch, Session, "save", times=1)
    found = re.search(r"No space left on device\nWhat was trained is saved to (\S+) instead", said("--out", "model"))
    assert found is not None
    assert Path(found[1]).parent == tmp_path
    evaluated = CliRunner().invoke(main, ["evaluate", found[1], "--data", "adult:test", "--engine", "inline"])
    assert "auc" in evaluated.output


def test_without_room_anywhere_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    full(monkeypatch, Session, "save", times=9)
    assert "What was trained is lost" in said("--out", "model")
    assert not list(tmp_path.glob("heterps-model-*"))


def test_a_model_is_saved_although_its_last_cut_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full(monkeypatch, CutStore, "publish", times=9)
    out = said("--checkpoint", str(tmp_path / "cuts"), "--out", str(tmp_path / "model"))
    assert "the last cut could not be written" in out
    assert f"saved to {tmp_path / 'model'} what was trained" in out
    assert (tmp_path / "model" / "model.json").exists()
