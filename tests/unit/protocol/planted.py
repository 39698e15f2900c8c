"""Bugs to plant in the production code, one per rule of docs/protocol.md: the simulator must find every one."""

from dataclasses import replace
from typing import Any

import pytest

from heterps.protocol import BatchKey, ClientState, HostState, RunState, Window
from heterps.protocol.host.lanes import Lanes
from heterps.protocol.host.replica import Replica
from heterps.protocol.run.books import LaneBook, SplitBook
from heterps.protocol.run.fleet import Fleet, FleetHost
from heterps.protocol.run.roster import LiveAttempt
from heterps.protocol.run.spec import Phase
from heterps.protocol.words import decisions as de, events as ev, instructions as do
from heterps.protocol.words.messages import FAR, Acked, Ask, Push, Seen
from heterps.simulator import world as worlds
from heterps.simulator.actors import Copy
from heterps.simulator.own_rows import OwnRows
from tests.unit.protocol.planting import Planted

planted = PLANTED = Planted()


# --- exactly once


@planted
def last_seen_dedupe(patch: pytest.MonkeyPatch) -> None:
    """A push that is not newer than the last one counts as seen."""

    def add(self: Window, key: BatchKey, count: int = 1) -> bool:
        if key.n < self.top(key.pass_, key.split):
            return False
        self._record(key, count)
        return True

    patch.setattr(Window, "add", add)


@planted
def no_dedupe(patch: pytest.MonkeyPatch) -> None:
    """Whatever arrives is applied."""
    good = Window.add
    patch.setattr(Window, "add", lambda self, key, count=1: bool(good(self, key, count)) or True)


@planted
def dense_applied_twice(patch: pytest.MonkeyPatch) -> None:
    """The dense gradient does not go through the window: it is applied each time it comes."""
    good = Copy._apply

    def push(self: HostState, push: Push, tag: Any) -> list[de.Decision]:
        done = de.Answer(tag, Acked(self.term))
        if self.mode.ordered:
            return [*([de.Keep(push)] if self.lanes.stage(push) else []), *self._commit(), done]
        self.window.add(push.key, push.batches)
        return [de.Apply(push), done]

    def apply(self: Copy, apply: de.Apply) -> None:
        shards, grads, since = self._payloads[apply.push]
        if any(grads[0][0] in self.rows[number].counts for number in shards if number in self.rows):
            self._payloads[apply.push] = (tuple(number for number in shards if number == 0), grads, since)
        good(self, apply)

    patch.setattr(HostState, "_push", push)
    patch.setattr(Copy, "_apply", apply)


@planted
def replay_from_cut_without_windows(patch: pytest.MonkeyPatch) -> None:
    """Rows return to the cut, windows stay as they were."""
    good = HostState._loaded

    def loaded(self: HostState, loaded: de.Loaded, tag: Any) -> list[de.Decision]:
        window = self.window
        decisions = good(self, loaded, tag)
        if decisions:
            self.window = window
        return decisions

    patch.setattr(HostState, "_loaded", loaded)


@planted
def resume_where_the_first_host_is(patch: pytest.MonkeyPatch) -> None:
    """A new attempt begins after the last batch that any host has, not after the last that all have."""
    good = ClientState._place

    def place(self: ClientState) -> None:
        high = max(seen.low for seen in self._seen.values())
        self._seen = {host: Seen(seen.term, high, seen.top) for host, seen in self._seen.items()}
        good(self)

    patch.setattr(ClientState, "_place", place)


@planted
def done_after_the_first_ack(patch: pytest.MonkeyPatch) -> None:
    """A unit counts as done when one host has it."""
    good = ClientState.reply

    def reply(self: ClientState, host: int, request: Any, reply: Any) -> Any:
        if type(request) is Push and type(reply) is Acked and self.accepts(host, request, reply):
            for other in self._missing[Push, request.key.n] - {host}:
                self._open.pop((other, Push, request.key.n))
            self._missing[Push, request.key.n] = {host}
        return good(self, host, request, reply)

    patch.setattr(ClientState, "reply", reply)


# --- terms


@planted
def acks_without_term(patch: pytest.MonkeyPatch) -> None:
    """Neither side looks at terms: an acknowledgement of a copy that was replaced counts."""
    requests_without_term(patch)
    patch.setattr(
        ClientState, "accepts", lambda self, host, request, reply: (host, type(request), request.key.n) in self._open
    )


