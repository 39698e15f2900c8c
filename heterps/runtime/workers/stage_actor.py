"""The compute stages of a worker as a Dask actor."""

from __future__ import annotations

import itertools
import ssl
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from distributed import get_worker

from heterps.kernels.program.param_layout import ParamLayout
from heterps.runtime.batch.crossing import StageOutcome
from heterps.runtime.batch.job import Job
from heterps.runtime.batch.phases import total
from heterps.runtime.wire.links import call_stage
from heterps.runtime.wire.peer import Peer, PeerLost, connect
from heterps.runtime.wire.service import Address, Listener
from heterps.runtime.wire.worker_sockets import client_tls, listen_on, server_tls
from heterps.runtime.workers.stage import NextStage, StageService

__all__ = ["DenseReader", "StageActor"]


class StageActor:
    """The compute stages of one worker as a Dask actor.

    Parameters
    ----------
    job
        What is trained.
    stages
        Which stages run here.
    hosts
        Shard hosts, in order: where dense parameters come from.
    behind
        Addresses of the workers of each further stage.
    """

    def __init__(
        self,
        job: Job,
        stages: Sequence[int],
        hosts: Sequence[Address],
        behind: Mapping[int, Sequence[Address]],
        slowdown: float = 0.0,
    ) -> None:
        worker = get_worker()
        tls = client_tls(worker)
        self._source = source = DenseReader(job, hosts, tls)
        self._hosts = {
            index: StageService(
                job, index, source, _next_stage(behind, index, client_tls(worker)), worker.state.nthreads, slowdown
            )
            for index in stages
        }
        self._listeners = {i: Listener(host, listen_on(worker), server_tls(worker)) for i, host in self._hosts.items()}

    def addresses(self) -> dict[int, Address]:
        """Return where each stage is to be called."""
        return {i: listener.address for i, listener in self._listeners.items()}

    def move(self, hosts: Sequence[Address]) -> None:
        """Read parameters from new shard hosts from now on."""
        self._source.move(hosts)

    def steps(self) -> dict[int, int]:
        """Return how many batches each stage has computed."""
        return {i: host.steps for i, host in self._hosts.items()}

    def collect(self) -> dict[str, Any]:
        """Return times since the last call."""
        return {"phases": total(host.phases.take() for host in self._hosts.values())}

    def close(self) -> None:
        """Stop answering."""
        for listener in self._listeners.values():
            listener.close()


class DenseReader:
    """Reads dense parameters from the shard hosts; each thread has connections of its own."""

    def __init__(self, job: Job, hosts: Sequence[Address], tls: ssl.SSLContext | None = None) -> None:
        self._model, self._addresses, self._tls = job.model, hosts, tls
        self._ranges = job.model.dense_ranges(job.hosts)
        self._here = threading.local()

    def move(self, hosts: Sequence[Address]) -> None:
        """Read from other hosts from now on."""
        self._addresses, self._here = hosts, threading.local()

    def fill(self, layout: ParamLayout, flat: Any) -> None:
        """Write the parameters of a layout as they are now."""
        spans = {piece.name: piece.span for piece in layout}
        for host, (first, last) in enumerate(self._ranges):
            wanted = [spec for spec in self._model.parameters[first:last] if spec.name in spans]
            if not wanted:
                continue
            reply = self._peer(host).call("dense")
            start = self._model.span(first, last).start
            for spec in wanted:
                there = self._model.layout[spec.name].offset - start
                flat[spans[spec.name]] = reply.arrays[0][there : there + spec.size]

    def _peer(self, host: int) -> Peer:
        peers: dict[int, Peer] = self._here.__dict__.setdefault("peers", {})
        if host not in peers:
            peers[host] = connect(self._addresses[host], tls=self._tls)
        return peers[host]


def _next_stage(behind: Mapping[int, Sequence[Address]], index: int, tls: ssl.SSLContext | None) -> NextStage | None:
    """Return the way to the stage behind: workers in turn, the next one where one does not answer."""
    addresses = behind.get(index + 1)
    if not addresses:
        return None
    here, turn = threading.local(), itertools.count()

    def step(seed: int, feeds: Mapping[str, Any]) -> StageOutcome:
        peers = here.__dict__.setdefault("peers", [connect(address, tls=tls) for address in addresses])
        first = next(turn)
        for i in range(len(peers)):
            try:
                return call_stage(peers[(first + i) % len(peers)], seed, feeds)
            except PeerLost:
                continue
        raise PeerLost(f"no worker of stage {index + 1} answers")

    return step
