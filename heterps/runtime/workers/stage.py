"""A compute stage: forward, the stages behind it, backward. It computes only; `step` can be repeated at will.

Each call has a thread and a program of its own; a semaphore bounds how many compute at once. A thread that waits for a
later stage holds no right to compute, so CPU | GPU | CPU cannot deadlock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from time import sleep
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from heterps.kernels.program.param_layout import ParamLayout
from heterps.kernels.program.program import Program
from heterps.runtime.batch.crossing import StageOutcome, add_gradients, needs_behind
from heterps.runtime.batch.job import Job
from heterps.runtime.batch.phases import WAITING, Phases
from heterps.runtime.wire.message import Message
from heterps.runtime.wire.packing import pack_outcome, unpack_step
from heterps.runtime.wire.service import Method

__all__ = ["DenseSource", "NextStage", "StageService"]

F32 = npt.NDArray[np.float32]


class DenseSource(Protocol):
    """Where a stage gets its dense parameters from."""

    def fill(self, layout: ParamLayout, flat: F32) -> None:
        """Write the parameters of a layout as they are now."""


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
    slowdown
        Seconds to sleep per step; for tests of balancing.
    """

    def __init__(
        self,
        job: Job,
        index: int,
        source: DenseSource,
        behind: NextStage | None = None,
        slots: int = 1,
        slowdown: float = 0.0,
    ) -> None:
        self.job, self.index = job, index
        self._source, self._behind, self._slowdown = source, behind, slowdown
        self._needs = needs_behind(job, index)
        self._slots = threading.Semaphore(slots)
        self._lock = threading.Lock()
        self._free: list[tuple[Program, F32]] = []
        self.steps = 0
        self.phases = Phases()

    def step(self, seed: int, feeds: Mapping[str, Any]) -> StageOutcome:
        """Run the stage, and those behind it, on one batch."""
        program, params = self._take()
        try:
            return self._step(program, params, seed, feeds)
        finally:
            with self._lock:
                self._free.append((program, params))

    def _step(self, program: Program, params: F32, seed: int, feeds: Mapping[str, Any]) -> StageOutcome:
        with self.phases(WAITING):
            self._source.fill(program.layout, params)
        with self._computing():
            with self.phases("forward"):
                sleep(self._slowdown)
                outputs = program.forward({name: feeds[name] for name in program.feeds}, params, seed=seed)
            if self._behind is None:
                return self._outcome(program, StageOutcome(loss=program.loss, prediction=program.prediction.copy()), {})
        outcome = self._behind(seed, {name: outputs.get(name, feeds.get(name)) for name in self._needs})
        with self._computing():
            return self._outcome(program, outcome, {name: outcome.gradients.pop(name) for name in program.given})

    def _outcome(self, program: Program, outcome: StageOutcome, given: Mapping[str, Any]) -> StageOutcome:
        with self.phases("backward"):
            gradients = program.backward(given)
            outcome.dense[self.index] = gradients.dense.copy()
            add_gradients(outcome.gradients, {name: np.array(g) for name, g in gradients.inputs.items()})
        self.phases.carve(program.take_spent())
        self.steps += 1
        return outcome

    def _computing(self) -> AbstractContextManager[Any]:
        return self._slots

    def _take(self) -> tuple[Program, F32]:
        with self._lock:
            if self._free:
                return self._free.pop()
        graph = self.job.model.lowered.graph
        program = Program(graph, self.job.stages[self.index], batch_size=self.job.batch_size)
        return program, np.empty(program.layout.size, np.float32)

    @property
    def methods(self) -> Mapping[str, Method]:
        """What other processes may call."""
        return {"step": self._on_step}

    def _on_step(self, message: Message) -> Message:
        return pack_outcome(self.step(*unpack_step(message)))
