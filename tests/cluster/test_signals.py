"""Ctrl-C and kill, to real processes at work: the exit code says which, and the temporary folder is empty."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.cluster

MODEL = """
import pathlib, time
from heterps import Graph, ops


def model(slow=0):
    pathlib.Path(__file__).with_name("built").touch()
    time.sleep(slow)
    ids, x, y = ops.input("ids", shape=(1,), dtype="uint64"), ops.input("x", shape=(1,)), ops.input("y")
    h = ops.concat(ops.lookup(ids, table="t", dim=4), x)
    return Graph(loss=ops.logloss(ops.dense(h, 1, name="logit"), y))
"""
SCRIPT = """
import contextlib, pathlib, time

pathlib.Path(__file__).with_name("built").touch()
with contextlib.suppress(KeyboardInterrupt):
    time.sleep(600)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "tmp").mkdir()
    rng = np.random.default_rng(0)
    rows = zip(rng.integers(0, 2, 20_000), rng.integers(0, 999, 20_000), rng.normal(size=20_000), strict=True)
    (tmp_path / "data.csv").write_text("click,colour,size\n" + "".join(f"{a},c{b},{c:.3f}\n" for a, b, c in rows))
    return tmp_path


def _start(folder: Path, *words: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "TMPDIR": str(folder / "tmp"), "PYTHONFAULTHANDLER": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", "heterps", *words],
        cwd=folder,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        process_group=0,
        preexec_fn=_as_in_a_terminal,
    )


def _as_in_a_terminal() -> None:
    """Commands in the background of a script, such as this test may be one, ignore SIGINT, and so do their children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _stopped(folder: Path, process: subprocess.Popen[str], number: int, rest_s: float, sign: str = "built") -> str:
    """Wait for a file that shows that the command is at work, rest, and send the signal."""
    until = time.monotonic() + 120
    while not list(folder.glob(sign)) and process.poll() is None and time.monotonic() < until:
        time.sleep(0.05)
    time.sleep(rest_s)
    process.send_signal(number)
    try:
        return process.communicate(timeout=60)[0]
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGABRT)  # says on its way out what threads were doing
        pytest.fail(f"it goes on after the signal:\n{process.communicate(timeout=60)[0]}")
    finally:
        process.kill()
        process.wait(timeout=30)


WORDS = {
    "train inline": ("train", "model.py", "--data", "data.csv", "--epochs", "1000", "--engine", "inline"),
    "train dask": (
        "train",
        "model.py",
        "--data",
        "data.csv",
        "--epochs",
        "1000",
        "--engine",
        "dask",
        "--checkpoint",
        "cuts",
    ),
    "plan": ("plan", "model.py", "--set", "slow=600"),
    "launch": ("launch", "--servers", "1", "--io", "1", "script.py"),
}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["int", "term"])
@pytest.mark.parametrize("name", WORDS)
def test_a_signal_ends_a_command(name: str, number: int, folder: Path) -> None:
    process = _start(folder, *WORDS[name])
    out = _stopped(folder, process, number, rest_s=3 if name.startswith("train") else 0.5)
    assert process.returncode == 128 + number, out
    assert "Traceback" not in out
    assert not list((folder / "tmp").iterdir()), out


@pytest.mark.parametrize(
    "number", [pytest.param(signal.SIGINT, id="int"), pytest.param(signal.SIGTERM, id="term", marks=pytest.mark.full)]
)
def test_a_signal_ends_predict(number: int, folder: Path) -> None:
    made = _start(folder, "train", "model.py", "--data", "data.csv", "--engine", "inline", "--out", "saved")
    out, _ = made.communicate(timeout=120)
    assert made.returncode == 0, out
    process = _start(folder, "predict", "saved", *["--data", "data.csv"] * 200, "--out", "p.parquet")
    out = _stopped(folder, process, number, rest_s=0.1, sign=".heterps-*")  # its output, not whole yet
    assert process.returncode == 128 + number, out
    assert "Traceback" not in out
    assert not (folder / "p.parquet").exists()
    assert not list(folder.glob(".heterps-*"))
    assert not list((folder / "tmp").iterdir()), out
