"""Runs a RunState: events in from everywhere, instructions out to a carrier that has the effects."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from queue import Empty
from typing import Protocol

from heterps.data import Split
from heterps.errors import RunError, UnsavedError
from heterps.protocol.run.found import FoundRun
from heterps.protocol.run.spec import RunSpec
from heterps.protocol.run.state import RunState
from heterps.protocol.words import events as ev, instructions as do
from heterps.protocol.words.cut import Cut
from heterps.protocol.words.group import CatchUp, FormGroup, WriteBack
from heterps.runtime.run.arrivals import Arrivals
from heterps.runtime.run.moves import Moves

__all__ = ["Carrier", "Driver", "HostInstruction", "MemberInstruction"]

_log = logging.getLogger("heterps")

HostInstruction = (
    do.Rewind | do.Promote | do.Attach | do.Detach | do.Discard | do.MarkCut | do.Own | do.ForgetTrainer
)  # what a copy of a shard host takes as it is

MemberInstruction = FormGroup | CatchUp | WriteBack  # what a member of an all-reduce group takes as it is


class Carrier(Protocol):
    """What carries instructions out: threads of this process, or actors and tasks of a cluster."""

    def run_split(self, run: do.RunSplit, split: Split | None) -> None:
        """Start an attempt."""

    def to_attempt(self, attempt: int, instruction: do.Instruction) -> None:
        """Hand an instruction to an attempt; it may have ended."""

    def create_host(self, create: do.CreateHost) -> None:
        """Make a copy of a shard host."""

    def to_host(self, instruction: HostInstruction) -> None:
        """Hand an instruction to a copy; it may be gone."""

    def to_member(self, instruction: MemberInstruction) -> None:
        """Hand an instruction to the member of the all-reduce group on an io worker; it may be gone."""

    def create_stage(self, worker: str) -> None:
        """Make the stage actors of a compute worker."""

    def let_go(self, worker: str) -> None:
        """Let a worker leave that has nothing of the run any more."""

    def publish_cut(self, cut: Cut, copies: Sequence[int]) -> None:
        """Write the manifest of a cut whose parts these copies have on disk, then tell CutPublished."""

    def drop_cut(self, cut: int) -> None:
        """Remove the parts of a cut that will not be completed."""

    def cut_folder(self, cut: int) -> str:
        """Return where a whole cut lies."""

    def worker_name(self, worker: str) -> str:
        """Return what a user calls a worker."""

    def was_there(self, worker: str) -> bool:
        """Whether a worker was there when the run began."""


class Driver:
    """The loop around a RunState: takes events from the inbox, hands instructions to the carrier.

    Parameters
    ----------
    spec, cut, life, found
        See :class:`~heterps.protocol.run.state.RunState`.
    carrier
        Carries out; what becomes of it arrives in the inbox.
    inbox
        Where they arrive.
    splits
        ``splits(pass_)`` cuts the data of a pass.
    where
        ``where(splits)`` names the workers that hold their rows already.
    """

    def __init__(
        self,
        spec: RunSpec,
        carrier: Carrier,
        inbox: Arrivals,
        splits: Callable[[int], Sequence[Split]],
        *,
        where: Callable[[Sequence[Split]], tuple[tuple[str, ...], ...]] = lambda splits: (),
        cut: Cut | None = None,
        life: int = 0,
        found: FoundRun | None = None,
    ) -> None:
        self.state = RunState(spec, cut=cut, life=life, found=found)
        self.inbox = inbox
        self.moves = Moves(self.state, carrier.worker_name, carrier.was_there)
        """What came, went and moved."""
        self.finished = False
        self.resting = 0  # number of the last rest that began
        self.failed_cuts = 0  # that could not be written
        self._carrier, self._splits, self._where = carrier, splits, where
        self._known: dict[int, Sequence[Split]] = {}  # by pass: Splits that were asked for

    def step(self, timeout_s: float | None = None) -> bool:
        """Handle what has arrived, waiting for the first event at most so long; False if there was none.

        What is told while this goes on waits for the next step: one event may cause another for ever, such as a host
        that is lost again each time it is made on a worker that is gone, and the caller has to look at workers.
        """
        try:
            event = self.inbox.get(timeout=timeout_s) if timeout_s else self.inbox.get_nowait()
        except Empty:
            return False
        arrived = self.inbox.qsize()
        self._take(event)
        for _ in range(arrived):
            if not self.finished:
                self._take(self.inbox.get_nowait())
        return True

    def _take(self, arrived: ev.Event | Callable[[], ev.Event | None]) -> None:
        event = arrived if isinstance(arrived, ev.Event) else arrived()
        if event is not None:
            self.handle(event)

    def handle(self, *events: ev.Event) -> None:
        """Give events to the run and carry out what follows."""
        for event in events:
            self.moves.note(event)
        for instruction in self.state.handle(*events):
            self.moves.note(instruction)
            self._carry_out(instruction)

    def _carry_out(self, instruction: do.Instruction) -> None:
        carrier = self._carrier
        match instruction:
            case do.RunSplit(pass_=pass_, split=split):
                carrier.run_split(instruction, None if split is None else self._known[pass_][split])
            case do.Pause() | do.Resume() | do.Cancel() | do.Announce():
                carrier.to_attempt(instruction.attempt, instruction)
            case (
                do.Rewind()
                | do.Promote()
                | do.Attach()
                | do.Detach()
                | do.Discard()
                | do.MarkCut()
                | do.Own()
                | do.ForgetTrainer()
            ):
                carrier.to_host(instruction)
            case FormGroup() | CatchUp() | WriteBack():
                carrier.to_member(instruction)
            case do.CreateHost():
                carrier.create_host(instruction)
            case do.NeedSplits(pass_):
                known = self._known[pass_] = self._splits(pass_)
                self.inbox.tell(ev.SplitsReady(pass_, len(known), True, self._where(known)))
            case do.PublishCut(cut):
                carrier.publish_cut(cut, self.state.layout().copies)
            case do.DropCut(number, reason):
                carrier.drop_cut(number)
                self._note_failure(reason)
            case do.Rest(rest):
                self.resting = rest
            case do.CreateStage(worker):
                carrier.create_stage(worker)
            case do.LetGo(worker):
                carrier.let_go(worker)
            case do.Finish():
                self.finished = True
            case do.Abort(reason, story, trained):
                self.finished = True
                kind = UnsavedError if trained else RunError
                error = kind(f"the run was given up: {reason}{self._advice()}")
                error.add_note(f"What happened:\n{story}")
                raise error
            case _:
                raise RunError(f"no engine carries out {type(instruction).__name__}: {instruction}")

    def _note_failure(self, reason: str) -> None:
        if reason:
            self.failed_cuts += 1
            _log.warning("a cut could not be written, the one before stays: %s", reason)

    def _advice(self) -> str:
        """Say what is left to the user of a run that was given up."""
        folder = self._carrier.cut_folder(self.state.cut.number)
        kept = f" The last good cut is {folder}." if folder else ""
        return f".{kept} The session still has its tables: evaluate or save them to a folder of their own"
