"""What the workers of a cluster hold for a run: Dask actors around hosts and attempts.

Control (instructions, statistics) goes through the actors and Dask's event topics. What every batch needs goes straight
from worker to worker (docs/adr/0501).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from time import monotonic
from typing import Any

from distributed import get_worker, secede

from heterps.data import BadRows, Dataset, Split
from heterps.protocol import events as ev
from heterps.protocol import instructions as do
from heterps.runtime.attempt import Attempt
from heterps.runtime.host import ShardHost
from heterps.runtime.job import Job
from heterps.runtime.links import DirectLink, Link, SocketLink
from heterps.runtime.peer import SocketPeer
from heterps.runtime.phases import Phases
from heterps.runtime.service import Address, Listener, local_service
from heterps.runtime.work import Workbench, merge_states

__all__ = ["HostStation", "IoStation", "LocalRun", "decode_event", "local_run", "run_attempt", "topic"]

_PROGRESS_S = 0.25  # BatchesDone events of one attempt are at least this far apart

_RUNS: dict[str, LocalRun] = {}
_STATIONS: dict[tuple[str, str], IoStation] = {}


@dataclass(frozen=True, eq=False)
class LocalRun:
    """What stations in the driver's own process take by reference: data that was never copied, the driver's ear."""

    dataset: Dataset | None
    tell: Callable[[ev.Event], None]


def local_run(run: str, here: LocalRun | None) -> None:
    """Make a run known in this process, or forget it."""
    if here is None:
        _RUNS.pop(run, None)
    else:
        _RUNS[run] = here


def topic(run: str) -> str:
    """Return the Dask topic on which stations tell the driver what happened."""
    return f"heterps-{run}"


def _teller(run: str, worker: Any) -> Callable[[ev.Event], None]:
    """Return the way to the driver: its queue in the same process, else Dask's event stream."""
    if run in _RUNS:
        return _RUNS[run].tell
    return lambda event: worker.log_event(topic(run), {"kind": type(event).__name__, **asdict(event)})


def decode_event(message: Mapping[str, Any]) -> ev.Event:
    """Rebuild an event from what a topic carried."""
    fields = dict(message)
    kind = getattr(ev, fields.pop("kind"))
    event = kind(**fields)
    assert isinstance(event, ev.Event)
    return event


def _address_host(worker: Any) -> str:
    """Listen where the worker itself listens; workers of one process have no network address."""
    scheme, _, rest = str(worker.address).partition("://")
    return "127.0.0.1" if scheme == "inproc" else rest.rsplit(":", 1)[0]


class HostStation:
    """A shard host as a Dask actor. It outlives runs: the tables stay between them."""

    def __init__(self, job: Job, host: int) -> None:
        self._worker = get_worker()
        self.job, self.host = job, host
        self._shard_host: ShardHost | None = None
        self._listener: Listener | None = None

    def begin(self, run: str, create: do.CreateHost) -> Address:
        """Make the copy that a run asked for, around the tables that are here."""
        job, before = self.job, self._shard_host
        host = ShardHost(
            job.model,
            host=self.host,
            hosts=job.hosts,
            copy=create.copy,
            mode=job.mode,
            lanes=job.lanes,
            report=_teller(run, self._worker),
        )
        if before is not None:
            host.shard, host.counts = before.shard, before.counts
        if self._listener is not None:
            self._listener.close()
        self._shard_host = host
        self._listener = Listener(host, _address_host(self._worker))
        host.deliver(create)
        return self._listener.address

    def deliver(self, instruction: Any) -> None:
        """Take an instruction of the run."""
        assert self._shard_host is not None
        self._shard_host.deliver(instruction)

    def counts(self) -> dict[str, Any]:
        """Return what was applied so far."""
        return vars(self._shard_host.counts).copy() if self._shard_host else {}

    def close(self) -> None:
        """Stop answering."""
        if self._listener is not None:
            self._listener.close()


@dataclass(eq=False)
class _Slot:
    """What one running attempt needs for itself; kept for the next."""

    bench: Workbench
    links: dict[int, Link]


