"""Programs over whole graphs and parts of them."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import heterps as hps
from heterps.kernels import Program, Rows
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
