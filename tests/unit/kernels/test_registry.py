"""Kinds from outside the package come through the same door as the built-in ones."""

from __future__ import annotations

import numpy as np
import pytest

from heterps.errors import GraphError, UnknownKindError
from heterps.graph import Graph, OpKind, TensorType, ops, register_kind
from heterps.kernels import Call, Kernel, OpCost, OpWork, Program, kernel, kernels, register_kernel


def same(attrs, inputs: tuple[TensorType, ...]) -> TensorType:
    return inputs[0]


def softplus_forward(c: Call) -> None:
    c.xp.logaddexp(0, c.xs[0], out=c.y)


def softplus_backward(c: Call) -> None:
    if c.dxs[0] is not None:
        c.dxs[0][...] = c.dy / (1 + c.xp.exp(-c.xs[0]))


def softplus_cost(work: OpWork) -> OpCost:
    return OpCost(4 * work.numbers(work.output), work.bytes(work.output), work.bytes(work.output))


@pytest.fixture(scope="module")
def softplus() -> str:
    register_kind(OpKind("tests.softplus", same))
    register_kernel("tests.softplus", Kernel(softplus_cost, softplus_forward, softplus_backward))
    return "tests.softplus"


def test_a_foreign_kind_trains(softplus: str) -> None:
    x, y = ops.input("x", shape=(2,)), ops.input("y")
    graph = Graph(loss=ops.mse(ops.sum(ops.build(softplus, ops.dense(x, 3, name="fc"))), y))
    program = Program(graph, batch_size=2, dtype="float64")
    feeds = {"x": np.array([[1.0, 2.0], [0.5, -1.0]]), "y": np.array([1.0, 0.0])}
    flat = np.linspace(-1, 1, program.layout.size)
    program.forward(feeds, flat)
    got = program.backward().dense.copy()
    for i in range(flat.size):
        step = np.eye(flat.size)[i] * 1e-6
        losses = [program.forward(feeds, flat + s) and program.loss for s in (step, -step)]
        assert got[i] == pytest.approx((losses[0] - losses[1]) / 2e-6, rel=1e-5, abs=1e-8)


def test_a_kind_gets_one_kernel(softplus: str) -> None:
    assert softplus in kernels()
    register_kernel(softplus, kernel(softplus))  # the same again is no mistake
    with pytest.raises(GraphError, match="has a kernel already"):
        register_kernel("relu", Kernel(softplus_cost))


def test_unknown_kinds_are_named_with_their_neighbour() -> None:
    with pytest.raises(UnknownKindError, match="did you mean 'dense'"):
        register_kernel("dens", Kernel(softplus_cost))
    with pytest.raises(UnknownKindError, match=r"'denso' has no kernel; did you mean 'dense'.*register_kernel"):
        kernel("denso")
