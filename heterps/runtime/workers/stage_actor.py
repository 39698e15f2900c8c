"""The compute stages of a worker as a Dask actor."""

from __future__ import annotations

import itertools
import ssl
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from distributed import get_worker

from heterps.kernels.program.param_layout import ParamLayout
from heterps.protocol.words.events import StageLost
from heterps.runtime.batch.crossing import StageOutcome
from heterps.runtime.batch.job import Job
from heterps.runtime.batch.phases import total
from heterps.runtime.wire.links import HostLink, StageLink, link_to_host, link_to_stage
from heterps.runtime.wire.peer import PeerLost
from heterps.runtime.wire.service import Address, Listener
from heterps.runtime.wire.worker_sockets import client_tls, listen_on, server_tls, worker_place
from heterps.runtime.workers.delivery import teller
from heterps.runtime.workers.stage import NextStage, StageParams, StageService

__all__ = ["DenseReader", "StageActor"]


class StageActor:
    """The compute stages of one worker as a Dask actor.

    Parameters
    ----------
    run
        Name of the run.
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
        run: str,
        job: Job,
        stages: Sequence[int],
        hosts: Sequence[Address],
        behind: Mapping[int, Sequence[Address]],
    ) -> None:
        worker = get_worker()
        tls, tell = client_tls(worker), teller(run, worker)
        self._source = DenseReader(job, hosts, tls)  # of all stages here
        self._stages = {i: self._service(job, i, _next_stage(behind, i, tls), worker) for i in stages}
        # One for each stage; what ends one of them ends the stage.
        self._listeners = {
            i: Listener(
                stage, listen_on(worker), server_tls(worker), failed=lambda error: tell(StageLost(worker.address))
            )
            for i, stage in self._stages.items()
        }

    def _service(self, job: Job, index: int, behind: NextStage | None, worker: Any) -> StageService:
        return StageService(job, index, self._source, behind, worker.state.nthreads, worker_place(worker))

    def addresses(self) -> dict[int, Address]:
        """Return where each stage is to be called."""
        return {i: listener.address for i, listener in self._listeners.items()}

    def move(self, hosts: Sequence[Address]) -> None:
        """Read parameters from new shard hosts from now on."""
        self._source.move(hosts)

    def steps(self) -> dict[int, int]:
        """Return how many batches each stage has computed."""
        return {i: stage.steps for i, stage in self._stages.items()}

    def collect(self) -> dict[str, Any]:
        """Return times since the last call."""
        return {"phases": total(stage.phases.take() for stage in self._stages.values())}

    def close(self) -> None:
        """Stop answering."""
        for listener in self._listeners.values():
            listener.close()


class DenseReader:
    """Reads dense parameters from the shard hosts, where they have changed; each thread has links of its own."""

    def __init__(self, job: Job, hosts: Sequence[Address], tls: ssl.SSLContext | None = None) -> None:
        self._model, self._tls = job.model, tls
        self._ranges = job.model.dense_ranges(job.hosts)
        self._links = _Links(hosts)  # replaced as one when hosts move

    def move(self, hosts: Sequence[Address]) -> None:
        """Read from other hosts from now on."""
        self._links = _Links(hosts)

    def fill(self, layout: ParamLayout, params: StageParams) -> None:
        """Bring the parameters of a layout to their present state."""
        spans = {piece.name: piece.span for piece in layout}
        for host, (first, last) in enumerate(self._ranges):
            wanted = [spec for spec in self._model.parameters[first:last] if spec.name in spans]
            if not wanted:
                continue
            mark, values = self._links.to(host, self._tls).dense(params.marks.get(host))
            if values is None:
                continue
            start = self._model.span(first, last).start
            for spec in wanted:
                there = self._model.layout[spec.name].offset - start
                params.flat[spans[spec.name]] = values[there : there + spec.size]
            params.marks[host] = mark


class _Links(threading.local):
    """Links of the calling thread to the shard hosts at some addresses."""

    def __init__(self, addresses: Sequence[Address]) -> None:
        self._addresses = addresses
        self._made: dict[int, HostLink] = {}  # by number of the host

    def to(self, host: int, tls: ssl.SSLContext | None) -> HostLink:
        if host not in self._made:
            self._made[host] = link_to_host(self._addresses[host], tls)
        return self._made[host]


def _next_stage(behind: Mapping[int, Sequence[Address]], index: int, tls: ssl.SSLContext | None) -> NextStage | None:
    """Return the way to the stage behind: workers in turn, the next one where one does not answer."""
    addresses = behind.get(index + 1)
    if not addresses:
        return None
    here, turn = threading.local(), itertools.count()

    def step(seed: int, feeds: Mapping[str, Any]) -> StageOutcome:
        links: list[StageLink] = here.__dict__.setdefault("links", [link_to_stage(a, tls) for a in addresses])
        first = next(turn)
        for i in range(len(links)):
            try:
                return links[(first + i) % len(links)].call(seed, feeds)
            except PeerLost:
                continue
        raise PeerLost(f"no worker of stage {index + 1} answers")

    return step
