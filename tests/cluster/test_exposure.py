"""Dask processes that strangers could reach, started for real."""

import json
import logging
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from distributed import Client

import heterps as hps
from heterps.runtime.cluster.identity import identity_of
from heterps.testing.engine_contract import plan
from tests.cluster.conftest import Launched

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]

LINE = "heterps: this {} would listen on "
PRELOAD = ("--preload", "heterps.runtime.preload")
CLOSED = ("--host", "127.0.0.1", "--dashboard-address", "127.0.0.1:0")
TRUSTED = {"DASK_HETERPS__NETWORK__TRUSTED": "true"}


def dask(launched: Launched, *words: str, **environment: str) -> subprocess.Popen[str]:
    launched.environment = {**environment}
    return launched.start_words(sys.executable, "-m", "dask", *words)


@contextmanager
def running(launched: Launched, *words: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    process = dask(launched, *words, **environment)
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=30)
        launched.process = None


@contextmanager
def scheduling(launched: Launched, *words: str) -> Iterator[str]:
    """Be a context with a scheduler: it chooses its port itself, as one that was free may be so no longer."""
    told = launched.folder / "scheduler.json"
    with running(launched, "scheduler", "--port", "0", "--scheduler-file", str(told), *words) as process:
        until = time.monotonic() + 60
        while not told.exists() or not told.read_text():
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < until
            time.sleep(0.05)
        yield "tcp://127.0.0.1:" + json.loads(told.read_text())["address"].rpartition(":")[2]


@pytest.fixture
def scheduler(launched: Launched) -> Iterator[str]:
    with scheduling(launched, *CLOSED, *PRELOAD) as address:
        yield address


def refusal(process: subprocess.Popen[str], kind: str) -> str:
    """Wait for the end of a process that refuses itself; return its line."""
    start = time.monotonic()
    _, err = process.communicate(timeout=60)
    assert process.returncode != 0
    assert time.monotonic() - start < 40
    (line,) = [line for line in err.splitlines() if line.startswith(LINE.format(kind))]
    return line


@pytest.mark.parametrize("nanny", ["--no-nanny", "--nanny"])
def test_a_worker_on_every_interface_is_refused(launched: Launched, scheduler: str, nanny: str) -> None:
    line = refusal(dask(launched, "worker", scheduler, nanny, *PRELOAD), "worker")
    assert "tcp://0.0.0.0:" in line
    assert "Add --host ADDRESS and --dashboard-address 127.0.0.1:0" in line
    with Client(scheduler, set_as_default=False) as client:
        assert not identity_of(client)["workers"]


def test_a_refusal_is_one_line(launched: Launched, scheduler: str) -> None:
    process = dask(launched, "worker", scheduler, "--no-nanny", *PRELOAD)
    _, err = process.communicate(timeout=60)
    assert "Traceback" not in err
    assert err.count("would listen on") == 1


def test_an_open_dashboard_is_refused_by_its_own_option(launched: Launched, scheduler: str) -> None:
    line = refusal(dask(launched, "worker", scheduler, "--no-nanny", "--host", "127.0.0.1", *PRELOAD), "worker")
    assert "listen on 0.0.0.0:" in line
    assert "Add --dashboard-address 127.0.0.1:0 (" in line


def test_a_nanny_is_refused_before_its_worker_starts(launched: Launched, scheduler: str) -> None:
    words = ("--host", "0.0.0.0", "--dashboard-address", "127.0.0.1:0", "--preload-nanny", PRELOAD[1])
    assert "Add --host ADDRESS (" in refusal(dask(launched, "worker", scheduler, *words), "nanny")


def test_a_scheduler_is_refused_too(launched: Launched) -> None:
    process = dask(launched, "scheduler", "--port", "0", *PRELOAD)
    _, err = process.communicate(timeout=60)
    assert process.returncode != 0
    assert "Traceback" not in err
    assert LINE.format("scheduler") in err


@pytest.mark.parametrize(
    ("words", "environment"), [(CLOSED, {}), ((*CLOSED, "--no-nanny"), {}), (("--no-nanny",), TRUSTED), ((), TRUSTED)]
)
def test_a_closed_or_trusted_worker_is_accepted(launched, scheduler, words, environment) -> None:
    with running(launched, "worker", scheduler, *words, *PRELOAD, **environment):
        with Client(scheduler, set_as_default=False) as client:
            client.wait_for_workers(1, timeout=60)
            client.shutdown()
        launched.wait_until_gone()


def test_launch_warns_once_of_a_cluster_that_is_open(launched: Launched, caplog) -> None:
    pools = ("--resources", "HPS_SERVER=1 HPS_IO=1", "--no-nanny")
    with (
        scheduling(launched, "--dashboard-address", "127.0.0.1:0") as address,
        running(launched, "worker", address, *pools, "--dashboard-address", "127.0.0.1:0"),
        Client(address, set_as_default=False) as client,
        caplog.at_level(logging.WARNING, "heterps"),
    ):
        client.wait_for_workers(1, timeout=60)
        (worker,) = (address.rpartition(":")[2] for address in identity_of(client)["workers"])
        for _ in range(2):
            with hps.launch(plan(), client):
                pass
    (message,) = [r.getMessage() for r in caplog.records if "open to strangers" in r.getMessage()]
    assert f"tcp://0.0.0.0:{address.rpartition(':')[2]}" in message
    assert f"tcp://0.0.0.0:{worker}" in message
    assert "--host" in message


@pytest.mark.parametrize("host", ["tls://0.0.0.0", "wss://0.0.0.0", "inproc://0.0.0.0"])
def test_the_launcher_does_not_believe_a_scheme(launched: Launched, host: str) -> None:
    code, _, err = launched.run("print('ran')", "--host", host)
    assert (code, "--tls turns on TLS" in err) == (1, True)
    assert not launched.logs.exists()


@pytest.mark.parametrize("tls", [(), pytest.param(("--tls",), marks=pytest.mark.full)])
def test_a_cluster_of_ipv6_trains(launched: Launched, tls: tuple[str, ...]) -> None:
    launched.environment["DASK_HETERPS__NETWORK__UNIX_SOCKETS"] = "false"
    code, out, err = launched.run(_TRAIN, "--host", "::1", "--servers", "1", "--io", "1", *tls)
    assert code == 0, f"{out}\n{err}"
    assert out.split() == [f"{'tls' if tls else 'tcp'}://[::1]", "::1", "2000"]


_TRAIN = """
import numpy as np
import heterps as hps
from heterps import ops
from heterps.runtime.cluster.identity import identity_of
from distributed import Client

ids, y = ops.input("ids", (2,), "uint64"), ops.input("y")
graph = hps.Graph(loss=ops.logloss(ops.sum(ops.lookup(ids, "wide", 1)), y))
rows = {"ids": np.arange(4000, dtype=np.uint64).reshape(2000, 2), "y": np.ones(2000, np.float32)}
with Client(set_as_default=False) as client, hps.launch(hps.Plan.fused(graph, batch_size=64), client) as session:
    for last in session.train(hps.arrays(rows)):
        pass
    print(identity_of(client)["address"].rpartition(":")[0])
    print(session.engine.host_addresses()[0].host, last.samples)
"""
