"""The attempts that run on one io worker: a Dask actor that holds them, and the task of each.

Control (instructions, statistics) goes through the actor and Dask's event topics. What every batch needs goes straight
from worker to worker (docs/adr/0501).
"""

from __future__ import annotations

import threading
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any

from distributed import get_worker, secede

from heterps.data import BadBook, Dataset, Split
from heterps.errors import ClusterError
from heterps.protocol.words import events as ev, instructions as do
from heterps.runtime.batch.bench import Workbench
from heterps.runtime.batch.exchange import Exchange
from heterps.runtime.batch.job import Job
from heterps.runtime.batch.kept_metrics import merge_states
from heterps.runtime.batch.phases import total
from heterps.runtime.batch.reading import Reading
from heterps.runtime.config import settings
from heterps.runtime.wire.links import HostLink, StageLink, link_to_host, link_to_member, link_to_stage
from heterps.runtime.wire.peer import Peer
from heterps.runtime.wire.service import Address, Listener
from heterps.runtime.wire.worker_sockets import client_tls, listen_on, server_tls, worker_place
from heterps.runtime.workers.attempt import Attempt
from heterps.runtime.workers.delivery import Addresses, member_key, peer_at, reducing_failed, run_here, teller
from heterps.runtime.workers.group_member import GroupMember
from heterps.runtime.workers.shared_credits import SharedCredits

__all__ = ["IoActor", "run_attempt"]

_PEEK_S = 1.0

_ACTORS: dict[tuple[str, str], IoActor] = {}


@dataclass(eq=False)
class _Slot:
    """What one running attempt needs for itself; kept for the next."""

    bench: Workbench
    lane: int = 0  # whose rows its bench may have (Job.bench_of)
    links: dict[int, HostLink] = field(default_factory=dict)  # by copy of a shard host
    stages: dict[Address, StageLink] = field(default_factory=dict)  # one made anew on its worker is another
    homes: dict[Address, HostLink] = field(default_factory=dict)  # to members of a group on stage workers

    def let_go(self) -> None:
        """Close all links; they are made anew when they are needed."""
        for link in (*self.links.values(), *self.homes.values()):
            link.close()
        for stage in self.stages.values():
            stage.close()
        self.links, self.stages, self.homes = {}, {}, {}


