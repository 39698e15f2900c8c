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
4. A cut or a move begins only when nothing is in flight: every attempt has stopped at a batch boundary, every dirty
   Split was run far enough that all hosts agree, in Sync all lanes stand at one step.
5. The run can return to a cut only when all its parts and its manifest are on disk.
6. Rows move by copying first; owners change for all hosts at once, with new terms.
"""

from __future__ import annotations

from dataclasses import dataclass

from heterps.errors import PlanError, ProtocolError
from heterps.protocol import events as ev
from heterps.protocol import instructions as do
from heterps.protocol.books import Book, LaneBook, SplitBook, Work
from heterps.protocol.cut import Cut
from heterps.protocol.fleet import Fleet
from heterps.protocol.invariants import violations, waits
from heterps.protocol.layout import Layout
from heterps.protocol.roster import Attempt, IoWorker, Roster
from heterps.protocol.spec import TRANSITIONS, Phase, RunSpec
from heterps.protocol.story import Story

__all__ = ["RunState"]


@dataclass(slots=True)
class _CutProgress:
    """A cut that is being marked or written."""

    cut: Cut
    unmarked: set[int]
    unwritten: set[int]


@dataclass(slots=True)
class _Move:
    """A move of shards; ``copied`` once the target has the rows. Each try has a number of its own, 0 before it
    begins.
    """

    shards: tuple[int, ...]
    target: int
    number: int = 0
    copied: bool = False


class RunState:
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

    Examples
    --------
    >>> from heterps.protocol import RunSpec, RunState, SplitsReady, WorkerJoined
    >>> run = RunState(RunSpec(shards=4))
    >>> create, = run.handle(WorkerJoined("s", "server"))
    >>> create.copy, create.term, create.owned
    (1, 1, (0, 1, 2, 3))
    """

    def __init__(self, spec: RunSpec, *, cut: Cut | None = None, life: int = 0) -> None:
        cut = cut or Cut(mode=spec.mode.to_json())
        if cut.mode != spec.mode.to_json():
            raise PlanError(
                f"the cut was made in mode {cut.mode}, the run wants {spec.mode.to_json()}: use the cut's mode"
            )
        self.spec = spec
        self.phase = Phase.RESTORING
        self.cut = cut
        self.fleet = Fleet(spec.hosts, spec.shards, spec.replicas, life)
        self.roster = Roster(ordered=spec.mode.ordered, life=life)
        self.book: Book = LaneBook(spec.lanes) if spec.mode.ordered else SplitBook()
        self.book.load(cut.pass_, cut.progress)
        self.story = Story()
        self.reason = ""
        self._stages: dict[str, bool] = {}
        self._gone: set[str] = set()
        self._version = life << 32
        self._serial = 0
        self._supplies: dict[int, tuple[int, bool]] = {}
        self._asked_pass = -1
        self._failures: dict[int, int] = {}
        self._cut_wanted = False
        self._cut_number = max(cut.number, life << 32)
        self._at_end = False
        self._cutting: _CutProgress | None = None
        self._moves: list[_Move] = []
        self._move_number = life << 32
        self._target = 0
        self._out: list[do.Instruction] = []

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
            self.story.add(phase, event, self._out)
            out += self._out
        return out

    def _dispatch(self, event: ev.Event) -> None:
        name = _HANDLERS.get(type(event))
        if name is None:
            raise self._error(f"{event!r} is no event of a run")
        getattr(self, name)(event)

    def _error(self, message: str) -> ProtocolError:
        return ProtocolError(f"{message} (phase {self.phase})\nWhat happened before:\n{self.story}")

    def _enter(self, phase: Phase) -> None:
        if phase not in TRANSITIONS[self.phase]:
            raise self._error(f"the run cannot go from {self.phase} to {phase}")
        self.phase = phase

    def validate(self) -> None:
        """Raise if the state breaks an invariant. Cheap enough to call after every event in tests."""
        broken = violations(self)
        if broken:
            raise self._error("; ".join(broken))

    def waiting_for(self) -> tuple[str, ...]:
        """Return what the run cannot go on without: a pool with no worker, Splits that nobody supplied."""
        return waits(self)

    def _settle(self) -> None:
        """Do what the present phase allows until nothing more follows."""
        while True:
            phase = self.phase
            getattr(self, _SETTLE[phase])()
            if self.phase is phase:
                return

    # --- workers

    def _joined(self, event: ev.WorkerJoined) -> None:
        if event.worker in self._gone:  # a word from before it was lost; a new process has a new name
            return
        if event.role == "io":
            if event.worker not in self.roster.workers:
                self.roster.join(event.worker, event.slots)
        elif event.role == "server":
            self.fleet.workers[event.worker] = None
        elif event.worker not in self._stages:
            self._stages[event.worker] = False
            self._out.append(do.CreateStage(event.worker))

    def _leaving(self, event: ev.WorkerLeaving) -> None:
        worker = self.roster.workers.get(event.worker)
        if worker is not None:
            worker.leaving = True
            for attempt in list(worker.attempts.values()):
                self._move_away(attempt)

    def _lost(self, event: ev.WorkerLost) -> None:
        self._gone.add(event.worker)
        worker = self.roster.workers.pop(event.worker, None)
        if worker is not None:
            self._lose_io(worker)
        if self._stages.pop(event.worker, False):
            self._announce()
        if event.worker in self.fleet.workers:
            del self.fleet.workers[event.worker]
            for copy in self.fleet.on(event.worker):
                self._copy_lost(ev.CopyLost(copy))

    def _lose_io(self, worker: IoWorker) -> None:
        for attempt in list(worker.attempts.values()):
            self._give_up(attempt, f"worker {worker.name} was lost")
        if self.spec.mode.refreshes:
            self._out += [do.ForgetTrainer(copy, worker.number) for copy in self.fleet.primaries()]

    def _stage_ready(self, event: ev.StageReady) -> None:
        if self._stages.get(event.worker) is False:
            self._stages[event.worker] = True
            self._announce()

    def _stage_lost(self, event: ev.StageLost) -> None:
        if self._stages.get(event.worker):
            self._stages[event.worker] = False
            self._out.append(do.CreateStage(event.worker))
            self._announce()

    # --- splits

    def _splits_ready(self, event: ev.SplitsReady) -> None:
        count, complete = self._supplies.get(event.pass_, (0, False))
        if complete and event.count > count:
            raise self._error(f"pass {event.pass_} was complete with {count} Splits, now there are {event.count}")
        self._supplies[event.pass_] = (max(count, event.count), complete or event.complete)

    def _attempt(self, number: int) -> Attempt | None:
        """Return a live attempt, None for a stale one."""
        attempt = self.roster.attempts.get(number)
        if attempt is None and not self.roster.issued(number):
            raise self._error(f"attempt {number} was never made")
        return attempt

    def _batches_done(self, event: ev.BatchesDone) -> None:
        attempt = self._attempt(event.attempt)
        if attempt is not None:
            self._progress(attempt, event.upto)

    def _progress(self, attempt: Attempt, upto: int) -> None:
        if attempt.work.split is not None and self.book.progress(attempt.work, upto):
            self._failures.pop(self._stream(attempt.work), None)

    def _stream(self, work: Work) -> int:
        return work.lane if self.spec.mode.ordered else work.split or 0

    def _split_paused(self, event: ev.SplitPaused) -> None:
        attempt = self._attempt(event.attempt)
        if attempt is None or attempt.serial != event.serial or not attempt.stopping:
            return
        self._progress(attempt, event.upto)
        attempt.paused = True
        twins = self.roster.twins(attempt)
        if (
            attempt.moving or twins
        ):  # a twin is not fenced and may be ahead: only a fresh attempt knows where the lane is
            self._drop_twins(attempt)
            self._cancel(attempt)
            self.book.give_back(attempt.work, clean=not twins)

    def _split_done(self, event: ev.SplitDone) -> None:
        attempt = self._attempt(event.attempt)
        if attempt is None:
            return
        self._drop_twins(attempt)
        self.roster.end(attempt)
        self._failures.pop(self._stream(attempt.work), None)
        self.book.finish(attempt.work, event.batches)

    def _split_failed(self, event: ev.SplitFailed) -> None:
        attempt = self._attempt(event.attempt)
        if attempt is None:
            return
        self._give_up(attempt, event.reason)
        if event.fatal:
            self._abort(
                f"Split {attempt.work.split} of pass {attempt.pass_} failed on {attempt.worker}: {event.reason}"
            )

    def _split_slow(self, event: ev.SplitSlow) -> None:
        attempt = self._attempt(event.attempt)
        if attempt is None or attempt.stopping or self.phase is not Phase.RUNNING or not self.fleet.ready:
            return
        if not self.spec.mode.ordered:
            self._cancel(attempt)
            self.book.give_back(attempt.work, clean=False)
        elif not self.roster.twins(attempt) and (worker := self.roster.free(avoid=attempt.worker)) is not None:
            self._begin(attempt.work, worker, None, oldest=attempt.number)

    def _layout_wanted(self, event: ev.LayoutWanted) -> None:
        attempt = self._attempt(event.attempt)
        if attempt is None:
            self._out.append(do.Cancel(event.attempt))
        elif self.fleet.ready:
            self._out.append(do.Announce(event.attempt, self.layout()))

    def _give_up(self, attempt: Attempt, reason: str) -> None:
        """An attempt is gone; its work is run again, but not for ever."""
        self.roster.end(attempt)
        if self.roster.twins(attempt):
            return
        self.book.give_back(attempt.work, clean=attempt.paused)
        stream = self._stream(attempt.work)
        self._failures[stream] = self._failures.get(stream, 0) + 1
        if self._failures[stream] > self.spec.retries:
            self._abort(
                f"Split {attempt.work.split} of pass {attempt.pass_} was tried {self._failures[stream]} times without "
                f"progress, last: {reason}"
            )

    def _drop_twins(self, attempt: Attempt) -> None:
        for twin in self.roster.twins(attempt):
            self._cancel(twin)

    def _cancel(self, attempt: Attempt) -> None:
        self.roster.end(attempt)
        self._out.append(do.Cancel(attempt.number))

    def _move_away(self, attempt: Attempt) -> None:
        attempt.moving = True
        if attempt.paused:
            self._cancel(attempt)
            self.book.give_back(attempt.work, clean=True)
        elif not attempt.stopping:
            self._pause(attempt, 0)

    def _pause(self, attempt: Attempt, target: int) -> None:
        self._serial += 1
        attempt.serial, attempt.stopping, attempt.paused = self._serial, True, False
        self._out.append(do.Pause(attempt.number, max(0, target - attempt.work.step), self._serial))

    def _begin(self, work: Work, worker: IoWorker, target: int | None, oldest: int | None = None) -> None:
        attempt = self.roster.begin(self.book.pass_, work, worker)
        until = None
        if target is not None:
            self._serial += 1
            attempt.serial, attempt.stopping = self._serial, True
            until = max(0, target - work.step)
        self._out.append(
            do.RunSplit(
                attempt.number,
                attempt.number if oldest is None else oldest,
                worker.name,
                self.book.pass_,
                work.split,
                work.start,
                work.lane if self.spec.mode.ordered else worker.number,
                work.step,
                until,
                attempt.serial,
                (self.book.pass_, self.book.floor),
                self.layout(),
            )
        )

    # --- hosts

    def layout(self) -> Layout:
        """Return where the parameters are now."""
        hosts = self.fleet.hosts
        stages = tuple(w for w, ready in self._stages.items() if ready) if self.spec.compute else None
        copies = tuple(host.primary or 0 for host in hosts)
        return Layout(self._version, copies, tuple(host.term for host in hosts), self.fleet.owners, stages)

    def _announce(self) -> None:
        """Tell every attempt the new layout, unless hosts are missing: then it is told when they are ready."""
        self._version += 1
        if self.fleet.ready:
            layout = self.layout()
            self._out += [do.Announce(number, layout) for number in self.roster.attempts]

    def _host_ready(self, event: ev.HostReady) -> None:
        if not self.fleet.copy_ready(event.copy, event.term):
            return
        if self.phase is not Phase.RESTORING:
            self._announce()
        if self.phase is Phase.MARKING:
            self._mark_new_primary(event.copy)
        if self.phase is Phase.MOVING and not self._moves[0].copied:
            self._moves[0].number = 0

    def _mark_new_primary(self, copy: int) -> None:
        assert self._cutting is not None
        self._cutting.unmarked.add(copy)
        self._cutting.unwritten.add(copy)
        self._mark(copy)

    def _backup_ready(self, event: ev.BackupReady) -> None:
        self.fleet.backup_ready(event.copy, event.backup)

    def _copy_lost(self, event: ev.CopyLost) -> None:
        outcome, instructions = self.fleet.lose(event.copy)
        self._out += instructions
        if outcome == "promoted":
            self._forget_copy(event.copy)
        elif outcome == "gone" and self.phase is not Phase.RESTORING:
            self._restore()

    def _forget_copy(self, copy: int) -> None:
        """A cut that waits for a part of this copy: mark it again on the new primary, or give it up if it is too
        late.
        """
        if self._cutting is None or copy not in self._cutting.unwritten:
            return
        if self.phase is Phase.MARKING:
            self._cutting.unmarked.discard(copy)
            self._cutting.unwritten.discard(copy)
        else:
            self._drop_cut()

    def _restore(self) -> None:
        """Everything returns to the last published cut (rule 3)."""
        self._drop_cut()
        for attempt in list(self.roster.attempts.values()):
            self._cancel(attempt)
        self._moves = [_Move(move.shards, move.target) for move in self._moves if not move.copied]
        self._version += 1
        self._at_end = False
        self._failures.clear()
        self.book.load(self.cut.pass_, self.cut.progress)
        self._out += self.fleet.restore(self.cut.number)
        self._enter(Phase.RESTORING)

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
        cutting.unmarked.discard(event.copy)
        cutting.unwritten.discard(event.copy)
        if not cutting.unwritten and self.phase is not Phase.MARKING:
            self._out.append(do.PublishCut(cutting.cut))

    def _cut_failed(self, event: ev.CutFailed) -> None:
        if self._cutting is not None and event.cut == self._cutting.cut.number:
            last = self._at_end
            self._drop_cut()
            if last:
                self._abort(f"the last cut could not be written by copy {event.copy}: {event.reason}")

    def _cut_published(self, event: ev.CutPublished) -> None:
        if self._cutting is not None and event.cut == self._cutting.cut.number:
            self.cut, self._cutting = self._cutting.cut, None

    def _drop_cut(self) -> None:
        if self._cutting is not None:
            self._out.append(do.DropCut(self._cutting.cut.number))
            self._cutting = None
            self._at_end = False

    def _move_asked(self, event: ev.MoveAsked) -> None:
        shards = tuple(s for s in event.shards if 0 <= s < self.spec.shards)
        if len(shards) != len(event.shards) or not 0 <= event.target < self.spec.hosts:
            raise self._error(f"{event!r}: shards are 0 to {self.spec.shards - 1}, hosts 0 to {self.spec.hosts - 1}")
        self._moves.append(_Move(shards, event.target))

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

    def _abort(self, reason: str) -> None:
        if self.phase is not Phase.ABORTED:
            self.reason = reason
            self._enter(Phase.ABORTED)
            self._out.append(do.Abort(reason, str(self.story)))

    # --- what each phase does on its own

    def _settle_restoring(self) -> None:
        self._out += self.fleet.place(self.cut.number)
        if self.fleet.ready:
            self._enter(Phase.RUNNING)

    def _settle_running(self) -> None:
        self._out += self.fleet.place(self.cut.number)
        self._supply()
        if self.book.over:
            self._end_of_pass()
        elif self._wants_drain():
            self._enter(Phase.DRAINING)
        elif self.fleet.ready:
            self._issue(None)
            self._balance()

    def _wants_drain(self) -> bool:
        return (self._cut_wanted and self._cutting is None) or bool(self._moves)

    def _supply(self) -> None:
        pass_ = self.book.pass_
        if pass_ in self._supplies:
            self.book.supply(*self._supplies[pass_])
        elif self._asked_pass < pass_:
            self._asked_pass = pass_
            self._out.append(do.NeedSplits(pass_))

    def _end_of_pass(self) -> None:
        if self._wants_drain():
            self._enter(Phase.DRAINING)
        elif self.book.pass_ + 1 < self.spec.passes:
            self.book.load(self.book.pass_ + 1, {})
            self._supply()
            self._issue(None)
        elif self.spec.final_cut and not self._at_end:
            if self._cutting is None:
                self._cut_wanted = self._at_end = True
                self._enter(Phase.DRAINING)
        elif self._cutting is None and self.fleet.ready:
            self._enter(Phase.FINISHED)
            self._out.append(do.Finish())

    def _issue(self, target: int | None) -> None:
        while self.fleet.ready and (worker := self._worker_for(target)) is not None:
            work = self.book.take(target)
            if work is None:
                return
            self._begin(work, worker, target)

    def _worker_for(self, target: int | None) -> IoWorker | None:
        """Return a free worker; when draining, at need one whose attempt is paused (that one starts again later)."""
        worker = self.roster.free()
        if worker is None and target is not None and self.book.dirty and (paused := self.roster.paused()) is not None:
            self._cancel(paused)
            self.book.give_back(paused.work, clean=True)
            worker = self.roster.free()
        return worker

    def _balance(self) -> None:
        while (attempt := self.roster.crowded()) is not None:
            self._move_away(attempt)

    def _settle_draining(self) -> None:
        self._out += self.fleet.place(self.cut.number)
        self._supply()
        attempts = self.roster.attempts.values()
        for attempt in attempts:
            if not attempt.stopping:
                self._pause(attempt, 0)
        self._issue(0)
        if self.book.dirty or not all(attempt.paused for attempt in attempts) or not self.fleet.ready:
            return
        self._level()
        if all(attempt.paused for attempt in attempts) and not self._lagging():
            self._drained()

    def _level(self) -> None:
        """Everything stands: in Sync let the lanes behind go on to where the foremost one is."""
        self._target = self.book.target()
        for attempt in list(self.roster.attempts.values()):
            if self.book.behind(attempt.work, self._target):
                self._pause(attempt, self._target)
        self._issue(self._target)

    def _lagging(self) -> bool:
        return isinstance(self.book, LaneBook) and self.book.lagging(self._target)

    def _drained(self) -> None:
        if self._cut_wanted and self._cutting is None:
            self._begin_cut()
        else:
            self._enter(Phase.MOVING)

    def _begin_cut(self) -> None:
        self._cut_wanted = False
        self._cut_number += 1
        copies = set(self.fleet.primaries())
        cut = Cut(self._cut_number, self.book.pass_, self.book.to_json(), self.spec.mode.to_json())
        self._cutting = _CutProgress(cut, copies, set(copies))
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
            if self._cutting is not None and not self._cutting.unwritten:
                self._out.append(do.PublishCut(self._cutting.cut))
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

    def _resume(self) -> None:
        layout = self.layout()
        for attempt in list(self.roster.attempts.values()):
            self._serial += 1
            attempt.serial, attempt.stopping, attempt.paused = self._serial, False, False
            self._out.append(do.Resume(attempt.number, self._serial, layout))

    def _settle_over(self) -> None:
        return


_HANDLERS: dict[type, str] = {
    ev.WorkerJoined: "_joined",
    ev.WorkerLeaving: "_leaving",
    ev.WorkerLost: "_lost",
    ev.StageReady: "_stage_ready",
    ev.StageLost: "_stage_lost",
    ev.SplitsReady: "_splits_ready",
    ev.BatchesDone: "_batches_done",
    ev.SplitPaused: "_split_paused",
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
    ev.CutPublished: "_cut_published",
    ev.MoveAsked: "_move_asked",
    ev.ShardsCopied: "_shards_copied",
    ev.AbortAsked: "_abort_asked",
}

_SETTLE: dict[Phase, str] = {
    Phase.RESTORING: "_settle_restoring",
    Phase.RUNNING: "_settle_running",
    Phase.DRAINING: "_settle_draining",
    Phase.MARKING: "_settle_marking",
    Phase.MOVING: "_settle_moving",
    Phase.FINISHED: "_settle_over",
    Phase.ABORTED: "_settle_over",
}
