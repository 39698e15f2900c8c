"""What a user writes into a script or a notebook works on workers that never see it."""

import os
import pathlib
import subprocess
import sys

import pytest

from tests.cluster.conftest import Launched

pytestmark = [pytest.mark.cluster, pytest.mark.full]

MODEL = """
import numpy as np
from distributed import Client, LocalCluster

import heterps as hps
from heterps import ops
from heterps.graph import OpKind, register_kind
from heterps.kernels import Kernel, register_kernel
from heterps.kernels.cost import passes

register_kind(OpKind("own", infer=lambda attrs, inputs: inputs[0]))


def forward(c):
    c.xp.multiply(c.xs[0], FACTOR, out=c.y)


def backward(c):
    if c.dxs[0] is not None:
        c.dxs[0][...] = c.dy * FACTOR


FACTOR = 3
register_kernel("own", Kernel(passes(1), forward, backward))


def graph():
    ids = ops.input("ids", shape=(1,), dtype="uint64")
    h = ops.build("own", ops.sum(ops.lookup(ids, table="t", dim=1)))
    return hps.Graph(ops.logloss(h, ops.input("y")))


def run(client):
    ids = np.arange(2000, dtype="u8").reshape(-1, 1) % 50
    data = hps.arrays({"ids": ids, "y": (ids[:, 0] % 2).astype("f4")}, {"y": "label"})
    with hps.launch(hps.Plan.fused(graph(), batch_size=100), client) as session:
        *_, last = session.train(data, epochs=2)
        print(last.samples, session.evaluate(data)["auc"])
"""
NOTEBOOK = """
with LocalCluster(n_workers=1, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0") as cluster:
    with Client(cluster) as client:
        run(client)
"""


def test_a_script_under_the_launcher(launched: Launched) -> None:
    code, out, err = launched.run(
        MODEL + "\nif __name__ == '__main__':\n    run(None)\n", "--servers", "1", "--io", "1"
    )
    assert (code, out.strip()) == (0, "4000 1.0"), err


def test_a_notebook_with_a_plain_cluster_of_processes(tmp_path: pathlib.Path) -> None:
    """A program without a file, as a kernel's is: no process can import it."""
    paths = {**os.environ, "PYTHONPATH": str(pathlib.Path(__file__).parents[2])}
    words = [sys.executable, "-c", MODEL + NOTEBOOK]
    done = subprocess.run(words, text=True, capture_output=True, timeout=120, cwd=tmp_path, env=paths)
    assert (done.returncode, done.stdout.strip()) == (0, "4000 1.0"), done.stderr
