"""Gradients that a stage leaves with the holder: counted once, in the push that names them."""

import numpy as np
import pytest

from heterps.data import Batch
from heterps.errors import RunError
from heterps.kernels.random import batch_seed
from heterps.protocol.words.keys import BatchKey
from heterps.protocol.words.modes import Async
from heterps.runtime.batch.bench import Workbench
from heterps.runtime.batch.crossing import StageOutcome
from heterps.runtime.batch.devices import DeviceWish
from heterps.runtime.batch.job import Job
from heterps.runtime.batch.model import Model
from heterps.runtime.batch.payload import Pulled, PushedGradients
from heterps.runtime.workers.stage_holder import StageHolder
from tests.unit.runtime.workers.test_stage import N, feeds, graph

JOB = Job(
    Model(graph()),
    N,
    Async(),
    hosts=2,
    holder=True,
    stages=(("x", "y"), ("fc", "hidden"), ("out", "loss")),
    devices=DeviceWish("cpu"),
)
FIRST, SECOND = 4 * 5 + 5, 5 + 1  # parameters of the two stages


def test_a_push_has_what_was_given_and_what_was_kept() -> None:
    holder = StageHolder(JOB)
    holder.keep(7, 1, np.full(FIRST, 2, np.float32), {}, holder.mark)
    holder.keep(8, 1, np.full(FIRST, 3, np.float32), {}, holder.mark)
    holder.keep(8, 2, np.full(SECOND, 5, np.float32), {}, holder.mark)
    given = np.ones(FIRST + SECOND, np.float32)
    both = holder.whole(PushedGradients({}, given, kept=(7, 8))).dense
    assert both.tolist() == [6.0] * (FIRST + SECOND)  # 1 + 2 + 3, and 1 + 5
    assert (given == 1).all()  # the sender's buffer is not touched
    alone = holder.whole(PushedGradients({}, None, kept=(7,)))
    assert alone.dense.sum() == 2 * FIRST
    assert alone.kept == ()
    assert holder.whole(PushedGradients({}, given)).dense is given


def test_they_are_there_until_the_push_counts_and_not_longer() -> None:
    holder = StageHolder(JOB)
    holder.keep(7, 1, np.ones(FIRST, np.float32), {}, holder.mark)
    for _ in range(2):  # one that is refused comes again
        holder.whole(PushedGradients({}, None, kept=(7,)))
    holder.forget((7, 99))
    with pytest.raises(RunError, match="has not left with the stage holder"):
        holder.whole(PushedGradients({}, None, kept=(7,)))
    holder.keep(7, 1, np.ones(FIRST, np.float32), {}, holder.mark)
    holder.clear()
    assert len(holder) == 0


def test_what_was_computed_before_everything_was_forgotten_is_not_taken() -> None:
    """A worker that was given up still computes from rows that the run has returned from."""
    holder = StageHolder(JOB)
    before = holder.mark
    holder.clear()
    holder.keep(7, 1, np.ones(FIRST, np.float32), {}, holder.mark)
    holder.keep(7, 1, np.full(FIRST, 9, np.float32), {}, before)
    assert holder.whole(PushedGradients({}, None, kept=(7,))).dense.sum() == FIRST


def test_what_the_holder_has_is_not_pushed_again() -> None:
    """The buffer may have a gradient of an earlier batch that another worker computed."""
    bench = Workbench(JOB)
    work = bench.begin(Batch(BatchKey(0, 0, 3), N, feeds()))
    work.pulled = {host: Pulled({}, {}, 0) for host in range(2)}
    bench.lead(work)
    work.gradient.fill(7)
    prediction = np.zeros(N, np.float32)
    bench.follow(work, StageOutcome({}, {2: np.ones(SECOND, np.float32)}, 0.5, prediction, kept=(1,)))
    pushed = bench.copy.settle(work.key, [work], 1)
    assert pushed.kept == (batch_seed(JOB.model.seed, 0, 0, 3),)
    assert sorted(pushed.dense.tolist()) == [0.0] * FIRST + [1.0] * SECOND
    assert bench.copy.settle(work.key, [work], 0).kept == ()
    bench.follow(work, StageOutcome({}, {}, 0.5, prediction, kept=(1, 2)))
    assert bench.copy.settle(work.key, [work], 1).dense is None


def test_the_holder_has_all_dense_parameters_and_no_shards() -> None:
    assert JOB.dense_ranges == ((0, 0), (0, 4))
    assert JOB.owned(1) == ()
    assert [JOB.is_holder(host) for host in (0, 1)] == [False, True]
    assert JOB.spec(1).stage_hosts == 1
