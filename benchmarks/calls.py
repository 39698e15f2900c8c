"""Time of a 1 MB pull between two Dask workers, by the ways there are to make a call.

Run ``python -m benchmarks.calls`` (about a minute). One worker, the host, answers a request of 16 Ki ids with four
arrays of 64 Ki float32; another, the caller, asks for them from a coroutine on its loop. Both sit in one process
(``inproc``) or in two (``tcp``). The ways:

- ``actor sync``, ``actor async``: a Dask actor's method
- ``handler``: an operation added to ``worker.handlers`` and called through the worker's own connection pool
- ``handler packed``: the same, the reply being one buffer cut into views by the caller
- ``held comm``: the same operation over a connection the caller keeps, without the pool
- ``object``: the method itself, where both are in one process
- ``socket``: blocking sockets in threads of their own with buffers made once: what the kernel and Python allow
- ``socket, loop``: the same, the thread serving a coroutine that waits for it
- ``service``, ``service, tcp``: the package's own calls (``heterps.runtime.wire.service``) over either kind of socket
- ``unix socket``: the same as ``socket`` by a name in the file system, for two processes on one machine

``load`` is what another thread of the host's process does meanwhile: nothing, GEMMs (which release the GIL) or pure
Python, the latter also with ``sys.setswitchinterval(5e-4)``. ``caller`` under ``where`` puts that thread beside the
caller instead.
"""

from __future__ import annotations

import argparse
import asyncio
import socket
import statistics
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
from distributed import Client, LocalCluster, WorkerPlugin, get_worker
from distributed.comm import connect
from distributed.core import send_recv
from distributed.protocol import to_serialize
from threadpoolctl import threadpool_limits

from heterps.runtime.cluster.identity import identity_of
from heterps.runtime.wire.message import Message
from heterps.runtime.wire.peer import SocketPeer
from heterps.runtime.wire.service import Address, Listener, Method

IDS = np.arange(16 * 1024, dtype=np.uint64)
ARRAYS, LENGTH = 4, 64 * 1024
NBYTES = ARRAYS * LENGTH * 4
LOADS = ("none", "gemm", "python", "python 0.5ms")
WAYS = (
    "actor sync", "actor async", "handler", "handler packed", "held comm", "socket", "socket, loop", "unix socket",
    "service", "service, tcp",
)  # fmt: skip
Call = Callable[[], Awaitable[Any]]


class Answer:
    """The host's side: rows ready in memory, so that only the call is timed."""

    def __init__(self) -> None:
        self.packed = np.zeros(ARRAYS * LENGTH, np.float32)
        self.rows = list(self.packed.reshape(ARRAYS, LENGTH))

    def pull_sync(self, ids: np.ndarray) -> list[np.ndarray]:
        """Give the rows from the worker's actor thread."""
        return self.rows

    async def pull(self, ids: np.ndarray) -> list[np.ndarray]:
        """Give the rows from the worker's loop."""
        return self.rows

    @property
    def methods(self) -> dict[str, Method]:
        """Give the rows from a thread of the service."""
        return {"pull": lambda message: Message({}, self.rows)}


class Operations(WorkerPlugin):
    """Adds the operations to a worker's handlers and a listening socket beside it."""

    name = "bench-calls"

    def setup(self, worker: Any) -> None:
        """Start answering."""
        self.answer = answer = Answer()

        async def pull(ids: Any) -> Any:
            return [to_serialize(a) for a in answer.rows]

        async def pull_packed(ids: Any) -> Any:
            return to_serialize(answer.packed)

        worker.handlers.update(bench_pull=pull, bench_pull_packed=pull_packed)
        unix = socket.socket(socket.AF_UNIX)
        unix.bind(f"{worker.local_directory}/bench.socket")
        unix.listen()
        self.sockets = [socket.create_server(("127.0.0.1", 0)), unix]
        worker.bench_ports = [s.getsockname() for s in self.sockets]
        self.listener = Listener(answer)
        worker.bench_ports.append(self.listener.address)
        for listening in self.sockets:
            threading.Thread(target=self._serve, args=[listening], daemon=True).start()

    def _serve(self, listening: socket.socket) -> None:
        request = bytearray(IDS.nbytes)
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            _no_delay(connection)
            with connection:
                while _read_into(connection, memoryview(request)):
                    connection.sendall(memoryview(self.answer.packed).cast("B"))

    def teardown(self, worker: Any) -> None:
        """Stop answering."""
        self.listener.close()
        for listening in self.sockets:
            listening.shutdown(socket.SHUT_RDWR)
            listening.close()


