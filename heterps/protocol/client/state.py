"""The client's side: one attempt at one Split. It decides what to send, what to send again, and when a batch is done.

1. It asks every host where the Split stands, and begins at the first batch that is not applied everywhere.
2. A batch is read, pulled from every host, computed; the gradients of a unit of batches go to every host in one push
   each. Where workers have rows of their own (``has_copy``) a few batches are pulled ahead and computed in order; where
   they also change them (``adds``), one at a time, and a unit is pushed before the first batch of the next is computed.
3. A unit is done when every host acknowledged its push under the host's present term.
4. What is not answered is sent again, the same bytes under the same key; a new term means sending again to that host.
5. In Sync the next pull goes out only when the unit before is done. A lane that stops (paused, end of Split) says so to
   every host, so that the others do not wait for it. One in the middle of a range of batches (``has_ranges``) cannot
   stop there: it goes on to the range's end, and says so.
6. Where dense parameters are all-reduced, the group is one more host to which a unit is pushed last, when all others
   have acknowledged it. It answers when every lane has pushed; a lane that is told to stop meanwhile says so. Where its
   members are stage workers, a lane computes on its home and nowhere else: that one has granted the step, so it has
   every step before it, and it has the gradient that the push speaks of.
"""

from __future__ import annotations

from typing import Any

