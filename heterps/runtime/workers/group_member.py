"""A member of an all-reduce group: carries out what the protocol's MemberState decides, on parameters it holds itself.

Every worker that computes has one (on stage workers :mod:`heterps.runtime.workers.stage_member`). Lanes of its own
process call it directly; what they say goes to the other members from threads of their own, one for each member and
lane, as a push is answered only when every lane has pushed.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from time import sleep
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from heterps.errors import RunError
from heterps.protocol import Window
from heterps.protocol.group.member import MemberState
from heterps.protocol.words.decisions import Answer, Keep, Report, Serve
from heterps.protocol.words.events import Event
from heterps.protocol.words.group import (
    Add,
    CaughtUp,
    Confirmed,
    Fetch,
    Fetched,
    FormGroup,
    Give,
    GroupState,
    MemberDecision,
    Obtain,
    Position,
    Relay,
    Relayed,
    Settle,
    Settled,
    TakeStep,
)
from heterps.protocol.words.messages import Push, Refused, Reply, Request, StoreGroup
from heterps.runtime.batch.flat_part import FlatPart
from heterps.runtime.batch.job import Job
from heterps.runtime.batch.payload import Pulled, PushedGradients, StoredDense, Wanted
from heterps.runtime.batch.phases import Phases
from heterps.runtime.batch.segments import Segments
from heterps.runtime.config import settings
from heterps.runtime.own_threads import Failed, start_thread
from heterps.runtime.wire.courier import Courier
from heterps.runtime.wire.group_packing import (
    pack_part,
    pack_relay,
    pack_state,
    unpack_part,
    unpack_relay,
    unpack_state,
    unpack_want,
)
from heterps.runtime.wire.message import Message
from heterps.runtime.wire.packing import pack_reply, pack_request, unpack_reply
from heterps.runtime.wire.peer import Peer, PeerLost
from heterps.runtime.wire.service import Method
from heterps.tables import Shard

__all__ = ["Done", "GroupMember", "answered"]

F32 = npt.NDArray[np.float32]
Done = Callable[[Reply | None, Pulled | None], None]
_PATIENCE_S = 1.0  # a call that is not due by then is answered "wait" and made again: so the caller knows that we live
_AGAIN_S = 0.1  # before a member or host that does not answer is called again


class _Line(NamedTuple):
    """The way to a member: calls go out one after another from a thread of the line's own."""

    peer: Peer
    courier: Courier


_LineKey = tuple[str, int, int]  # member, lane, attempt
_SUMS = -1  # no lane: the line on which sums are fetched


