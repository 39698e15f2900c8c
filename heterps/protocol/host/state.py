"""The host's side: what to apply, what to drop, whom to refuse. It decides, the tables apply.

1. A request whose term is not the host's own is refused, and every reply carries the host's term.
2. A push whose key is in the window is acknowledged and dropped.
3. Asking where a Split (Sync: a lane) stands fences earlier attempts at it: nothing of theirs counts any more. A cut
   is a moment only because of this: what was given up may still be running.
4. The primary orders, forwards, and answers only after the backup confirmed everything up to the answer, answers to
   duplicates included. The backup does the same things in the same order, and refuses a primary with an old term.
5. Window, staged pushes and rows go into a cut, a backup and a move together, never one without the others.
"""

from __future__ import annotations

from typing import Any

from heterps.errors import ProtocolError
from heterps.protocol.host.lanes import Lanes
from heterps.protocol.host.replica import Replica
from heterps.protocol.host.standing import HostStanding
from heterps.protocol.host.window import Window
from heterps.protocol.words.decisions import (
    Answer,
    Apply,
    Commit,
    Confirm,
    Decision,
    Dismiss,
    Fill,
    Forward,
    Insert,
    Keep,
    Load,
    Loaded,
    Mark,
    Report,
    Retain,
    Serve,
    Snapshot,
    Take,
    TakeIn,
)
from heterps.protocol.words.events import CutMarked, HostReady
from heterps.protocol.words.instructions import (
    Attach,
    CreateHost,
    Detach,
    Discard,
    ForgetTrainer,
    MarkCut,
    Own,
    Promote,
    Rewind,
)
from heterps.protocol.words.messages import FAR, Acked, Advance, Ask, Granted, Pull, Push, Refused, Seen, StoreGroup
from heterps.protocol.words.modes import Mode

__all__ = ["HostState"]


