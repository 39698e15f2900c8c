"""Programs over whole graphs and parts of them."""

from __future__ import annotations

import importlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import heterps as hps
from heterps import ops
from heterps.device import namespace
from heterps.errors import DataError, GraphError
from heterps.graph import OpKind, TensorType, register_kind
from heterps.kernels import Call, Kernel, Program, Rows, batch_seed, kernels, register_kernel
from heterps.kernels.cost import passes
from heterps.kernels.jit import LOOPS
from heterps.kernels.warm import warm
from heterps.stages.lowering import lower

SMALL = {
    "wide_deep": {"slots": 3, "dense": 2, "dim": 4, "hidden": (5, 4)},
    "deepfm": {"slots": 3, "dense": 2, "dim": 4, "hidden": (5, 4)},
    "dlrm": {"slots": 3, "dense": 2, "dim": 4, "bottom": (5,), "top": (6, 4)},
    "dcn_v2": {"slots": 3, "dense": 2, "dim": 4, "crosses": 2, "rank": 2, "hidden": (5, 4)},
    "ctrdnn": {"slots": 3, "dense": 2, "dim": 4, "hidden": (5, 4, 3)},
}


def model(name: str) -> hps.Graph:
    return lower(getattr(importlib.import_module(f"graphs.{name}"), name)(**SMALL[name])).graph


