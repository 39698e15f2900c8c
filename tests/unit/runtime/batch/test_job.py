"""Stages through which no batch can go are refused by name."""

import pytest

from heterps.errors import PlanError
from heterps.protocol.words.modes import Async
from heterps.runtime.batch.job import Job
from heterps.runtime.batch.model import Model
from heterps.testing.small_model import graph

MODEL = Model(graph())
OPS = tuple(op.name for op in MODEL.lowered.graph)
CUT = OPS.index("hidden")


def job(*stages: tuple[str, ...]) -> Job:
    return Job(MODEL, 8, Async(), stages=stages)


def test_stages_in_order_are_taken() -> None:
    assert not job(OPS[:CUT], OPS[CUT:]).fused
    assert not job(("ids", "x", "y"), tuple(op for op in OPS[:CUT] if op not in "ids x y"), OPS[CUT:]).fused


@pytest.mark.parametrize(
    ("stages", "named"),
    [
        ((OPS[CUT:], OPS[:CUT]), "stage 0 of the plan reads .*which stage 1 computes"),
        ((OPS[:CUT], OPS[CUT:-1]), "no stage of the plan runs op 'loss'"),
        ((OPS[: CUT + 1], OPS[CUT:]), "op 'hidden' runs in stage 0 of the plan and again in stage 1"),
    ],
)
def test_others_are_refused(stages: tuple[tuple[str, ...], ...], named: str) -> None:
    with pytest.raises(PlanError, match=named):
        job(*stages)