def _no_delay(connection: socket.socket) -> None:
    if connection.family == socket.AF_INET:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _read_into(connection: socket.socket, view: memoryview) -> bool:
    while view:
        n = connection.recv_into(view, flags=socket.MSG_WAITALL)
        if n == 0:
            return False
        view = view[n:]
    return True


class Load:
    """A thread that works until told to stop."""

    def __init__(self, kind: str) -> None:
        self.kind, self.stopped = kind, threading.Event()
        self.interval = sys.getswitchinterval()
        if kind.endswith("ms"):
            sys.setswitchinterval(5e-4)
        self.thread = threading.Thread(target=self._work, daemon=True)
        self.thread.start()

    def _work(self) -> None:
        a = np.ones((768, 768), np.float32)
        while not self.stopped.is_set():
            if self.kind == "gemm":
                a @ a
            elif self.kind.startswith("python"):
                sum(i & 7 for i in range(20000))
            else:
                return

    def stop(self) -> None:
        """End the thread."""
        self.stopped.set()
        self.thread.join()
        sys.setswitchinterval(self.interval)


def start_load(kind: str, dask_worker: Any) -> None:
    dask_worker.bench_limits = threadpool_limits(1)
    dask_worker.bench_load = Load(kind)


def stop_load(dask_worker: Any) -> None:
    dask_worker.bench_load.stop()
    dask_worker.bench_limits.restore_original_limits()


