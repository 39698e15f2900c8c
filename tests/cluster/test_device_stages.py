"""Stages on a device in processes of their own: the strict stand-in, which refuses what a GPU would."""

import json

import numpy as np
import pytest

from heterps.device import gpu_available
from tests import zoo
from tests.cluster.conftest import Launched

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.xdist_group("faults"),
    pytest.mark.skipif(gpu_available(), reason="there is a GPU here"),
]

BEGIN = """
import json, pathlib
import numpy as np
import heterps as hps
from distributed import Client
from heterps.errors import ClusterError
from heterps.runtime.cluster.probe import discover
from tests import zoo
from tests.unit.session.test_device_training import same, trained

def told(plan, **options):
    found = trained(plan, **options)
    return {name: np.asarray(found[name]).tolist() for name in ("loss", "dense", "prediction")} | {
        "devices": found["devices"]
    }

client = Client()
"""

SCRIPT = (
    BEGIN
    + """
graph = zoo.graph("wide_deep")
io, compute = (part.ops for part in hps.partition(graph).parts)
two = zoo.pinned("two_emb")
first, second = (part.ops for part in hps.partition(two).parts)
plans = {
    "two stages": zoo.staged(graph),
    "cpu | gpu | cpu": zoo.staged(graph, [io, compute[:-2], compute[-2:]]),
    "two embeddings": zoo.staged(two, [[op for op in first if op != "pull small"], ["pull small", *second]]),
    "matchnet": zoo.staged(zoo.pinned("matchnet")),
}
result = {"emulated": discover(client, links=False).pool("gpu").emulated}
try:
    hps.launch(plans["two stages"], client)
except ClusterError as error:
    result["refused"] = str(error)
for name, plan in plans.items():
    here = told(hps.Plan.fused(plan.graph, batch_size=plan.batch_size), engine="inline")
    there = told(plan, client=client, device="fake")
    result[name] = {"pools": [s.pool for s in plan.stages], "here": here, "there": there}
result["stood in"] = told(plans["two stages"], client=client, emulate=True)["devices"]
pathlib.Path("result.json").write_text(json.dumps(result))
"""
)

ALL = (
    BEGIN
    + """
for name in zoo.SMALL:
    graph = zoo.graph(name)
    fused = hps.Plan.fused(graph, batch_size=zoo.BATCH)
    expected = trained(fused, engine="inline")
    same(trained(fused, client=client, device="fake"), expected)
    apart = trained(zoo.staged(graph), client=client, device="fake")
    assert apart["devices"]["gpu"] == ["fake, emulated (asked for)"]
    same(apart, expected)
    print("same:", name)
"""
)


def test_stages_of_a_gpu_pool_compute_on_the_device(launched: Launched) -> None:
    code, out, err = launched.run(SCRIPT, "--servers", "1", "--io", "1", "--gpus", "1")
    assert code == 0, f"{out}\n{err}"
    result = json.loads((launched.folder / "result.json").read_text())
    assert result["emulated"] is True
    assert "worker gpu-0: pool 'gpu' is to compute on a GPU and cannot" in result["refused"]
    assert result["cpu | gpu | cpu"]["pools"] == ["io", "gpu", "io"]
    for name in ("two stages", "cpu | gpu | cpu", "two embeddings", "matchnet"):
        here, there = result[name]["here"], result[name]["there"]
        assert there["devices"]["gpu"] == ["fake, emulated (asked for)"], name
        assert set(there["devices"].get("io", ["CPU"])) == {"CPU"}, name
        for what in ("loss", "dense", "prediction"):
            np.testing.assert_allclose(there[what], here[what], rtol=1e-5, atol=1e-5, err_msg=f"{name}: {what}")
    assert result["stood in"]["gpu"][0].startswith("CPU, emulated (")
    launched.wait_until_gone()


KINDS = (
    BEGIN
    + """
import os
from tests.unit.session.test_unequal_pools import plan
made = plan(units=2)
here = told(hps.Plan.fused(made.graph, batch_size=made.batch_size), engine="inline")
there = told(made, client=client, device="fake")
seen = client.run(lambda: os.environ.get("CUDA_VISIBLE_DEVICES"))
names = {address: worker["name"] for address, worker in client.scheduler_info(n_workers=-1)["workers"].items()}
gpus = {names[address]: value for address, value in seen.items()}
pathlib.Path("result.json").write_text(json.dumps({"here": here, "there": there, "gpus": gpus}))
"""
)


@pytest.mark.full
def test_gpus_of_two_kinds_share_a_stage(launched: Launched) -> None:
    code, out, err = launched.run(KINDS, "--servers", "1", "--io", "1", "--pool", "v100=2", "--pool", "p40=1")
    assert code == 0, f"{out}\n{err}"
    result = json.loads((launched.folder / "result.json").read_text())
    workers = {name: gpu for name, gpu in result["gpus"].items() if name[:3] in ("v10", "p40")}
    assert workers == {"v100-0": "0", "v100-1": "1", "p40-0": "2"}
    for what in ("loss", "dense", "prediction"):
        np.testing.assert_allclose(result["there"][what], result["here"][what], rtol=1e-5, atol=1e-5, err_msg=what)
    launched.wait_until_gone()


@pytest.mark.full
def test_every_model_trains_in_processes_on_the_device(launched: Launched) -> None:
    code, out, err = launched.run(ALL, "--servers", "1", "--io", "1", "--gpus", "1")
    assert code == 0, f"{out}\n{err}"
    assert [line.split()[1] for line in out.splitlines() if line.startswith("same:")] == list(zoo.SMALL)
    launched.wait_until_gone()