class IoActor:
    """Holds the attempts of a run on one worker."""

    def __init__(self, run: str, job: Job, dataset: Dataset | None, pool: str = "") -> None:
        self._worker = get_worker()
        self.run, self.job, self._mode = run, job, job.mode_on(pool)
        here = run_here(run)
        self.dataset = here.dataset if here is not None else dataset  # None once the actor is closed
        self._tell = teller(run, self._worker)
        self._tls = client_tls(self._worker)
        self._credits = SharedCredits(zlib.crc32(self._worker.address.encode()))  # of all attempts
        self._lock = threading.Lock()  # around all that follows but bad rows
        self._addresses: dict[int | str, Address] = {}  # the newest of each copy and stage worker; never one less
        self._attempts: dict[int, Attempt] = {}  # that run now
        self._begun: set[int] = set()  # attempts whose task has reached this worker
        self._early: dict[int, list[Any]] = {}  # instructions for attempts that have not begun
        self._slots: list[_Slot] = []  # that no attempt has
        self._all: list[_Slot] = []  # these, and those that attempts have
        self._moved = threading.Condition(self._lock)  # a slot is free, an instruction came, the actor closed
        self._ending: set[int] = set()  # attempts that have read all: their slot will soon be free
        self._closed = False
        self._bad = BadBook(self.dataset.bad_input) if self.dataset is not None else None  # of all attempts
        self._member = self._make_member() if job.reduced and not job.stage_group else None
        self._listener = self._listen(self._member) if self._member is not None else None
        _ACTORS[run, self._worker.address] = self

    def _make_member(self) -> GroupMember:
        threads = settings().table_threads
        return GroupMember(self.job, self._worker.address, self._tell, self._peer, self._member_failed, threads)

    def _listen(self, member: GroupMember) -> Listener:
        return Listener(member, listen_on(self._worker), server_tls(self._worker), self._member_failed)

    def _member_failed(self, error: Exception) -> None:
        reducing_failed(self._tell, worker_place(self._worker), error)

    def _peer(self, name: str | int) -> Peer:
        with self._lock:
            return peer_at(self._addresses, name, self._tls)

    # --- called by the driver

    def deliver(self, attempt: int, instruction: Any, addresses: Addresses) -> None:
        """Hand an instruction to an attempt; one that has not begun yet finds it waiting."""
        with self._lock:
            self._addresses.update(addresses)
            running = self._attempts.get(attempt)
            if running is None:
                self._early.setdefault(attempt, []).append(instruction)
                self._moved.notify_all()
        if running is not None:
            running.handle(instruction)

    def member_address(self) -> Address:
        """Return where the member of the all-reduce group is to be called."""
        assert self._listener is not None
        return self._listener.address

    def to_member(self, instruction: Any, addresses: Addresses) -> None:
        """Hand an instruction to the member of the all-reduce group."""
        with self._lock:
            self._addresses.update(addresses)
        assert self._member is not None
        self._member.deliver(instruction)

    def begun(self) -> set[int]:
        """Return the attempts whose tasks have begun here; a worker that Dask pauses keeps others waiting."""
        with self._lock:
            return set(self._begun)

    def collect(self) -> dict[str, Any]:
        """Return metric states and times since the last call, and the bad rows of each Split so far."""
        metrics = {metric.name: metric for metric in self.job.metrics}
        states: dict[str, Any] = {}
        with self._lock:
            slots, attempts = list(self._all), list(self._attempts.values())
        for slot in slots:
            states = merge_states(metrics, states, slot.bench.metrics.take())
        bad = self._bad.counts() if self._bad is not None else {}
        devices = {slot.bench.device for slot in slots if slot.bench.program.has_steps}
        holders = [self._member.phases] if self._member is not None else []
        phases = total(phases.take() for phases in (*(slot.bench.phases for slot in slots), *holders))
        exchange = sum((slot.bench.exchange.take() for slot in slots), Exchange())
        kept = [slot.bench.copy.size for slot in slots]
        exchange += Exchange(local_rows=sum(k.local_rows for k in kept), local_bytes=sum(k.local_bytes for k in kept))
        waiting = Counter({"read ahead": 0, "in flight": 0})
        for attempt in attempts:
            waiting.update(attempt.queues)
        return {
            "states": states,
            "phases": phases,
            "bad_rows": bad,
            "bad_row": self._bad.first() if bad and self._bad is not None else "",
            "devices": devices,
            "exchange": exchange,
            "queues": {f"io {self._worker.address}": dict(waiting)},
        }

    def peek(self, fetch: Mapping[str, str]) -> dict[str, Any]:
        """Return tensors of a batch computed lately, between two of its batches where an attempt is running."""
        with self._lock:
            attempts = [attempt for attempt in self._attempts.values() if not attempt.ended]
        for attempt in attempts:
            found: SimpleQueue[dict[str, Any]] = SimpleQueue()
            attempt.between(partial(_look, attempt, fetch, found))
            with suppress(Empty):
                return found.get(timeout=_PEEK_S)
        with self._lock:  # an attempt that has ended gives its slot back in a moment
            self._moved.wait_for(lambda: not any(a.ended for a in self._attempts.values()), _PEEK_S)
            slots = list(self._slots)
        return next((seen for slot in slots if (seen := slot.bench.peek(fetch))), {})

    def close(self) -> None:
        """End all attempts, let go of the connections and buffers: Dask may keep the actor itself for long."""
        _ACTORS.pop((self.run, self._worker.address), None)
        with self._lock:
            self._closed = True
            attempts, free = list(self._attempts.values()), self._slots
            self._all, self._slots, self.dataset = [], [], None
            self._moved.notify_all()
        for attempt in attempts:
            attempt.handle(do.Cancel(attempt.run.attempt))
        if self._member is not None and self._listener is not None:
            self._listener.close()
            self._member.close()
        for slot in free:  # an attempt that runs has its slot for itself until it ends
            slot.let_go()

    # --- called by the task of a Split

    def run_attempt(
        self,
        run: do.RunSplit,
        split: Split | None,
        addresses: Addresses,
        told_every_s: float = 0.0,
        rows: Mapping[str, Any] | None = None,
    ) -> int:
        """Run an attempt to its end in the calling thread; return how many batches it saw."""
        with self._lock:
            self._begun.add(run.attempt)
        # Reading begins while the Split before is still computed.
        with closing(self._reading(run, split, rows or {})) as reading:
            slot = self._take_slot(run.attempt, self.job.bench_of(run.lane))
            return self._run(run, reading, slot, addresses, told_every_s) if slot is not None else 0

    def _run(self, run: do.RunSplit, reading: Reading, slot: _Slot, addresses: Addresses, told_every_s: float) -> int:
        attempt = Attempt(
            run,
            self._mode,
            reading,
            slot.bench,
            partial(self._link, slot),
            self._told(told_every_s),
            None if self.job.fused else partial(self._stage, slot),
            self._credits,
            self._member,
            partial(self._home, slot) if self.job.stage_group else None,
        )
        with self._lock:
            if self._closed:  # whoever closed has not seen this attempt, so nobody would end it
                return 0
            self._addresses.update(addresses)
            self._attempts[run.attempt] = attempt
            if slot not in self._all:
                self._all.append(slot)
            early = self._early.pop(run.attempt, [])
        try:
            attempt.start()
            for instruction in early:
                attempt.handle(instruction)
            while not attempt.ended:
                attempt.wait()
        except BaseException:
            slot.let_go()  # what failed may have been a link
            raise
        finally:
            attempt.close()
            self._give_back(run.attempt, slot)
        return attempt.batches

    def _give_back(self, attempt: int, slot: _Slot) -> None:
        """Let the next attempt have the slot; once the actor is closed nobody will."""
        with self._lock:
            closed = self._closed
            del self._attempts[attempt]
            self._ending.discard(attempt)
            if not closed:
                self._slots.append(slot)
            self._moved.notify_all()
        if closed:
            slot.let_go()

    def _reading(self, run: do.RunSplit, split: Split | None, rows: Mapping[str, Any]) -> Reading:
        if split is None:
            return Reading(None, run.start)
        assert self.dataset is not None
        assert self._bad is not None
        read = partial(self.job.read, self.dataset.given(rows), split, bad=self._bad, prefetch=settings().prefetch)
        # In Sync a lane's next Split begins where this one has ended, and lanes must not wait for each other's slots.
        return Reading(read, run.start, None if self.job.mode.ordered else partial(self._at_end, run.attempt))

    def _at_end(self, attempt: int) -> None:
        """All batches of an attempt are read: its worker can be given the next Split, which will take its slot."""
        with self._lock:
            self._ending.add(attempt)
        self._tell(ev.SplitEnding(attempt))

    def _take_slot(self, attempt: int, lane: int) -> _Slot | None:
        """Return a free slot of a lane, soon that of an attempt that is ending, else a new one; None if the actor
        closed.

        An instruction ends the wait: the run may need an answer to it before the other attempt can go on.
        """
        with self._lock:
            while not self._slots and self._ending and attempt not in self._early and not self._closed:
                self._moved.wait()
            if self._closed:
                return None
            found = next((slot for slot in reversed(self._slots) if slot.lane == lane), None)
            if found is not None:
                self._slots.remove(found)
                return found
        return _Slot(Workbench(self.job, where=f"stage 0 on {worker_place(self._worker)}"), lane)

    def _link(self, slot: _Slot, copy: int) -> HostLink:
        link = slot.links.get(copy)
        if link is None:
            link = slot.links[copy] = link_to_host(
                self._addresses[copy], self._tls, slot.bench.phases, self.job.half_on_wire, self.job.mode.any_order
            )
        return link

    def _stage(self, slot: _Slot, worker: str) -> StageLink:
        address = self._addresses[worker]
        if address not in slot.stages:
            slot.stages[address] = link_to_stage(address, self._tls)
        return slot.stages[address]

    def _home(self, slot: _Slot, worker: str) -> HostLink:
        """Return the way to the all-reduce group through its member on a stage worker."""
        address = self._addresses[member_key(worker)]
        if address not in slot.homes:
            slot.homes[address] = link_to_member(address, self._tls, slot.bench.phases)
        return slot.homes[address]

    def _told(self, every_s: float) -> Callable[[ev.Event], None]:
        """Pass events on; of the many that only say how far it is, one in so many seconds."""
        last = monotonic()

        def tell(event: ev.Event) -> None:
            nonlocal last
            if isinstance(event, ev.BatchesDone):
                if monotonic() - last < every_s:
                    return
                last = monotonic()
            self._tell(event)

        return tell


def _look(attempt: Attempt, fetch: Mapping[str, str], found: SimpleQueue[dict[str, Any]]) -> None:
    found.put(attempt.bench.peek(fetch))


def run_attempt(
    actor: str,
    run: do.RunSplit,
    split: Split | None,
    addresses: Addresses,
    told_every_s: float = 0.0,
    names: Sequence[str] = (),
    *rows: Any,
) -> int:
    """The Dask task of one attempt, with rows by name that its Split needs and that workers hold.

    It leaves the worker's thread pool at once: how many run together is for the run to say, and in Sync lanes that
    wait for each other must not wait for a thread.
    """
    worker = get_worker()
    found = _ACTORS.get((actor, worker.address))
    if found is None:
        raise ClusterError(f"run {actor} has ended on {worker_place(worker)}: there is nothing to read for")
    secede()
    return found.run_attempt(run, split, addresses, told_every_s, dict(zip(names, rows, strict=True)))
