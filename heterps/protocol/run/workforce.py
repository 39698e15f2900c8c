"""Workers, Splits and attempts of a run: the part of RunState that hands work out and takes it back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from heterps.errors import PlanError, ProtocolError
from heterps.protocol.run.books import Book, LaneBook, SplitBook, Work
from heterps.protocol.run.fleet import Fleet
from heterps.protocol.run.found import FoundRun
from heterps.protocol.run.group import ReduceGroup
from heterps.protocol.run.roster import IoWorker, LiveAttempt, Roster
from heterps.protocol.run.spec import TRANSITIONS, Phase, RunSpec
from heterps.protocol.run.story import Story
from heterps.protocol.words import events as ev, instructions as do
from heterps.protocol.words.cut import Cut
from heterps.protocol.words.layout import Layout

__all__ = ["CutProgress", "Move", "Workforce"]


@dataclass(slots=True)
class CutProgress:
    """A cut that is being marked or written, by copies that all have to be there until it is published."""

    cut: Cut
    copies: set[int]
    unmarked: set[int]
    unwritten: set[int]


@dataclass(slots=True)
class Move:
    """A move of shards; ``copied`` once the target has the rows. Each try has a number of its own, 0 before it
    begins.
    """

    shards: tuple[int, ...]
    target: int
    number: int = 0
    copied: bool = False


class Workforce:
    """State of a run, and what concerns its workers. :class:`~heterps.protocol.run.state.RunState` is the whole."""

    def __init__(self, spec: RunSpec, *, cut: Cut | None = None, life: int = 0, found: FoundRun | None = None) -> None:
        cut = cut or Cut(mode=spec.mode.to_json())
        if cut.mode != spec.mode.to_json():
            raise PlanError(
                f"the cut was made in mode {cut.mode}, the run wants {spec.mode.to_json()}: use the cut's mode"
            )
        self.spec = spec
        self.phase = Phase.RESTORING
        self.cut = cut
        self.fleet = Fleet(spec.hosts, spec.shards, spec.replicas, life, spec.stage_hosts, adopts=found is not None)
        self.group = ReduceGroup(life) if spec.group else None
        self.roster = Roster(ordered=spec.mode.ordered, life=life)
        self.book: Book = LaneBook(spec.lanes) if spec.mode.ordered else SplitBook()
        self.book.load(cut.pass_, cut.progress)
        if found is not None:
            self.book.load(found.pass_, found.progress)
            self.book.distrust()
        self.story = Story()
        self.reason = ""
        self.run_twice = 0  # lanes and Splits whose worker was far behind
        self.moves = 0  # grows with everything that brings the run nearer to its end: batches, cuts, hosts that answer
        self._stages: dict[str, bool] = {}
        self._stays: dict[str, int] = {}  # of workers that have joined, the latest of each
        self._gone: dict[str, int] = {}  # the last that is over
        self._to_go: set[str] = set()  # workers that are to leave
        self._vacated: set[str] = set()  # workers that have something less of the run since the last event
        self._version = life << 32
        self._serial = 0
        self._supplies: dict[int, tuple[int, bool]] = {}
        self._holders: dict[int, tuple[tuple[str, ...], ...]] = {}  # by pass: who has the rows of each Split already
        self._asked: set[int] = (
            set()
        )  # passes whose Splits were asked for; a run that was found ahead may return to one before
        self._failures: dict[int, int] = {}
        self._cut_wanted = False
        self._cut_number = max(cut.number, life << 32)
        self._newest: Cut | None = None  # the newest cut of this life that was begun and not given up
        self._cutting: CutProgress | None = None
        self._rests: list[int] = []  # wanted, in the order asked for
        self._rests_over: set[int] = set()
        self._moves: list[Move] = []
        self._move_number = life << 32
        self._target = 0  # draining: the step to which all lanes must come
        self._out: list[do.Instruction] = []
        self._laid_out: tuple[tuple[int, ...], Layout] | None = None  # the layout, and what it was made of
        self._grouped = -1  # comings of the roster for which the group was formed

    def layout(self) -> Layout:
        """Return where the parameters are now."""
        made_of = (self._version, self.fleet.changes, 0 if self.group is None else self.group.term)
        if self._laid_out is None or self._laid_out[0] != made_of:
            self._laid_out = made_of, self._lay_out()
        return self._laid_out[1]

    def _lay_out(self) -> Layout:
        hosts = self.fleet.hosts
        stages = tuple(self._able_stages()) if self.spec.compute else None
        copies = tuple(host.primary or 0 for host in hosts)
        group = None if self.group is None else self.group.term
        return Layout(self._version, copies, tuple(host.term for host in hosts), self.fleet.owners, stages, group)

    def _able_stages(self) -> Iterator[str]:
        return (worker for worker, ready in self._stages.items() if ready)

    @property
    def _holders_ready(self) -> bool:
        """Whether all who hold parameters answer: the hosts, and the group where there is one."""
        return self.fleet.ready and (self.group is None or self.group.ready)

    def _announce(self) -> None:
        """Tell every attempt the new layout, unless hosts are missing: then it is told when they are ready."""
        self._version += 1
        if self._holders_ready:
            layout = self.layout()
            self._out += [do.Announce(number, layout) for number in self.roster.attempts]

    def _error(self, message: str) -> ProtocolError:
        return ProtocolError(f"{message} (phase {self.phase})\nWhat happened before:\n{self.story}")

    def _enter(self, phase: Phase) -> None:
        if phase not in TRANSITIONS[self.phase]:
            raise self._error(f"the run cannot go from {self.phase} to {phase}")
        self.phase, self._target = phase, 0

    def _abort(self, reason: str, trained: bool = False) -> None:
        if self.phase is not Phase.ABORTED:
            self.reason = reason
            self._enter(Phase.ABORTED)
            self._out.append(do.Abort(reason, str(self.story), trained))

    # --- workers

    def _joined(self, event: ev.WorkerJoined) -> None:
        if event.stay <= self._gone.get(event.worker, -1):  # a word from before it was lost
            return
        self._stays[event.worker] = event.stay
        if event.role == "io":
            if event.worker not in self.roster.workers:
                self.roster.join(event.worker, event.slots)
        elif event.role == "server":
            self.fleet.join(event.worker)
        elif event.worker not in self._stages:
            self._stages[event.worker] = False
            self.fleet.join_stage(event.worker)
            self._out.append(do.CreateStage(event.worker))

    def _servers_joined(self, event: ev.ServersJoined) -> None:
        for n, worker in enumerate(event.workers):
            self._joined(ev.WorkerJoined(worker, "server", stay=event.stays[n] if event.stays else 0))
        there = self.fleet.workers
        for worker, machine in zip(event.workers, event.machines, strict=False):
            if worker in there:
                self.fleet.join(worker, machine)
        self.fleet.hold({host: worker for host, worker in event.holds if worker in there})

    def _leaving(self, event: ev.WorkerLeaving) -> None:
        worker = self.roster.workers.get(event.worker)
        if worker is not None:
            self.roster.leave(worker)
            for attempt in list(worker.attempts.values()):
                self._move_away(attempt)
        stay = self._stays.get(event.worker, 0)
        if stay > self._gone.get(event.worker, -1):  # one that has not joined yet never will
            self._to_go.add(event.worker)
        self._vacated.add(event.worker)
        self.fleet.leave(event.worker)
        if not self.fleet.is_holder(event.worker):  # what it was computing others compute again
            self.fleet.lose_stage(event.worker)
            if self._stages.pop(event.worker, False):
                self._restage()

    def _let_go(self) -> None:
        """Let workers go that were to leave and have nothing of the run any more."""
        vacated = [self._vacated, self.roster.vacated, self.fleet.vacated]
        for name in sorted(self._to_go & set().union(*vacated)) if self._to_go else ():
            if self._can_go(name):
                self._forget_worker(name)
                self._out.append(do.LetGo(name))
        for names in vacated:
            names.clear()

    def _can_go(self, name: str) -> bool:
        worker = self.roster.workers.get(name)
        return not self.fleet.on(name) and not (worker and worker.attempts) and not self._stages.get(name)

    def _forget_worker(self, name: str) -> None:
        """A worker is gone: whoever comes under its name is not taken for it."""
        self._gone[name] = self._stays.get(name, 0)
        self._to_go.discard(name)
        worker = self.roster.part(name)
        if worker is not None:
            self._lose_io(worker)
            if self.group is not None:
                self.group.lose(name)
        self.fleet.gone(name)

    def _held(self, event: ev.WorkerHeld) -> None:
        self.roster.hold(event.worker, True, event.look)

    def _freed(self, event: ev.WorkerFreed) -> None:
        self.roster.hold(event.worker, False, event.look)

    def _lose_io(self, worker: IoWorker) -> None:
        for attempt in list(worker.attempts.values()):
            self._give_up(attempt, f"worker {worker.name} was lost")
        if self.spec.mode.adds:
            self._out += [do.ForgetTrainer(copy, worker.number) for copy in self.fleet.primaries()]

    def _stage_ready(self, event: ev.StageReady) -> None:
        if self._stages.get(event.worker) is False:
            self._stages[event.worker] = True
            self.moves += 1
            self._restage()

    def _stage_lost(self, event: ev.StageLost) -> None:
        if self._stages.get(event.worker):
            self._stages[event.worker] = False
            self._vacated.add(event.worker)
            self._out.append(do.CreateStage(event.worker))
            self._restage()

    def _restage(self) -> None:
        """Other stage workers can be called than before; where they are the members of a group, it forms anew."""
        if self.group is not None:
            self.group.dissolve()
        self._announce()

    # --- splits and attempts

    def _splits_ready(self, event: ev.SplitsReady) -> None:
        count, complete = self._supplies.get(event.pass_, (0, False))
        if complete and event.count > count:
            raise self._error(f"pass {event.pass_} was complete with {count} Splits, now there are {event.count}")
        self._supplies[event.pass_] = (max(count, event.count), complete or event.complete)
        self._holders[event.pass_] = max(event.holders, self._holders.get(event.pass_, ()), key=len)

    def _attempt(self, number: int) -> LiveAttempt | None:
        """Return a live attempt, None for a stale one."""
        attempt = self.roster.attempts.get(number)
        if attempt is None and not self.roster.issued(number):
            raise self._error(f"attempt {number} was never made")
        return attempt

    def _batches_done(self, event: ev.BatchesDone) -> None:
        attempt = self._attempt(event.attempt)
        if attempt is not None:
            self._progress(attempt, event.upto)

    def _progress(self, attempt: LiveAttempt, upto: int) -> None:
        if attempt.work.split is not None and self.book.progress(attempt.work, upto):
            self.moves += 1
            self._failures.pop(self._stream(attempt.work), None)

    def _stream(self, work: Work) -> int:
        return work.lane if self.spec.mode.ordered else work.split or 0

    def _split_paused(self, event: ev.SplitPaused) -> None:
        attempt = self._attempt(event.attempt)
        if attempt is None or attempt.serial != event.serial or not attempt.stopping:
            return
        self._progress(attempt, event.upto)
        self.moves += 1
        self.roster.stand(attempt, attempt.serial, stopping=True, paused=True)
        # A twin is not fenced and may be ahead, or have been: only a fresh attempt knows where the lane is.
        twins = bool(self.roster.twins(attempt)) or attempt.outrun
        if attempt.moving or twins:
            self._drop_twins(attempt)
            self._cancel(attempt)
            self.book.give_back(attempt.work, clean=not twins)

    def _lane_waits(self, event: ev.LaneWaits) -> None:
        attempt = self._attempt(event.attempt)
        if attempt is not None and attempt.serial == event.serial and attempt.stopping and not attempt.paused:
            self.roster.stand(attempt, attempt.serial, stopping=True, waits=attempt.work.step + event.upto)

    def _split_ending(self, event: ev.SplitEnding) -> None:
        attempt = self._attempt(event.attempt)
        if attempt is not None:
            self.roster.read_all(attempt)

    def _split_done(self, event: ev.SplitDone) -> None:
        attempt = self._attempt(event.attempt)
        if attempt is None:
            return
        self.moves += 1
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
        if attempt is None or attempt.paused or attempt.waits >= 0:
            return
        worker = self.roster.workers[attempt.worker]
        if attempt.stopping:  # everybody waits for it
            if self.roster.faster(attempt.worker):
                self.run_twice += 1
                self._replace(attempt)
        elif worker.held and not self.spec.mode.ordered:
            self._replace(attempt)
        elif self.phase is Phase.RUNNING and self.fleet.ready and not self.roster.twins(attempt):
            self._run_twice(attempt)

    def _run_twice(self, attempt: LiveAttempt) -> None:
        """Run it elsewhere as well, where there is room and nobody who is slow, too."""
        worker = self.roster.free(avoid=attempt.worker)
        if worker is None or worker.slow:
            return
        self.run_twice += 1
        if self.spec.mode.has_copy:
            self._replace(attempt)
        else:
            self._begin(attempt.work, worker, None, oldest=attempt.number)

    def _replace(self, attempt: LiveAttempt) -> None:
        """Have it run anew: nothing that this attempt or its twin still sends counts once the new one has asked."""
        self._drop_twins(attempt)
        self._cancel(attempt)
        self.roster.leave_home(attempt)
        self.book.give_back(attempt.work, clean=False)

    def _paced(self, event: ev.WorkerPaced) -> None:
        self.roster.pace(event.worker, event.slow, event.look)

    def _layout_wanted(self, event: ev.LayoutWanted) -> None:
        attempt = self._attempt(event.attempt)
        if attempt is None:
            self._out.append(do.Cancel(event.attempt))
        elif self.fleet.ready:
            self._out.append(do.Announce(event.attempt, self.layout()))

    def _give_up(self, attempt: LiveAttempt, reason: str) -> None:
        """An attempt is gone; its work is run again, but not for ever."""
        self.roster.end(attempt)
        twins = self.roster.twins(attempt)
        for twin in twins:
            twin.outrun = True
        if twins:
            return
        self.book.give_back(attempt.work, clean=attempt.paused)
        stream = self._stream(attempt.work)
        self._failures[stream] = self._failures.get(stream, 0) + 1
        if self._failures[stream] > self.spec.retries:
            self._abort(
                f"Split {attempt.work.split} of pass {attempt.pass_} was tried {self._failures[stream]} times without "
                f"progress, last: {reason}"
            )

    def _drop_twins(self, attempt: LiveAttempt) -> None:
        for twin in self.roster.twins(attempt):
            self._cancel(twin)

    def _cancel(self, attempt: LiveAttempt) -> None:
        self.roster.end(attempt)
        self._out.append(do.Cancel(attempt.number))

    def _move_away(self, attempt: LiveAttempt) -> None:
        self.roster.leave_home(attempt)
        self.roster.move(attempt)
        if attempt.paused:
            self._cancel(attempt)
            self.book.give_back(attempt.work, clean=True)
        elif not attempt.stopping:
            self._pause(attempt, 0)

    def _pause(self, attempt: LiveAttempt, target: int) -> None:
        self._serial += 1
        self.roster.stand(attempt, self._serial, stopping=True)
        self._out.append(do.Pause(attempt.number, max(0, target - attempt.work.step), self._serial))

    def _resume(self) -> None:
        layout = self.layout()
        if self.roster.attempts:
            self._train()
        for attempt in list(self.roster.attempts.values()):
            self._serial += 1
            self.roster.stand(attempt, self._serial, stopping=False)
            self._out.append(do.Resume(attempt.number, self._serial, layout))

    def _train(self) -> None:
        """From here on the group may have what the hosts have not."""
        if self.group is not None:
            self.group.owed = True

    def _begin(self, work: Work, worker: IoWorker, target: int | None, oldest: int | None = None) -> None:
        attempt = self.roster.begin(self.book.pass_, work, worker)
        self._train()
        until = None
        if target is not None:
            self._serial += 1
            self.roster.stand(attempt, self._serial, stopping=True)
            until = max(0, target - work.step)
        self._out.append(
            do.RunSplit(
                attempt.number,
                attempt.number if oldest is None else oldest,
                worker.name,
                self.book.pass_,
                work.split,
                work.start,
                work.lane,
                work.step,
                until,
                attempt.serial,
                (self.book.pass_, self.book.floor),
                self.layout(),
                worker.number,
            )
        )

    # --- handing out

    def _supply(self) -> None:
        pass_ = self.book.pass_
        if pass_ in self._supplies:
            self.book.supply(*self._supplies[pass_])
        elif pass_ not in self._asked:
            self._asked.add(pass_)
            self._out.append(do.NeedSplits(pass_))

    def _issue(self, target: int | None) -> None:
        """Hand out what there is.

        Rows are read where they lie: what free workers hold goes to them, and what others hold waits for those. Lanes
        must all run at once, and a cut must not wait, so there a holder comes first only among equals.
        """
        if target is None and not self.spec.mode.ordered and self._holders.get(self.book.pass_):
            while self._holders_ready and self.book.offers and (found := self._work_at_home()) is not None:
                self._begin(*found, None)
            return
        while self._holders_ready and self._worker_for(target) is not None and (work := self.book.take(target)):
            home = work.lane if self.spec.mode.has_copy else None
            worker = self.roster.at_home(home) or self.roster.free(near=self._held_by(work.split))
            assert worker is not None
            self._begin(work, worker, target)

    def _work_at_home(self) -> tuple[Work, IoWorker] | None:
        for worker in self.roster.able():
            work = self.book.take(None, partial(self._may_read, worker.name))
            if work is not None:
                return work, worker
        return None

    def _may_read(self, worker: str, split: int) -> bool:
        return not self.roster.waits_for(self._held_by(split), worker)

    def _held_by(self, split: int | None) -> tuple[str, ...]:
        holders = self._holders.get(self.book.pass_, ())
        return holders[split] if split is not None and split < len(holders) else ()

    def _worker_for(self, target: int | None) -> IoWorker | None:
        """Return a free worker; when draining, at need one whose attempt is paused (that one starts again later).

        There is need where nobody is free, or only one that is slow.
        """
        worker = self.roster.free()
        while target is not None and self.book.dirty and (paused := self.roster.paused()) is not None:
            if worker is not None and self.roster.workers[paused.worker].slow >= worker.slow:
                break
            self._cancel(paused)  # one whose Split has been read takes no slot: then it takes another to have one
            self.book.give_back(paused.work, clean=True)
            worker = self.roster.free()
        return worker

    def _balance(self) -> None:
        while (attempt := self.roster.crowded()) is not None:
            self._move_away(attempt)
