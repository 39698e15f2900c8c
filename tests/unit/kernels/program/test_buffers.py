"""Memory: nothing that grows with the batch is allocated once a program runs, and concats copy only raw inputs."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

from heterps.graph import Graph, ops
from heterps.kernels import Program, Rows
from heterps.kernels.ops.rows import Lists
from heterps.kernels.warm import _graphs, _value
from heterps.stages.lowering import lower
from tests.unit.kernels.program.test_program import SMALL, batch, model, params

# NumPy's buffered loops take up to 8192 numbers per operand, whatever the batch: so two larger batches are compared.
SIZES = (8192, 32768)
SMALLER = (4096, 12288)  # where every sample meets every other
NOTHING = 4096  # bytes; one byte per sample of the difference would be six times as much


def allocated(program: Program, feeds: dict[str, Any], flat: np.ndarray) -> int:
    """Peak bytes that one more batch allocates."""

    def step() -> None:
        program.forward(feeds, flat, seed=3)
        program.backward()

    for _ in range(3):
        step()
    tracemalloc.start()
    try:
        step()
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        step()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


def as_float32(feeds: dict[str, Any]) -> dict[str, Any]:
    def convert(x: Any) -> Any:
        return Rows(x.values.astype(np.float32), x.inverse) if isinstance(x, Rows) else x.astype(np.float32)

    return {name: convert(x) for name, x in feeds.items()}


@pytest.mark.parametrize("name", SMALL)
def test_a_running_model_allocates_nothing_that_grows_with_the_batch(name: str) -> None:
    graph, peaks = model(name), []
    for n in SIZES:
        program = Program(graph, batch_size=n)
        peaks.append(allocated(program, as_float32(batch(graph, n)), params(program).astype(np.float32)))
    assert peaks[1] - peaks[0] < NOTHING


def big(value: Any, n: int) -> Any:
    """The tiny feeds of the warm-up, repeated to n rows."""
    if isinstance(value, Rows):
        fixed, lists = (np.tile(i, (n // 2,) + (1,) * (i.ndim - 1)) for i in value.inverse)
        return Rows(value.values, (fixed, lists), (None, np.append(np.arange(0, len(lists), 2), len(lists))))
    assert not isinstance(value, Lists)
    return np.tile(value, (n // 2,) + (1,) * (value.ndim - 1))


@pytest.mark.parametrize("which", range(len(_graphs())))
def test_no_kind_of_op_allocates_anything_that_grows_with_the_batch(which: int) -> None:
    graph, peaks = _graphs()[which], []
    squared = any(op.kind == "in_batch_softmax" for op in graph)
    for n in SMALLER if squared else SIZES:
        program = Program(graph, batch_size=n)
        feeds = {name: big(_value(graph, graph[name]), n) for name in program.feeds}
        peaks.append(allocated(program, feeds, np.full(program.layout.size, 0.1, np.float32)))
    assert peaks[1] - peaks[0] < NOTHING


def test_the_measure_sees_an_array_of_one_byte_per_sample() -> None:
    program = Program(model("wide_deep"), batch_size=SIZES[0])
    feeds = as_float32(batch(program.graph, SIZES[0]))
    flat, forward = params(program).astype(np.float32), program.forward

    def wasteful(*args: Any, **kwargs: Any) -> Any:
        kept = np.ones(SIZES[0], np.int8)
        return forward(*args, **kwargs), kept

    lean = allocated(program, feeds, flat)
    program.forward = wasteful  # type: ignore[method-assign]
    assert allocated(program, feeds, flat) - lean > NOTHING


def test_gathered_rows_are_written_into_the_concat_and_raw_columns_get_no_gradient() -> None:
    graph = model("wide_deep")
    program = Program(graph, batch_size=8)
    feeds = batch(graph, 8)
    program.forward(feeds, params(program))
    program.backward()
    calls = program.calls()
    (lookup,) = [c for c in calls.values() if c.attrs.get("pooling") == "none"]
    features = calls["features"]
    assert np.shares_memory(lookup.y, features.y)
    assert np.shares_memory(lookup.dy, features.dy)
    assert features.dy.shape == (8, 12)  # 3 slots of 4; the 2 raw numbers are left out
    assert calls["relu0"].dx_columns == slice(0, 12)
    assert "fc0" not in calls
    assert "wide_sum" in calls
    assert len([c for c in calls.values() if "columns" in c.attrs]) == 2


def test_an_output_that_leaves_the_program_is_not_fused_away() -> None:
    x, y = ops.input("x", shape=(3,)), ops.input("y")
    hidden = ops.dense(x, 2, name="hidden")
    loss = ops.logloss(ops.dense(ops.relu(hidden, name="active"), 1), y)
    graph = Graph(loss=loss, outputs={"vectors": hidden})
    program = Program(graph, batch_size=2)
    data = {"x": np.ones((2, 3), np.float32), "y": np.ones(2, np.float32)}
    flat = np.full(program.layout.size, -0.1, np.float32)
    results = program.forward(data, flat)
    np.testing.assert_allclose(results["hidden"], -0.4, rtol=1e-6)


def test_row_gradients_go_where_the_caller_says_even_over_the_rows() -> None:
    graph = lower(Graph(loss=_pooled_sum())).graph
    program = Program(graph, batch_size=2)
    (pull,) = [op.name for op in graph if op.kind == "pull"]
    values = np.ones((3, 2), np.float32)
    feeds = {pull: Rows(values, (np.array([[0, 1], [1, 1]], np.int32),)), "y": np.zeros(2, np.float32)}
    program.forward(feeds, np.empty(0, np.float32))
    expected = program.backward().inputs[pull].copy()
    got = program.backward(rows={pull: values}).inputs[pull]
    assert got is values
    np.testing.assert_array_equal(values, expected)
    assert np.any(expected)


def _pooled_sum() -> Any:
    ids, y = ops.input("ids", (2,), "uint64"), ops.input("y")
    return ops.logloss(ops.sum(ops.lookup(ids, table="t", dim=2)), y)
