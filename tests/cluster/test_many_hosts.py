import os
import signal
import socket

import pytest

from heterps.runtime.cluster.many_hosts import many_hosts

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def test_the_printed_commands_make_a_cluster(launched) -> None:
    (launched.folder / "script.py").write_text("""
import pathlib
from heterps.runtime.cluster.connect import client_of
from heterps.runtime.cluster.pools import Need, wait_for_pools
from heterps.runtime.cluster.core_share import blas_libraries

with client_of() as client:
    pools = wait_for_pools(client, [Need("io"), Need("gpu")], timeout_s=60)
    blas = client.submit(blas_libraries, resources={"GPU": 1}).result()
    found = [[w.name, w.nthreads, w.address[:3]] for pool in pools for w in pool.workers]
pathlib.Path("found").write_text(repr((found, {n for _, n in blas})))
""")
    pools, folder = {"io": 1, "gpu": 1}, str(launched.folder / "certs")
    text = many_hosts("127.0.0.1", pools, ["script.py"], port=free_port(), certs=folder, threads=2)
    (launched.folder / "commands.sh").write_text(text)
    process = launched.start_words("bash", "commands.sh")
    try:
        found = launched.wait_for("found")
    finally:
        os.killpg(process.pid, signal.SIGKILL)
    assert found == repr(([["gpu-0", 1, "tls"], ["io-0", 2, "tls"]], {2}))
    launched.wait_until_gone()
