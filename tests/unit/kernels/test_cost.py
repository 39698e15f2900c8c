"""Costs: hand-computed examples, and what must hold for every kind."""

from __future__ import annotations

import pytest

from heterps.graph import Form, Graph, TensorType, kind, kinds, ops
from heterps.kernels import OpCost, OpWork, kernel, op_cost
from heterps.stages.lowering import lower


def cost(kind_name: str, *inputs: TensorType, batch: int = 10, unique: float = 1.0, **attrs) -> OpCost:
    known = kind(kind_name)
    full = known.complete(attrs)
    work = OpWork(full, inputs, known.result(full, inputs), known.params(full, inputs), batch, unique)
    return kernel(kind_name).cost(work)


def t(*shape: int) -> TensorType:
    return TensorType(shape)


IDS = TensorType((3,), "uint64")
LISTS = TensorType((), "uint64", Form.RAGGED, 2.5)

# flops, bytes read, bytes written, parameter bytes, for a batch of 10
EXAMPLES = {
    # y = xW + b: 2*10*4*5 three times, bias added and summed; x and y twice, W twice (forward, dx) and b
    "dense": (cost("dense", t(4), width=5), 6 * 10 * 20 + 2 * 50, 4 * (80 + 100 + 45), 4 * (40 + 50 + 25), 100),
    "dense without bias": (
        cost("dense", t(4), width=5, bias=False),
        6 * 10 * 20,
        4 * (80 + 100 + 40),
        4 * (40 + 50 + 20),
        80,
    ),
    "matmul": (cost("matmul", t(2, 3), t(3, 4)), 6 * 10 * 24, 4 * 10 * (36 + 16), 4 * 10 * (18 + 8), 0),
    # weight 3x3 and bias 3: 6*9 + 9*3 per sample
    "cross": (cost("cross", t(3), t(3)), 10 * (54 + 27), 4 * (270 + 24), 4 * (180 + 12), 48),
    "add": (cost("add", t(4), t(4)), 80, 4 * (80 + 40), 4 * (80 + 40), 0),
    "relu": (cost("relu", t(4)), 80, 4 * (80 + 40), 4 * (40 + 40), 0),
    "concat": (cost("concat", t(4), t(2)), 0, 4 * 120, 4 * 120, 0),
    "reshape": (cost("reshape", t(4), shape=(2, 2)), 0, 4 * 80, 4 * 80, 0),
    "sum": (cost("sum", t(4)), 40, 4 * (40 + 10), 4 * (40 + 10), 0),
    "layer_norm": (cost("layer_norm", t(4)), 17 * 40, 4 * (80 + 40 + 16), 4 * (40 + 40 + 8), 32),
    # 3 vectors of 4: 3 pairs, a multiply-add per column forward and two backward
    "dot_interaction": (cost("dot_interaction", t(3, 4)), 6 * 10 * 12, 4 * (240 + 30), 4 * (120 + 30), 0),
    "fm": (cost("fm", t(3, 4)), 5 * 120, 4 * (240 + 10), 4 * (120 + 10), 0),
    # 3x3 windows of 2 channels over 4x4 pixels: 18x3 weights, 16 windows a sample; laid out twice, put back once
    "conv2d": (
        cost("conv2d", t(4, 4, 2), channels=3, kernel=3, padding=1),
        6 * 160 * 54 + 2 * 160 * 3,
        4 * (2 * 320 + 2 * 480 + 3 * 160 * 18 + 57 + 54),
        4 * (320 + 480 + 3 * 160 * 18 + 57),
        4 * 57,
    ),
    "batch_norm": (cost("batch_norm", t(4)), 16 * 40, 4 * (80 + 40 + 32), 4 * (40 + 40 + 16), 64),
    "max_pool": (cost("max_pool", t(4, 4, 1), kernel=2, stride=2), 2 * 160, 4 * (160 + 40), 4 * (160 + 160 + 40), 0),
    "negative_sampling": (cost("negative_sampling", IDS, count=3, vocabulary=9), 0, 240, 240, 0),
    "input": (cost("input", shape=(4,)), 0, 160, 160, 0),
    # 30 positions, half of them unique, rows of 5: 75 numbers out and back, and 30 ids
    "pull": (cost("pull", IDS, unique=0.5, group="g", width=5, tables=("t",)), 0, 2 * 300 + 240, 600, 0),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_hand_computed(name: str) -> None:
    got, flops, read, written, parameters = EXAMPLES[name]
    assert got == OpCost(flops, read, written, parameters)


def test_gathering() -> None:
    rows = TensorType((3, 5), "float32", Form.ROWS)
    plain = cost("gather_pool", rows, IDS, columns=(0, 4))
    # 30 rows of 4 read, 120 numbers written; backward reads 120 and adds into 120; the index is read twice
    assert plain == OpCost(120, 4 * (240 + 120) + 2 * 120, 4 * (120 + 120))
    pooled = cost("gather_pool", rows, IDS, columns=(0, 4), pooling="sum")
    assert pooled.flops == 2 * plain.flops
    assert pooled.written_bytes == 4 * (40 + 120)
    ragged = cost("gather_pool", rows, LISTS, columns=(0, 4), pooling="sum")
    assert ragged.flops == 2 * 10 * 2.5 * 4


def test_a_lookup_costs_about_as_much_as_what_it_lowers_to() -> None:
    ids, y = ops.input("ids", (3,), "uint64"), ops.input("y")
    graph = Graph(loss=ops.logloss(ops.sum(ops.lookup(ids, table="t", dim=4, name="rows")), y))
    whole = op_cost(graph, "rows", 10, 0.5)
    lowered = lower(graph).graph
    parts = op_cost(lowered, "pull t", 10, 0.5) + op_cost(lowered, "rows", 10, 0.5)
    assert whole.flops == parts.flops
    assert whole.written_bytes == parts.written_bytes
    assert whole.read_bytes == parts.read_bytes - 2 * 4 * 30  # the inverse index exists only after lowering


def test_in_batch_softmax_compares_everything_with_everything() -> None:
    # scores, their slope for either side: 3 * 2 * 10 * 10 * 4, and eight operations on each of 100 scores
    assert cost("in_batch_softmax", t(4), t(4)).flops == 3 * 2 * 100 * 4 + 8 * 100


def test_every_kind_has_a_cost() -> None:
    for known in kinds():
        if known.infer.__module__.startswith("heterps."):
            assert callable(kernel(known.name).cost)
