"""A growing table on a worker with little memory under a nanny: an error by name, and no worker killed and restored."""

import json
import sys
from typing import Any

import pytest

from tests.cluster.conftest import Launched

pytestmark = [pytest.mark.cluster, pytest.mark.full, pytest.mark.xdist_group("faults")]

SCRIPT = """
import json, pathlib, subprocess, sys, time
import numpy as np
import heterps as hps
from distributed import Client
from heterps import ops

LOCAL = ["--host", "127.0.0.1", "--dashboard-address", "127.0.0.1:0", "--scheduler-file", "scheduler.json"]

def start(name, *words):
    return subprocess.Popen([sys.executable, "-m", "dask", *words], stderr=open(f"{name}.log", "w"))

def worker(pool, *options):
    words = ["--nthreads", "1", "--name", pool, "--resources", f"HPS_{pool.upper()}=1"]
    return start(pool, "worker", *LOCAL, *words, "--preload", "heterps.runtime.preload", *options)

def servers():
    found = client.scheduler_info(n_workers=-1)["workers"]
    return [address for address, one in found.items() if one["name"] == "server"]

started = [start("scheduler", "scheduler", *LOCAL, "--port", "0")]
try:
    while not pathlib.Path("scheduler.json").exists():
        time.sleep(0.05)
    started += [worker("server", "--nanny", "--memory-limit", "700MB"), worker("io", "--no-nanny")]
    client = Client(scheduler_file="scheduler.json")
    client.wait_for_workers(2, timeout=120)
    before, rng, count, told = servers(), np.random.default_rng(0), 30_000, {}
    ids, y = ops.input("ids", shape=(26,), dtype="uint64"), ops.input("y")
    looked = ops.lookup(ids, table="t", dim=64, **json.loads(sys.argv[1]))
    plan = hps.Plan.fused(hps.Graph(loss=ops.logloss(ops.dense(ops.concat(looked), 1), y)), batch_size=512)
    many = rng.integers(0, 1 << 62, (count, 26)).astype(np.uint64)  # 780,000 rows of 536 bytes
    data = hps.arrays({"ids": many, "y": (many[:, 0] % 2).astype(np.float32)})
    try:
        with hps.launch(plan, client=client, mode="async") as session:
            told["samples"] = list(session.train(data))[-1].samples
    except hps.HeterpsError as error:
        told |= {"kind": type(error).__name__, "message": str(error)}
    told["same"] = len(before) == 1 and servers() == before
    pathlib.Path("told.json").write_text(json.dumps(told))
finally:
    for process in reversed(started):
        process.terminate()
    for process in started:
        process.wait(60)
"""


def run(launched: Launched, **lookup: str) -> dict[str, Any]:
    (launched.folder / "script.py").write_text(SCRIPT)
    process = launched.start_words(sys.executable, "script.py", json.dumps(lookup))
    out, err = process.communicate(timeout=280)
    assert process.returncode == 0, f"{out}\n{err}"
    launched.wait_until_gone()
    told: dict[str, Any] = json.loads((launched.folder / "told.json").read_text())
    return told


def test_a_table_that_outgrows_its_worker_is_refused_by_name(launched: Launched) -> None:
    told = run(launched)
    assert told["kind"] == "TableFullError", told
    assert "has no memory for" in told["message"]
    assert told["same"]
    assert "exceeded" not in (launched.folder / "server.log").read_text()  # the nanny's word for killing it


def test_a_table_that_may_evict_goes_on(launched: Launched) -> None:
    told = run(launched, when_full="least_recent")
    assert (told.get("samples"), told["same"]) == (30_000, True), json.dumps(told)
