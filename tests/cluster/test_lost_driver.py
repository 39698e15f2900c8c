"""Drivers that are killed or given up while they train: another one goes on with the tables that are on the workers."""

import json

import pytest

from tests.cluster.conftest import Launched

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("faults"), pytest.mark.full]

DRIVER = """
import json, logging, os, pathlib, signal, sys
from dataclasses import replace
import numpy as np
import heterps as hps
from heterps import ops
from distributed import Client

NAME, MODE, OPTIONS, LOST = sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), json.loads(sys.argv[4])
IDS, ROWS, EPOCHS = 500, 6_000, 12

def plan():
    ids, y = ops.input("ids", (4,), "uint64"), ops.input("y")
    graph = hps.Graph(loss=ops.logloss(ops.dense(ops.concat(ops.lookup(ids, "deep", 4)), 1, name="out"), y))
    return hps.Plan.fused(graph, batch_size=32, workers=2, lanes=3, shard_hosts=2)

def data():
    ids = np.random.default_rng(5).integers(0, IDS, (ROWS, 4)).astype(np.uint64)
    return replace(hps.arrays({"ids": ids, "y": (ids[:, 0] % 2).astype(np.float32)}), split_cost=ROWS // 6)

def digest(session):
    rows = {"ids": np.arange(IDS, dtype=np.uint64).repeat(4).reshape(-1, 4)}
    return session.predict(hps.arrays(rows)).tobytes().hex()

logging.basicConfig(filename=f"{NAME}.log")
with Client() as client, hps.launch(plan(), client=client, mode=MODE, report_s=0.05, **OPTIONS) as session:
    for last in session.train(data(), epochs=EPOCHS):
        if last.batches:
            pathlib.Path(f"{NAME}.batches").write_text(str(last.batches))
        # By its own hand, as soon as it knows: whoever watched it might be late.
        if LOST and last.batches >= LOST["batch"] and list(pathlib.Path("model/checkpoint").glob("*/manifest.json")):
            os.kill(os.getpid(), getattr(signal, LOST["by"]))
            LOST = None
    result = {"samples": last.samples, "batches": last.batches, "digest": digest(session)}
if NAME == "second":
    with hps.launch(plan(), engine="inline", mode=MODE) as session:
        last = list(session.train(data(), epochs=EPOCHS))[-1]
        result["expected"] = {"samples": last.samples, "batches": last.batches, "digest": digest(session)}
    pathlib.Path("result.json").write_text(json.dumps(result))
"""

SCRIPT = '''
import json, os, pathlib, signal, subprocess, sys, time
import psutil
from distributed import Client

MODE, GIVEN_UP, BATCH = sys.argv[1:]

def driver(name, lost=None, **options):
    words = [sys.executable, "driver.py", name, MODE, json.dumps(options), json.dumps(lost)]
    return subprocess.Popen(words, stderr=open(f"{name}.err", "w"))

def batches(name):
    try:
        return int(pathlib.Path(f"{name}.batches").read_text() or 0)
    except FileNotFoundError:
        return 0

def forget_client(dask_scheduler, name):
    """What becomes of a driver whose machine sleeps or whose network is gone for long."""
    for client, comm in list(dask_scheduler.client_comms.items()):
        if client != name:
            comm.abort()

by = "SIGSTOP" if GIVEN_UP == "yes" else "SIGKILL"
first = driver("first", {"batch": int(BATCH), "by": by}, checkpoint="model", every_s=0.5)
if GIVEN_UP == "yes":
    while psutil.Process(first.pid).status() != psutil.STATUS_STOPPED:
        assert first.poll() is None, pathlib.Path("first.err").read_text()
        time.sleep(0.02)
    with Client() as client:
        client.run_on_scheduler(forget_client, name=client.id)
else:
    assert first.wait() == -signal.SIGKILL, pathlib.Path("first.err").read_text()
for path in pathlib.Path("model/checkpoint").rglob("*.parquet"):
    path.write_bytes(b"nobody reads this")
second = driver("second", resume="model", **({} if GIVEN_UP == "yes" else {"checkpoint": "model", "every_s": 0.5}))
while batches("second") <= 0 and second.poll() is None:
    time.sleep(0.02)
if GIVEN_UP == "yes":
    os.kill(first.pid, signal.SIGCONT)
    first.wait(60)
code = second.wait()
sys.stderr.write(pathlib.Path("second.err").read_text())
sys.exit(code)
'''


def play(launched: Launched, mode: str, given_up: str, batch: int) -> dict:
    """Lose a driver after so many batches and have another one end its work; return what came out."""
    (launched.folder / "driver.py").write_text(DRIVER)
    words = f"import sys; sys.argv[1:] = [{mode!r}, {given_up!r}, '{batch}']\n"
    code, out, err = launched.run(words + SCRIPT, "--servers", "2", "--io", "2", "--compute", "0")
    assert code == 0, f"{out}\n{err}"
    assert "nothing is read from disk" in (launched.folder / "second.log").read_text()
    return json.loads((launched.folder / "result.json").read_text())


def check(result: dict, mode: str) -> None:
    expected = result["expected"]
    assert (result["samples"], result["batches"]) == (expected["samples"], expected["batches"])
    if mode == "sync":
        assert result["digest"] == expected["digest"]


@pytest.mark.parametrize("batch", [40, 250])
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_another_driver_goes_on_and_reads_nothing_from_disk(launched: Launched, mode: str, batch: int) -> None:
    """What is on disk cannot be read, so it must be the tables on the workers."""
    check(play(launched, mode, "no", batch), mode)


def test_a_driver_that_wakes_up_after_that_is_refused_by_name(launched: Launched) -> None:
    check(play(launched, "async", "yes", 60), "async")
    told = (launched.folder / "first.err").read_text()
    assert "the scheduler has given this driver up" in told
    assert "taken over by process" in told