async def time_calls(call: Call, count: int, depth: int) -> list[float]:
    """Milliseconds of each of `count` calls with `depth` in flight, after a few to warm up."""
    times: list[float] = []

    async def chain(n: int) -> None:
        for _ in range(n):
            start = time.perf_counter()
            await call()
            times.append((time.perf_counter() - start) * 1e3)

    await asyncio.gather(*(chain(5) for _ in range(depth)))
    times.clear()
    start = time.perf_counter()
    await asyncio.gather(*(chain(count // depth) for _ in range(depth)))
    total = (time.perf_counter() - start) * 1e3
    return [statistics.median(times), sorted(times)[int(0.95 * len(times))], total / len(times)]


async def ask(way: str, host: dict[str, Any], count: int, depth: int) -> list[float]:
    """Runs on the caller's loop: median, 95th percentile and elapsed/calls, in ms."""
    pool, ids, actor, address = get_worker().rpc, to_serialize(IDS), host["actor"], host["address"]
    calls: dict[str, Call] = {
        "actor sync": lambda: actor.pull_sync(IDS),
        "actor async": lambda: actor.pull(IDS),
        "handler": lambda: pool(address).bench_pull(ids=ids),
        "handler packed": lambda: pool(address).bench_pull_packed(ids=ids),
        "object": lambda: host["object"].pull(IDS),
    }
    if way in calls:
        return await time_calls(calls[way], count, depth)
    return await (ask_held if way == "held comm" else ask_socket_from_loop)(host, count)


async def ask_held(host: dict[str, Any], count: int) -> list[float]:
    comm = await connect(host["address"], **get_worker().rpc.connection_args)
    comm.name = "bench"
    try:
        ids = to_serialize(IDS)
        return await time_calls(lambda: send_recv(comm, op="bench_pull_packed", ids=ids), count, 1)
    finally:
        await comm.close()


async def ask_socket_from_loop(host: dict[str, Any], count: int) -> list[float]:
    loop, reply = asyncio.get_running_loop(), memoryview(bytearray(NBYTES))
    with ThreadPoolExecutor(1) as executor, _connect(host["ports"][0]) as connection:
        return await time_calls(lambda: loop.run_in_executor(executor, _exchange, connection, reply), count, 1)


def _connect(address: Any) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET)
    connection.connect(address if isinstance(address, str) else tuple(address))
    _no_delay(connection)
    return connection


def _exchange(connection: socket.socket, reply: memoryview) -> None:
    connection.sendall(memoryview(IDS).cast("B"))
    _read_into(connection, reply)


def ask_socket(address: Any, count: int) -> list[float]:
    """Runs in a thread of the caller: the same figures for a blocking socket, one call at a time."""
    reply = memoryview(bytearray(NBYTES))
    with _connect(address) as connection:
        return time_blocking(lambda: _exchange(connection, reply), count)


def ask_service(address: Address, count: int) -> list[float]:
    """Runs in a thread of the caller: the same for the package's own calls."""
    peer = SocketPeer(address)
    try:
        return time_blocking(lambda: peer.call("pull", [IDS]), count)
    finally:
        peer.close()


def time_blocking(call: Callable[[], object], count: int) -> list[float]:
    times = []
    for _ in range(count + 5):
        start = time.perf_counter()
        call()
        times.append((time.perf_counter() - start) * 1e3)
    times = times[5:]
    return [statistics.median(times), sorted(times)[int(0.95 * len(times))], statistics.mean(times)]


def describe_host(client: Client, address: str, same_process: bool) -> dict[str, Any]:
    ports = client.run(lambda dask_worker: dask_worker.bench_ports, workers=[address])[address]
    actor = client.submit(Answer, actor=True, workers=[address]).result()
    return {"address": address, "ports": ports, "actor": actor, "object": Answer() if same_process else None}


def measure(client: Client, ways: tuple[str, ...], where: str, loads: tuple[str, ...], count: int) -> None:
    address, caller = list(identity_of(client)["workers"])
    host = describe_host(client, address, "object" in ways)
    for load in loads:
        busy = [address if where == "host" else caller]
        client.run(start_load, load, workers=busy)
        for way in ways:
            for depth in (1, 4) if way in ("actor async", "handler", "handler packed") else (1,):
                function, *arguments = (ask, way, host, count, depth)
                if way in ("socket", "unix socket"):
                    function, *arguments = (ask_socket, host["ports"][way == "unix socket"], count)
                elif way.startswith("service"):
                    nearest = host["ports"][2]
                    elsewhere = replace(nearest, machine="another") if way == "service, tcp" else nearest
                    function, *arguments = (ask_service, elsewhere, count)
                figures = client.submit(function, *arguments, workers=[caller], pure=False).result(timeout=120)
                print(f"  {load:13} {where:7} {way:15} {depth:5}", *(f"{ms:9.2f}" for ms in figures), flush=True)
        client.run(stop_load, workers=busy)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=200, help="calls per line")
    parser.add_argument("--only", default="", help="only the ways whose name contains this")
    count, only = vars(parser.parse_args()).values()
    ways = tuple(way for way in WAYS if only in way)
    for protocol in ("inproc", "tcp"):
        print(f"{protocol}\n  load          where   way             depth  median ms   95% ms  ms/call")
        processes = protocol == "tcp"
        cluster = LocalCluster(n_workers=2, threads_per_worker=2, processes=processes, dashboard_address=None)
        with cluster, Client(cluster) as client:
            client.register_plugin(Operations())
            measure(client, ways if processes else (*ways, "object"), "host", LOADS, count)
            if processes:
                measure(client, ways, "caller", LOADS[1:3], count)
            client.unregister_worker_plugin("bench-calls")


if __name__ == "__main__":
    main()
