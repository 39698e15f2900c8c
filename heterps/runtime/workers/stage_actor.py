"""The compute stages of a worker as a Dask actor."""

from __future__ import annotations

import ssl
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from time import perf_counter
from typing import Any

from distributed import Worker, get_worker

from heterps.errors import ClusterError, HardwareError, UnknownKindError
from heterps.kernels.program.param_layout import ParamLayout
from heterps.protocol.words.events import Event, StageLost
from heterps.runtime.batch.crossing import StageOutcome
from heterps.runtime.batch.job import Job
from heterps.runtime.batch.phases import total
from heterps.runtime.batch.stage_params import StageParams
from heterps.runtime.config import settings
from heterps.runtime.own_threads import logged, start_thread
from heterps.runtime.wire.links import HostLink, link_to_host, link_to_stage
from heterps.runtime.wire.own_links import OwnLinks
from heterps.runtime.wire.peer import Peer, PeerLost
from heterps.runtime.wire.service import Address, Listener, local_service
from heterps.runtime.wire.worker_sockets import client_tls, listen_on, server_tls, worker_place
from heterps.runtime.workers.delivery import Addresses, peer_at, reducing_failed, teller
from heterps.runtime.workers.shard_host import ShardHost
from heterps.runtime.workers.shared_credits import SharedCredits
from heterps.runtime.workers.stage import StageService
from heterps.runtime.workers.stage_member import StageMember

__all__ = ["DenseReader", "StageActor", "StagesBehind"]


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
        self.run = run
        worker = get_worker()
        tls, tell = client_tls(worker), teller(run, worker)
        self._tls, self._addresses = tls, dict[int | str, Address]()  # the latter of copies and members: what was told
        self._member = self._make_member(job, worker, tell) if job.stage_group and 1 in stages else None
        self._source = DenseReader(job, hosts, tls, self._member)  # of all stages here
        turn = zlib.crc32(worker.address.encode())
        self._behind = {i: StagesBehind(i, behind[i], tls, turn) for i in behind}  # for stages that run elsewhere
        self._stages: dict[int, StageService] = {}  # that run here
        for i in sorted(stages, reverse=True):
            here = self._stages.get(i + 1)
            behind_it = here.step if here is not None else self._behind.get(i + 1)
            with _able(worker_place(worker)):
                self._stages[i] = StageService(
                    job, i, self._source, behind_it, worker.state.nthreads, worker_place(worker)
                )
        # One for each stage; what ends one of them ends the stage.
        listens = partial(Listener, failed=lambda error: tell(StageLost(worker.address)))
        place, secured = listen_on(worker), server_tls(worker)
        self._listeners = {
            i: listens(stage, place, secured, ring=stage.receive_ring) for i, stage in self._stages.items()
        }
        self._door = None if self._member is None else listens(self._member, place, secured)

    def _make_member(self, job: Job, worker: Worker, tell: Callable[[Event], None]) -> StageMember:
        failed = partial(reducing_failed, tell, worker_place(worker))
        return StageMember(job, worker.address, tell, self._peer, failed, settings().table_threads)

    def _peer(self, name: str | int) -> Peer:
        return peer_at(self._addresses, name, self._tls)

    def addresses(self) -> dict[int, Address]:
        """Return where each stage is to be called."""
        return {i: listener.address for i, listener in self._listeners.items()}

    def member_address(self) -> Address:
        """Return where the member of the all-reduce group is to be called."""
        assert self._door is not None
        return self._door.address

    def to_member(self, instruction: Any, addresses: Addresses) -> None:
        """Hand an instruction to the member of the all-reduce group."""
        self._addresses = {**self._addresses, **addresses}
        assert self._member is not None
        self._member.deliver(instruction)

    def move(self, hosts: Sequence[Address]) -> None:
        """Read parameters from new shard hosts from now on."""
        self._source.move(hosts)

    def steps(self) -> dict[int, int]:
        """Return how many batches each stage has computed."""
        return {i: stage.steps for i, stage in self._stages.items()}

    def collect(self) -> dict[str, Any]:
        """Return times since the last call, and what computes."""
        stages = self._stages.values()
        devices = {stage.device for stage in stages if stage.computes}
        holders = [] if self._member is None else [self._member.phases]
        phases = total(phases.take() for phases in (*(stage.phases for stage in stages), *holders))
        return {"phases": phases, "devices": devices}

    def close(self) -> None:
        """Stop answering."""
        for listener in self._listeners.values():
            listener.close()
        if self._door is not None and self._member is not None:
            self._door.close()
            self._member.close()
        for behind in self._behind.values():
            behind.close()
        self._source.close()


