"""One member of an all-reduce group: when a step is complete, what a lane may be told, what survives a lost member.

1. Every member hears everything that every lane says. So all of them see the same steps, in the same order, with the
   same pushes, and each adds its segment in lane order: the bits do not depend on who computed what.
2. A lane pushes to the group after all shard hosts have acknowledged the same step. So when any member has applied a
   step, its rows are staged on every host; and as long as no member has, computing it again sees the same parameters.
3. A push is answered when *every* member has applied its step. So what a lane was told survives as long as any member
   does, and hosts, which hear of it from the lane's next pull, are never ahead of the group.
4. A new term forgets what was under way: lanes send it again. What was applied stays; members behind, and new ones,
   take everything from the foremost one: of those who served last, the one that has applied most. One that was away
   meanwhile may have applied as much, yet not know how far lanes have come that were told so, or who is fenced.
5. Asking where a lane stands fences earlier attempts on every member before it is answered.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from heterps.errors import ProtocolError
from heterps.protocol.words.decisions import Answer, Keep, Report, Serve
from heterps.protocol.words.events import MemberFormed, MemberReady, WrittenBack
from heterps.protocol.words.group import (
    Add,
    CatchUp,
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
    Want,
    WriteBack,
)
from heterps.protocol.words.messages import (
    FAR,
    Acked,
    Advance,
    Ask,
    Granted,
    Pull,
    Push,
    Refused,
    Reply,
    Request,
    Seen,
)

__all__ = ["MemberState"]


@dataclass(slots=True)
class _Relaying:
    """A request of a lane that runs here: who has not confirmed it, what the others said."""

    tag: Any
    missing: set[str]
    replies: dict[str, Reply] = field(default_factory=dict)


class MemberState:
    """The member in one worker. Its engine hands in everything that arrives and carries out what is returned, in order.

    Parameters
    ----------
    worker
        Its name.
    lanes
        As in the Plan.
    """

    def __init__(self, worker: str, lanes: int) -> None:
        self.worker = worker
        self.term = 0
        self.base = -1
        self.members: tuple[str, ...] = ()
        self.serving = False
        self.served = 0  # the last term under which it was
        self.applied: Position | None = None  # all steps before it are in the parameters; None: there are none yet
        self.frontier: list[Position] = [(0, 0)] * lanes  # by lane: the first step it has not pushed here
        self.fences: dict[int, int] = {}
        self._floor: Position = (0, 0)  # where every lane is at least, when parameters come from the hosts
        self._clear()

    def _clear(self) -> None:
        self.staged: dict[Position, dict[int, Push]] = {}  # pushed, not applied
        self._open: dict[Request, _Relaying] = {}  # of lanes that run here
        self._unapplied: dict[Position, dict[int, Any]] = {}  # by step and lane: relays to confirm once it is applied
        self._pulls: list[tuple[Pull, Any]] = []
        self._wants: list[tuple[Position, Any]] = []
        self._added: Position | None = None  # the step whose sum is here
        self._missing: set[str] = set()  # members whose sum of that step is not

    def handle(self, message: Any, tag: Any = None) -> list[MemberDecision]:
        """Take one message and decide; ``tag`` comes back in the answer to it, perhaps from a later call."""
        name = _HANDLERS.get(type(message))
        if name is None:
            raise ProtocolError(f"member {self.worker}: a member cannot handle {message!r}")
        decisions: list[MemberDecision] = getattr(self, name)(message, tag)
        return decisions

    def waits_for(self, request: Request) -> bool:
        """Say whether a request of a lane here is not answered yet: what it takes may be tried again."""
        return request in self._open

    def has_parameters_of(self, term: int | None) -> bool:
        """Say whether a batch that was granted under a term may be computed here.

        Not by one that was made anew in the place of the member that granted it, nor by one that is catching up.
        """
        return self.serving and term == self.term

    @property
    def adding(self) -> Position | None:
        """The step whose sums are being gathered, or were last."""
        return self._added

    # --- requests of lanes that run here

    def _request(self, request: Any, tag: Any) -> list[MemberDecision]:
        refused = self._refuse(request)
        if refused is not None:
            return [Answer(tag, refused)]
        if type(request) is Pull:
            self._pulls = [(pull, old) for pull, old in self._pulls if pull != request]
            self._pulls.append((request, tag))
            return self._release()
        call = self._open.setdefault(request, _Relaying(tag, set(self.members)))
        call.tag = tag
        relayed = Relayed(self.term, self.worker, request)
        return [Relay(member, relayed) for member in self.members if member in call.missing]

    def _refuse(self, request: Any) -> Refused | None:
        if request.term != self.term or not self.serving:
            return Refused(self.term)
        return Refused(self.term, fenced=True) if request.attempt < self.fences.get(request.lane, 0) else None

    def _confirmed(self, confirmed: Confirmed, tag: Any) -> list[MemberDecision]:
        call = self._open.get(confirmed.request)
        reply = confirmed.reply
        if call is None or reply.term != self.term:
            return []
        if type(reply) is Refused:  # not formed yet: the lane asks again, and so do we
            return [Answer(call.tag, reply)] if reply.fenced else []
        call.missing.discard(confirmed.member)
        call.replies[confirmed.member] = reply
        if call.missing:
            return []
        del self._open[confirmed.request]
        return [Answer(call.tag, _together(list(call.replies.values())))]

    # --- what lanes said, here or to other members

    def _relayed(self, relayed: Relayed, tag: Any) -> list[MemberDecision]:
        request: Any = relayed.request
        refused = Refused(self.term) if relayed.term != self.term else self._refuse(request)
        if refused is not None:
            return [Answer(tag, refused)]
        decisions: list[MemberDecision] = getattr(self, _EXECUTE[type(request)])(request, tag)
        return decisions

    def _ask(self, ask: Ask, tag: Any) -> list[MemberDecision]:
        self.fences[ask.lane] = max(ask.oldest, self.fences.get(ask.lane, 0))
        # What is pushed and not applied would be forgotten with the term: it does not count.
        low = self._step_of(self._settled(ask.lane), ask.key.pass_)
        return [Answer(tag, Seen(self.term, low, self._step_of(self.frontier[ask.lane], ask.key.pass_)))]

    def _settled(self, lane: int) -> Position:
        return min([p for p, pushes in self.staged.items() if lane in pushes], default=self.frontier[lane])

    def _step_of(self, position: Position, pass_: int) -> int:
        return position[1] if position[0] == pass_ else (FAR if position[0] > pass_ else 0)

    def _advance(self, advance: Advance, tag: Any) -> list[MemberDecision]:
        self._reach(advance.lane, (advance.key.pass_, advance.step))
        return [*self._settle(), Answer(tag, Acked(self.term))]

    def _push(self, push: Push, tag: Any) -> list[MemberDecision]:
        position = (push.key.pass_, push.step)
        staged = self.staged.get(position, {})
        if position < self.frontier[push.lane] and push.lane not in staged:
            return [Answer(tag, Acked(self.term))]
        self._unapplied.setdefault(position, {})[push.lane] = tag
        if push.lane in staged:
            return []
        self.staged.setdefault(position, {})[push.lane] = push
        self._reach(push.lane, (position[0], position[1] + 1))
        return [Keep(push), *self._settle()]

    def _reach(self, lane: int, position: Position) -> None:
        if position > self.frontier[lane]:
            self.frontier[lane] = position

    # --- steps

    def _settle(self) -> list[MemberDecision]:
        """Go on with the first step that every lane is past; let pulls go whose step has come."""
        due = min((p for p in self.staged if p < min(self.frontier)), default=None)
        if due is None:
            return self._release()
        if due == self._added:
            return []
        self._added, self._missing = due, set(self.members) - {self.worker}
        fetches: list[MemberDecision] = [Fetch(member, Want(self.term, due)) for member in sorted(self._missing)]
        return [Add(due, self._in_order(due)), *self._give(), *fetches, *self._step_if_whole()]

    def _in_order(self, position: Position) -> tuple[Push, ...]:
        pushes = self.staged[position]
        return tuple(pushes[lane] for lane in sorted(pushes))

    def _want(self, want: Want, tag: Any) -> list[MemberDecision]:
        if want.term != self.term or not self.serving:
            return [Answer(tag, Refused(self.term))]
        self._wants.append((want.position, tag))
        return self._give()

    def _give(self) -> list[MemberDecision]:
        """Send the sum to those who asked: until all members have applied the step no lane can push the next."""
        if self._added is None:
            return []
        given: list[MemberDecision] = [Give(tag, position) for position, tag in self._wants if position == self._added]
        self._wants = [(position, tag) for position, tag in self._wants if position > self._added]
        return given

    def _fetched(self, fetched: Fetched, tag: Any) -> list[MemberDecision]:
        if fetched.term != self.term or fetched.position != self._added:
            return []
        self._missing.discard(fetched.member)
        return self._step_if_whole()

    def _step_if_whole(self) -> list[MemberDecision]:
        position = self._added
        if self._missing or position is None or position not in self.staged:
            return []
        pushes = self._in_order(position)
        del self.staged[position]
        self.applied = (position[0], position[1] + 1)
        told = [Answer(tag, Acked(self.term)) for tag in self._unapplied.pop(position, {}).values()]
        return [TakeStep(position, pushes), *told, *self._settle()]

    def _release(self) -> list[MemberDecision]:
        """Serve the pulls all of whose earlier steps are in the parameters."""
        reached = min([*self.frontier, *self.staged])
        ready = [(p, tag) for p, tag in self._pulls if (p.key.pass_, p.step) <= reached]
        self._pulls = [(p, tag) for p, tag in self._pulls if (p.key.pass_, p.step) > reached]
        return [Serve(tag, pull, Granted(self.term)) for pull, tag in ready]

    # --- instructions of the run

    def _form(self, form: FormGroup, tag: Any) -> list[MemberDecision]:
        if form.term < self.term:
            return []
        if form.term > self.term:
            self._begin(form)
        return [Report(MemberFormed(self.worker, self.term, self.applied, self.served))]

    def _begin(self, form: FormGroup) -> None:
        self.frontier = list(self.state().frontier)
        if form.base != self.base:
            self.applied, self.fences = None, {}
        self.term, self.base, self.members, self.serving = form.term, form.base, form.members, False
        self._clear()

    def state(self) -> GroupState:
        """Return what goes with the parameters to another member: as if nothing were under way."""
        frontier = tuple(self._settled(lane) for lane in range(len(self.frontier)))
        return GroupState(self.applied or (0, 0), frontier, tuple(self.fences.items()))

    def _catch_up(self, catch_up: CatchUp, tag: Any) -> list[MemberDecision]:
        if catch_up.term != self.term:
            return []
        if self.serving:
            return [Report(MemberReady(self.worker, self.term))]
        if catch_up.source == self.worker:
            return self._serve()
        self._floor = (catch_up.pass_, 0) if not catch_up.source else (0, 0)
        return [Obtain(self.term, catch_up.source, catch_up.layout)]

    def _caught_up(self, caught: CaughtUp, tag: Any) -> list[MemberDecision]:
        if caught.term != self.term or self.serving:
            return []
        self.frontier = [max(position, self._floor) for position in caught.state.frontier]
        self.applied = max(caught.state.applied, self._floor)
        self.fences = dict(caught.state.fences)
        return self._serve()

    def _serve(self) -> list[MemberDecision]:
        self.serving, self.served = True, self.term
        return [Report(MemberReady(self.worker, self.term))]

    def _write_back(self, write: WriteBack, tag: Any) -> list[MemberDecision]:
        if write.term != self.term or not self.serving:
            return []
        return [Settle(self.term, write.serial, write.layout)]

    def _written_back(self, settled: Settled, tag: Any) -> list[MemberDecision]:
        if settled.term != self.term:
            return []
        return [Report(WrittenBack(self.worker, self.term, settled.serial))]


def _together(replies: list[Reply]) -> Reply:
    """What all members say, as one answer."""
    seen = [reply for reply in replies if type(reply) is Seen]
    if not seen:
        return replies[0]
    return Seen(seen[0].term, min(reply.low for reply in seen), max(reply.top for reply in seen))


_EXECUTE: dict[type, str] = {Ask: "_ask", Push: "_push", Advance: "_advance"}

_HANDLERS: dict[type, str] = {
    Ask: "_request",
    Pull: "_request",
    Push: "_request",
    Advance: "_request",
    Relayed: "_relayed",
    Confirmed: "_confirmed",
    Want: "_want",
    Fetched: "_fetched",
    FormGroup: "_form",
    CatchUp: "_catch_up",
    CaughtUp: "_caught_up",
    WriteBack: "_write_back",
    Settled: "_written_back",
}
