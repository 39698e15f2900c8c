"""Trainings of other processes, watched through a pipe and in a real browser, until their driver is killed."""

import json
import pathlib
import shutil

import numpy as np
import pytest
from PIL import Image

from tests.cluster.conftest import Launched

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.cluster,
    pytest.mark.full,
    pytest.mark.xdist_group("faults"),
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium"),
]

DRIVER = """
import heterps as hps
from distributed import Client
from heterps.testing.engine_contract import plan
from heterps.testing.small_model import data

given = dict(name="ctr", report_s=0.1, checkpoint="cuts", every_batches=100)
with Client() as client, hps.launch(plan(), client, **given) as session:
    for _ in session.train(data(6000), epochs=100_000, valid=data(200, seed=8)):
        pass
"""

SCRIPT = """
import json, os, pathlib, signal, subprocess, sys, tempfile, time
from distributed import Client
from heterps.runtime.cluster.notices import read_board, put_up_board

ADDRESS = os.environ["DASK_SCHEDULER_ADDRESS"]
PROGRAM = pathlib.Path("chromium_path").read_text()
CHROMIUM = [PROGRAM, "--headless=new", "--no-sandbox", "--disable-gpu", "--user-data-dir=chromium",
            "--virtual-time-budget=4000", "--window-size=1280,1700"]

def page(*words):
    with tempfile.TemporaryDirectory(dir="/tmp") as short:  # for a socket, whose name must not be long
        where = dict(os.environ, TMPDIR=short)
        done = subprocess.run([*CHROMIUM, *words], capture_output=True, text=True, timeout=120, env=where)
    assert done.returncode == 0, done.stderr
    return done.stdout

def until(look):
    while not look():
        assert driver.poll() is None, "see driver.err"
        time.sleep(0.05)

with Client() as client:
    put_up_board(client)
    address = read_board(client)["page"]
    result = {"before": page("--dump-dom", address)}
    watch = subprocess.Popen([sys.executable, "-m", "heterps", "watch", ADDRESS], text=True, stdout=subprocess.PIPE)
    driver = subprocess.Popen([sys.executable, "driver.py"], stderr=open("driver.err", "w"))
    def seen():
        runs = read_board(client)["runs"]
        return runs and runs[0]["latest"].get("cut") and len([p for p in runs[0]["points"] if p["valid"]]) > 4
    until(seen)
    result["during"] = page("--dump-dom", address)
    page("--screenshot=page.png", address)
    driver.send_signal(signal.SIGKILL)
    result["lines"], _ = watch.communicate(timeout=60)
    result["code"] = watch.returncode
    result["after"] = page("--dump-dom", address)
pathlib.Path("result.json").write_text(json.dumps(result))
"""


def test_a_training_is_watched_through_a_pipe_and_in_a_browser(launched: Launched) -> None:
    (launched.folder / "driver.py").write_text(DRIVER)
    assert CHROMIUM is not None
    (launched.folder / "chromium_path").write_text(CHROMIUM)
    code, out, err = launched.run(SCRIPT, "--servers", "1", "--io", "1")
    assert code == 0, out + err
    found = json.loads((launched.folder / "result.json").read_text())
    assert "no run yet" in _body(found["before"])
    during = _body(found["during"])
    for part in ("ctr", ">training<", "samples/s", "<polyline", "auc", "valid logloss", "vectors, wide", "server-0",
                 "cuts/checkpoint", "plan.svg", "read ahead", "staleness"):  # fmt: skip
        assert part in during, part
    assert ">lost<" in _body(found["after"])
    lines = found["lines"].splitlines()
    assert lines[0] == "no run yet"
    assert sum(" samples | " in line for line in lines) > 1
    assert lines[-1].startswith("ctr: lost: its driver is gone; launch(resume=...) goes on from the last cut | epoch ")
    assert found["code"] == 0
    _is_drawn(launched.folder / "page.png")


def _body(html: str) -> str:
    """What the script has made, not the script itself."""
    return html.partition("<body>")[2].partition("<script>")[0]


def _is_drawn(path: pathlib.Path) -> None:
    colours = np.unique(np.asarray(Image.open(path).convert("RGB")).reshape(-1, 3), axis=0)
    assert len(colours) > 50, "charts, bars and the plan"
    assert (colours == (0x2B, 0x6C, 0xB0)).all(axis=1).any(), "the colour of curves"
