"""A compute stage: what it gives back is what one program gives, and waiting for others holds nobody up."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from heterps.errors import HeterpsError
from heterps.graph import Graph, ops
from heterps.kernels import Program
from heterps.kernels.program.param_layout import ParamLayout
from heterps.protocol.words.modes import Async
from heterps.runtime.batch.crossing import StageOutcome
from heterps.runtime.batch.job import Job
from heterps.runtime.batch.model import Model
from heterps.runtime.batch.stage_params import StageParams
from heterps.runtime.workers.stage import StageService

N = 6


def graph() -> Graph:
    x, y = ops.input("x", shape=(4,)), ops.input("y")
    hidden = ops.relu(ops.dense(x, 5, name="fc"), name="hidden")
    return Graph(loss=ops.logloss(ops.dense(hidden, 1, name="out"), y, name="loss"))


JOB = Job(Model(graph()), N, Async(), stages=(("x", "y"), ("fc", "hidden"), ("out", "loss")))
WHOLE = Program(JOB.model.lowered.graph, batch_size=N)
FLAT = np.linspace(-1, 1, WHOLE.layout.size).astype(np.float32)


class Source:
    """Dense parameters of the whole model, of which a stage takes its own."""

    def fill(self, layout: ParamLayout, params: StageParams) -> None:
        for piece in layout:
            params.flat[piece.span] = FLAT[WHOLE.layout[piece.name].span]

    def holder(self) -> None:
        """Gradients go back with the outcome."""


def feeds(seed: int = 3) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        "x": rng.standard_normal((N, 4)).astype(np.float32),
        "y": (rng.random(N) < 0.5).astype(np.float32),
    }


def stages(slots: int = 1, between: Any = None) -> StageService:
    """Return the first compute stage with the second behind it."""
    last = StageService(JOB, 2, Source())

    def behind(seed: int, given: Mapping[str, Any]) -> StageOutcome:
        if between is not None:
            between()
        return last.step(seed, given)

    return StageService(JOB, 1, Source(), behind, slots)


def test_two_stages_give_what_one_program_gives() -> None:
    outcome = stages().step(0, feeds())
    WHOLE.forward(feeds(), FLAT, seed=0)
    dense = WHOLE.backward().dense
    expected = {piece.name: dense[piece.span] for piece in WHOLE.layout}
    assert outcome.loss == pytest.approx(WHOLE.loss)
    np.testing.assert_allclose(outcome.prediction, WHOLE.prediction, rtol=1e-6)
    found = {}
    for index, gradient in outcome.dense.items():
        layout = Program(JOB.model.lowered.graph, JOB.stages[index], batch_size=N).layout
        found |= {piece.name: gradient[piece.span] for piece in layout}
    assert set(found) == set(expected)
    for name, gradient in expected.items():
        np.testing.assert_allclose(found[name], gradient, rtol=1e-5, atol=1e-7)


def test_a_step_can_be_repeated() -> None:
    stage = stages()
    first, second = stage.step(5, feeds()), stage.step(5, feeds())
    assert first.loss == second.loss
    assert all(np.array_equal(first.dense[i], second.dense[i]) for i in first.dense)
    assert stage.steps == 2


def test_who_waits_for_the_stages_behind_lets_others_compute() -> None:
    both = threading.Barrier(2)  # passed only if two batches are behind at once, though one slot computes
    stage = stages(slots=1, between=lambda: both.wait(timeout=60))
    found: list[float] = []
    threads = [threading.Thread(target=lambda: found.append(stage.step(0, feeds()).loss)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert len(set(found)) == 1
    assert len(found) == 2


def test_an_error_names_op_and_stage_and_the_stage_goes_on() -> None:
    stage = StageService(JOB, 2, Source(), where="worker compute-1")
    hidden = np.ones((N, 5), np.float32)
    with pytest.raises(HeterpsError, match="stage 2 on worker compute-1"):
        stage.step(0, {"hidden": hidden[:, :3], "y": feeds()["y"]})
    assert np.isfinite(stage.step(0, {"hidden": hidden, "y": feeds()["y"]}).loss)
