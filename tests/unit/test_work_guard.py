"""A guard against slower training that no clock decides: what one more batch costs in calls and in fresh memory.

Counts are the same on a fast, slow or busy machine. They rise when somebody adds a loop over rows in Python, a copy of
the batch, or chatter between the parts of the engine.
"""

import sys
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from graphs.wide_deep import wide_deep
from heterps.data import arrays
from heterps.protocol.words.modes import Async
from heterps.runtime.batch.job import Job
from heterps.runtime.batch.model import Model
from heterps.runtime.run.inline_engine import InlineEngine
from heterps.tables import SGD, ElementAdaGrad

SLOTS, DENSE = 6, 3
NEVER = 1e9  # seconds between reports: they would add calls that depend on time


def trainer(batch: int) -> Callable[[int], None]:
    """Return a function that trains so many batches on ids the tables already hold."""
    model = Model(wide_deep(SLOTS, DENSE, dim=8, hidden=(32, 32)), sparse=ElementAdaGrad(lr=0.05), dense=SGD(lr=0.1))
    engine = InlineEngine(Job(model, batch, Async()), report_s=NEVER)

    def data(batches: int) -> Any:
        rng = np.random.default_rng(7)
        rows = batches * batch
        ids = rng.integers(1, 1000, (rows, SLOTS)).astype(np.uint64)
        return arrays({"x": rng.random((rows, DENSE)), "ids": ids, "y": (rng.random(rows) < 0.3).astype(np.float32)})

    made = {batches: data(batches) for batches in (8, 24)}
    for held in made.values():
        list(engine.train(held, 1))
    return lambda batches: list(engine.train(made[batches], 1))  # type: ignore[return-value]


def calls(run: Callable[[], None]) -> int:
    """Function calls, of Python and C functions, while ``run`` runs."""
    count = 0

    def watch(_frame: Any, event: str, _arg: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        run()
    finally:
        sys.setprofile(before)
    return count


def calls_per_batch(batch: int) -> float:
    # The difference of two lengths leaves out what a run costs once.
    train = trainer(batch)
    return (calls(lambda: train(24)) - calls(lambda: train(8))) / 16


def test_a_batch_costs_the_same_number_of_calls_whatever_its_size() -> None:
    small, large = calls_per_batch(64), calls_per_batch(1024)
    assert large == pytest.approx(small, rel=0.02)


def test_a_batch_stays_within_its_budget_of_calls() -> None:
    # At 1024 rows a Wide & Deep step takes tens of milliseconds; 1500 calls are about half a millisecond of it.
    assert calls_per_batch(64) < 1500


def test_training_known_ids_allocates_far_less_than_a_batch_per_batch() -> None:
    batch = 4096
    train = trainer(batch)
    tracemalloc.start()
    try:
        train(8)
        tracemalloc.reset_peak()
        base = tracemalloc.get_traced_memory()[0]
        train(24)
        peak = tracemalloc.get_traced_memory()[1] - base
    finally:
        tracemalloc.stop()
    activations = batch * (SLOTS * 8 + DENSE + 32 + 32) * 4
    assert peak < 1.5 * activations
