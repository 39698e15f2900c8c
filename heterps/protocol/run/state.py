"""The run as a state machine: events in, instructions out, one mutator.

Rules
-----
1. :meth:`RunState.handle` is the only way in. An event about a replaced attempt, copy or term is stale and changes
   nothing; one that no run could cause is an error with the story of what happened.
2. RunState alone retries. Every attempt has a number that was never used; every new attempt at a Split begins by
   asking all hosts where it stands.
3. A host without a ready backup is lost: every host returns to the last published cut under a new term, every
   attempt is cancelled, the book goes back to the cut. A host with a ready backup is lost: the backup is promoted
   under a new term, clients send again.
4. A cut, a rest or a move begins only when nothing is in flight: every attempt has stopped at a batch boundary, every
   dirty Split was run far enough that all hosts agree, in Sync all lanes stand at one step.
5. The run can return to a cut only when all its parts and its manifest are on disk, and the newest one there is always
   the one it would return to: an engine writes a manifest and says so in one act, and none of a cut that was given up.
   Hosts that outlive their driver then never stand before, or beside, the cut that the next one reads.
6. Rows move by copying first; owners change for all hosts at once, with new terms.
   Where dense parameters are all-reduced, the hosts get them then, before anything else: cuts and saves are theirs.
   Where stage workers do that, every lane begins anew when one of them comes or goes.
7. A cut that a host could not load is none: the run counts from the one before it, and all hosts return to that.
8. A cut of nothing new is not made: a clock that asks while the last cut is written must not keep the run from ending.
9. Tables that outlived their driver are adopted all or not at all; what they have of anything that was not done may be
   on some of them only. Where one is lost before all are there, everything returns to the cut.
"""

from __future__ import annotations

from heterps.protocol.run.books import LaneBook
from heterps.protocol.run.invariants import stands, violations, waits
from heterps.protocol.run.spec import Phase
from heterps.protocol.run.workforce import CutProgress, Move, Workforce
from heterps.protocol.words import events as ev, instructions as do
from heterps.protocol.words.cut import Cut

__all__ = ["RunState"]


