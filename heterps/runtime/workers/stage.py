"""A compute stage: forward, the stages behind it, backward. It computes only; `step` can be repeated at will.

Each call has a thread and a program of its own; a semaphore bounds how many compute at once. A thread that waits for a
later stage holds no right to compute, so CPU | GPU | CPU cannot deadlock.

On a device a batch is a *flight*: :meth:`StageService.begin` copies it up and queues its work,
:meth:`StageService.finish` waits for the results. The right to compute is held only while work is queued, never while
the device is waited for or copied to; so one batch is copied up and another down while a third computes. All work of a
process is queued on one stream, copies on two others.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from heterps.device import CopyStreams
from heterps.device.pinned import pinned_block
from heterps.kernels.ops.rows import Rows
from heterps.kernels.program.param_layout import ParamLayout
from heterps.runtime.batch.crossing import StageOutcome, add_gradients, needs_behind
from heterps.runtime.batch.device_program import DeviceProgram
from heterps.runtime.batch.job import Job
from heterps.runtime.batch.phases import WAITING, Phases
from heterps.runtime.batch.placed import placed
from heterps.runtime.batch.stage_params import StageParams
from heterps.runtime.wire.message import Message, ReceiveRing
from heterps.runtime.wire.packing import pack_outcome, unpack_step
from heterps.runtime.wire.peer import PeerLost
from heterps.runtime.wire.service import Method
from heterps.runtime.workers.stage_holder import LentGradient
from heterps.runtime.workers.stage_member import StageMember
from heterps.stages.lowering import pull_name

__all__ = ["DenseSource", "Flight", "NextStage", "StageService"]

F32 = npt.NDArray[np.float32]
_LAST, _MIDDLE = 3, 8  # batches on a device: one copied up, one computing, one copied down; or waiting for others


@dataclass(eq=False)
class Flight:
    """A batch on its way through a stage: the program and parameters that it has for itself, and what it was fed."""

    program: DeviceProgram
    params: StageParams
    seed: int
    feeds: Mapping[str, Any]
    holder: GradientHolder | None = None  # of its dense parameters, in this process
    mark: int = 0  # of the holder when the flight began
    dense: Any = None  # its gradient, for that one
    lent: dict[str, Rows] = field(default_factory=dict)  # by feed: what the holder has lent
    rows: dict[str, LentGradient] = field(default_factory=dict)  # by group: their gradients, for that one
    member: StageMember | None = None  # of the group that all-reduces its dense parameters, in this process
    term: int = 0  # of the group, under which the batch was granted


class GradientHolder(Protocol):
    """Takes gradients where they were computed."""

    @property
    def mark(self) -> int:
        """What gradients that are computed from now on are kept under."""

    def keep(self, seed: int, stage: int, gradient: Any, rows: Mapping[str, LentGradient], mark: int) -> None:
        """Take the gradients of a batch: of dense parameters, and of rows that were lent."""


class DenseSource(Protocol):
    """Where a stage gets its dense parameters from."""

    def fill(self, layout: ParamLayout, params: StageParams) -> None:
        """Bring the parameters of a layout to their present state."""

    def holder(self) -> GradientHolder | None:
        """Return who takes gradients in this process."""

    def rows(self, seed: int, ids: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the rows that the holder has lent to a batch, by group, where they are."""

    def member(self) -> StageMember | None:
        """Return the member of an all-reduce group in this process; asked where stage workers all-reduce."""


NextStage = Callable[[int, Mapping[str, Any]], StageOutcome]


