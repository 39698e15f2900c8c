"""``heterps stream``: from a folder of passes to a model, and on."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from heterps.cli import main
from tests.unit.streaming.small_stream import logged, published, write_days, write_pass

MODEL = ("wide_deep", "--set", "hidden=8", "--engine", "inline", "--batch-size", "64", "--label", "click")


def run(*words: str) -> list[str]:
    done = CliRunner().invoke(main, ["stream", *MODEL, *words])
    assert done.exit_code == 0, done.output
    return done.output.splitlines()


def test_a_stream_is_begun_and_gone_on_with(tmp_path: Path) -> None:
    pattern, out = write_days(tmp_path / "logs", days=1, passes=2, rows=60), str(tmp_path / "out")
    words = ("--data", pattern, "--metric", "auc,gauc:user", "--delta-every", "2", "--out", out)
    first = run(*words, "--alarm", "auc<2", "--on-alarm", f"touch {tmp_path}/rung")
    assert [line.split(" |")[0] for line in first] == ["pass 1 20261101 00", "pass 2 20261101 01"]
    assert "gauc:user" in first[0]
    assert (tmp_path / "rung").exists()
    write_pass(tmp_path / "logs/20261102/00.csv", 7, 60)
    (again,) = run(*words)
    assert "day 20261101 ended" in again
    assert [each["kind"] for each in published(tmp_path / "out")] == ["delta", "base"]
    assert {row["sequence"] for row in logged(tmp_path / "out")} == {1, 2, 3}
    other = CliRunner().invoke(main, ["stream", *MODEL, *words, "--set", "hidden=9"])
    assert other.exit_code == 1
    assert "another graph" in other.output


@pytest.mark.full
def test_files_that_grow(tmp_path: Path) -> None:
    write_pass(tmp_path / "clicks-1.csv", 1, 60)
    words = ("--data", f"{tmp_path}/clicks-{{day}}.csv", "--appended", "--header", "--out", str(tmp_path / "out"))
    assert len(run(*words)) == 1
    assert run(*words) == []


def test_nothing_to_train_on_is_said(tmp_path: Path) -> None:
    assert run("--data", f"{tmp_path}/{{day}}.csv", "--out", str(tmp_path / "out")) == ["there is nothing to train on"]
    words = ("--data", f"{tmp_path}/{{day}}.csv", "--days", "1..2", "--give-up", "0", "--out", str(tmp_path / "out"))
    assert run(*words) == ["there is nothing to train on"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "nothing says where rows come from"),
        (["--data", "logs/*.csv"], "has no place for a pass"),
        (["--data", "{day}", "--days", "1..2", "--follow"], "--days says when to end"),
        (["--data", "{day}", "--appended", "--quiet", "3"], "--quiet cannot be used with --appended"),
        (["--redis", "redis://127.0.0.1:1/0"], "needs the key"),
        (["--data", "{day}", "--give-up", "-1"], "--give-up"),
    ],
)
def test_mistakes_are_named(words: list[str], message: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["stream", *MODEL, *words, "--out", str(tmp_path / "out")])
    assert done.exit_code in (1, 2)
    assert message in done.output