class RunState(Workforce):
    """The run. See the rules at the head of this file.

    Parameters
    ----------
    spec
        What to do.
    cut
        What to go on from; the default is the beginning.
    life
        How often this run was started, counted by whoever keeps the cuts: terms, copies, cuts and attempts of a
        later life are greater than all of earlier ones, so that what was left behind by a dead driver is fenced.
    found
        Where the run is, if its shard hosts outlived their driver: they are adopted as they are (rule 9).

    Examples
    --------
    >>> from heterps.protocol import RunSpec, RunState, SplitsReady, WorkerJoined
    >>> run = RunState(RunSpec(shards=4))
    >>> create, = run.handle(WorkerJoined("s", "server"))
    >>> create.copy, create.term, create.owned
    (1, 1, (0, 1, 2, 3))
    """

    # --- the one way in

    def handle(self, *events: ev.Event) -> list[do.Instruction]:
        """Take events, in order, and return what is to be done now."""
        out: list[do.Instruction] = []
        for event in events:
            if self.phase in (Phase.FINISHED, Phase.ABORTED):
                break
            self._out = []
            phase = self.phase
            self._dispatch(event)
            self._settle()
            self._let_go()
            self.story.add(phase, event, self._out)
            out += self._out
        return out

    def _dispatch(self, event: ev.Event) -> None:
        name = _HANDLERS.get(type(event))
        if name is None:
            raise self._error(f"{event!r} is no event of a run")
        getattr(self, name)(event)

    def validate(self) -> None:
        """Raise if the state breaks an invariant. Cheap enough to call after every event in tests."""
        broken = violations(self)
        if broken:
            raise self._error("; ".join(broken))

    def waiting_for(self) -> tuple[str, ...]:
        """Return what the run cannot go on without: a pool with no worker, Splits that nobody supplied."""
        return waits(self)

    def standing(self) -> tuple[str, ...]:
        """Return all that the run waits for at the moment, in words: for one that stands still."""
        return stands(self)

    @property
    def waits_for_disk(self) -> bool:
        """Whether hosts load a cut, or nothing is left to do but to write one."""
        return self.phase is Phase.RESTORING or (self.book.over and self._cutting is not None)

    def _settle(self) -> None:
        """Do what the present phase allows until nothing more follows."""
        while True:
            phase = self.phase
            getattr(self, _SETTLE[phase])()
            if self.phase is phase:
                return

    # --- workers

    def _lost(self, event: ev.WorkerLost) -> None:
        if event.stay < self._stays.get(event.worker, 0):  # it has come back since
            return
        self._stays[event.worker] = event.stay  # it may be lost before the word that it joined has come
        self._forget_worker(event.worker)
        if self._stages.pop(event.worker, False):
            self._restage()
        self.fleet.lose_stage(event.worker)
        for copy in self.fleet.on(event.worker):
            self._copy_lost(ev.CopyLost(copy))

    # --- hosts

    def _host_ready(self, event: ev.HostReady) -> None:
        if not self.fleet.copy_ready(event.copy, event.term):
            return
        self.moves += 1
        if self.group is not None and not self.group.ready:
            self.group.dissolve()  # it may be asking a copy that answers no more
        if self.phase is not Phase.RESTORING:
            self._announce()
        if self._cutting is not None and self.phase is Phase.MARKING:  # else it was given up meanwhile
            self._mark_new_primary(self._cutting, event.copy)
        if self.phase is Phase.MOVING and not self._moves[0].copied:
            self._moves[0].number = 0

    def _mark_new_primary(self, cutting: CutProgress, copy: int) -> None:
        for copies in (cutting.copies, cutting.unmarked, cutting.unwritten):
            copies.add(copy)
        self._mark(copy)

    def _backup_ready(self, event: ev.BackupReady) -> None:
        self.fleet.backup_ready(event.copy, event.backup)

    def _copy_lost(self, event: ev.CopyLost) -> None:
        outcome, instructions = self.fleet.lose(event.copy)
        self._out += instructions
        self._forget_copy(event.copy)
        if outcome == "gone" and (self.phase is not Phase.RESTORING or self.fleet.adopts):
            self._restore()

    def _forget_copy(self, copy: int) -> None:
        """If a cut has or awaits this copy's part: mark it again on the new primary, or give it up if it is too late.

        What a copy wrote is of no use without it: it alone can say what that is, when the cut is published.
        """
        if self._cutting is None or copy not in self._cutting.copies:
            return
        if self.phase is Phase.MARKING:
            for copies in (self._cutting.copies, self._cutting.unmarked, self._cutting.unwritten):
                copies.discard(copy)
        else:
            self._drop_cut()

    def _restore(self) -> None:
        """Everything returns to the last published cut (rule 3)."""
        self._drop_cut()
        for attempt in list(self.roster.attempts.values()):
            self._cancel(attempt)
        self._moves = [Move(move.shards, move.target) for move in self._moves if not move.copied]
        self._version += 1
        self._newest = None
        self._failures.clear()
        self.book.load(self.cut.pass_, self.cut.progress)
        if self.group is not None:
            self.group.reset()
        self._out += self.fleet.restore(self.cut.number)
        self._enter(Phase.RESTORING)

    # --- the all-reduce group

    def _form(self) -> None:
        if self.group is None or not self.fleet.ready:
            return
        if not self.group.members or self._grouped != self.roster.comings:
            self._grouped = self.roster.comings
            formed = self.group.form(self._able_stages() if self.spec.compute else self.roster.workers)
            self._out += formed
            if formed and self.spec.compute:
                self._begin_lanes_anew()

    def _begin_lanes_anew(self) -> None:
        """What stage workers were computing, and had computed and not settled, went with the group's last term.

        New attempts ask where their lanes stand. One that is paused has nothing under way.
        """
        for attempt in [a for a in self.roster.attempts.values() if not a.paused]:
            if attempt.number in self.roster.attempts:  # else its twin was replaced, and it with that one
                self._replace(attempt)

    def _member_formed(self, event: ev.MemberFormed) -> None:
        if self.group is None or not self.group.formed(event.worker, event.term, event.applied, event.served):
            return
        if self.group.lost:
            self._restore()
        else:
            self._out += self.group.catch_up(self.book.pass_, self.layout())

    def _member_ready(self, event: ev.MemberReady) -> None:
        if self.group is not None and self.group.member_ready(event.worker, event.term):
            self.moves += 1
            self._announce()

    def _written_back(self, event: ev.WrittenBack) -> None:
        if self.group is not None and self.group.written_back(event.term, event.serial):
            self.moves += 1

    # --- cuts and moves

    def _cut_asked(self, event: ev.CutAsked) -> None:
        self._cut_wanted = True

    def _cut_marked(self, event: ev.CutMarked) -> None:
        if self._cutting is not None and event.cut == self._cutting.cut.number:
            self._cutting.unmarked.discard(event.copy)

    def _cut_written(self, event: ev.CutWritten) -> None:
        cutting = self._cutting
        if cutting is None or event.cut != cutting.cut.number or event.copy not in cutting.unwritten:
            return
        self.moves += 1
        cutting.unmarked.discard(event.copy)
        cutting.unwritten.discard(event.copy)
        if self.phase is not Phase.MARKING:
            self._publish_if_whole()

    def _publish_if_whole(self) -> None:
        if self._cutting is not None and not self._cutting.unwritten:
            self._out.append(do.PublishCut(self._cutting.cut))

    def _cut_failed(self, event: ev.CutFailed) -> None:
        if self._cutting is not None and event.cut == self._cutting.cut.number:
            last = self._is_covered() and self._in_last_pass()
            self._drop_cut(event.reason)
            if last:
                self._abort(
                    f"everything is trained, but the last cut could not be written: {event.reason}", trained=True
                )

    def _diverged(self, event: ev.Diverged) -> None:
        self._abort(f"the loss of {event.batches} batches in a row is not a finite number")

    def _cut_published(self, event: ev.CutPublished) -> None:
        if self._cutting is not None and event.cut == self._cutting.cut.number:
            self.moves += 1
            self.cut, self._cutting = self._cutting.cut, None

    def _cut_lost(self, event: ev.CutLost) -> None:
        """Count from the cut before (rule 7); told of by each host that was to load it, and once is enough."""
        if event.cut != self.cut.number:
            return
        self.cut = event.before or Cut(mode=self.spec.mode.to_json())
        if event.before is None:
            self._abort(f"the last cut cannot be read, and there is none before it: {event.reason}")
        elif self.phase is Phase.RESTORING:
            self._restore()

    def _drop_cut(self, reason: str = "") -> None:
        """Give the cut up, also one whose manifest was about to be written (rule 5)."""
        if self._cutting is not None:
            self._out.append(do.DropCut(self._cutting.cut.number, reason))
            self._cutting = self._newest = None

    def _rest_asked(self, event: ev.RestAsked) -> None:
        if event.rest not in self._rests_over and event.rest not in self._rests:
            self._rests.append(event.rest)

    def _rest_over(self, event: ev.RestOver) -> None:
        if event.changed and event.rest not in self._rests_over:
            self._out += self.fleet.renew_backups()
        self._rests_over.add(event.rest)
        if event.rest in self._rests:
            resting = self.phase is Phase.RESTING and self._rests[0] == event.rest
            self._rests.remove(event.rest)
            if resting:
                self._enter(Phase.RUNNING)
                self._resume()

    def _move_asked(self, event: ev.MoveAsked) -> None:
        shards = tuple(s for s in event.shards if 0 <= s < self.spec.shards)
        if len(shards) != len(event.shards) or not 0 <= event.target < self.spec.hosts:
            raise self._error(f"{event!r}: shards are 0 to {self.spec.shards - 1}, hosts 0 to {self.spec.hosts - 1}")
        self._moves.append(Move(shards, event.target))

    def _shards_copied(self, event: ev.ShardsCopied) -> None:
        move = self._moves[0] if self._moves else None
        if move is None or move.number != event.move or self.phase is not Phase.MOVING:
            return
        if not move.copied and self.fleet.ready:
            move.copied = True
            self._out += self.fleet.move(move.shards, move.target)
            self._version += 1

    def _abort_asked(self, event: ev.AbortAsked) -> None:
        self._abort(event.reason)

    # --- what each phase does on its own

    def _settle_restoring(self) -> None:
        if self.fleet.lacks_tables:
            self._restore()
        self._out += self.fleet.place(self.cut.number)
        if self.fleet.ready:
            self.fleet.adopts = False
            self._enter(Phase.RUNNING)

    def _settle_running(self) -> None:
        self._out += self.fleet.place(self.cut.number, still=self._cutting is not None)
        self._form()
        self._supply()
        if self.book.over:
            self._end_of_pass()
        elif self._wants_drain():
            self._enter(Phase.DRAINING)
        elif self._holders_ready:
            self._issue(None)
            self._balance()

    def _wants_drain(self) -> bool:
        return bool(self._moves) or ((self._cut_wanted or bool(self._rests)) and self._cutting is None)

    def _end_of_pass(self) -> None:
        if self._is_covered():
            self._cut_wanted = False
        if self._wants_drain():
            self._enter(Phase.DRAINING)
        elif not self._in_last_pass():
            self.book.load(self.book.pass_ + 1, {})
            self._supply()
            self._issue(None)
        elif self.spec.final_cut and not self._is_covered():
            if self._cutting is None:
                self._cut_wanted = True
                self._enter(Phase.DRAINING)
        elif self._owes():
            self._enter(Phase.DRAINING)
        elif self._cutting is None and self.fleet.ready:
            self._enter(Phase.FINISHED)
            self._out.append(do.Finish())

    def _owes(self) -> bool:
        """Say whether the all-reduce group has what the hosts have not."""
        return self.group is not None and self.group.owed

    def _in_last_pass(self) -> bool:
        return self.book.pass_ + 1 >= self.spec.passes

    def _is_covered(self) -> bool:
        """Say whether the newest cut of this life, published or on its way, has all of this pass and so all there is.

        Known at the end of a pass only: before, batches may have been applied of which nobody told the run yet.
        """
        cut = self._newest
        return (
            self.book.over and cut is not None and (cut.pass_, cut.progress) == (self.book.pass_, self.book.to_json())
        )

    def _settle_draining(self) -> None:
        self._out += self.fleet.place(self.cut.number, still=self._cutting is not None)
        self._form()
        self._supply()
        roster = self.roster
        for attempt in list(roster.going.values()):
            self._pause(attempt, 0)
        self._issue(self._target)  # a lane may end its Split on its way there, and others wait for its next
        if self.book.dirty or roster.going or roster.owing or not self._holders_ready:
            return
        self._level()
        if len(roster.resting) == len(roster.attempts) and not self._lagging():
            self._drained()

    def _level(self) -> None:
        """Everything stands: in Sync let the lanes behind go on to where the foremost one is."""
        self._target = max([self.book.target(), *(a.waits for a in self.roster.attempts.values())])
        for attempt in list(self.roster.attempts.values()):
            if attempt.paused and self.book.behind(attempt.work, self._target):
                self._pause(attempt, self._target)
        self._issue(self._target)

    def _lagging(self) -> bool:
        return isinstance(self.book, LaneBook) and self.book.lagging(self._target)

    def _drained(self) -> None:
        if self.group is not None and self.group.owed:
            self._out += self.group.write_back(self.layout())
        elif (
            self._rests and self._cutting is None
        ):  # before the next cut: a clock that asks often must not keep it waiting
            self._enter(Phase.RESTING)
            self._out.append(do.Rest(self._rests[0]))
        elif self._cut_wanted and self._cutting is None:
            self._begin_cut()
        elif self._moves:
            self._enter(Phase.MOVING)
        else:  # what it was for has been given up
            self._enter(Phase.RUNNING)
            self._resume()

    def _begin_cut(self) -> None:
        self._cut_wanted = False
        self._cut_number += 1
        copies = set(self.fleet.primaries())
        cut = Cut(self._cut_number, self.book.pass_, self.book.to_json(), self.spec.mode.to_json())
        self._cutting, self._newest = CutProgress(cut, set(copies), set(copies), set(copies)), cut
        self._enter(Phase.MARKING)
        for copy in sorted(copies):
            self._mark(copy)

    def _mark(self, copy: int) -> None:
        assert self._cutting is not None
        host = self.fleet.host_of(copy)
        assert host is not None
        floor = (self.book.pass_, self.book.floor)
        self._out.append(do.MarkCut(copy, host.term, self._cutting.cut.number, floor))

    def _settle_marking(self) -> None:
        """Go on once every host has marked; an abandoned cut lets the run go on, too."""
        if self.fleet.ready and (self._cutting is None or not self._cutting.unmarked):
            self._enter(Phase.RUNNING)
            self._publish_if_whole()
            self._resume()

    def _settle_moving(self) -> None:
        move = self._moves[0]
        if not self.fleet.ready:
            return
        if move.copied:
            del self._moves[0]
            self._enter(Phase.RUNNING)
            self._resume()
        elif not move.number:
            self._move_number += 1
            move.number = self._move_number
            self._out.append(do.MoveShards(move.number, move.shards, move.target, self.layout()))

    def _settle_resting(self) -> None:
        """Wait for the engine. A host that is lost meanwhile ends the rest; it is still wanted and comes again."""

    def _settle_over(self) -> None:
        return