@planted
def requests_without_term(patch: pytest.MonkeyPatch) -> None:
    """A host takes what was meant for an earlier state of it."""
    good = HostState._request

    def request(self: HostState, request: Any, tag: Any) -> list[de.Decision]:
        term, self.term = self.term, request.term
        try:
            return good(self, request, tag)
        finally:
            self.term = term

    patch.setattr(HostState, "_request", request)


@planted
def rewind_under_the_same_term(patch: pytest.MonkeyPatch) -> None:
    """Hosts that live return to the cut but keep their term."""
    good = Fleet.restore

    def restore(self: Fleet, cut: int) -> list[do.Instruction]:
        out = good(self, cut)
        for host in self.hosts:
            host.term -= host.primary is not None
        return [replace(i, term=i.term - 1) if isinstance(i, do.Rewind) else i for i in out]

    def rewind(self: HostState, rewind: do.Rewind, tag: Any) -> list[de.Decision]:
        self.term, self.owned, self.serving = rewind.term, rewind.owned, False
        self._waiting.clear()
        self.replica.leave()
        return [de.Load(rewind.term, rewind.cut, rewind.owned)]

    patch.setattr(Fleet, "restore", restore)
    patch.setattr(HostState, "_rewind", rewind)


@planted
def one_life_for_all_drivers(patch: pytest.MonkeyPatch) -> None:
    """A new driver counts cuts and attempts from where the old one began."""
    good = RunState.__init__
    patch.setattr(RunState, "__init__", lambda self, spec, *, cut=None, life=0: good(self, spec, cut=cut, life=0))


# --- returning to a cut


@planted
def hosts_of_compute_workers_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    """A compute worker that is lost is not looked at for the host that it holds."""
    good = Fleet.on
    patch.setattr(Fleet, "on", lambda self, worker: good(self, worker) if "server" in worker else [])


@planted
def only_the_lost_host_returns(patch: pytest.MonkeyPatch) -> None:
    """One host returns to the cut, the others stay ahead."""
    good = Fleet.restore

    def restore(self: Fleet, cut: int) -> list[do.Instruction]:
        alive = {host.index: (host.term, host.primary) for host in self.hosts if host.ready}
        out = [i for i in good(self, cut) if not isinstance(i, do.Rewind)]
        for index, (term, primary) in alive.items():
            if self.hosts[index].primary == primary:
                self.hosts[index].term, self.hosts[index].ready = term, True
        return out

    patch.setattr(Fleet, "restore", restore)


@planted
def splits_do_not_rewind(patch: pytest.MonkeyPatch) -> None:
    """Hosts return to the cut, finished Splits stay finished."""
    good = RunState._restore

    def restore(self: RunState) -> None:
        for attempt in list(self.roster.attempts.values()):
            self._cancel(attempt)
            self.book.give_back(attempt.work, clean=False)
        load = self.book.load
        self.book.load = lambda pass_, progress: None  # type: ignore[method-assign]
        good(self)
        self.book.load = load  # type: ignore[method-assign]

    patch.setattr(RunState, "_restore", restore)


@planted
def splits_stay_at_the_cut_that_was_lost(patch: pytest.MonkeyPatch) -> None:
    """Hosts fall back to the cut before the one they could not read, Splits only to that one."""
    good = RunState._cut_lost

    def cut_lost(self: RunState, event: Any) -> None:
        load = self.book.load
        self.book.load = lambda pass_, progress: None  # type: ignore[method-assign]
        good(self, event)
        self.book.load = load  # type: ignore[method-assign]

    patch.setattr(RunState, "_cut_lost", cut_lost)


@planted
def cut_counts_when_one_host_wrote_it(patch: pytest.MonkeyPatch) -> None:
    """The run returns to a cut whose parts are not all on disk."""
    good = RunState._cut_written

    def written(self: RunState, event: Any) -> None:
        if self._cutting is not None and event.cut == self._cutting.cut.number:
            self.cut = self._cutting.cut
        good(self, event)

    patch.setattr(RunState, "_cut_written", written)


# --- draining


