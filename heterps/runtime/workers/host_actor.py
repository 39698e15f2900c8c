"""A shard host as a Dask actor."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from distributed import get_worker

from heterps.protocol.host.standing import HostStanding
from heterps.protocol.words.events import CopyLost, Event
from heterps.protocol.words.instructions import Attach
from heterps.runtime.batch.job import Job
from heterps.runtime.config import settings
from heterps.runtime.cuts.cut_store import HostPart
from heterps.runtime.own_threads import Failed
from heterps.runtime.report.occupancy import held_tables
from heterps.runtime.wire.addresses import parse_address
from heterps.runtime.wire.service import Address, Listener
from heterps.runtime.wire.worker_sockets import client_tls, listen_on, server_tls
from heterps.runtime.workers.delivery import teller
from heterps.runtime.workers.shard_host import ShardHost
from heterps.runtime.workers.turns import LaneTime

__all__ = ["HostActor"]

_TABLES_SHARE = 0.7  # of a worker's limit; Dask pauses it at 0.8 and kills it at 0.95
_LEAST_SHARE = 0.1


_HERE: weakref.WeakSet[HostActor] = weakref.WeakSet()  # all of this process


class HostActor:
    """A shard host on its worker. It outlives runs: the tables stay between them."""

    def __init__(self, job: Job, host: int) -> None:
        self._worker = get_worker()
        self.job, self.host = job, host
        self._shard_host: ShardHost | None = None  # the newest copy: it has the tables; None before anybody asked
        self._listener: Listener | None = None  # of that copy, and of no other
        self.run = ""  # the run that made the copy; empty where none did
        self.about: Mapping[str, Any] = {}  # what another driver has to know of that run, to go on with it
        _HERE.add(self)

    @property
    def nbytes(self) -> int:
        """What its tables take of the memory."""
        shard = None if self._shard_host is None else self._shard_host.shard
        return 0 if shard is None else shard.resident_bytes

    def begin(
        self,
        run: str,
        copy: int,
        cut_every: int | None,
        backup: Sequence[int] | None = None,
        about: Mapping[str, Any] | None = None,
        adopt: bool = False,
        rate: float = 1.0,
    ) -> Address:
        """Make the copy that a run asked for, around the tables that are here; what it is to load comes next.

        ``backup``: the logical shards of one that begins empty, to be filled by its primary. ``adopt``: go on from
        where the run of a dead driver was. ``rate``: what learning rates are multiplied by in this run.
        """
        self.job = self.job.at_rate(rate)
        before = self._shard_host
        host = self._new_host(copy, teller(run, self._worker), cut_every)
        if before is not None:
            before.retire()
        if backup is not None:
            host.fresh(backup)
        elif before is not None and run != self.run:  # a second copy in one run begins anew, from a cut
            host.take_over(before, going_on=adopt)
        if before is not None and host.shard is not before.shard:
            before.close()
        self.run, self.about = run, about or {}
        if self._listener is not None:
            self._listener.close()
        self._shard_host = host
        self._listener = self._listen(host, lambda error: teller(run, self._worker)(CopyLost(copy)))
        return self._listener.address

    def _new_host(self, copy: int, report: Callable[[Event], None], cut_every: int | None = None) -> ShardHost:
        memory = self.job.memory_bytes or self._share()
        threads = settings().table_threads
        return ShardHost(self.job, self.host, copy, report, cut_every, threads=threads, memory_bytes=memory)

    def _share(self) -> int | None:
        """Divide what the worker has for tables among all hosts on it, those included that took more until now."""
        share = _memory_of(self._worker, max(self.job.replicas, len(_HERE)))
        if share is not None:
            for actor in _HERE:
                if actor._shard_host is not None and not actor.job.memory_bytes:
                    actor._shard_host.limit_memory(share)
        return share

    def _listen(self, host: ShardHost, failed: Failed | None = None) -> Listener:
        return Listener(host, listen_on(self._worker), server_tls(self._worker), failed)

    def address(self) -> Address:
        """Return where the host is to be called; before any run its tables are as the seed gives them."""
        if self._listener is None:
            self._shard_host = self._new_host(-1, lambda event: None)
            self._listener = self._listen(self._shard_host)
        assert self._shard_host is not None
        if self._shard_host.shard is None:  # no run yet, or one that was left before it had said what to load
            self._shard_host.fresh(self.job.owned(self.host))
        return self._listener.address

    def on_shard(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """Call ``function(shard, host, *args)`` between runs: saving, loading, shrinking."""
        self.address()
        assert self._shard_host is not None
        return function(self._shard_host.shard, self.host, *args)

    def deliver(self, instruction: Any, folder: str = "") -> None:
        """Take an instruction of the run."""
        assert self._shard_host is not None
        if instruction.copy == self._shard_host.state.copy:  # else a late word for a copy that was replaced
            self._shard_host.deliver(instruction, folder)

    def retire(self, run: str) -> None:
        """The run has ended: what comes late from its workers changes nothing."""
        if self._shard_host is not None and run == self.run:
            self._shard_host.retire()

    def attach(self, attach: Attach, address: Address) -> None:
        """Give the copy a backup."""
        assert self._shard_host is not None
        if attach.copy == self._shard_host.state.copy:
            self._shard_host.attach(attach, address, client_tls(self._worker))

    @property
    def is_serving(self) -> bool:
        """Whether it has tables, and answered for them when its driver was last heard of."""
        host = self._shard_host
        return host is not None and host.shard is not None and host.state.serving

    def stand_still(self) -> HostStanding:
        """Take nothing more from the run of a dead driver, and say how far that came."""
        assert self._shard_host is not None
        self._shard_host.retire()
        return self._shard_host.state.standing()

    def part(self, cut: int) -> HostPart:
        """Return what the host wrote for a cut."""
        assert self._shard_host is not None
        return self._shard_host.parts[cut]

    def counts(self) -> dict[str, Any]:
        """Return what was applied so far."""
        return vars(self._shard_host.counted()).copy() if self._shard_host else {}

    def lane_times(self) -> list[LaneTime]:
        """Return what each lane of a Sync run has done and taken so far."""
        if self._shard_host is None:
            return [LaneTime(0, 0.0)] * self.job.lanes
        with self._shard_host.lock:
            return self._shard_host.turns.all()

    def collect(self) -> dict[str, Any]:
        """Return times since the last call, what the tables hold if this copy answers for them, what waits here, and
        what was applied so far.
        """
        host = self._shard_host
        if host is None:
            return {"phases": {}}
        shard = host.shard if self.is_serving else None
        held = () if shard is None else held_tables(shard, self.host, str(self._worker.name))
        queues = {f"host {self.host} {self._worker.address}": {"at hosts": host.waiting}}
        return {"phases": host.phases.take(), "tables": held, "queues": queues, "counts": self.counts()}

    def close(self) -> None:
        """Stop answering and drop the tables."""
        _HERE.discard(self)
        if self._listener is not None:
            self._listener.close()
        if self._shard_host is not None:
            self._shard_host.close()


def _memory_of(worker: Any, copies: int) -> int | None:
    """Return what one of so many copies may take of a worker's memory, so that Dask neither pauses nor kills it.

    Each may take its share, whichever came first. Of workers inside one process Dask cannot tell which takes what.
    """
    limit = worker.memory_manager.memory_limit
    if not limit or parse_address(worker.address).is_local:
        return None
    others = worker.monitor.get_process_memory() - sum(actor.nbytes for actor in _HERE)
    return int(max(_TABLES_SHARE * limit - others, _LEAST_SHARE * limit) / copies)
