"""Training left again and again at random moments, also before there are tables, goes on at once the next time."""

import json

import dask
import pytest

from heterps.runtime.cluster.in_process import local_cluster
from tests.cluster.conftest import Launched
from tests.leaving import leave_often

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("faults")]

SCRIPT = """
import importlib, json, pathlib
import dask
from distributed import Client
from tests.leaving import leave_often

client = Client()
client.run(importlib.import_module, "tests.raising")
told = []
for seed in range({seeds}):
    told += leave_often(seed, 5, 1.0, client=client)
    pathlib.Path("told.json").write_text(json.dumps(told))
"""
POOLS = {"server": 2, "io": 2, "compute": 1}


@pytest.mark.parametrize("seeds", [1, pytest.param(25, marks=pytest.mark.full)])
def test_in_one_process(seeds: int) -> None:
    with dask.config.set({"heterps.timeouts.progress": "100s"}), local_cluster(POOLS) as client:
        left = [one for seed in range(seeds) for one in leave_often(seed, 3, 0.6, client=client)]
    assert len(left) >= 3 * seeds


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seeds", [1, 6])
def test_in_processes(launched: Launched, seeds: int) -> None:
    launched.environment["DASK_HETERPS__TIMEOUTS__PROGRESS"] = "100s"
    pools = ("--servers", "2", "--io", "2", "--compute", "1")
    process = launched.start(SCRIPT.format(seeds=seeds), *pools)
    out, err = process.communicate(timeout=280 if seeds == 1 else 580)
    assert process.returncode == 0, f"{out}\n{err}"
    assert len(json.loads((launched.folder / "told.json").read_text())) >= 5 * seeds
    launched.wait_until_gone()