@planted
def cut_without_drain(patch: pytest.MonkeyPatch) -> None:
    """Hosts mark the cut while batches are in flight."""

    def draining(self: RunState) -> None:
        if self.fleet.ready:
            self._drained()

    patch.setattr(RunState, "_settle_draining", draining)
    patch.setattr(RunState, "validate", lambda self: None)


@planted
def hand_over_without_drain(patch: pytest.MonkeyPatch) -> None:
    """Rows move while batches are in flight."""
    good = RunState._settle_draining

    def draining(self: RunState) -> None:
        if self._moves and not self._cut_wanted and self.fleet.ready:
            self._enter(Phase.MOVING)
        else:
            good(self)

    patch.setattr(RunState, "_settle_draining", draining)
    patch.setattr(RunState, "validate", lambda self: None)


@planted
def rest_without_drain(patch: pytest.MonkeyPatch) -> None:
    """The engine goes to the hosts while batches are in flight."""
    good = RunState._settle_draining

    def draining(self: RunState) -> None:
        if self._rests and not self._cut_wanted and self.fleet.ready:
            self._drained()
        else:
            good(self)

    patch.setattr(RunState, "_settle_draining", draining)
    patch.setattr(RunState, "validate", lambda self: None)


@planted
def cuts_of_nothing_new(patch: pytest.MonkeyPatch) -> None:
    """A cut that is asked for while the last one is written is made, and while that is written another."""
    good = RunState._end_of_pass

    def end_of_pass(self: RunState) -> None:
        wanted = self._cut_wanted
        if wanted and self._cutting is None:
            self._enter(Phase.DRAINING)
        else:
            good(self)
            self._cut_wanted |= wanted

    patch.setattr(RunState, "_end_of_pass", end_of_pass)


@planted
def hand_over_without_new_terms(patch: pytest.MonkeyPatch) -> None:
    """Owners change, terms stay: what was routed by the old owners is taken."""

    def move(self: Fleet, shards: tuple[int, ...], target: int) -> list[do.Instruction]:
        self.owners = tuple(target if shard in shards else owner for shard, owner in enumerate(self.owners))
        for host in self.hosts:
            host.ready = False
        return [do.Own(h.primary or 0, h.term, self.owned(h.index)) for h in self.hosts]

    patch.setattr(Fleet, "move", move)


@planted
def dirty_splits_are_not_drained(patch: pytest.MonkeyPatch) -> None:
    """A cut does not wait for Splits whose worker died in the middle of a batch."""
    split, lane = SplitBook.give_back, LaneBook.give_back
    patch.setattr(SplitBook, "give_back", lambda self, work, *, clean: split(self, work, clean=True))
    patch.setattr(LaneBook, "give_back", lambda self, work, *, clean: lane(self, work, clean=True))


@planted
def attempts_survive_a_rewind(patch: pytest.MonkeyPatch) -> None:
    """Hosts return to the cut, attempts go on from where they are."""
    good = RunState._restore

    def restore(self: RunState) -> None:
        attempts, roster = dict(self.roster.attempts), self.roster
        good(self)
        self._out = [i for i in self._out if not isinstance(i, do.Cancel)]
        for attempt in attempts.values():
            if attempt.worker in roster.workers:
                roster.attempts[attempt.number] = roster.workers[attempt.worker].attempts[attempt.number] = attempt
                if isinstance(self.book, SplitBook) and attempt.work.split is not None:
                    self.book.starts.setdefault(attempt.work.split, 0)

    patch.setattr(RunState, "_restore", restore)
    patch.setattr(RunState, "validate", lambda self: None)


@planted
def asking_does_not_fence(patch: pytest.MonkeyPatch) -> None:
    """What a given up attempt still sends is taken, also after the drain."""
    good = HostState._ask

    def ask(self: HostState, ask: Ask, tag: Any) -> list[de.Decision]:
        decisions = good(self, ask, tag)
        self.fences.clear()
        return decisions

    patch.setattr(HostState, "_ask", ask)


@planted
def pause_without_serial(patch: pytest.MonkeyPatch) -> None:
    """A late word of an earlier pause counts for the present one."""
    good = RunState._split_paused

    def paused(self: RunState, event: Any) -> None:
        attempt = self.roster.attempts.get(event.attempt)
        serial = event.serial if attempt is None else attempt.serial
        good(self, type(event)(event.attempt, event.upto, serial))

    patch.setattr(RunState, "_split_paused", paused)