class HostState:
    """One copy of a shard host, as its actor holds it.

    Parameters
    ----------
    copy
        Its number, as CreateHost gave it.
    mode, lanes
        As in the Plan.

    Examples
    --------
    The actor hands in everything that arrives and carries out what is returned, in order::

        for decision in state.handle(request, tag):
            ...
    """

    def __init__(self, copy: int, mode: Mode, lanes: int = 1) -> None:
        self.copy = copy
        self.mode = mode
        self.term = 0
        self.serving = False
        self.owned: tuple[int, ...] = ()
        self.line = 0  # the return to a cut since which it has everything
        self.window = Window()
        self.lanes = Lanes(lanes)
        self.fences: dict[tuple[int, int], int] = {}
        self.replica = Replica(copy)
        self._n_lanes = lanes
        self._waiting: list[tuple[Pull, Any]] = []
        self._marked = 0
        self._stored = 0  # serial of the newest parameters of the all-reduce group

    def handle(self, message: Any, tag: Any = None) -> list[Decision]:
        """Take one message (a client's request, an instruction, a word from the other copy) and decide.

        ``tag`` comes back in the Answer or Serve to this request, perhaps from a later call.
        """
        name = _HANDLERS.get(type(message))
        if name is None:
            raise ProtocolError(f"copy {self.copy}: a host cannot handle {message!r}")
        decisions: list[Decision] = getattr(self, name)(message, tag)
        return decisions

    def to_json(self) -> dict[str, Any]:
        """Return what belongs beside the rows in a cut."""
        return {"window": self.window.to_json(), "frontier": self.lanes.to_json()}

    def standing(self) -> HostStanding:
        """Return where it is, for a driver that knows nothing of the run."""
        return HostStanding(self.window.copy(), self.lanes.standing(), self.line)

    def go_on_as(self, before: HostState) -> None:
        """Be what another copy was: the next driver's, around the same rows."""
        self.window, self.lanes, self.fences = before.window.copy(), before.lanes.copy(), dict(before.fences)
        self.line = before.line

    def resend(self) -> list[Decision]:
        """Return what the backup has not confirmed; the engine asks after a timeout."""
        return self.replica.unconfirmed(self.term, self._snapshot)

    # --- requests of clients

    def _request(self, request: Any, tag: Any) -> list[Decision]:
        if request.term != self.term or not self.serving:
            return [Answer(tag, Refused(self.term))]
        if request.attempt < self.fences.get(self._stream(request), 0):
            return [Answer(tag, Refused(self.term, fenced=True))]
        if type(request) is Pull and not self.mode.ordered:  # reads only: nothing that the backup would have to know
            return [Serve(tag, request, Granted(self.term, self.window.low(*request.key[:2])))]
        return self._ordered(request, tag)

    def _stream(self, request: Any) -> tuple[int, int]:
        """Return what attempts are made at: the Split, in Sync the lane."""
        return (FAR, request.lane) if self.mode.ordered else request.key[:2]

    def _ordered(self, request: Any, tag: Any) -> list[Decision]:
        """Do it here, pass it to the backup, and hold back the answers until the backup has it."""
        return self.replica.order(self.term, request, self._execute(request, tag))

    def _execute(self, request: Any, tag: Any) -> list[Decision]:
        """Change the state as primary and backup both do, in the same order."""
        decisions: list[Decision] = getattr(self, _EXECUTE[type(request)])(request, tag)
        return decisions

    def _ask(self, ask: Ask, tag: Any) -> list[Decision]:
        self._raise_floor(ask.floor)
        pass_, split, _ = ask.key
        stream = self._stream(ask)
        self.fences[stream] = max(ask.oldest, self.fences.get(stream, 0))
        if self.mode.ordered:
            seen = Seen(self.term, self.lanes.due(ask.lane, pass_), self.lanes.reached(ask.lane, pass_))
        else:
            seen = Seen(self.term, self.window.low(pass_, split), self.window.top(pass_, split))
        return [Answer(tag, seen)]

    def _push(self, push: Push, tag: Any) -> list[Decision]:
        done = Answer(tag, Acked(self.term))
        if self.mode.ordered:
            new: list[Decision] = [Keep(push)] if self.lanes.stage(push) else []
            return [*new, *self._commit(), done]
        return [Apply(push), done] if self.window.add(push.key, push.batches) else [done]

    def _advance(self, advance: Advance, tag: Any) -> list[Decision]:
        self.lanes.reach(advance.lane, advance.key, advance.step)
        return [*self._commit(), Answer(tag, Acked(self.term))]

    def _pull(self, pull: Pull, tag: Any) -> list[Decision]:
        """Sync only: asking for step t is also the word that the lane is past t - 1."""
        self.lanes.reach(pull.lane, pull.key, pull.step)
        if tag is not None:
            self._waiting.append((pull, tag))
        return self._commit()

    def _commit(self) -> list[Decision]:
        decisions: list[Decision] = []
        for position, pushes in self.lanes.commit():
            for push in pushes:
                self.window.add(push.key)
            decisions.append(Commit(position, pushes))
        return decisions + self._release()

    def _release(self) -> list[Decision]:
        """Serve the pulls whose step's predecessors are all committed."""
        committed = self.lanes.committed
        ready = [(p, tag) for p, tag in self._waiting if (p.key.pass_, p.step) <= committed]
        if ready:
            self._waiting = [(p, tag) for p, tag in self._waiting if (p.key.pass_, p.step) > committed]
        return [Serve(tag, pull, Granted(self.term)) for pull, tag in ready]

    def _raise_floor(self, floor: tuple[int, int]) -> None:
        if floor > self.window.floor:
            self.window.raise_floor(floor)
            self.fences = {stream: attempt for stream, attempt in self.fences.items() if stream >= floor}

    # --- instructions of the run

    def _create(self, create: CreateHost, tag: Any) -> list[Decision]:
        if create.adopt:
            return self._adopted(create)
        if create.cut is None:
            if create.term <= self.term:
                return []
            self.term, self.owned = create.term, create.owned
            return []
        return self._rewind(Rewind(self.copy, create.term, create.cut, create.owned, create.line), tag)

    def _adopted(self, create: CreateHost) -> list[Decision]:
        """Go on from where it is, under the term of another driver."""
        if create.term > self.term:
            self.term, self.owned, self.serving = create.term, create.owned, True
        return [Report(HostReady(self.copy, self.term))] if self._ready(create.term) else []

    def _rewind(self, rewind: Rewind, tag: Any) -> list[Decision]:
        if rewind.term <= self.term:
            return [Report(HostReady(self.copy, self.term))] if self._ready(rewind.term) else []
        self.term, self.owned, self.line, self.serving = rewind.term, rewind.owned, rewind.line, False
        self._waiting.clear()
        self.replica.leave()
        return [Load(rewind.term, rewind.cut, rewind.owned)]

    def _loaded(self, loaded: Loaded, tag: Any) -> list[Decision]:
        if loaded.term != self.term or self.serving:
            return []
        state = loaded.state or {}
        self.window = Window.from_json(state.get("window", []))
        self.lanes = Lanes.from_json(state["frontier"]) if "frontier" in state else Lanes(self._n_lanes)
        self.fences = {}
        self.serving = True
        return [Report(HostReady(self.copy, self.term))]

    def _ready(self, term: int) -> bool:
        return self.serving and self.term == term

    def _promote(self, promote: Promote, tag: Any) -> list[Decision]:
        changed: list[Decision] = []
        if promote.term > self.term and self.replica.lead():
            self.term, self.serving = promote.term, True
            changed = self._take_over(promote.owned) if promote.owned != self.owned else []
        return [*changed, Report(HostReady(self.copy, self.term))] if self._ready(promote.term) else []

    def _own(self, own: Own, tag: Any) -> list[Decision]:
        if own.term < self.term:
            return []
        if own.term == self.term:
            return self.replica.hold([Report(HostReady(self.copy, self.term))])
        self.term = own.term
        self._waiting.clear()
        return self._ordered(own, tag)

    def _retain(self, own: Own, tag: Any) -> list[Decision]:
        return [*self._take_over(own.owned), Report(HostReady(self.copy, self.term))]

    def _take_over(self, owned: tuple[int, ...]) -> list[Decision]:
        """Owners change when all is drained: what is staged then was left by attempts that were given up.

        It was routed by the old owners and would stand in the way of the whole push, so it goes.
        """
        self.owned = owned
        self.lanes.staged.clear()
        return [Retain(owned)]

    def _take_in(self, rows: TakeIn, tag: Any) -> list[Decision]:
        if rows.term != self.term or not self.serving:
            return [Answer(tag, Refused(self.term))]
        return self._ordered(rows, tag)

    def _insert(self, rows: TakeIn, tag: Any) -> list[Decision]:
        return [Insert(rows), Answer(tag, Acked(self.term))]

    def _store(self, store: StoreGroup, tag: Any) -> list[Decision]:
        """Take the parameters of the all-reduce group; old ones may still be on their way."""
        if store.term != self.term or not self.serving or store.serial < self._stored:
            return [Answer(tag, Refused(self.term))]
        return self._ordered(store, tag)

    def _take_store(self, store: StoreGroup, tag: Any) -> list[Decision]:
        self._stored = max(self._stored, store.serial)
        return [Take(store), Answer(tag, Acked(self.term))]

    def _mark(self, mark: MarkCut, tag: Any) -> list[Decision]:
        if mark.term != self.term or not self.serving:
            return []
        marked = Report(CutMarked(self.copy, mark.cut))
        if mark.cut <= self._marked:
            return [marked]
        self._marked = mark.cut
        self._raise_floor(mark.floor)
        return [Mark(mark.cut, self.to_json()), marked]

    def _attach(self, attach: Attach, tag: Any) -> list[Decision]:
        return self.replica.attach(attach.backup, self.term, self._snapshot) if self.serving else []

    def _detach(self, detach: Detach, tag: Any) -> list[Decision]:
        return self.replica.detach(detach.backup)

    def _discard(self, discard: Discard, tag: Any) -> list[Decision]:
        self.serving = False
        return []

    def _forget(self, forget: ForgetTrainer, tag: Any) -> list[Decision]:
        return [Dismiss(forget.trainer)]

    # --- between primary and backup

    def _snapshot(self) -> Snapshot:
        return Snapshot(self.window.copy(), self.lanes.copy(), dict(self.fences), self.owned, self.line)

    def _fill(self, fill: Fill, tag: Any) -> list[Decision]:
        if fill.term < self.term or self.serving:
            return [Confirm(tag, self.copy, self.term, -1)]
        self.term = fill.term
        if self.replica.fill(fill.seq):
            snapshot = fill.snapshot
            self.window, self.lanes = snapshot.window.copy(), snapshot.lanes.copy()
            self.fences, self.owned, self.line = dict(snapshot.fences), snapshot.owned, snapshot.line
        return self._follow(tag)

    def _forward(self, forward: Forward, tag: Any) -> list[Decision]:
        if forward.term < self.term or self.serving:
            return [Confirm(tag, self.copy, self.term, -1)]
        self.term = forward.term
        self.replica.keep(forward.seq, forward.request)
        return self._follow(tag)

    def _follow(self, primary: int) -> list[Decision]:
        """Do what can be done in order; tell the primary how far that is (nothing before the Fill)."""
        if not self.replica.filled:
            return []
        decisions: list[Decision] = []
        for request in self.replica.in_order():
            decisions += [d for d in self._execute(request, None) if type(d) not in _OUTGOING]
        return [*decisions, Confirm(primary, self.copy, self.term, self.replica.done)]

    def _confirm(self, confirm: Confirm, tag: Any) -> list[Decision]:
        if confirm.seq < 0:
            if confirm.term > self.term:  # the backup was promoted: nothing held back will ever be answered
                self.serving = False
            return []
        return self.replica.confirm(confirm.backup, confirm.seq)


_OUTGOING = (Answer, Serve, Report)

_EXECUTE: dict[type, str] = {
    Ask: "_ask",
    Pull: "_pull",
    Push: "_push",
    Advance: "_advance",
    TakeIn: "_insert",
    Own: "_retain",
    StoreGroup: "_take_store",
}

_HANDLERS: dict[type, str] = {
    Ask: "_request",
    Pull: "_request",
    Push: "_request",
    Advance: "_request",
    CreateHost: "_create",
    Rewind: "_rewind",
    Loaded: "_loaded",
    Promote: "_promote",
    Own: "_own",
    TakeIn: "_take_in",
    MarkCut: "_mark",
    StoreGroup: "_store",
    Attach: "_attach",
    Detach: "_detach",
    Discard: "_discard",
    ForgetTrainer: "_forget",
    Fill: "_fill",
    Forward: "_forward",
    Confirm: "_confirm",
}