class GroupMember:
    """The member in one worker.

    Parameters
    ----------
    job
        What is trained.
    worker
        Its name, as the run knows it.
    report
        Takes events for the run.
    peer
        ``peer(name)`` is a new way to another member, ``peer(copy)`` to a copy of a shard host.
    failed
        Takes what threads of the member raise.
    threads
        Of the rules.
    """

    def __init__(
        self,
        job: Job,
        worker: str,
        report: Callable[[Event], None],
        peer: Callable[[str | int], Peer],
        failed: Failed,
        threads: int = 1,
    ) -> None:
        self.job, self.worker, self.phases = job, worker, Phases()
        self._report, self._peer, self._failed = report, peer, failed
        self._lock = threading.RLock()  # around all that follows
        self.state = MemberState(worker, job.lanes)
        self.shard = Shard(dense=job.reduced, seed=job.model.seed, threads=threads)
        self.shard.set_rate(job.rate)
        self._segments = Segments(len(self.shard.dense), 1, settings().bucket_bytes)
        self._gradients: dict[Push, F32] = {}  # that lanes of this process brought, until they are answered
        self._parts: dict[Push, F32] = {}  # by push: the segment added up here
        self._ahead: dict[Push, int] = {}  # by push to come: buckets that were sent while backward went on
        self._delivered: Counter[tuple[Push, str]] = Counter()  # of these, how many a member has taken
        self._early: dict[Push, F32] = {}  # by push to come: what others sent ahead of the segment added up here
        self._total = np.empty(len(self.shard.dense), np.float32)  # of the present step
        self._arrived: F32 | None = None  # what came with the push that is being handled
        self._lines: dict[_LineKey, _Line] = {}  # that are open
        self._closed = False

    # --- entry points

    def deliver(self, instruction: Any) -> None:
        """Take an instruction of the run."""
        with self._lock:
            if isinstance(instruction, FormGroup) and instruction.term > self.state.term:
                self._begin(instruction)
            self._handle(instruction)

    def request(self, request: Request, payload: Wanted | PushedGradients | None, done: Done) -> None:
        """Take a request of a lane in this process; ``done`` is called with the answer, now or later."""
        with self._lock:
            if isinstance(request, Push):
                assert isinstance(payload, PushedGradients)
                if payload.dense is not None:  # else it was pushed before, and nobody needs it any more
                    self._gradients[request] = payload.dense
            self._handle(request, _Caller(done, payload, request))

    def ahead(self, push: Push, gradient: F32, low: int) -> None:
        """Send the buckets of a gradient that are complete from ``low`` on, while backward computes the others."""
        with self._lock:
            others = [member for member in self.state.members if member != self.worker]
            if push.term != self.state.term or not self.state.serving or not others:
                return
            buckets, sent = self._segments.buckets, self._ahead.get(push, 0)
            while sent < len(buckets) and buckets[sent].start >= low:
                for member in others:
                    self._send_ahead(member, push, gradient, sent)
                sent += 1
            self._ahead[push] = sent

    def _send_ahead(self, member: str, push: Push, gradient: F32, bucket: int) -> None:
        share = self._segments.share(self._segments.buckets[bucket], self._rank(member))
        message = pack_part(push, bucket, gradient[share])
        line = self._line(member, push.lane, push.attempt)

        def errand() -> None:
            if self._is_of(push.term) and self._call(line, "part", message) is not None:
                with self._lock:
                    self._delivered[push, member] += 1

        line.courier.send(errand, self._failed)

    @property
    def methods(self) -> Mapping[str, Method]:
        """What other members may call."""
        return {"relay": self._on_relay, "part": self._on_part, "want": self._on_want, "state": self._on_state}

    def close(self) -> None:
        """Let go of all connections; whoever waits is not answered."""
        with self._lock:
            self._closed = True
            self._hang_up()

    def _hang_up(self) -> None:
        for line in self._lines.values():
            line.courier.close()
        self._lines = {}

    # --- calls of other members

    def _on_relay(self, message: Message) -> Message:
        relayed, part = unpack_relay(message)
        waiter = _WaitingMember()
        with self._lock:
            self._arrived = part
            self._handle(relayed, waiter)
        return waiter.wait()

    def _on_part(self, message: Message) -> Message:
        push, bucket, part = unpack_part(message)
        with self._lock:
            if push.term != self.state.term or not self.state.serving:
                return pack_reply(Refused(self.state.term), None)
            early = self._early.get(push)
            if early is None:
                early = self._early[push] = np.empty(self._mine.size, np.float32)
            start = self._segments.place(bucket, self._rank(self.worker))
            early[start : start + part.size] = part
        return Message({})

    def _on_want(self, message: Message) -> Message:
        waiter = _WaitingMember()
        with self._lock:
            self._handle(unpack_want(message), waiter)
        return waiter.wait()

    def _on_state(self, message: Message) -> Message:
        with self._lock:
            if self.state.term != message.head["term"]:
                raise PeerLost(f"member {self.worker} is not of term {message.head['term']}")
            dense = self.shard.dense
            return pack_state(self.state.state(), self.shard.version, dense.values.copy(), dense.slots.copy())

    # --- decisions, all under the lock

    def _begin(self, form: FormGroup) -> None:
        self._segments = Segments(len(self.shard.dense), len(form.members), settings().bucket_bytes)
        for known in (self._parts, self._gradients, self._ahead, self._delivered, self._early):
            known.clear()
        self._hang_up()

    def _handle(self, message: Any, tag: Any = None) -> None:
        for decision in self.state.handle(message, tag):
            self._carry_out(decision)

    def _carry_out(self, decision: MemberDecision) -> None:
        match decision:
            case Answer(tag, reply):
                if isinstance(tag, _Caller) and isinstance(tag.request, Push):
                    self._gradients.pop(tag.request, None)
                tag(reply, None)
            case Serve(tag, _, reply):
                self._serve(tag, reply)
            case Report(event):
                self._report(event)
            case Relay(member, message):
                self._relay(member, message)
            case Keep(push):
                self._parts[push] = self._kept(push)
            case Add(_, pushes):
                self._add(pushes)
            case Fetch():
                self._fetch(decision)
            case Give(tag, _):
                tag(None, self._mine.take(self._total))
            case TakeStep(position, pushes):
                self._step(pushes)
                self._forget(position)
            case Obtain():
                start_thread("obtain", self._obtain, decision, failed=self._failed)
            case Settle():
                dense = self.shard.dense
                pieces = dense.values.copy(), dense.slots.copy()
                start_thread("settle", self._settle, decision, *pieces, failed=self._failed)

    def _kept(self, push: Push) -> F32:
        """Return the segment of a gradient that came with its push, or ahead of it."""
        if self._arrived is None:
            if push not in self._early:
                raise RunError(f"{push} came to member {self.worker} without its gradient")
            return self._early.pop(push)
        # That of a lane here belongs to us until it is answered; what came through a socket does not.
        return self._arrived if push in self._gradients else self._arrived.copy()

    def _forget(self, position: Position) -> None:
        """Drop what was sent ahead by attempts that were given up."""
        for known in (self._ahead, self._early):
            for push in [push for push in known if (push.key.pass_, push.step) <= position]:
                del known[push]
        for push, member in [each for each in self._delivered if (each[0].key.pass_, each[0].step) <= position]:
            del self._delivered[push, member]

    @property
    def _mine(self) -> FlatPart:
        return self._segments.parts[self._rank(self.worker)]

    def _rank(self, member: str) -> int:
        return self.state.members.index(member)

    def _serve(self, caller: _Caller, reply: Reply) -> None:
        wanted = caller.payload
        assert isinstance(wanted, Wanted)
        with self.phases("pull"), wanted.landing as is_open:
            dense = self.shard.pull_dense(wanted.dense) if is_open and wanted.dense is not None else None
        caller(reply, Pulled({}, {}, self.shard.version, dense))

    def _add(self, pushes: tuple[Push, ...]) -> None:
        """Add the segment owned here in lane order: one number after another, the same whoever computed the lanes."""
        with self.phases("push"):
            parts = [self._parts.pop(push) for push in pushes]
            total = parts[0] if len(parts) == 1 else parts[0] + parts[1]
            for part in parts[2:]:
                total += part
            self._put(self._rank(self.worker), total)

    def _put(self, rank: int, sums: F32) -> None:
        """Put an owner's sums where they belong in the whole."""
        part, at = self._segments.parts[rank], 0
        for span in part.spans:
            self._total[span] = sums[at : at + span.stop - span.start]
            at += span.stop - span.start

    def _step(self, pushes: tuple[Push, ...]) -> None:
        with self.phases("push"):
            applied = self.shard.apply(pushes[0].key, dense=self._total)
        self.phases.carve({"rule": applied.rule_s})

    # --- calls to other members, each from a thread of its own

    def _relay(self, member: str, message: Relayed) -> None:
        request = message.request
        gradient = self._gradients.get(request) if isinstance(request, Push) else None
        if member == self.worker:
            self._arrived = None if gradient is None else self._mine.take(gradient)
            self._handle(message, lambda reply, _: self._handle(Confirmed(member, request, reply)))
            return
        part = None if gradient is None else self._segments.parts[self._rank(member)].take(gradient)
        line = self._line(member, request.lane, request.attempt)

        def errand() -> None:
            sent = None if self._has_all(request, member) else part
            while self._is_open(request):
                answer = self._call(line, "relay", pack_relay(message, sent))
                if answer is not None and "wait" not in answer.head:
                    self._told(Confirmed(member, request, unpack_reply(answer)[0]))
                    return
                sent = None if answer is not None else part  # what has arrived once need not come again

        line.courier.send(errand, self._failed)

    def _has_all(self, request: Request, member: str) -> bool:
        """Say whether a member was sent all of a gradient before its push; errands of a line keep their order."""
        with self._lock:
            return isinstance(request, Push) and self._delivered[request, member] == len(self._segments.buckets)

    def _is_open(self, request: Request) -> bool:
        with self._lock:
            return not self._closed and self.state.waits_for(request)

    def _fetch(self, fetch: Fetch) -> None:
        want, line = fetch.message, self._line(fetch.member, _SUMS, 0)

        def errand() -> None:
            message = Message({"term": want.term, "position": want.position})
            while self._is_wanted(want):
                answer = self._call(line, "want", message)
                if answer is not None and answer.arrays:
                    self._fetched(fetch, answer.arrays[0])
                    return

        line.courier.send(errand, self._failed)

    def _is_wanted(self, want: Any) -> bool:
        with self._lock:
            return not self._closed and self.state.term == want.term and self.state.adding == want.position

    def _fetched(self, fetch: Fetch, sums: F32) -> None:
        want, member = fetch.message, fetch.member
        with self._lock:
            if self._is_wanted(want):
                self._put(self._rank(member), sums)
                self._handle(Fetched(want.term, member, want.position))

    def _line(self, member: str, lane: int, attempt: int) -> _Line:
        """Return the line of an attempt to a member; an earlier attempt at the lane is done with its own.

        It must not wait there for an earlier one's push, which may wait for lanes that wait for this attempt.
        """
        key = (member, lane, attempt)
        if key not in self._lines:
            for old in [old for old in self._lines if old[:2] == key[:2] and old < key]:
                self._lines.pop(old).courier.close()
            peer = self._peer(member)
            self._lines[key] = _Line(peer, Courier(f"member-lane-{lane}", peer.close))
        return self._lines[key]

    def _call(self, line: _Line, method: str, message: Message) -> Message | None:
        """Call a member; None if it does not answer, or has not formed yet."""
        try:
            answer = line.peer.call(method, message.arrays, **message.head)
        except PeerLost:
            sleep(_AGAIN_S)
            return None
        if answer.head.get("kind") == "Refused" and not answer.head["reply"]["fenced"]:
            sleep(_AGAIN_S)
            return None
        return answer

    def _told(self, message: Any) -> None:
        with self._lock:
            if not self._closed:
                self._handle(message)

    # --- parameters from and to others

    def _obtain(self, obtain: Obtain) -> None:
        while self._is_of(obtain.term) and not self.state.serving:
            try:
                state, version, values, slots = self._asked(obtain)
            except PeerLost:
                sleep(_AGAIN_S)
                continue
            with self._lock:
                if self._is_of(obtain.term) and not self.state.serving:
                    dense = self.shard.dense
                    for spec in dense.specs:
                        dense.set(spec.name, values[dense.where[spec.name]], slots[dense.slots_where[spec.name]])
                    self.shard.adopt(Window(), version)
                    self._handle(CaughtUp(obtain.term, state))

    def _is_of(self, term: int) -> bool:
        return not self._closed and self.state.term == term

    def _asked(self, obtain: Obtain) -> tuple[GroupState, int, F32, F32]:
        if obtain.source:
            answers = [self._once(obtain.source, "state", term=obtain.term)]
        else:
            copies = zip(obtain.layout.copies, obtain.layout.terms, strict=True)
            answers = [self._once(copy, "group", term=term) for copy, term in copies]
        values, slots = (np.concatenate([answer.arrays[i] for answer in answers]) for i in (0, 1))
        return unpack_state(answers[0].head), answers[0].head["version"], values, slots

    def _once(self, name: str | int, method: str, arrays: Any = (), **head: Any) -> Message:
        line = self._peer(name)
        try:
            return line.call(method, arrays, **head)
        finally:
            line.close()

    def _settle(self, settle: Settle, values: F32, slots: F32) -> None:
        """Give every host the parameters it keeps, until all have them or the group has formed anew."""
        layout, dense, at, slot = settle.layout, self.shard.dense, 0, 0
        for host, (copy, term) in enumerate(zip(layout.copies, layout.terms, strict=True)):
            kept = self.job.reduced_on(host)
            if kept:
                end, slot_end = dense.where[kept[-1].name].stop, dense.slots_where[kept[-1].name].stop
                stored = StoredDense(values[at:end], slots[slot:slot_end])
                while self._is_of(settle.term) and not self._stored(copy, term, settle.serial, stored):
                    sleep(_AGAIN_S)
                at, slot = end, slot_end
        self._told(Settled(settle.term, settle.serial))

    def _stored(self, copy: int, term: int, serial: int, stored: StoredDense) -> bool:
        message = pack_request(StoreGroup(term, serial), stored)
        try:
            answer = self._once(copy, "request", message.arrays, **message.head)
        except PeerLost:
            return False
        return answer.head.get("kind") == "Acked"


class _Caller:
    """A lane of this process that waits for an answer, and what came with its request."""

    def __init__(self, done: Done, payload: Wanted | PushedGradients | None, request: Request) -> None:
        self._done, self.payload, self.request = done, payload, request

    def __call__(self, reply: Reply, pulled: Pulled | None) -> None:
        self._done(reply, pulled)


class _WaitingMember:
    """A member in another process: its connection's thread waits here for the answer."""

    def __init__(self) -> None:
        self._answered = threading.Event()
        self._answer = Message({"wait": True})  # until there is another

    def __call__(self, reply: Reply | None, sums: F32 | None) -> None:
        self._answer = Message({}, [sums]) if sums is not None else pack_reply(answered(reply), None)
        self._answered.set()

    def wait(self) -> Message:
        """Return the answer, or the word that it is not there yet."""
        self._answered.wait(_PATIENCE_S)
        return self._answer


def answered(reply: Reply | None) -> Reply:
    """Return an answer that must be one."""
    if reply is None:
        raise RunError("a member was given neither an answer nor a sum")
    return reply