@contextmanager
def _able(worker: str) -> Iterator[None]:
    """A worker that cannot compute on what is wanted is of no use to the run, which goes on with others."""
    try:
        yield
    except (HardwareError, UnknownKindError) as error:
        raise ClusterError(f"{worker} cannot compute a stage: {error}") from error


class DenseReader:
    """Reads dense parameters from the shard hosts, where they have changed; each thread has links of its own.

    Those that the workers of the stage all-reduce come from the member in this process.
    """

    def __init__(
        self,
        job: Job,
        hosts: Sequence[Address],
        tls: ssl.SSLContext | None = None,
        member: StageMember | None = None,
    ) -> None:
        self._model, self._tls, self._member = job.model, tls, member
        self._reduced = {spec.name for spec in job.reduced}
        self._ranges = job.dense_ranges
        self._links = self._to(hosts)  # replaced as one when hosts move
        self._hosts, self._has_holder = hosts, job.holder

    def _to(self, hosts: Sequence[Address]) -> OwnLinks[HostLink]:
        return OwnLinks(lambda host: link_to_host(hosts[host], self._tls))

    def move(self, hosts: Sequence[Address]) -> None:
        """Read from other hosts from now on."""
        before, self._links, self._hosts = self._links, self._to(hosts), hosts
        # A call to a host that is gone may take its time to end, and nobody waits for it.
        start_thread("close-links", before.close, failed=logged("closing links to hosts that have moved"))

    def holder(self) -> ShardHost | None:
        """Return the stage holder if it is in this process."""
        found = local_service(self._hosts[-1]) if self._has_holder else None
        return found if isinstance(found, ShardHost) else None

    def rows(self, seed: int, ids: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the rows that the stage holder has lent to a batch."""
        return self._links.to(len(self._hosts) - 1).rows(seed, ids)

    def member(self) -> StageMember | None:
        """Return the member of the all-reduce group in this process."""
        return self._member

    def close(self) -> None:
        """Let go of the connections."""
        self._links.close()

    def fill(self, layout: ParamLayout, params: StageParams) -> None:
        """Bring the parameters of a layout to their present state."""
        if self._member is not None:
            self._member.fill(layout, params)
        spans = {piece.name: piece.span for piece in layout if piece.name not in self._reduced}
        for host, (first, last) in enumerate(self._ranges):
            wanted = [spec for spec in self._model.parameters[first:last] if spec.name in spans]
            if not wanted:
                continue
            mark, values = self._links.to(host).dense(params.marks.get(host))
            if values is None:
                continue
            start = self._model.span(first, last).start
            for spec in wanted:
                there = self._model.layout[spec.name].offset - start
                params.write(spans[spec.name], values[there : there + spec.size])
            params.marks[host] = mark


class StagesBehind:
    """The way to the stage behind: workers by how fast they are, another one where one does not answer."""

    def __init__(self, index: int, addresses: Sequence[Address], tls: ssl.SSLContext | None, turn: int = 0) -> None:
        self._index, self._workers = index, [str(i) for i in range(len(addresses))]
        self._credits = SharedCredits(turn)  # of all threads: they are pools of unequal speed where two share the stage
        self._links = OwnLinks(lambda i: link_to_stage(addresses[i], tls))

    def __call__(self, seed: int, feeds: Mapping[str, Any]) -> StageOutcome:
        """Run the stage, and those behind it, on one batch."""
        left = self._workers
        while left:
            worker = self._credits.take(left)
            begun, there = perf_counter(), max(1, self._credits.waiting.get(worker, 1))  # this one among them
            try:
                outcome = self._links.to(int(worker)).call(seed, feeds)
                self._credits.measured(worker, (perf_counter() - begun) / there)
                return outcome
            except PeerLost:
                left = [other for other in left if other != worker]
            finally:
                self._credits.give_back(worker)
        raise PeerLost(f"no worker of stage {self._index} answers")

    def close(self) -> None:
        """Let go of the connections."""
        self._links.close()
