"""A real notebook kernel: a graph of a cell is trained here and on processes, and an interrupt ends only the cell."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.cluster, pytest.mark.full, pytest.mark.timeout(900)]
ROOT = Path(__file__).parents[2]
PATIENT_S = 300.0  # a kernel imports, compiles and starts processes on a machine that may have other work

MODEL = """
import numpy as np
from distributed import Client, LocalCluster
import heterps as hps
from heterps import ops
from heterps.graph import OpKind, register_kind
from heterps.kernels import Kernel, register_kernel
from heterps.kernels.cost import passes

FACTOR = 3

def forward(c):
    c.xp.multiply(c.xs[0], FACTOR, out=c.y)

def backward(c):
    if c.dxs[0] is not None:
        c.dxs[0][...] = c.dy * FACTOR

register_kind(OpKind("own", infer=lambda attrs, inputs: inputs[0]))
register_kernel("own", Kernel(passes(1), forward, backward))

def graph():
    ids = ops.input("ids", shape=(1,), dtype="uint64")
    h = ops.build("own", ops.sum(ops.lookup(ids, table="t", dim=1)))
    return hps.Graph(ops.logloss(h, ops.input("y")))

ids = np.arange(2000, dtype="u8").reshape(-1, 1) % 50
data = hps.arrays({"ids": ids, "y": (ids[:, 0] % 2).astype("f4")}, {"y": "label"})

def train(epochs=2, **where):
    with hps.launch(hps.Plan.fused(graph(), batch_size=100), **where) as session:
        for last in session.train(data, epochs=epochs):
            if epochs > 2:
                print("begun", flush=True)
        print(last.samples, session.evaluate(data)["auc"])
"""
CLUSTER = """
cluster = LocalCluster(n_workers=1, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0")
client = Client(cluster)
"""
HERE, THERE = 'engine="inline"', "client=client"


class Kernel:
    """A kernel and what its cells print."""

    def __init__(self, manager: Any) -> None:
        self.manager, self.client = manager, manager.blocking_client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=PATIENT_S)

    def run(self, code: str, interrupt: bool = False) -> tuple[str, str]:
        """Run a cell, until it prints something where it is interrupted; return that and the name of its error."""
        printed: list[str] = []

        def heard(message: dict[str, Any]) -> None:
            if message["msg_type"] == "stream" and message["content"]["name"] == "stdout":
                begun = interrupt and not printed
                printed.append(message["content"]["text"])
                if begun:
                    self.manager.interrupt_kernel()

        reply = self.client.execute_interactive(code, output_hook=heard, timeout=PATIENT_S)
        return "".join(printed).strip(), reply["content"].get("ename", "")


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    pytest.importorskip("ipykernel")
    jupyter = pytest.importorskip("jupyter_client")
    manager = jupyter.KernelManager(kernel_name="python3")
    folder = tmp_path_factory.mktemp("notebook")
    patience = {f"DASK_HETERPS__TIMEOUTS__{name}": "180s" for name in ("CONNECT", "WORKERS", "CALL")}
    manager.start_kernel(cwd=str(folder), env={**os.environ, "PYTHONPATH": str(ROOT)} | patience)
    try:
        started = Kernel(manager)
        assert started.run(MODEL) == ("", "")
        yield started
        started.client.stop_channels()
    finally:
        manager.shutdown_kernel(now=True)


def test_a_graph_of_a_cell_is_trained_in_the_kernel(kernel: Kernel) -> None:
    assert kernel.run(f"train({HERE})") == ("4000 1.0", "")


def test_an_interrupt_ends_a_cell_that_trains_in_the_kernel(kernel: Kernel) -> None:
    assert interrupted(kernel, HERE) == ("begun", "KeyboardInterrupt")
    assert kernel.run(f"train({HERE})") == ("4000 1.0", "")


def test_a_graph_of_a_cell_is_trained_on_processes_until_an_interrupt(kernel: Kernel) -> None:
    """Jupyter interrupts all processes of a kernel: Dask's workers end of it, and another cluster has to be made."""
    assert kernel.run(CLUSTER) == ("", "")
    assert kernel.run(f"train({THERE})") == ("4000 1.0", "")
    assert interrupted(kernel, THERE) == ("begun", "KeyboardInterrupt")
    assert kernel.run(f"client.close(); cluster.close()\n{CLUSTER}") == ("", "")
    assert kernel.run(f"train({THERE})") == ("4000 1.0", "")


def interrupted(kernel: Kernel, where: str) -> tuple[str, str]:
    """Interrupt an endless training at its first report; return what it printed first, and how it ended."""
    printed, error = kernel.run(f"train(10**6, {where})", interrupt=True)
    return printed[:5], error
