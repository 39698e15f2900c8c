"""Drivers killed on a cluster that stays: their tables, threads, sockets and folders go, and another driver trains."""

import json

import pytest

from tests.cluster.conftest import Launched

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("faults")]

DRIVER = """
import pathlib, sys
from dataclasses import replace
import numpy as np
import heterps as hps
from heterps import ops
from distributed import Client

def plan():
    ids = ops.input("ids", (4,), "uint64")
    h = ops.concat(ops.lookup(ids, "deep", 4, storage="ssd"))
    graph = hps.Graph(loss=ops.logloss(ops.dense(h, 1, name="out"), ops.input("y")))
    fused = hps.Plan.fused(graph, batch_size=64, workers=1)
    (stage,), pool = fused.stages, fused.pools[0]
    parts, pools = hps.partition(fused.graph).parts, ("io", "compute")
    stages = (replace(stage, name=n, layers=(), ops=p.ops, pool=n, units=1) for n, p in zip(pools, parts, strict=True))
    described = tuple(replace(pool, name=name) for name in ("server", *pools))
    return replace(fused, stages=tuple(stages), pools=described, shard_pool="server")

ids = np.random.default_rng(5).integers(0, 500, (2_000, 4)).astype(np.uint64)
data = hps.arrays({"ids": ids, "y": (ids[:, 0] % 2).astype(np.float32)})
with Client() as client, hps.launch(plan(), client=client, report_s=0.05) as session:
    for progress in session.train(data, epochs=int(sys.argv[1])):
        if progress.samples:
            pathlib.Path(sys.argv[2]).write_text(str(progress.samples))
"""

SCRIPT = '''
import gc, json, os, pathlib, subprocess, sys, tempfile, threading, time
from distributed import Client

def left():
    """What is there of any driver in this process."""
    from heterps.tables import Shard
    gc.collect()
    threads = [t.name for t in threading.enumerate() if t.name.startswith("heterps") and t.name != "heterps-warm"]
    return {"shards": sum(issubclass(type(x), Shard) for x in gc.get_objects()), "threads": threads,
            "folders": [n for n in os.listdir(tempfile.gettempdir()) if n.startswith("heterps-rows-")]}

def driver(epochs, out):
    return subprocess.Popen([sys.executable, "driver.py", str(epochs), out])

def wait_for(path, process):
    while not pathlib.Path(path).exists():
        assert process.poll() is None, "the driver ended"
        time.sleep(0.05)

client = Client()
for n in range(2):
    process = driver(100_000, f"began{n}")
    wait_for(f"began{n}", process)
    process.kill()
    process.wait()
before = client.run(left)
until = time.monotonic() + 25
while any(any(each.values()) for each in client.run(left).values()) and time.monotonic() < until:
    time.sleep(0.2)
after = client.run(left)
process = driver(2, "trained")
code = process.wait()
pathlib.Path("result.json").write_text(json.dumps({
    "before": sum(each["shards"] for each in before.values()),
    "after": [each for each in after.values() if any(each.values())],
    "code": code, "samples": int(pathlib.Path("trained").read_text())}))
'''


def test_what_a_killed_driver_leaves_behind_is_freed_and_another_one_trains(launched: Launched) -> None:
    launched.environment["DASK_HETERPS__ORPHANS"] = "1s"
    (launched.folder / "driver.py").write_text(DRIVER)
    code, out, err = launched.run(SCRIPT, "--servers", "1", "--io", "1", "--compute", "1")
    assert code == 0, f"{out}\n{err}"
    result = json.loads((launched.folder / "result.json").read_text())
    assert result["before"] >= 1  # the kill left something
    assert result["after"] == []
    assert (result["code"], result["samples"]) == (0, 4_000)
    logs = "".join(path.read_text() for path in launched.logs.glob("*"))
    assert "the driver of a HostActor is gone" in logs