from heterps.errors import ProtocolError
from heterps.protocol.client.credits import Credits
from heterps.protocol.words.actions import (
    Action,
    BatchRead,
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
from heterps.protocol.words.events import BatchesDone, Event, LaneWaits, LayoutWanted, SplitDone, SplitPaused
from heterps.protocol.words.instructions import Announce, Cancel, Pause, Resume, RunSplit
from heterps.protocol.words.keys import BatchKey
from heterps.protocol.words.layout import Layout
from heterps.protocol.words.messages import Advance, Ask, Pull, Push, Refused, Reply, Request, Seen
from heterps.protocol.words.modes import Mode

__all__ = [
    "Action",
    "BatchRead",
    "ClientState",
    "Compute",
    "Computed",
    "Forget",
    "Free",
    "Read",
    "Send",
    "SplitEnded",
    "StepFailed",
    "Tell",
]


class ClientState:
    """One attempt at one Split on one io worker.

    The engine carries out the actions that :meth:`start`, :meth:`handle`, :meth:`reply` and :meth:`timed_out`
    return, in any order and at any time; where workers have rows of their own a unit is settled when its push is
    returned.
    """

    def __init__(self, run: RunSplit, mode: Mode, credits: Credits | None = None) -> None:
        self.run = run
        self.mode = mode
        self.layout = run.layout
        self.until = run.until
        self.serial = run.serial
        self.stopped = False
        self.at_once = False  # the engine computes here and no answer has kept it waiting: see _in_flight
        self.next = run.start
        self.credits = Credits() if credits is None else credits
        self._stream = (run.pass_, -1 if run.split is None else run.split)
        self._open: dict[tuple[int, type, int], Request] = {}
        self._missing: dict[tuple[type, int], set[int]] = {}
        self._seen: dict[int, Seen] = {}
        self._computing: dict[int, str | None] = {}
        self._computed: set[int] = set()
        self._due: set[int] = set()  # has_copy: granted, and waiting for their turn
        self._turn = run.start  # has_copy: the next batch whose computing begins
        self._reading = False
        self._ready: int | None = None
        self._end: int | None = None
        self._units: list[int] = []
        self._low = run.start
        self._told: Event | None = None
        self._base = run.step if mode.ordered else 0
        self._asked = False
        self._advanced = -1

    # --- entry points

    def start(self) -> list[Action]:
        """Begin: ask every host where the Split stands."""
        if self.run.split is None:
            self._end = 0
            return self._settle()
        return self._send_all(Ask, 0)

    def handle(self, message: Any) -> list[Action]:
        """Take an instruction of the run, or what the engine did."""
        if self.stopped:
            return []
        name = _HANDLERS.get(type(message))
        if name is None:
            raise ProtocolError(f"attempt {self.run.attempt}: a client cannot handle {message!r}")
        actions: list[Action] = getattr(self, name)(message)
        return actions

    def reply(self, host: int, request: Request, reply: Reply) -> list[Action]:
        """Take a host's answer to a request."""
        if self.stopped:
            return []
        if type(reply) is Refused:
            return self._refused(host, reply)
        if not self.accepts(host, request, reply):
            return []
        kind, n = type(request), request.key.n
        del self._open[host, kind, n]
        if type(reply) is Seen:
            self._seen[host] = reply
        missing = self._missing[kind, n]
        missing.discard(host)
        if kind is Push and missing == {self._group}:
            return [self._send(len(self.layout.terms), Push, n), *self._say_that_it_waits()]
        return [] if missing else self._answered(kind, n)

    @property
    def _group(self) -> int | None:
        """Number of the all-reduce group among the hosts, None where there is none."""
        return None if self.layout.group is None else len(self.layout.terms)

    def accepts(self, host: int, request: Request, reply: Reply) -> bool:
        """Say whether the answer counts: it was waited for, and given under the host's present term.

        The engine asks before it takes the rows that came with a Granted.
        """
        return reply.term == self.layout.holders[host] and (host, type(request), request.key.n) in self._open

    def group_push(self, key: BatchKey) -> Push:
        """Return the words with which a batch will be pushed to the all-reduce group, if that keeps its term."""
        assert self.layout.group is not None
        return Push(self.layout.group, self.run.attempt, key, self.run.lane, self.run.step + key.n, 1)

    def timed_out(self, host: int, request: Request) -> list[Action]:
        """No answer came in time: send it again, under the present term."""
        again = None if self.stopped else self._open.get((host, type(request), request.key.n))
        return [] if again is None else [Send(host, again)]

    def is_kept_waiting(self) -> list[Action]:
        """An answer has not come at once: from now on as many units are in flight as the mode allows."""
        self.at_once = False
        return [] if self.stopped else self._settle()

    def close(self) -> None:
        """End where it stands, however that came: what waits at stage actors is not counted there any more."""
        self.stopped = True
        while self._computing:
            self.credits.give_back(self._computing.popitem()[1])

    # --- the life of a batch

    def _answered(self, kind: type, n: int) -> list[Action]:
        """Every host answered this request."""
        del self._missing[kind, n]
        if kind is Ask:
            self._place()
        elif kind is Pull:
            return self._granted(n)
        elif kind is Push:
            return self._unit_done(n)
        else:
            self._advanced = n
        return self._settle()

    def _place(self) -> None:
        """Begin at the first batch that is not everywhere, or where its range begins: what was learned of a range is
        nowhere before its end. When draining, go on to the last that is anywhere.
        """
        low = max(self.run.start, min(seen.low for seen in self._seen.values()) - self._base)
        self.next = self._low = self._turn = self.mode.range_start(low, self._base) if self.mode.has_ranges else low
        if self.until is not None:
            self.until = max(self.until, self._top())
        self._asked = True

    def _read(self, read: BatchRead) -> list[Action]:
        self._reading = False
        self._ready = read.n
        waiting = self._units if self.mode.has_ranges else ()
        return [*(action for unit in list(waiting) for action in self._push_if_whole(unit)), *self._settle()]

    def _begin(self, n: int) -> list[Action]:
        """Begin a batch that was read: pull its rows."""
        self._ready, self.next = None, n + 1
        unit = self._unit_of(n)
        if unit not in self._units:
            self._units.append(unit)
        return self._send_all(Pull, n)

    def _back_out(self) -> list[Action]:
        """Sync: a lane that waits for others must not wait for one that has stopped. It stands before this batch
        again.
        """
        n = self.next - 1
        if self.until is None or n < self.until or (Pull, n) not in self._missing or self._is_inside(n):
            return []
        for host in self._missing.pop((Pull, n)):
            del self._open[host, Pull, n]
        self._units.remove(n)
        self.next = self._ready = n
        return [Forget(BatchKey(*self._stream, n))]

    def _granted(self, n: int) -> list[Action]:
        """The rows are there: the batch can be computed, where order matters when its turn comes."""
        if not self.mode.has_copy:
            return self._compute(n)
        self._due.add(n)
        return self._compute_in_turn()

    def _compute_in_turn(self) -> list[Action]:
        """In order: what one has asked for is there when the next is computed. One at a time, where the next one is
        computed on what this one leaves.
        """
        actions: list[Action] = []
        while self._turn in self._due and not (self.mode.adds and self._computing):
            self._due.discard(self._turn)
            self._turn += 1
            actions += self._compute(self._turn - 1)
        return actions

    def _compute(self, *numbers: int) -> list[Action]:
        """Send batches to stage actors; where none is left they wait for the next layout."""
        actions: list[Action] = []
        for n in numbers:
            stages = self._able()
            stage = "" if stages is None else self.credits.take(stages) if stages else None
            self._computing[n] = stage
            if stage is not None:
                actions.append(Compute(BatchKey(*self._stream, n), stage))
        return actions

    def _able(self) -> tuple[str, ...] | None:
        """Return the stage workers that may compute a batch; None where compute is fused."""
        stages = self.layout.stages
        return (self.layout.home(self.run.lane),) if stages and self.layout.group is not None else stages

    def _has_computed(self, done: Computed) -> list[Action]:
        n = done.key.n
        if n not in self._computing:
            return []
        self.credits.give_back(self._computing.pop(n))  # by whichever actor: step has no effect but its result
        self._computed.add(n)
        pushed = self._push_if_whole(self._unit_of(n))
        if not self.mode.has_copy:
            return pushed
        return [*pushed, *self._compute_in_turn(), *self._settle()]

    def _push_if_whole(self, unit: int) -> list[Action]:
        """Push a unit once all its batches are computed (the last unit of a Split may be short)."""
        last = self._unit_end(unit)
        if unit not in self._units or (Push, unit) in self._missing or not self._computed.issuperset(range(unit, last)):
            return []
        return self._send_all(Push, unit) if self._knows_end(last) else []

    def _is_inside(self, n: int) -> bool:
        """Say whether a batch is in the middle of a range: nothing can begin or stop before it."""
        return n > 0 and self.mode.has_ranges and self.mode.range_start(n, self._base) < n

    def _knows_end(self, last: int) -> bool:
        """Say whether it is known if a range ends before a batch: with its number, or with the Split."""
        if not self._is_inside(last) or self._end is not None:
            return True
        return self.next > last or self._ready == last

    def _settles(self, unit: int) -> int:
        """Return how many batches of rows of a worker's own are settled with a unit."""
        last = self._unit_end(unit)
        first = self.mode.range_start(last - 1, self._base)
        ends = self.mode.adds and (last == self.mode.range_end(last - 1, self._base) or last == self._end)
        return last - first if ends else 0

    def _step_failed(self, failed: StepFailed) -> list[Action]:
        n = failed.key.n
        if self._computing.get(n) != failed.stage:
            return []
        self.credits.give_back(failed.stage)
        return self._compute(n)

    def _unit_done(self, unit: int) -> list[Action]:
        self._units.remove(unit)
        count = self._unit_end(unit) - unit
        self._computed.difference_update(range(unit, unit + count))
        self._low = min(self._units, default=self.next)
        told = Tell(BatchesDone(self.run.attempt, self._low))
        return [Free(BatchKey(*self._stream, unit), count), told, *self._settle()]

    def _ended(self, ended: SplitEnded) -> list[Action]:
        self._reading = False
        self._end = ended.batches
        self.next = min(self.next, self._end)
        short = [action for unit in list(self._units) for action in self._push_if_whole(unit)]
        return [*short, *self._settle()]

    def _unit_of(self, n: int) -> int:
        return n - n % self.mode.unit

    def _unit_end(self, unit: int) -> int:
        end = unit + self.mode.unit
        return end if self._end is None else min(end, self._end)

    # --- going on and stopping

    def _settle(self) -> list[Action]:
        """Go on if there is credit, else report if everything in flight is done."""
        if self._may_begin():
            if self._ready is not None:
                return [*self._begin(self._ready), *self._settle()]
            self._reading = True
            return [Read(self.next)]
        if self._must_look():
            self._reading = True
            return [Read(self.next), *self._say_that_it_waits()]
        if self._units or self._reading or self._missing or not (self._asked or self._end is not None):
            return self._say_that_it_waits()
        return self._report()

    def _must_look(self) -> bool:
        """Sync: nothing is begun before the last push is acknowledged, but whether that ends its range must be
        known.
        """
        computed = bool(self._units) and self.next - 1 in self._computed
        return self.mode.ordered and computed and not self._reading and not self._knows_end(self.next)

    def _say_that_it_waits(self) -> list[Action]:
        """The others must come to where a lane is that waits for them, or it will never stand."""
        stands = self._will_stand()
        if self.until is None or stands is None:
            return []
        waits = LaneWaits(self.run.attempt, stands, self.serial)
        if waits == self._told:
            return []
        self._told = waits
        return [Tell(waits)]

    def _will_stand(self) -> int | None:
        """Return where a lane will be that cannot stop where it was told to; None if it can."""
        unit = self._units[0] if self._units else -1
        if self.mode.ordered and self._end is None and (self._is_inside(self.next) or self._is_inside(unit)):
            end = self.mode.range_end(self.next - 1, self._base)
            return end if self.until is not None and end > self.until else None
        waits = self._group is not None and (self._group, Push, unit) in self._open
        return self._unit_end(unit) if waits else None

    def _may_begin(self) -> bool:
        if self._reading or self._end is not None or not self._asked:
            return False
        if self.mode.has_copy and self.next - self._turn + len(self._computing) >= self.mode.held:
            return False
        unit = self._unit_of(self.next)
        inside = unit != self.next and unit in self._units  # a begun unit is always completed, as is a begun range
        begun = inside or self._is_inside(self.next)
        if not begun and self.until is not None and self.next >= self.until:
            return False
        if inside or not self.mode.has_copy:
            return inside or len(self._units) < self._in_flight
        # By number: a later unit may be settled before the oldest, and what is kept here lacks that one still.
        return unit - min(self._units, default=unit) < self.mode.in_flight * self.mode.unit

    @property
    def _in_flight(self) -> int:
        """Units to have in flight. Where answers come at once, one more would only have its rows earlier than needed:
        they would be older, and out of the cache again when they are used.
        """
        return 1 if self.at_once else self.mode.in_flight

    def _report(self) -> list[Action]:
        """Nothing is in flight. In Sync all hosts must know where the lane stands before the run does."""
        if self.mode.ordered and self._advanced != self.next:
            return self._send_all(Advance, self.next)
        event: Event
        if self._end is not None:
            event = SplitDone(self.run.attempt, self._end)
        else:
            event = SplitPaused(self.run.attempt, self.next, self.serial)
        if event == self._told:
            return []
        self._told = event
        return [Tell(event)]

    def _pause(self, pause: Pause) -> list[Action]:
        if pause.serial <= self.serial:
            return []
        self.serial, self.until = pause.serial, pause.until
        if self._asked:
            self.until = max(self.until, self._top())
        return [*(self._back_out() if self.mode.ordered else []), *self._settle()]

    def _top(self) -> int:
        """Return before which batch a lane cannot stop: what is anywhere; where there are ranges, what was pushed of
        one, too, which is begun then, whoever did that.
        """
        ranges = self.mode.has_ranges
        return max(max(seen.top, seen.low) if ranges else seen.top for seen in self._seen.values()) - self._base

    def _resume(self, resume: Resume) -> list[Action]:
        if resume.serial <= self.serial:
            return []
        self.serial, self.until = resume.serial, None
        return [*self._renew(resume.layout), *self._settle()]

    def _cancel(self, cancel: Cancel) -> list[Action]:
        self.stopped = True
        return []

    # --- hosts

    def _send_all(self, kind: type, n: int) -> list[Action]:
        hosts = range(len(self.layout.holders))
        self._missing[kind, n] = set(hosts)
        return [self._send(host, kind, n) for host in hosts if kind is not Push or host != self._group]

    def _send(self, host: int, kind: type, n: int) -> Action:
        request = self._request(kind, n, self.layout.holders[host])
        self._open[host, kind, n] = request
        return Send(host, request)

    def _request(self, kind: type, n: int, term: int) -> Request:
        run = self.run
        key, step = BatchKey(*self._stream, n), run.step + n
        if kind is Ask:
            return Ask(term, run.attempt, key, run.lane, run.oldest, run.floor)
        if kind is Pull:
            return Pull(term, run.attempt, key, run.lane, step)
        if kind is Push:
            return Push(term, run.attempt, key, run.lane, step, self._unit_end(n) - n, self._settles(n))
        if run.split is None:  # the lane has ended: it stands at the beginning of the next pass
            key, step = BatchKey(run.pass_ + 1, -1, n), 0
        return Advance(term, run.attempt, key, run.lane, step)

    def _announce(self, announce: Announce) -> list[Action]:
        return self._renew(announce.layout)

    def _renew(self, layout: Layout) -> list[Action]:
        """Send again what hosts with a new term have not acknowledged; compute again what lost stages had."""
        if layout.version <= self.layout.version:
            return []
        changed = {host for host, term in enumerate(layout.holders) if term != self.layout.holders[host]}
        self.layout = layout
        lost = set(self._computing.values()) - set(layout.stages or ("",))
        again: list[Action] = [self._send(host, kind, n) for host, kind, n in list(self._open) if host in changed]
        for n, stage in list(self._computing.items()):
            if stage in lost:
                self.credits.give_back(stage)
                again += self._compute(n)
        return again

    def _refused(self, host: int, refused: Refused) -> list[Action]:
        if refused.fenced and refused.term == self.layout.holders[host]:
            self.stopped = True  # a later attempt has taken over
            return []
        newer = refused.term > self.layout.holders[host]
        return [Tell(LayoutWanted(self.run.attempt))] if newer else []


_HANDLERS: dict[type, str] = {
    BatchRead: "_read",
    SplitEnded: "_ended",
    Computed: "_has_computed",
    StepFailed: "_step_failed",
    Pause: "_pause",
    Resume: "_resume",
    Cancel: "_cancel",
    Announce: "_announce",
}