class IoStation:
    """The attempts that run on one io worker, as a Dask actor."""

    def __init__(self, run: str, job: Job, dataset: Dataset | None) -> None:
        self._worker = get_worker()
        self.run, self.job = run, job
        here = _RUNS.get(run)
        self.dataset = here.dataset if here is not None else dataset
        self._tell = _teller(run, self._worker)
        self._addresses: dict[int, Address] = {}
        self._attempts: dict[int, Attempt] = {}
        self._early: dict[int, list[Any]] = {}
        self._slots: list[_Slot] = []
        self._all: list[_Slot] = []
        self._lock = threading.Lock()
        self._bad = BadRows(self.dataset.bad_input) if self.dataset is not None else None
        self._bad_told = 0
        _STATIONS[run, self._worker.address] = self

    # --- called by the driver

    def deliver(self, attempt: int, instruction: Any, addresses: Mapping[int, Address]) -> None:
        """Hand an instruction to an attempt; one that has not begun yet finds it waiting."""
        with self._lock:
            self._addresses.update(addresses)
            running = self._attempts.get(attempt)
            if running is None:
                self._early.setdefault(attempt, []).append(instruction)
        if running is not None:
            running.handle(instruction)

    def collect(self) -> dict[str, Any]:
        """Return metric states, times and bad rows since the last call."""
        metrics = {metric.name: metric for metric in self.job.metrics}
        states: dict[str, Any] = {}
        phases = Phases()
        with self._lock:
            slots = list(self._all)
        for slot in slots:
            states = merge_states(metrics, states, slot.bench.take_metrics())
            phases.merge(slot.bench.phases.take())
        count = self._bad.count if self._bad is not None else 0
        bad, self._bad_told = count - self._bad_told, count
        return {"states": states, "phases": phases.seconds, "bad_rows": bad}

    def close(self) -> None:
        """End all attempts and let go of the connections."""
        _STATIONS.pop((self.run, self._worker.address), None)
        for attempt in list(self._attempts.values()):
            attempt.handle(do.Cancel(attempt.run.attempt))
        for slot in self._all:
            for link in slot.links.values():
                link.close()

    # --- called by the task of a Split

    def run_attempt(self, run: do.RunSplit, split: Split | None, addresses: Mapping[int, Address]) -> int:
        """Run an attempt to its end in the calling thread; return how many batches it saw."""
        slot = self._take_slot()
        attempt = Attempt(run, self.job.mode, self._reader(split), slot.bench, partial(self._link, slot), self._told())
        with self._lock:
            self._addresses.update(addresses)
            self._attempts[run.attempt] = attempt
            early = self._early.pop(run.attempt, [])
        try:
            attempt.start()
            for instruction in early:
                attempt.handle(instruction)
            while not attempt.ended:
                attempt.wait()
        finally:
            attempt.close()
            with self._lock:
                del self._attempts[run.attempt]
                self._slots.append(slot)
        return attempt.batches

    def _reader(self, split: Split | None) -> Any:
        if split is None:
            return iter
        assert self.dataset is not None
        assert self._bad is not None
        return partial(self.job.read, self.dataset, split, bad=self._bad)

    def _take_slot(self) -> _Slot:
        with self._lock:
            if self._slots:
                return self._slots.pop()
        job = self.job
        bench = Workbench(job.model, job.batch_size, job.owners, job.hosts, job.metrics, depth=job.in_flight + 1)
        slot = _Slot(bench, {})
        with self._lock:
            self._all.append(slot)
        return slot

    def _link(self, slot: _Slot, copy: int) -> Link:
        link = slot.links.get(copy)
        if link is None:
            address = self._addresses[copy]
            service = local_service(address)
            link = DirectLink(service) if isinstance(service, ShardHost) else SocketLink(SocketPeer(address))
            slot.links[copy] = link
        return link

    def _told(self) -> Callable[[ev.Event], None]:
        """Pass events on; of the many that only say how far it is, a few a second."""
        last = monotonic()

        def tell(event: ev.Event) -> None:
            nonlocal last
            if isinstance(event, ev.BatchesDone):
                if monotonic() - last < _PROGRESS_S:
                    return
                last = monotonic()
            self._tell(event)

        return tell


def run_attempt(station: str, run: do.RunSplit, split: Split | None, addresses: Mapping[int, Address]) -> int:
    """The Dask task of one attempt.

    It leaves the worker's thread pool at once: how many run together is for the run to say, and in Sync lanes that
    wait for each other must not wait for a thread.
    """
    found = _STATIONS[station, get_worker().address]
    secede()
    return found.run_attempt(run, split, addresses)
