"""A compute stage: forward, the stages behind it, backward. It computes only; `step` can be repeated at will.

Each call has a thread and a program of its own; a semaphore bounds how many compute at once. A thread that waits for a
later stage holds no right to compute, so CPU | GPU | CPU cannot deadlock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from time import sleep
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from heterps.kernels.program.param_layout import ParamLayout
from heterps.kernels.program.program import Program
from heterps.runtime.batch.crossing import add_gradients, pack_feeds, unpack_feeds
from heterps.runtime.batch.job import Job
from heterps.runtime.batch.phases import WAITING, Phases
from heterps.runtime.wire.message import Message
from heterps.runtime.wire.service import Method

__all__ = ["DenseSource", "NextStage", "StageOutcome", "StageService", "pack_outcome", "pack_step", "unpack_outcome"]

F32 = npt.NDArray[np.float32]


class DenseSource(Protocol):
    """Where a stage gets its dense parameters from."""

    def fill(self, layout: ParamLayout, flat: F32) -> None:
        """Write the parameters of a layout as they are now."""


@dataclass(eq=False)
class StageOutcome:
    """What a stage gives back: gradients of what it was fed, dense gradients by stage, the loss, the prediction."""

    gradients: dict[str, Any] = field(default_factory=dict)
    dense: dict[int, F32] = field(default_factory=dict)
    loss: float = 0.0
    prediction: Any = None


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
        feeds = unpack_feeds(message.head["feeds"], list(message.arrays))
        return pack_outcome(self.step(message.head["seed"], feeds))


def needs_behind(job: Job, index: int) -> tuple[str, ...]:
    """Return the tensors that stages behind ``index`` need from it or from before it."""
    made: set[str] = set()
    needed: dict[str, None] = {}
    for ops in job.stages[index + 1 :]:
        scope = job.scope(ops)
        needed |= dict.fromkeys(name for name in scope.feeds if name not in made)
        made |= set(scope.outputs)
    return tuple(needed)


def pack_step(seed: int, feeds: Mapping[str, Any]) -> tuple[dict[str, Any], Sequence[npt.NDArray[Any]]]:
    """Return head and arrays of a call to ``step``."""
    told, arrays = pack_feeds(feeds)
    return {"seed": seed, "feeds": told}, arrays


def pack_outcome(outcome: StageOutcome) -> Message:
    """Lay an outcome out for the wire."""
    stages = sorted(outcome.dense)
    arrays = [*outcome.gradients.values(), *(outcome.dense[i] for i in stages), np.asarray(outcome.prediction)]
    return Message({"gradients": list(outcome.gradients), "stages": stages, "loss": outcome.loss}, arrays)


def unpack_outcome(message: Message) -> StageOutcome:
    """Inverse of :func:`pack_outcome`; copies, as the receive buffer is used again."""
    head, arrays = message.head, [array.copy() for array in message.arrays]
    gradients = {name: arrays.pop(0) for name in head["gradients"]}
    dense = {i: arrays.pop(0) for i in head["stages"]}
    return StageOutcome(gradients, dense, head["loss"], arrays.pop(0))