def batch(graph: hps.Graph, n: int, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    feeds: dict[str, Any] = {}
    for op in graph:
        if op.kind == "pull":
            ids = graph[op.inputs[0]].type
            values = rng.standard_normal((7, op.attrs["width"]))
            feeds[op.name] = Rows(values, (rng.integers(0, 7, (n, *ids.shape)).astype(np.int32),))
        elif op.kind == "input" and op.type.dtype == "float32":
            feeds[op.name] = rng.standard_normal((n, *op.type.shape))
    feeds["y"] = (feeds["y"] > 0).astype(float)
    return feeds


def params(program: Program, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(program.layout.size) * 0.5


@pytest.mark.parametrize("name", SMALL)
def test_gradients_of_whole_models_are_central_differences(name: str) -> None:
    graph = model(name)
    program = Program(graph, batch_size=6, dtype="float64")
    feeds, flat = batch(graph, 5), params(program)
    program.forward(feeds, flat)
    result = program.backward()
    dense = result.dense.copy()
    (pull,) = [n for n, v in feeds.items() if isinstance(v, Rows)]
    assert set(result.inputs) == {pull}
    rows = result.inputs[pull].copy()

    def loss(flat: np.ndarray, values: np.ndarray) -> float:
        program.forward({**feeds, pull: Rows(values, feeds[pull].inverse)}, flat)
        return program.loss

    values = feeds[pull].values
    for where in np.random.default_rng(0).choice(dense.size, min(40, dense.size), replace=False):
        step = np.zeros_like(flat)
        step[where] = 1e-6
        slope = (loss(flat + step, values) - loss(flat - step, values)) / 2e-6
        assert dense[where] == pytest.approx(slope, rel=1e-4, abs=1e-8)
    for where in np.ndindex(values.shape):
        step = np.zeros_like(values)
        step[where] = 1e-6
        slope = (loss(flat, values + step) - loss(flat, values - step)) / 2e-6
        assert rows[where] == pytest.approx(slope, rel=1e-4, abs=1e-8)


@pytest.mark.parametrize("name", SMALL)
def test_two_parts_equal_the_whole_wherever_the_cut_is(name: str) -> None:
    graph = model(name)
    whole = Program(graph, batch_size=5, dtype="float64")
    feeds, flat = batch(graph, 5), params(whole)
    whole.forward(feeds, flat)
    expected = whole.backward()
    named = {piece.name: flat[piece.span].reshape(piece.shape) for piece in whole.layout}
    names = [op.name for op in graph]
    for cut in range(1, len(names)):
        head = Program(graph, names[:cut], batch_size=5, dtype="float64")
        tail = Program(graph, names[cut:], batch_size=5, dtype="float64")
        crossing = dict(head.forward({k: feeds[k] for k in head.feeds}, named)) if head.scope.steps else {}
        tail.forward({k: crossing[k] if k in crossing else feeds[k] for k in tail.feeds}, named)
        assert tail.loss == whole.loss
        after = tail.backward()
        before = head.backward({k: after.inputs[k] for k in head.given}) if head.scope.steps else None
        dense = np.zeros(whole.layout.size)
        for part, gradients in ((tail, after), (head, before)):
            for here, there in whole.layout.spans(part.layout) if gradients else ():
                dense[here] = gradients.dense[there]
        np.testing.assert_allclose(dense, expected.dense, rtol=1e-12, atol=1e-14)
        for name_, rows in expected.inputs.items():
            parts = [g.inputs[name_] for g in (after, before) if g and name_ in g.inputs]
            np.testing.assert_allclose(sum(parts), rows, rtol=1e-12, atol=1e-14)


def test_a_smaller_batch_uses_the_front_of_the_buffers() -> None:
    graph = model("wide_deep")
    big, exact = (Program(graph, batch_size=b, dtype="float64") for b in (8, 3))
    feeds, flat = batch(graph, 3), params(big)
    big.forward(batch(graph, 8, 5), flat)
    big.backward()
    for program in (big, exact):
        program.forward(feeds, flat)
    assert big.loss == exact.loss
    np.testing.assert_array_equal(big.prediction, exact.prediction)
    np.testing.assert_array_equal(big.backward().dense, exact.backward().dense)


def test_prediction_needs_no_label() -> None:
    graph = model("wide_deep")
    program = Program(graph, batch_size=4)
    feeds, flat = batch(graph, 4), params(program)
    program.forward(feeds, flat, train=False)
    expected = program.prediction.copy()
    del feeds["y"]
    program.forward(feeds, flat, train=False)
    np.testing.assert_allclose(program.prediction, expected, rtol=1e-6)


def test_read_only_feeds_are_read_in_place_and_compile_nothing() -> None:
    warm()
    graph = model("deepfm")
    program = Program(graph, batch_size=4)
    feeds = {name: _float32(value) for name, value in batch(graph, 4).items()}
    flat = params(program).astype(np.float32)
    program.forward(feeds, flat)
    expected = program.backward().dense.copy()
    before = {name: len(loop.signatures) for name, loop in LOOPS.items()}
    for value in feeds.values():
        for array in (value.values, *value.inverse) if isinstance(value, Rows) else (value,):
            array.flags.writeable = False
    flat.flags.writeable = False
    locked = Program(graph, batch_size=4)
    locked.forward(feeds, flat)
    np.testing.assert_array_equal(locked.backward().dense, expected)
    assert {name: len(loop.signatures) for name, loop in LOOPS.items()} == before


def _float32(value: Any) -> Any:
    if isinstance(value, Rows):
        return Rows(value.values.astype(np.float32), value.inverse)
    return value.astype(np.float32)


def test_mistakes_are_named() -> None:
    graph = model("wide_deep")
    program = Program(graph, batch_size=4)
    feeds, flat = batch(graph, 4), params(program)
    with pytest.raises(GraphError, match="has not run forward"):
        program.backward()
    with pytest.raises(DataError, match="forward lacks the feed 'x'"):
        program.forward({k: v for k, v in feeds.items() if k != "x"}, flat)
    with pytest.raises(DataError, match="no feed was given; the program needs pull"):
        program.forward({}, flat)
    with pytest.raises(DataError, match="has 5 rows, the program was made for 4"):
        program.forward(batch(graph, 5), flat)
    with pytest.raises(DataError, match=r"feed 'x' has shape \(3,\) per sample, expected \(2,\)"):
        program.forward({**feeds, "x": np.ones((4, 3))}, flat)
    with pytest.raises(DataError, match="feed 'y' has 3 rows, others have 4"):
        program.forward({**feeds, "y": np.ones(3)}, flat)
    with pytest.raises(GraphError, match=r"must have shape \(\d+,\), got \(2,\)"):
        program.forward(feeds, np.zeros(2))
    program.forward(feeds, flat)
    with pytest.raises(GraphError, match="must be a float32 array"):
        program.backward(out=np.zeros(program.layout.size))
    with pytest.raises(GraphError, match="writable and contiguous"):
        program.backward(out=np.zeros(2 * program.layout.size, np.float32)[::2])
    with pytest.raises(GraphError, match="batch_size must be at least 1"):
        Program(graph, batch_size=0)
    with pytest.raises(GraphError, match="no op 'nothing'"):
        Program(graph, ["nothing"], batch_size=1)
    head = Program(graph, [op.name for op in graph][:-2], batch_size=4)
    head.forward({k: feeds[k] for k in head.feeds}, head_params(head))
    with pytest.raises(GraphError, match="backward needs the gradient of"):
        head.backward()


def head_params(program: Program) -> np.ndarray:
    return np.zeros(program.layout.size)


def test_dropout_depends_on_seed_and_op_only() -> None:
    x, y = ops.input("x", shape=(50,)), ops.input("y")
    a, b = ops.dropout(x, 0.5, name="a"), ops.dropout(x, 0.5, name="b")
    graph = hps.Graph(loss=ops.logloss(ops.dense(ops.add(a, b), 1), y), outputs={"a": a, "b": b})
    programs = [Program(graph, batch_size=n) for n in (20, 32)]
    feeds = {"x": np.ones((20, 50), np.float32), "y": np.ones(20, np.float32)}
    flat = np.full(51, 0.1, np.float32)

    def masks(program: Program, **options: Any) -> tuple[np.ndarray, np.ndarray]:
        results = program.forward(feeds, flat, **options)
        return results["a"].copy(), results["b"].copy()

    first = masks(programs[0], seed=1)
    np.testing.assert_array_equal(first, masks(programs[1], seed=1))
    assert not np.array_equal(first[0], first[1])
    assert not np.array_equal(first[0], masks(programs[0], seed=2)[0])
    assert set(np.unique(first[0])) == {0.0, 2.0}
    assert 0.4 < np.mean(first[0] > 0) < 0.6
    np.testing.assert_array_equal(masks(programs[0], seed=1, train=False), np.ones((2, 20, 50)))
    assert batch_seed(1, 2, 3, 4) == batch_seed(1, 2, 3, 4) != batch_seed(1, 2, 3, 5)


def test_not_a_number_is_never_hidden() -> None:
    x, y = ops.input("x", shape=(2,)), ops.input("y")
    graph = hps.Graph(loss=ops.logloss(ops.dense(ops.relu(ops.dense(x, 3)), 1), y))
    for options in ({}, {"loops": False}, {"fused": False}):
        program = Program(graph, batch_size=2, **options)
        feeds = {"x": np.array([[1, np.nan], [1, 1]], np.float32), "y": np.ones(2, np.float32)}
        program.forward(feeds, np.full(program.layout.size, 0.1, np.float32))
        assert np.isnan(program.loss)


def test_two_threads_with_a_program_each_give_the_bits_of_one() -> None:
    graph = model("dlrm")
    feeds = [{k: _float32(v) for k, v in batch(graph, 64, seed).items()} for seed in (0, 1)]

    def run(which: int) -> list[np.ndarray]:
        program = Program(graph, batch_size=64)
        flat, results = params(program).astype(np.float32), []
        for _ in range(20):
            program.forward(feeds[which], flat)
            results.append(program.backward().dense.copy())
        return results

    alone = [run(0), run(1)]
    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(run, (0, 1)))
    np.testing.assert_array_equal(alone, together)


def test_steps_can_be_timed() -> None:
    graph = model("wide_deep")
    program = Program(graph, batch_size=4)
    spent: dict[str, float] = {}
    ticks = iter(range(10_000))
    with program.timed(spent, lambda: next(ticks)):
        program.forward(batch(graph, 4), params(program))
        program.backward()
    assert spent["relu0 forward"] == spent["relu0 backward"] == 1
    count = len(spent)
    program.forward(batch(graph, 4), params(program))
    assert len(spent) == count


def test_lists_without_pooling_reach_kinds_from_outside_and_their_gradient_comes_back() -> None:
    program = _ragged_model()
    rows = Rows(np.arange(6.0).reshape(3, 2), (np.array([0, 1, 1, 2], np.int32),), (np.array([0, 3, 3, 4]),))
    program.forward({"pull t": rows, "y": np.zeros(3)}, np.empty(0))
    assert program.loss == pytest.approx(np.mean([(0 + 1 + 2 + 3 + 2 + 3) ** 2, 0, (4 + 5) ** 2]))
    gradient = program.backward().inputs["pull t"]
    np.testing.assert_allclose(gradient, np.array([11, 11 + 11, 9])[:, None] * np.ones(2) * 2 / 3)


def _ragged_model() -> Program:
    """A kind that sums a ragged tensor per sample: what sequence kinds outside the package would do."""

    def infer(attrs: Any, inputs: Any) -> TensorType:
        return TensorType(())

    def forward(c: Call) -> None:
        sums = np.append(0, np.cumsum(c.xs[0].values.sum(axis=1)))
        c.y[...] = sums[c.xs[0].offsets[1:]] - sums[c.xs[0].offsets[:-1]]

    def backward(c: Call) -> None:
        lengths = np.diff(c.xs[0].offsets)
        c.dxs[0].values[...] += np.repeat(c.dy, lengths)[:, None]

    if "tests.list_sum" not in kernels():
        register_kind(OpKind("tests.list_sum", infer))
        register_kernel("tests.list_sum", Kernel(passes(1), forward, backward))
    ids, y = ops.input("ids", (), "uint64", ragged=True), ops.input("y")
    rows = ops.lookup(ids, table="t", dim=2)
    graph = lower(hps.Graph(loss=ops.mse(ops.build("tests.list_sum", rows), y))).graph
    return Program(graph, batch_size=3, dtype="float64")


@pytest.mark.parametrize("device", ["cpu", "fake"])
def test_a_vector_changed_in_place_is_seen(device: str) -> None:
    graph = model("ctrdnn")
    program = Program(graph, batch_size=4, dtype="float64", xp=namespace(device))
    feeds, flat = batch(graph, 4), params(program)
    losses = []
    for vector in (flat, flat, np.repeat(flat, 2)[::2]):
        program.forward(feeds, vector)
        losses.append(program.loss)
        vector *= 0.5
        program.forward(feeds, vector)
        losses.append(program.loss)
    assert losses[1] != losses[0]
    assert losses[1] == losses[2]
    assert losses[4] == losses[0]
    assert losses[5] != losses[4]


@pytest.mark.parametrize("name", ["wide_deep", "dlrm", "dcn_v2"])
def test_gradients_are_complete_from_where_backward_has_reached(name: str) -> None:
    graph = model(name)
    program = Program(graph, batch_size=4, dtype="float64")
    out, seen = np.full(program.layout.size, np.nan), []
    program.forward(batch(graph, 4), params(program))
    final = program.backward().dense.copy()
    program.forward(batch(graph, 4), params(program))
    program.backward(out=out, reached=lambda low: seen.append((low, np.array_equal(out[low:], final[low:]))))
    lows = [low for low, _ in seen]
    assert all(whole for _, whole in seen)
    assert lows == sorted(lows, reverse=True)
    assert lows[-1] == 0
    assert len(set(lows)) > 2  # the last layers are there long before the first
