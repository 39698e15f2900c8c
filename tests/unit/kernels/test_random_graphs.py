"""Random graphs: the compiled program against one-sample-at-a-time evaluation, and every way of running it."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings, strategies as st

from heterps.device import namespace, to_host
from heterps.graph import Graph, ops
from heterps.graph.tensor import Tensor
from heterps.kernels import Program, Rows
from tests.unit.kernels.reference import evaluate

EXAMPLES = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
SLOTS, LISTS, WIDTH = 3, 2, 5


def sources() -> list[Tensor]:
    """Raw numbers and gathered rows in all their forms, on a graph that is lowered already."""
    fixed, lists = ops.input("fixed", (SLOTS,), "uint64"), ops.input("lists", (), "uint64", ragged=True)
    rows = ops.build("pull", fixed, lists, name="pull", group="g", width=WIDTH, tables=("g",))
    gathered = [
        ops.build("gather_pool", rows, fixed, columns=(0, 4), source=0, pooling="none"),
        ops.build("gather_pool", rows, fixed, columns=(4, 5), source=0, pooling="none"),
        ops.build("gather_pool", rows, lists, columns=(1, 5), source=1, pooling="mean"),
        ops.build("gather_pool", rows, fixed, columns=(0, 4), source=0, pooling="max"),
    ]
    return [ops.input("x", shape=(4,)), *gathered]


def flat(t: Tensor) -> Tensor:
    return ops.reshape(t, (-1,))


def vector(t: Tensor) -> Tensor:
    return t if len(t.shape) == 1 else flat(t)


@st.composite
def graphs(draw: Any) -> Graph:
    """A random model: each step applies a random kind to tensors made before (results may be read many times)."""
    pool = sources()
    for _ in range(draw(st.integers(1, 10))):
        a, b = draw(st.sampled_from(pool)), draw(st.sampled_from(pool))
        pool.append(_apply(draw(st.sampled_from(sorted(STEPS))), a, b))
    ends = draw(st.lists(st.sampled_from(pool[1:]), min_size=1, max_size=3))
    top = ops.dense(ops.concat(*ends, pool[-1]), 1)
    extra = ops.add(ops.sum(pool[2]), top) if draw(st.booleans()) else top
    return Graph(loss=ops.logloss(extra, ops.input("y")))


def _apply(step: str, a: Tensor, b: Tensor) -> Tensor:
    return STEPS[step](a, b)


STEPS = {
    "dense": lambda a, b: ops.dense(vector(a), 4),
    "dense_relu": lambda a, b: ops.relu(ops.dense(vector(a), 4)),
    "dense_relu_on_matrix": lambda a, b: ops.relu(ops.dense(ops.reshape(ops.dense(vector(a), 6), (2, 3)), 4)),
    "relu": lambda a, b: ops.relu(a),
    "tanh": lambda a, b: ops.tanh(a),
    "sigmoid": lambda a, b: ops.sigmoid(a),
    "layer_norm": lambda a, b: ops.layer_norm(ops.concat(a, b)),
    "concat": lambda a, b: ops.concat(a, b),
    "concat_twice": lambda a, b: ops.concat(a, b, a),
    "split": lambda a, b: ops.split(ops.concat(a, b), (1, ops.concat(a, b).shape[0] - 1))[1],
    "sum": lambda a, b: ops.sum(a, keepdims=True),
    "mean": lambda a, b: ops.mean(a),
    "add": lambda a, b: ops.add(a, ops.mean(b)),
    "mul": lambda a, b: ops.mul(ops.tanh(a), ops.mean(ops.tanh(b))),
    "sub": lambda a, b: ops.sub(a, a) if a is b else ops.sub(ops.sum(a), ops.sum(b)),
    "cross": lambda a, b: ops.cross(ops.dense(vector(a), 3), ops.dense(vector(b), 3)),
    "dots": lambda a, b: ops.dot_interaction(ops.dense(vector(a), 3), ops.reshape(ops.dense(vector(b), 6), (2, 3))),
    "fm": lambda a, b: ops.fm(ops.reshape(ops.dense(vector(a), 6), (2, 3))),
}


def data(n: int, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(0, 4, n))])
    inverse = (rng.integers(0, 6, (n, SLOTS)).astype(np.int32), rng.integers(0, 6, offsets[-1]).astype(np.int32))
    return {
        "x": rng.standard_normal((n, 4)),
        "y": rng.integers(0, 2, n).astype(float),
        "pull": Rows(rng.standard_normal((6, WIDTH)), inverse, (None, offsets)),
    }


def run(program: Program, feeds: dict[str, Any], params: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    program.forward({name: feeds[name] for name in program.feeds}, params)
    gradients = program.backward()
    rows = gradients.inputs.get("pull")
    return program.loss, to_host(gradients.dense).copy(), 0 if rows is None else to_host(rows).copy()


def start(program: Program, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(program.layout.size) * 0.4


@given(graph=graphs(), seed=st.integers(0, 99), n=st.integers(1, 5))
@EXAMPLES
def test_loss_and_slope_agree_with_one_sample_at_a_time(graph: Graph, seed: int, n: int) -> None:
    program = Program(graph, batch_size=5, dtype="float64")
    feeds, flat_params = data(n, seed), start(program, seed)
    loss, dense, rows = run(program, feeds, flat_params)

    def reference(step: float) -> float:
        moved = flat_params + step * direction
        named = {p.name: moved[p.span].reshape(p.shape) for p in program.layout}
        pull = feeds["pull"]
        shifted = Rows(pull.values + step * row_direction, pull.inverse, pull.offsets)
        return evaluate(graph, {**feeds, "pull": shifted}, named, n)

    rng = np.random.default_rng(seed + 1)
    direction, row_direction = rng.standard_normal(dense.shape), rng.standard_normal((6, WIDTH))
    np.testing.assert_allclose(loss, reference(0.0), rtol=1e-9, atol=1e-11)
    slope = (reference(1e-6) - reference(-1e-6)) / 2e-6
    np.testing.assert_allclose(np.sum(dense * direction) + np.sum(rows * row_direction), slope, rtol=2e-3, atol=1e-6)


@given(graph=graphs(), seed=st.integers(0, 99))
@EXAMPLES
def test_fused_unfused_looped_and_device_programs_agree(graph: Graph, seed: int) -> None:
    plain = Program(graph, batch_size=4, dtype="float64", loops=False, fused=False)
    feeds, flat_params = data(4, seed), start(plain, seed)
    expected = run(plain, feeds, flat_params)
    for options in ({"fused": False}, {"loops": False}, {}, {"xp": namespace("fake")}):
        program = Program(graph, batch_size=4, dtype="float64", **options)
        for got, wanted in zip(run(program, feeds, flat_params), expected, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-11)


@given(graph=graphs(), seed=st.integers(0, 99), data_=st.data())
@EXAMPLES
def test_any_cut_gives_the_same(graph: Graph, seed: int, data_: st.DataObject) -> None:
    whole = Program(graph, batch_size=4, dtype="float64")
    feeds, flat_params = data(4, seed), start(whole, seed)
    loss, dense, rows = run(whole, feeds, flat_params)
    names = [op.name for op in graph]
    cut = data_.draw(st.integers(1, len(names) - 1))
    head, tail = (Program(graph, part, batch_size=4, dtype="float64") for part in (names[:cut], names[cut:]))
    named = {p.name: flat_params[p.span].reshape(p.shape) for p in whole.layout}
    crossing = head.forward({k: feeds[k] for k in head.feeds}, named) if head.feeds else {}
    tail.forward({k: crossing[k] if k in crossing else feeds[k] for k in tail.feeds}, named)
    np.testing.assert_allclose(tail.loss, loss, rtol=1e-12)
    after = tail.backward()
    parts = [(tail, after)]
    if head.feeds:
        parts.append((head, head.backward({k: after.inputs[k] for k in head.given})))
    got, got_rows = np.zeros_like(dense), np.zeros((6, WIDTH))
    for program, gradients in parts:
        got_rows += gradients.inputs.get("pull", 0)
        for here, there in whole.layout.spans(program.layout):
            got[here] = gradients.dense[there]
    np.testing.assert_allclose(got, dense, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(got_rows, rows if np.ndim(rows) else got_rows, rtol=1e-9, atol=1e-12)
