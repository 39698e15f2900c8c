"""One attempt at one Split: carries out what the protocol's ClientState wants done.

Everything that happens to the attempt comes through its inbox, so the state machine has one caller. Rows and gradients
stay in the works on the bench; only headers pass through the state machine.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from queue import Empty, SimpleQueue
from time import perf_counter
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from heterps.protocol.client.credits import Credits
from heterps.protocol.client.state import (
    Action,
    BatchRead,
    ClientState,
    Compute,
    Computed,
    Forget,
    Free,
    Read,
    Send,
    SplitEnded,
    StepFailed,
    Tell,
)
from heterps.protocol.words.events import Event, SplitDone
from heterps.protocol.words.instructions import RunSplit
from heterps.protocol.words.keys import BatchKey
from heterps.protocol.words.messages import Granted, Pull, Push, Refused, Reply, Request
from heterps.protocol.words.modes import Mode
from heterps.runtime.batch.batch_work import BatchWork
from heterps.runtime.batch.bench import Workbench
from heterps.runtime.batch.crossing import StageOutcome
from heterps.runtime.batch.landing import Landing
from heterps.runtime.batch.payload import Pulled, Refreshed, Wanted, bytes_in
from heterps.runtime.batch.phases import WAITING
from heterps.runtime.batch.reading import Reading
from heterps.runtime.own_threads import start_timer
from heterps.runtime.wire.links import HostLink, Payload, StageLink

__all__ = ["Attempt"]

F32 = npt.NDArray[np.float32]
_AGAIN_S = 0.1  # before a refused request is sent again


class GroupService(Protocol):
    """The all-reduce group, as a lane in the process of a member sees it."""

    def request(self, request: Request, payload: Any, done: Callable[[Reply | None, Pulled | None], None]) -> None:
        """Take a request; ``done`` is called with the answer, now or later."""

    def ahead(self, push: Push, gradient: F32, low: int) -> None:
        """Take note that a gradient that will be pushed so is complete from ``low`` on."""


class _Answer:
    """What follows from a host's answer: it may be done in the middle of a batch."""

    __slots__ = ("_take",)

    def __init__(self, take: Callable[[], list[Action]]) -> None:
        self._take = take

    def __call__(self) -> list[Action]:
        return self._take()