# --- Sync


@planted
def commit_too_early(patch: pytest.MonkeyPatch) -> None:
    """A step is committed when this host has it from every lane, though others may not."""
    good = Lanes.commit

    def commit(self: Lanes) -> Any:
        frontier = list(self.frontier)
        for lane, position in enumerate(frontier):
            if lane in self.staged.get(position, ()):
                self.frontier[lane] = (position[0], position[1] + 1)
        try:
            return good(self)
        finally:
            self.frontier = [max(old, self.committed) for old in frontier]

    patch.setattr(Lanes, "commit", commit)


@planted
def commit_when_any_lane_is_past(patch: pytest.MonkeyPatch) -> None:
    """A step is committed when the first lane asks for the next one."""

    def commit(self: Lanes) -> Any:
        reached = max(self.frontier)
        self.committed = max(reached, self.committed)
        due = sorted(position for position in self.staged if position < reached)
        return [(position, tuple(self.staged.pop(position).values())) for position in due]

    patch.setattr(Lanes, "commit", commit)


@planted
def sum_in_order_of_arrival(patch: pytest.MonkeyPatch) -> None:
    """A step's gradients are added as they came."""
    patch.setattr("heterps.protocol.host.lanes._in_lane_order", lambda pushes: tuple(pushes.values()))


@planted
def cut_ignores_lanes_that_ended(patch: pytest.MonkeyPatch) -> None:
    """The last step of a lane that ended is staged, not committed, and not in the cut."""
    patch.setattr(
        LaneBook, "target", lambda self: max((lane.position for lane in self._lanes if not lane.ended), default=0)
    )


# --- replicas


@planted
def a_split_that_runs_twice_pauses_once(patch: pytest.MonkeyPatch) -> None:
    """What the first of two attempts says when it stops is taken for where the Split is."""
    good = RunState._split_paused

    def paused(self: RunState, event: ev.SplitPaused) -> None:
        attempt = self.roster.attempts.get(event.attempt)
        if attempt is not None and not self.spec.mode.ordered:
            self._drop_twins(attempt)
            attempt.outrun = False
        good(self, event)

    patch.setattr(RunState, "_split_paused", paused)


@planted
def what_does_not_stop_is_taken_to_stand(patch: pytest.MonkeyPatch) -> None:
    """An attempt that does not stop for a cut is given up, and the cut made as if it had left nothing behind."""

    def replace(self: RunState, attempt: LiveAttempt) -> None:
        self._drop_twins(attempt)
        self._cancel(attempt)
        self.book.give_back(attempt.work, clean=True)

    patch.setattr(RunState, "_replace", replace)


# --- tables that outlive their driver


@planted
def what_is_found_is_taken_to_be_whole(patch: pytest.MonkeyPatch) -> None:
    """The last batches of what a dead driver left are taken to be on all hosts."""
    patch.setattr(SplitBook, "distrust", lambda self: None)
    patch.setattr(LaneBook, "distrust", lambda self: None)


@planted
def one_host_says_where_lanes_are(patch: pytest.MonkeyPatch) -> None:
    """A lane that one host takes for ended is not told to the others."""
    good = worlds.found

    def found(cut: Any, hosts: Any, *, ordered: bool) -> Any:
        told = good(cut, hosts, ordered=ordered)
        for lane in told.progress.get("lanes", ()) if told else ():
            lane[3] = lane[0] == FAR
        return told

    patch.setattr(worlds, "found", found)


@planted
def tables_are_adopted_one_by_one(patch: pytest.MonkeyPatch) -> None:
    """A host that is lost before all are there loads the cut, the others go on from where they are."""
    good = RunState._restore
    patch.setattr(RunState, "_restore", lambda self: None if self.fleet.adopts else good(self))


@planted
def gradients_that_wait_are_left_behind(patch: pytest.MonkeyPatch) -> None:
    """The next driver's copies know of pushes that wait for their step, but have lost the gradients."""
    good = Copy.take_over

    def take_over(self: Copy, before: Copy) -> None:
        good(self, before)
        self._kept = {place: (shards, (), since) for place, (shards, _, since) in self._kept.items()}

    patch.setattr(Copy, "take_over", take_over)


