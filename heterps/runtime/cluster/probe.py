"""Measure a cluster: what each worker is, and how fast bytes pass between pools."""

from __future__ import annotations

import asyncio
import itertools
import platform
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from distributed import Client

from heterps.device import found_devices
from heterps.errors import ClusterError
from heterps.hardware import Hardware
from heterps.runtime.batch.devices import DeviceWish
from heterps.runtime.cluster.ask import ask_workers
from heterps.runtime.cluster.commands import join_hint
from heterps.runtime.cluster.core_share import available_cores, blas_libraries
from heterps.runtime.cluster.pools import FoundPool, pools_of
from heterps.runtime.cluster.survey import MeasuredTransfer, WorkerFacts, describe
from heterps.runtime.wire.message import Message
from heterps.runtime.wire.peer import DirectPeer, connect
from heterps.runtime.wire.service import Address, Listener
from heterps.runtime.wire.worker_sockets import client_tls, listen_on, server_tls

__all__ = ["discover", "worker_facts"]

_TRANSFER_BYTES = 1 << 20  # about what a pull brings back
_TRANSFER_S = 0.05
_LISTENERS: dict[str, Listener] = {}  # of this process, between the two calls that open and close one


def discover(client: Client, *, links: bool = True, wish: DeviceWish | None = None) -> Hardware:
    """Probe every worker of a cluster and return it as Hardware, one Pool per resource that workers declare.

    Parameters
    ----------
    client
        Client of the cluster.
    links
        Whether to send bytes between pools to measure their links (a tenth of a second per pair).
    wish
        What a run will ask of its pools; by default workers tagged GPU are to use one, or NumPy stands in.

    Returns
    -------
    Hardware
        Pools ``server``, ``io``, ``compute`` ... as they were found, with measured rates. A pool tagged GPU without
        a GPU is marked ``emulated``.

    Raises
    ------
    ClusterError
        When no worker declares a pool, or one does not answer in time; it is named.
    """
    pools = pools_of(client)
    workers = {worker.address: worker.name for pool in pools for worker in pool.workers}
    if not workers:
        raise ClusterError(f"no worker declares a pool; start workers that do: {join_hint('HPS_IO')}")
    facts = ask_workers(client, worker_facts, workers)
    first = {fact.machine: address for address, fact in sorted(facts.items(), reverse=True)}
    measured = ask_workers(client, _measure_machine, {address: workers[address] for address in first.values()})
    machines = {machine: Hardware.from_json(measured[address]) for machine, address in first.items()}
    transfers = _transfers(client, pools, facts) if links else ()
    return describe(pools, facts, machines, transfers, wish)


def worker_facts() -> WorkerFacts:
    """Runs on a worker: what it is."""
    return WorkerFacts(platform.node(), available_cores(), blas_libraries(), found_devices())


async def _measure_machine() -> dict[str, Any]:
    """Runs on one worker of each machine; in a thread, so that its loop goes on answering."""
    hardware = await asyncio.to_thread(Hardware.local)
    return hardware.to_json()


def _transfers(
    client: Client, pools: Sequence[FoundPool], facts: Mapping[str, WorkerFacts]
) -> tuple[MeasuredTransfer, ...]:
    return tuple(
        found for a, b in itertools.combinations(pools, 2) if (found := _transfer(client, a, b, facts)) is not None
    )


def _transfer(client: Client, a: FoundPool, b: FoundPool, facts: Mapping[str, WorkerFacts]) -> MeasuredTransfer | None:
    """Time calls from a worker of ``b`` to one of ``a``, on another machine where there is one."""
    names = {worker.address: worker.name for pool in (a, b) for worker in pool.workers}
    pairs = [(x, y) for x in a.addresses for y in b.addresses if x != y]
    if not pairs:
        return None
    host, caller = max(pairs, key=lambda pair: facts[pair[0]].machine != facts[pair[1]].machine)
    address = ask_workers(client, _open_listener, {host: names[host]})[host]
    try:
        rates = ask_workers(client, _time_transfers, {caller: names[caller]}, address)[caller]
    finally:
        ask_workers(client, _close_listener, {host: names[host]}, address)
    return MeasuredTransfer(a.name, b.name, *rates) if rates is not None else None


class _ProbedRows:
    """Answers with as many bytes as asked for."""

    def __init__(self) -> None:
        self._rows = np.ones(_TRANSFER_BYTES // 4, np.float32)

    @property
    def methods(self) -> Mapping[str, Any]:
        return {"pull": lambda message: Message({}, [self._rows[: message.head["n"]]])}


def _open_listener(dask_worker: Any) -> dict[str, Any]:
    listener = Listener(_ProbedRows(), listen_on(dask_worker), server_tls(dask_worker))
    _LISTENERS[listener.address.name] = listener
    return asdict(listener.address)


def _close_listener(address: Mapping[str, Any]) -> None:
    _LISTENERS.pop(address["name"]).close()


async def _time_transfers(address: Mapping[str, Any], dask_worker: Any) -> tuple[float, float] | None:
    """Runs on the caller: bytes per second and seconds of an empty call; None where both share a process."""
    peer = connect(Address(**address), timeout_s=5.0, tls=client_tls(dask_worker))
    if isinstance(peer, DirectPeer):
        return None
    try:
        latency = await asyncio.to_thread(_best_call_s, peer, 0)
        seconds = await asyncio.to_thread(_best_call_s, peer, _TRANSFER_BYTES // 4)
    finally:
        peer.close()
    return _TRANSFER_BYTES / max(seconds - latency, 1e-9), latency


def _best_call_s(peer: Any, n: int) -> float:
    """Shortest of the calls that fit into a short time: disturbances only ever add."""
    peer.call("pull", n=n)
    best, until = float("inf"), time.perf_counter() + _TRANSFER_S
    while (start := time.perf_counter()) < until:
        peer.call("pull", n=n)
        best = min(best, time.perf_counter() - start)
    return best