class StageService:
    """One stage on one worker.

    Parameters
    ----------
    job, index
        Which stage of which job.
    source
        Dense parameters.
    behind
        Runs the stages behind this one; None for the last.
    slots
        Batches computed at once.
    where
        The worker, as errors of the stage name it.
    """

    def __init__(
        self,
        job: Job,
        index: int,
        source: DenseSource,
        behind: NextStage | None = None,
        slots: int = 1,
        where: str = "this process",
    ) -> None:
        self.job, self.index = job, index
        self._source, self._behind = source, behind  # called by many threads at once, holding no slot
        self.where = f"stage {index} on {where}"
        with placed(self.where):
            self.device = job.device_here(index)
        self.computes = bool(job.scope(job.stages[index]).steps)  # else it passes on what it is fed
        self._needs = needs_behind(job, index)  # what the stages behind are fed
        lent = [group for group in job.model.lowered.groups if group.name in job.lent]
        self._pulls = {pull_name(group): group.name for group in lent}  # feeds that the stage holder has
        self._is_reduced = job.stage_group and index == 1  # whether its dense parameters are, all or some
        self._slots = threading.Semaphore(slots)  # held while computing, never while waiting for anybody
        self._lock = threading.Lock()  # around what follows
        self._free: list[tuple[DeviceProgram, StageParams]] = []  # that no call uses
        self.steps = 0  # batches that went through; grows only
        self.phases = Phases()  # of all calls together
        with self.device.current():
            self._streams = CopyStreams.of(self.device.xp)
        most = job.batches_on(index, self.device, _LAST if behind is None else _MIDDLE)
        self._turns: AbstractContextManager[Any] = nullcontext() if most is None else threading.Semaphore(most)

    def step(self, seed: int, feeds: Mapping[str, Any], term: int | None = None) -> StageOutcome:
        """Run the stage, and those behind it, on one batch."""
        with self._turns:
            return self.finish(self.begin(seed, feeds, term))

    def begin(self, seed: int, feeds: Mapping[str, Any], term: int | None = None) -> Flight:
        """Copy a batch to the device and queue what can be computed with it; on a CPU it is computed."""
        program, params = self._take()
        holder = self._source.holder()
        flight = Flight(program, params, seed, feeds, holder, 0 if holder is None else holder.mark)
        if self._is_reduced and (member := self._source.member()) is not None:
            flight.member, flight.term = member, -1 if term is None else term
        try:
            with self.phases(WAITING):
                self._source.fill(program.layout, params)
                self._check_term(flight)
                self._borrow(flight)
            self._send(flight)
            with self._computing(), placed(self.where):
                self._forward(flight)
                if self._behind is None:
                    self._start_backward(flight)
        except BaseException:
            self._give_back(flight)
            raise
        return flight

    def _check_term(self, flight: Flight) -> None:
        """Refuse to compute with parameters of another term of the group than that under which the lane was granted.

        Terms grow only: if the term is the same now, it was when the parameters were read.
        """
        if flight.member is not None and not flight.member.has_parameters_of(flight.term):
            raise PeerLost(f"{self.where} is not of term {flight.term}")

    def finish(self, flight: Flight) -> StageOutcome:
        """Wait for what the batch gives, with the stages behind."""
        try:
            outcome = StageOutcome()
            if self._behind is not None:
                outcome = self._behind(flight.seed, self._passed_on(flight))
                self._give(flight.program, outcome)
                with self._computing(), placed(self.where):
                    self._start_backward(flight)
            with placed(self.where):
                return self._outcome(flight, outcome)
        finally:
            self._give_back(flight)

    def _borrow(self, flight: Flight) -> None:
        """Get the rows of this stage's feeds that the stage holder has."""
        found = {name: flight.feeds[name] for name in flight.program.feeds if name in self._pulls}
        away = {name: rows for name, rows in found.items() if len(rows.values) < len(rows.ids)}
        if away:
            values = self._source.rows(flight.seed, {self._pulls[name]: rows.ids for name, rows in away.items()})
            for name, rows in away.items():
                flight.lent[name] = Rows(values[self._pulls[name]], rows.inverse, rows.offsets, rows.ids)

    def _send(self, flight: Flight) -> None:
        """Begin to copy the batch; a stage that only passes on what it is fed, such as pulled rows, needs nothing."""
        program, params = flight.program, flight.params
        if program.has_steps:
            with self.phases("forward"), placed(self.where):
                wanted = {name: flight.lent.get(name, flight.feeds[name]) for name in program.feeds}
                program.send(wanted, params.flat, changed=params.changed)

    def _forward(self, flight: Flight) -> None:
        if flight.program.has_steps:
            with self.phases("forward"):
                flight.program.forward(seed=flight.seed)
                flight.params.changed = False
                if self._behind is not None:
                    flight.program.start_outputs(self._needs)

    def _passed_on(self, flight: Flight) -> dict[str, Any]:
        """Return what the stages behind are fed: computed here, or handed through."""
        outputs: Mapping[str, Any] = {}
        if flight.program.has_steps:
            with self.phases("forward"), placed(self.where):
                outputs = flight.program.take_outputs()
        return {name: outputs.get(name, flight.feeds.get(name)) for name in self._needs}

    def _give(self, program: DeviceProgram, outcome: StageOutcome) -> None:
        if program.has_steps:
            with self.phases("backward"), placed(self.where):
                program.give({name: outcome.gradients.pop(name) for name in program.given})

    def _start_backward(self, flight: Flight) -> None:
        program = flight.program
        if program.has_steps:
            with self.phases("backward"):
                stay = () if flight.holder is None else flight.lent
                program.start_backward(stays=flight.holder is not None, rows_stay=stay)
                if flight.holder is not None:
                    flight.dense = program.dense_gradient()
                for name in stay:
                    left = LentGradient(np.array(flight.lent[name].ids), program.row_gradient(name))
                    flight.rows[self._pulls[name]] = left

    def _outcome(self, flight: Flight, outcome: StageOutcome) -> StageOutcome:
        program = flight.program
        if program.has_steps:
            with self.phases("backward"):
                gradients = program.take_gradients()
                if flight.holder is None and not self._is_left(flight, gradients.dense, outcome):
                    outcome.dense[self.index] = gradients.dense.copy()
                add_gradients(outcome.gradients, {name: np.array(g) for name, g in gradients.inputs.items()})
                if self._behind is None:
                    outcome.loss, outcome.prediction = program.loss, program.prediction.copy()
            self.phases.carve(program.take_spent())
            if flight.holder is not None and (program.layout.size or flight.rows):
                flight.holder.keep(flight.seed, self.index, flight.dense, flight.rows, flight.mark)
                outcome.kept = (*outcome.kept, self.index)
        with self._lock:
            self.steps += 1
        return outcome

    def _is_left(self, flight: Flight, gradient: F32, outcome: StageOutcome) -> bool:
        """Leave the dense gradient with the group's member here; whether that has all of it, and none goes back."""
        if flight.member is None:
            return False
        outcome.kept = (*outcome.kept, self.index)
        return flight.member.keep(flight.seed, flight.program.layout, gradient, flight.term)

    def _computing(self) -> AbstractContextManager[Any]:
        return self._slots

    def _take(self) -> tuple[DeviceProgram, StageParams]:
        with self._lock:
            if self._free:
                return self._free.pop()
        graph, ops = self.job.model.lowered.graph, self.job.stages[self.index]
        with placed(self.where):
            program = DeviceProgram(graph, ops, self.job.batch_size, self.device, self._streams)
        return program, StageParams(np.empty(program.layout.size, np.float32))

    def _give_back(self, flight: Flight) -> None:
        with self._lock:
            self._free.append((flight.program, flight.params))

    def receive_ring(self) -> ReceiveRing:
        """Return buffers to receive batches into: pinned, so that they are copied to the device from there.

        A connection has one batch here at a time; its buffer is used again for the batch after the next.
        """
        return ReceiveRing(allocate=self._receive_buffer)

    def _receive_buffer(self, nbytes: int) -> npt.NDArray[np.uint8]:
        with self.device.current():
            return pinned_block(self.device.xp, nbytes)

    @property
    def methods(self) -> Mapping[str, Method]:
        """What other processes may call."""
        return {"step": self._on_step}

    def _on_step(self, message: Message) -> Message:
        return pack_outcome(self.step(*unpack_step(message)))