@planted
def backups_are_kept_when_rows_were_changed(patch: pytest.MonkeyPatch) -> None:
    """What an engine changed while the run rested is not on backups, which take over without it."""
    patch.setattr(Fleet, "renew_backups", lambda self: [])


@planted
def handed_over_before_it_has_everything(patch: pytest.MonkeyPatch) -> None:
    """A host goes over to a server whose copy of it is still being filled."""
    good = Fleet._tend

    def tend(self: Fleet, host: FleetHost, still: bool) -> list[do.Instruction]:
        host.backup_ready = host.backup is not None
        return good(self, host, still)

    patch.setattr(Fleet, "_tend", tend)


@planted
def answer_before_the_backup_has_it(patch: pytest.MonkeyPatch) -> None:
    """The primary acknowledges at once."""
    patch.setattr(Replica, "hold", lambda self, decisions: decisions)


@planted
def duplicates_are_answered_at_once(patch: pytest.MonkeyPatch) -> None:
    """A push that was applied before is acknowledged though the backup may not have it yet."""
    good = HostState._request

    def request(self: HostState, request: Any, tag: Any) -> list[de.Decision]:
        if type(request) is Push and request.term == self.term and self.serving and request.key in self.window:
            return [de.Answer(tag, Acked(self.term))]
        return good(self, request, tag)

    patch.setattr(HostState, "_request", request)


@planted
def backup_is_filled_without_windows(patch: pytest.MonkeyPatch) -> None:
    """The backup gets the rows but not what was applied to them."""
    good = HostState._fill

    def fill(self: HostState, fill: de.Fill, tag: Any) -> list[de.Decision]:
        bare = de.Snapshot(Window(), fill.snapshot.lanes, fill.snapshot.fences, fill.snapshot.owned)
        return good(self, fill._replace(snapshot=bare), tag)

    patch.setattr(HostState, "_fill", fill)


@planted
def backup_follows_out_of_order(patch: pytest.MonkeyPatch) -> None:
    """The backup does what arrives when it arrives."""

    def in_order(self: Replica) -> Any:
        while self.filled and self._early:
            seq = next(iter(self._early))
            self.done = max(self.done, seq)
            yield self._early.pop(seq)

    patch.setattr(Replica, "in_order", in_order)


# --- rows of a worker's own


@planted
def next_unit_before_the_last_is_settled(patch: pytest.MonkeyPatch) -> None:
    """Batches are computed as their rows come, whatever unit is being settled."""

    def at_once(self: ClientState) -> Any:
        due, self._due = sorted(self._due), set()
        return self._compute(*due)

    patch.setattr(ClientState, "_compute_in_turn", at_once)


@planted
def unfinished_range_stays_in_the_copy(patch: pytest.MonkeyPatch) -> None:
    """An attempt that is cancelled leaves what it has learned to the next one, beside the batches' second run."""
    good = OwnRows.leave
    patch.setattr(OwnRows, "leave", lambda self, terms, whole: good(self, terms, whole=True))


@planted
def settled_anew_whenever_it_is_sent(patch: pytest.MonkeyPatch) -> None:
    """What is sent again is what has been learned since, not what was sent before."""

    def settle(self: OwnRows, unit: int) -> Any:
        self.owed.pop(unit, None)
        owed, self.learned = tuple(self.learned), []
        return owed

    patch.setattr(OwnRows, "settle", settle)


@planted
def changes_are_forgotten_when_told(patch: pytest.MonkeyPatch) -> None:
    """The host drops from its list what it has told, whether or not the answer arrives."""
    good = Copy._news

    def news(self: Copy, since: Any) -> Any:
        told = good(self, since)
        self._changed.clear()
        return told

    patch.setattr(Copy, "_news", news)


@planted
def moments_of_other_tables_count(patch: pytest.MonkeyPatch) -> None:
    """A host takes a moment of the copy before it for one of its own."""
    good = Copy._news
    patch.setattr(Copy, "_news", lambda self, since: good(self, None if since is None else (self._tables, since[1])))


@planted
def late_rows_replace_newer_ones(patch: pytest.MonkeyPatch) -> None:
    """Rows that were read before the last news, and came after it, are taken for the newest."""

    def take(self: OwnRows, host: int, rows: Any) -> None:
        self.note(host, rows)
        self.marks.setdefault(host, rows.mark)

    patch.setattr(OwnRows, "take", take)