_HANDLERS: dict[type, str] = {
    ev.WorkerJoined: "_joined",
    ev.ServersJoined: "_servers_joined",
    ev.WorkerLeaving: "_leaving",
    ev.WorkerHeld: "_held",
    ev.WorkerFreed: "_freed",
    ev.WorkerLost: "_lost",
    ev.WorkerPaced: "_paced",
    ev.StageReady: "_stage_ready",
    ev.StageLost: "_stage_lost",
    ev.SplitsReady: "_splits_ready",
    ev.BatchesDone: "_batches_done",
    ev.SplitPaused: "_split_paused",
    ev.SplitEnding: "_split_ending",
    ev.SplitDone: "_split_done",
    ev.SplitFailed: "_split_failed",
    ev.SplitSlow: "_split_slow",
    ev.LayoutWanted: "_layout_wanted",
    ev.HostReady: "_host_ready",
    ev.BackupReady: "_backup_ready",
    ev.CopyLost: "_copy_lost",
    ev.CutAsked: "_cut_asked",
    ev.CutMarked: "_cut_marked",
    ev.CutWritten: "_cut_written",
    ev.CutFailed: "_cut_failed",
    ev.Diverged: "_diverged",
    ev.CutPublished: "_cut_published",
    ev.CutLost: "_cut_lost",
    ev.RestAsked: "_rest_asked",
    ev.RestOver: "_rest_over",
    ev.MoveAsked: "_move_asked",
    ev.ShardsCopied: "_shards_copied",
    ev.AbortAsked: "_abort_asked",
    ev.LaneWaits: "_lane_waits",
    ev.MemberFormed: "_member_formed",
    ev.MemberReady: "_member_ready",
    ev.WrittenBack: "_written_back",
}

_SETTLE: dict[Phase, str] = {
    Phase.RESTORING: "_settle_restoring",
    Phase.RUNNING: "_settle_running",
    Phase.DRAINING: "_settle_draining",
    Phase.MARKING: "_settle_marking",
    Phase.MOVING: "_settle_moving",
    Phase.RESTING: "_settle_resting",
    Phase.FINISHED: "_settle_over",
    Phase.ABORTED: "_settle_over",
}
