"""``heterps stream --follow`` as a process of its own; streams on Dask."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import heterps as hps
from tests.unit.streaming.small_stream import COLUMNS, logged, rows, run, session, write_days, write_pass

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]


def started(pattern: str, out: Path) -> subprocess.Popen[str]:
    words = ["wide_deep", "--set", "hidden=8", "--engine", "inline", "--batch-size", "64", "--label", "click"]
    words += [
        "--data",
        pattern,
        "--follow",
        "--quiet",
        "0",
        "--poll",
        "0.05",
        "0.2",
        "--checkpoint-every",
        "9",
        "--out",
        str(out),
    ]
    program = [sys.executable, "-u", "-m", "heterps", "stream", *words]
    environment = {**os.environ, "COLUMNS": "200"}
    return subprocess.Popen(program, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)


def line_with(process: subprocess.Popen[str], words: str) -> str:
    """Read on until a line has these words; the process says nothing else in the end than why it ended."""
    assert process.stdout is not None
    for line in process.stdout:
        if words in line:
            return line
    raise AssertionError(process.communicate()[1][-2000:])


def test_a_process_follows_ends_by_a_signal_with_all_saved_and_goes_on(tmp_path: Path) -> None:
    pattern, out = write_days(tmp_path / "logs", days=1, passes=1, rows=60), tmp_path / "out"
    with started(pattern, out) as process:
        line_with(process, "waiting for another pass")
        half = write_pass(tmp_path / "half", 1, 60)
        half.rename(tmp_path / "logs/20261101/01.csv")
        line_with(process, "pass 2 20261101 01 | 60 rows")
        process.send_signal(signal.SIGTERM)
        assert "stopping after this pass" in process.communicate(timeout=120)[1]
    assert process.returncode == 128 + signal.SIGTERM
    assert {row["sequence"] for row in logged(out)} == {1, 2}
    write_pass(tmp_path / "half", 2, 60).rename(tmp_path / "logs/20261101/02.csv")
    with started(pattern, out) as process:  # nothing of the first two again
        assert line_with(process, "pass").startswith("pass 3 20261101 02 | 60 rows")
        process.kill()
    with started(pattern, out) as process:  # it was lost before its checkpoint
        assert line_with(process, "pass").startswith("pass 3 20261101 02 | 60 rows")
        process.kill()


def test_on_dask_the_tables_are_the_same_to_the_bit(tmp_path: Path) -> None:
    pattern, options = write_days(tmp_path / "logs", days=2, passes=2, rows=60), {"delta_every": 3}
    run(pattern, tmp_path / "inline", **options)
    for _ in range(2):  # left after two passes, and gone on with
        with session(engine="dask") as on_dask:
            for report in hps.stream(on_dask, pattern, tmp_path / "dask", schema=COLUMNS, **options):
                if report.sequence == 2:
                    break
    assert logged(tmp_path / "dask") == logged(tmp_path / "inline")
    assert rows(tmp_path / "dask") == rows(tmp_path / "inline")
