"""A compute stage: forward, the stages behind it, backward. It computes only; `step` can be repeated at will.

Each call has a thread and a program of its own; a semaphore bounds how many compute at once. A thread that waits for a
later stage holds no right to compute, so CPU | GPU | CPU cannot deadlock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from heterps.kernels.program.param_layout import ParamLayout
from heterps.runtime.batch.crossing import StageOutcome, add_gradients, needs_behind
from heterps.runtime.batch.device_program import DeviceProgram
from heterps.runtime.batch.job import Job
from heterps.runtime.batch.phases import WAITING, Phases
from heterps.runtime.batch.placed import placed
from heterps.runtime.wire.message import Message
from heterps.runtime.wire.packing import pack_outcome, unpack_step
from heterps.runtime.wire.service import Method

__all__ = ["DenseSource", "NextStage", "StageParams", "StageService"]

F32 = npt.NDArray[np.float32]


@dataclass(eq=False)
class StageParams:
    """Parameters of a stage, and by shard host the mark of the state they have; fresh ones have none."""

    flat: F32
    marks: dict[int, str] = field(default_factory=dict)
    changed: bool = True  # since they were last brought to where they are computed with

    def write(self, span: slice, values: F32) -> None:
        """Set some of them."""
        self.flat[span] = values
        self.changed = True


class DenseSource(Protocol):
    """Where a stage gets its dense parameters from."""

    def fill(self, layout: ParamLayout, params: StageParams) -> None:
        """Bring the parameters of a layout to their present state."""


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
        self._slots = threading.Semaphore(slots)  # held while computing, never while waiting for anybody
        self._lock = threading.Lock()  # around what follows
        self._free: list[tuple[DeviceProgram, StageParams]] = []  # that no call uses
        self.steps = 0  # batches that went through; grows only
        self.phases = Phases()  # of all calls together

    def step(self, seed: int, feeds: Mapping[str, Any]) -> StageOutcome:
        """Run the stage, and those behind it, on one batch."""
        program, params = self._take()
        try:
            return self._step(program, params, seed, feeds)
        finally:
            with self._lock:
                self._free.append((program, params))

    def _step(self, program: DeviceProgram, params: StageParams, seed: int, feeds: Mapping[str, Any]) -> StageOutcome:
        with self.phases(WAITING):
            self._source.fill(program.layout, params)
        with self._computing(), placed(self.where):
            self._forward(program, params, seed, feeds)
            if self._behind is None:
                return self._outcome(program, StageOutcome())
            outputs = self._outputs(program)
        outcome = self._behind(seed, {name: outputs.get(name, feeds.get(name)) for name in self._needs})
        with self._computing(), placed(self.where):
            return self._outcome(program, outcome)

    def _forward(self, program: DeviceProgram, params: StageParams, seed: int, feeds: Mapping[str, Any]) -> None:
        """Run forward; a stage that only passes on what it is fed, such as pulled rows, has nothing to run."""
        if program.has_steps:
            with self.phases("forward"):
                wanted = {name: feeds[name] for name in program.feeds}
                program.start(wanted, params.flat, changed=params.changed, seed=seed)
                params.changed = False

    def _outputs(self, program: DeviceProgram) -> dict[str, Any]:
        with self.phases("forward"):
            return program.outputs(self._needs) if program.has_steps else {}

    def _outcome(self, program: DeviceProgram, outcome: StageOutcome) -> StageOutcome:
        if program.has_steps:
            with self.phases("backward"):
                given = {name: outcome.gradients.pop(name) for name in program.given}
                gradients = program.backward(given)
                outcome.dense[self.index] = gradients.dense.copy()
                add_gradients(outcome.gradients, {name: np.array(g) for name, g in gradients.inputs.items()})
                if self._behind is None:
                    outcome.loss, outcome.prediction = program.loss, program.prediction.copy()
            self.phases.carve(program.take_spent())
        with self._lock:
            self.steps += 1
        return outcome

    def _computing(self) -> AbstractContextManager[Any]:
        return self._slots

    def _take(self) -> tuple[DeviceProgram, StageParams]:
        with self._lock:
            if self._free:
                return self._free.pop()
        graph = self.job.model.lowered.graph
        with placed(self.where):
            program = DeviceProgram(graph, self.job.stages[self.index], self.job.batch_size, self.device)
        return program, StageParams(np.empty(program.layout.size, np.float32))

    @property
    def methods(self) -> Mapping[str, Method]:
        """What other processes may call."""
        return {"step": self._on_step}

    def _on_step(self, message: Message) -> Message:
        return pack_outcome(self.step(*unpack_step(message)))