class Attempt:
    """Runs the batches of one Split.

    Parameters
    ----------
    run
        What to run.
    mode
        Of the run.
    reading
        The Split's batches.
    bench
        Buffers and program; used by this attempt alone until it ends.
    link
        ``link(copy)`` is the way to a copy of a shard host.
    tell
        Takes events for the run.
    stage
        ``stage(worker)`` is the way to a stage worker; None where compute is fused.
    credits
        What waits at stage workers, of all attempts of this worker.
    group
        The all-reduce group's member in this process; None where there is none.
    home
        ``home(worker)`` is the way to the group through its member on a stage worker; None where none has one.
    """

    def __init__(
        self,
        run: RunSplit,
        mode: Mode,
        reading: Reading,
        bench: Workbench,
        link: Callable[[int], HostLink],
        tell: Callable[[Event], None],
        stage: Callable[[str], StageLink] | None = None,
        credits: Credits | None = None,
        group: GroupService | None = None,
        home: Callable[[str], HostLink] | None = None,
    ) -> None:
        self.run, self.bench = run, bench
        self.client = ClientState(run, mode, credits)  # called by the attempt's own thread only
        self.client.at_once = mode.any_order and stage is None and group is None and home is None
        self.inbox: SimpleQueue[Callable[[], list[Action]]] = SimpleQueue()  # filled by any thread, emptied by its own
        self._aside: deque[Callable[[], list[Action]]] = deque()  # taken from it, to be done when a batch is computed
        self.ended = False  # once true nothing is carried out any more
        self.batches = 0  # that were read
        self._reading, self._link, self._tell, self._stage = reading, link, tell, stage
        self._group, self._home = group, home
        self._works: dict[int, BatchWork] = {}  # batches in flight, from Read to Free
        self._landings: dict[tuple[int, int], Landing] = {}  # of rows that are waited for, by batch and host
        self._whole = False  # whether all that was owed to hosts is acknowledged
        self._stepping: set[int] = set()  # of these, those whose outcome a stage worker still owes
        self._todo: deque[Action] = deque()  # in the order in which the client wanted them; empty between events
        # Computing takes long, and what comes meanwhile waits: another batch's acknowledgement, upon which the next one
        # is asked for. Where answers travel, batches wait here until nothing else is to be done, and one that is being
        # computed looks between forward and backward what has come.
        self._granted: deque[BatchKey] = deque()
        self._may_wait = mode.any_order and group is None
        self._is_far = False  # whether answers travel

    # --- driving

    def start(self) -> None:
        """Begin."""
        self.bench.copy.enter(self.run.attempt, self.run.trainer, self.run.layout.terms)
        self._carry_out(self.client.start())

    def pump(self, limit: int) -> bool:
        """Do what can be done without waiting, up to so many events; False if there was nothing."""
        moved = False
        while limit and not self.ended and self._has_events:
            self._carry_out(self._next_event()())
            moved, limit = True, limit - 1
        return moved

    def wait(self) -> None:
        """Wait for one thing to happen, and do what follows from it."""
        with self.bench.phases(WAITING):
            event = self._next_event()
        self._carry_out(event())

    @property
    def _has_events(self) -> bool:
        return bool(self._aside) or not self.inbox.empty()

    def _next_event(self) -> Callable[[], list[Action]]:
        return self._aside.popleft() if self._aside else self.inbox.get()

    def handle(self, message: Any) -> None:
        """Take an instruction of the run, from any thread."""
        self._post(lambda: self.client.handle(message))

    def fail(self, error: Exception) -> None:
        """Have an error of another thread raised in the attempt's own, which ends it."""

        def event() -> list[Action]:
            raise error

        self._post(event)

    def between(self, look: Callable[[], None]) -> None:
        """Have something looked at in the attempt's own thread, when no batch is being computed."""

        def event() -> list[Action]:
            look()
            return []

        self._post(event)

    @property
    def queues(self) -> dict[str, int]:
        """Batches that are read and not begun, in flight, and of these with stage workers; asked from any thread."""
        return {
            "read ahead": self._reading.waiting,
            "in flight": len(self._works),
            **({"at stages": len(self._stepping)} if self._stage is not None else {}),
        }

    def close(self) -> None:
        """End the reader. Buffers of batches in flight are not used again: a late answer may still write to them."""
        if not self.ended:
            self.bench.copy.leave(self.run.attempt, self.client.layout.terms, whole=self._whole)
        self.ended = True
        self.client.close()
        self._works.clear()
        self._granted.clear()
        self._forget_events()
        self._reading.close()

    def _post(self, event: Callable[[], list[Action]]) -> None:
        """Leave an event to the attempt's own thread; one that comes after the end is dropped."""
        self.inbox.put(event)
        if self.ended:
            self._forget_events()

    def _forget_events(self) -> None:
        """Events hold the attempt that holds them: left there, they would keep all its buffers until a collection."""
        self._aside.clear()
        with suppress(Empty):
            while True:
                self.inbox.get_nowait()

    # --- actions

    def _carry_out(self, actions: list[Action]) -> None:
        self._todo.extend(actions)
        if not self.bench.copy.belongs_to(self.run.attempt):  # another attempt was begun, this one is over
            self.close()
        self._do_all()
        while self._granted and not self._has_events and not self.ended:
            self._compute(self._granted.popleft())
            self._do_all()

    def _do_all(self) -> None:
        while self._todo and not self.ended:
            action = self._todo.popleft()
            match action:
                case Send(host, request):
                    self._send(host, request)
                case Read(n):
                    self._read(n)
                case Compute(key, "") if self._is_far:
                    self._granted.append(key)
                case Compute(key, ""):
                    self._compute(key)
                case Compute(key, stage):
                    self._step(key, stage)
                case Free(key, count):
                    self.bench.copy.free(key)
                    for n in range(key.n, key.n + count):
                        if n in self._works:  # else the copy has learned from it, and it went then
                            self.bench.free(self._works.pop(n))
                case Forget(key):
                    self._works[key.n].renew()
                case Tell(event):
                    self._told(event)
        if self.client.stopped:
            self.close()

    def _compute(self, key: BatchKey) -> None:
        self.bench.compute(self._works[key.n], self._ahead(key), self._take_answers if self._is_far else None)
        self._learned(key)
        self._todo.extend(self.client.handle(Computed(key, "")))

    def _take_answers(self) -> None:
        """In the middle of a batch: take answers that have come, and ask for what the next batches need.

        What else has come, such as a wish to look at this batch's tensors, waits until it is computed.
        """
        while not self.inbox.empty() and not self.ended:
            event = self.inbox.get()
            if isinstance(event, _Answer):
                self._todo.extend(event())
                self._do_all()
            else:
                self._aside.append(event)

    def _learned(self, key: BatchKey) -> None:
        """A batch was computed: its buffers are free if the copy has taken all it needs."""
        if self.bench.copy.learns:
            self.bench.free(self._works.pop(key.n))

    def _ahead(self, key: BatchKey) -> Callable[[F32, int], None] | None:
        """Return what takes a gradient to the all-reduce group while it is being computed."""
        return None if self._group is None else partial(self._group.ahead, self.client.group_push(key))

    def _told(self, event: Event) -> None:
        self._tell(event)
        if isinstance(event, SplitDone):
            self._whole = True
            self.close()

    def _read(self, n: int) -> None:
        with self.bench.phases("read"):
            batch = self._reading.batch(n)
        if batch is None:
            self._todo.extend(self.client.handle(SplitEnded(n)))
            return
        self.batches += 1
        self._works[n] = self.bench.begin(batch)
        self._todo.extend(self.client.handle(BatchRead(n)))

    def _step(self, key: BatchKey, stage: str) -> None:
        """Hand a batch to a stage worker; its answer comes through the inbox."""
        seed, feeds = self.bench.lead(self._works[key.n])
        self._stepping.add(key.n)
        credits, begun = self.client.credits, perf_counter()
        there = max(1, credits.waiting.get(stage, 1))  # this one among them

        def done(outcome: StageOutcome | None) -> None:
            if outcome is not None:
                credits.measured(stage, (perf_counter() - begun) / there)
            self._post(lambda: self._stepped(key, stage, outcome))

        assert self._stage is not None
        self._stage(stage).step(seed, feeds, done, self.fail, self.client.layout.group)

    def _stepped(self, key: BatchKey, stage: str, outcome: StageOutcome | None) -> list[Action]:
        if outcome is None:
            return self.client.handle(StepFailed(key, stage))
        if key.n not in self._stepping:  # another stage worker has done it meanwhile
            return []
        self._stepping.discard(key.n)
        self.bench.follow(self._works[key.n], outcome)
        self._learned(key)
        return self.client.handle(Computed(key, stage))

    def _send(self, host: int, request: Request) -> None:
        payload: Payload = None
        if isinstance(request, Pull):
            payload = self.bench.copy.wanted(self._works[request.key.n], host)
            if payload is None:  # the copy has all that the batch needs from this host
                self._todo.extend(self.client.reply(host, request, Granted(request.term)))
                return
            payload = self._landing(request.key.n, host, payload)
        elif isinstance(request, Push):
            unit = range(request.key.n, request.key.n + request.batches)
            works = [self._works[n] for n in unit if n in self._works]
            payload = self.bench.copy.settle(request.key, works, host, request.settles)

        came: list[bool] = []

        def done(reply: Reply | None, pulled: Pulled | Refreshed | None) -> None:
            came.append(True)
            self._post(_Answer(lambda: self._answered(host, request, payload, reply, pulled)))

        if host < len(self.client.layout.copies):
            link = self._link(self.client.layout.copies[host])
            self._is_far |= self._may_wait and link.is_far
            self.bench.exchange.add(sent=bytes_in(payload, self._is_halved))
            link.send(request, payload, done, self.fail)
        elif self._home is not None:
            home = self.client.layout.home(self.run.lane)
            if home:
                self._home(home).send(request, payload, done, self.fail)
            else:  # nobody is there; who comes makes a new term, and this lane begin anew
                self._later(lambda: self.client.timed_out(host, request))
        else:
            assert self._group is not None
            self.bench.exchange.add(sent=bytes_in(payload))
            self._group.request(request, payload, done)
        if self.client.at_once and not came:
            self._todo.extend(self.client.is_kept_waiting())

    @property
    def _is_halved(self) -> bool:
        """Whether values travel as float16: they do not where nothing travels."""
        return self._is_far and self.bench.job.half_on_wire

    def _landing(self, n: int, host: int, wanted: Wanted) -> Wanted:
        """Let the answer to this question land, and no longer one to a question before it."""
        asked = replace(wanted, landing=Landing())
        before = self._landings.pop((n, host), None)
        if before is not None:
            before.close()
        self._landings[n, host] = asked.landing
        return asked

    def _answered(
        self,
        host: int,
        request: Request,
        payload: Payload,
        reply: Reply | None,
        answer: Pulled | Refreshed | None,
    ) -> list[Action]:
        if isinstance(payload, Wanted) and not payload.landing.is_open:  # it was asked for anew, and may have come
            return []
        if reply is None:
            return self.client.timed_out(host, request)
        if isinstance(reply, Refused):  # no answer: ask again, by then perhaps under another layout
            self._later(lambda: self.client.timed_out(host, request))
        elif answer is not None and self.client.accepts(host, request, reply):
            if isinstance(answer, Pulled) and isinstance(reply, Granted):
                answer.low = reply.low
            self._take(host, request, payload, answer)
        return self.client.reply(host, request, reply)

    def _take(self, host: int, request: Request, payload: Payload, answer: Pulled | Refreshed) -> None:
        """Take what came with an answer that counts."""
        self.bench.exchange.add(received=bytes_in(answer, self._is_halved))
        if isinstance(answer, Refreshed):
            self.bench.copy.refresh(host, answer)
        else:
            assert isinstance(payload, Wanted)
            self._landings.pop((request.key.n, host)).close()
            self.bench.copy.take(self._works[request.key.n], host, payload, answer)

    def _later(self, event: Callable[[], list[Action]]) -> None:
        start_timer(_AGAIN_S, lambda: self._post(event), failed=self.fail)
