import asyncio
import gc
import os
import sys
import threading
from collections.abc import Iterator

import dask
import numpy as np
import psutil
import pytest
from distributed import Client, default_client

from heterps.errors import ClusterError
from heterps.runtime.cluster.ask import ask_workers
from heterps.runtime.cluster.connect import client_of, connected, existing_client
from heterps.runtime.cluster.core_share import Threads, blas_libraries
from heterps.runtime.cluster.in_process import local_cluster
from heterps.runtime.cluster.pools import pools_of


def test_pools_resources_and_threads(local: Client) -> None:
    assert {pool.name: len(pool.workers) for pool in pools_of(local)} == {"compute": 1, "io": 2, "server": 1}
    assert local.submit(sum, [1, 2], resources={"HPS_COMPUTE": 1}).result() == 3
    cores = len(os.sched_getaffinity(0))
    assert sum(w.nthreads for pool in pools_of(local) for w in pool.workers) <= max(cores, 4)


def test_arrays_pass_by_reference(local: Client) -> None:
    a = np.zeros(1000)
    future = local.submit(lambda: a, workers="io-0", pure=False)
    assert local.submit(lambda b: b.ctypes.data, future, workers="io-0").result() == future.result().ctypes.data


def test_nothing_listens_beyond_loopback(local: Client) -> None:
    listening = [c for c in psutil.Process().net_connections() if c.status == psutil.CONN_LISTEN]
    assert {c.laddr.ip for c in listening} <= {"127.0.0.1"}


def test_everything_is_put_back_and_nothing_stays(switch_interval: float) -> None:
    np.ones((2, 2)) @ np.ones((2, 2))
    threads, blas = set(threading.enumerate()), blas_libraries()
    with local_cluster({"io": 1}, threads=Threads(1, 1)) as client:
        assert {n for _, n in blas_libraries()} == {1}
        assert sys.getswitchinterval() == pytest.approx(5e-4)
        assert client.submit(sum, [1]).result() == 1
        assert existing_client() is not client
    gc.collect()
    assert sys.getswitchinterval() == switch_interval
    assert blas_libraries() == blas
    started = {thread.name for thread in set(threading.enumerate()) - threads}
    assert not [name for name in started if not name.startswith("Dask-Offload")]  # one pool for the whole process


@pytest.fixture
def switch_interval() -> Iterator[float]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.004)
    yield sys.getswitchinterval()
    sys.setswitchinterval(before)


def test_a_cluster_needs_workers() -> None:
    with pytest.raises(ClusterError, match="without workers"), local_cluster({"io": 0}):
        pass


def test_the_given_client_is_used_and_left_open(local: Client) -> None:
    with connected(local) as client:
        assert client is local
    assert local.status == "running"


def test_a_default_client_is_used(local: Client) -> None:
    with local.as_current(), connected() as client:
        assert client is default_client() is local


def test_else_a_cluster_is_made_here() -> None:
    with connected(workers={"io": 1}) as client:
        assert [pool.name for pool in pools_of(client)] == ["io"]
    assert client.status == "closed"
    with pytest.raises(ClusterError, match="the client is closed"), connected(client):
        pass


def test_a_scheduler_that_is_not_there_is_named() -> None:
    settings = {"scheduler-address": "tcp://127.0.0.1:1", "heterps.timeouts.connect": "300ms"}
    with dask.config.set(settings), pytest.raises(ClusterError, match=r"no scheduler answered at tcp://127\.0\.0\.1:1"):
        connected().__enter__()


def test_no_address_at_all_is_an_error() -> None:
    with dask.config.set({"scheduler-address": None}), pytest.raises(ClusterError, match="which cluster"):
        client_of()


def fail() -> None:
    raise OSError("disk on fire")


def missing() -> None:
    raise ModuleNotFoundError("No module named 'heterps'", name="heterps")


async def never() -> None:
    await asyncio.sleep(60)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (fail, "worker io-0 at inproc://.* failed: OSError: disk on fire"),
        (missing, "worker io-0 at inproc://.* cannot import heterps: install"),
        (never, r"worker io-0 at inproc://.* did not answer within 0\.2 s"),
    ],
)
def test_a_worker_that_fails_is_named(local: Client, function, message: str) -> None:
    workers = {w.address: w.name for pool in pools_of(local) for w in pool.workers if w.name == "io-0"}
    with pytest.raises(ClusterError, match=message):
        ask_workers(local, function, workers, timeout_s=0.2 if function is never else 60)
