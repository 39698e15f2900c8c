"""Compile every loop that training in float32 uses, so that workers start with a filled cache.

Loops are compiled by running them: tiny programs that between them take every branch which has a loop of its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from heterps.compiled import Warmed
from heterps.graph import Graph, Op, ops
from heterps.graph.tensor import Tensor
from heterps.graph.types import Form
from heterps.kernels.jit import LOOPS
from heterps.kernels.ops.products import LEAST, NARROW
from heterps.kernels.ops.rows import Lists, Rows
from heterps.kernels.program.program import Program

__all__ = ["Warmed", "run_once", "warm"]


def warm() -> tuple[Warmed, ...]:
    """Compile, or load from the cache, every loop; return what was done, by loop."""
    for graph in _graphs():
        run_once(graph)
    return tuple(_account(name, loop) for name, loop in sorted(LOOPS.items()))


def _account(name: str, loop: Any) -> Warmed:
    return Warmed(name, sum(loop.stats.cache_misses.values()), sum(loop.stats.cache_hits.values()))


def _graphs() -> list[Graph]:
    return [
        _layers(),
        _layers(weighted=True),
        _classes(),
        _pooled(),
        _images(),
        _histories(),
        *(_sampled(softmax=s) for s in (False, True)),
    ]


def _inputs() -> tuple[Tensor, Tensor]:
    return ops.input("x", shape=(3,)), ops.input("y")


def _layers(*, weighted: bool = False) -> Graph:
    """Layers, activations, interactions."""
    x, y = _inputs()
    large = ops.dense(x, LEAST)  # with so many inputs products are loops, and so they are of enough vectors
    a = ops.relu(ops.dense(ops.dense(large, NARROW), 4))
    b = ops.dropout(ops.layer_norm(ops.relu(ops.add(a, ops.dense(x, 4)))), 0.5)
    c = ops.cross(a, b)
    fields = ops.reshape(ops.concat(a, b, c), (3, 4))
    pairs = ops.dot_interaction(a, fields), ops.dot_interaction(ops.reshape(large, (16, LEAST // 16)))
    d = ops.concat(ops.fm(fields), *pairs, ops.tanh(a), ops.relu(ops.dense(c, 2)))
    logit = ops.dense(ops.dense(d, 3), 1)
    return Graph(loss=ops.logloss(logit, y, ops.input("w")) if weighted else ops.logloss(logit, y))


def _classes() -> Graph:
    x, _ = _inputs()
    label = ops.input("label", dtype="int64")
    return Graph(loss=ops.softmax_cross_entropy(ops.softmax(ops.dense(x, 3)), label))


def _pooled() -> Graph:
    """All ways of gathering, over fixed slots and lists, on a graph that is lowered already."""
    fixed, lists = ops.input("fixed", (2,), "uint64"), ops.input("lists", (), "uint64", ragged=True)
    rows = ops.build("pull", fixed, lists, name="pull", group="g", width=4, tables=("g",))
    parts = [
        ops.build("gather_pool", rows, ids, columns=(0, 3), source=source, pooling=pooling)
        for source, ids in ((0, fixed), (1, lists))
        for pooling in ("none", "sum", "mean", "max")
        if not (ids is lists and pooling == "none")
    ]
    y = ops.input("y", shape=(2,))
    return Graph(loss=ops.mse(ops.dense(ops.concat(*parts), 2), y))


def _images() -> Graph:
    """Windows over images, and statistics of batches."""
    x, y = ops.input("image", shape=(3, 3, 2)), ops.input("y")
    h = ops.max_pool(ops.conv2d(ops.conv2d(x, 2, 3, padding=1), 2, 3, padding=1), 2, stride=1)
    h = ops.global_avg_pool(ops.batch_norm(h))
    return Graph(loss=ops.mse(ops.dense(ops.top_k(ops.prelu(ops.dice(ops.gelu(h))), 2), 1), y))


def _histories() -> Graph:
    """Sums over lists, on a graph that is lowered already."""
    lists = ops.input("lists", (), "uint64", ragged=True)
    rows = ops.build("pull", ops.input("fixed", (2,), "uint64"), lists, name="pull", group="g", width=4, tables=("g",))
    history = ops.build("gather_pool", rows, lists, columns=(0, 3), source=1, pooling="none")
    pooled = ops.sequence_mean(history)
    seen = [ops.attention(pooled, history, hidden=hidden, normalise=True) for hidden in ((2,), ())]
    return Graph(loss=ops.in_batch_softmax(ops.add(*seen), ops.l2_normalize(pooled), ops.input("id", (), "uint64")))


def _sampled(*, softmax: bool) -> Graph:
    """Losses over drawn ids."""
    x, _ = _inputs()
    true = ops.input("true", (), "uint64")
    drawn = ops.negative_sampling(true, 3, 4, name="drawn")
    loss = ops.sampled_softmax if softmax else ops.nce
    return Graph(loss=loss(ops.cosine(x, ops.dense(x, 3)), ops.dense(x, 3), true, drawn))


def run_once(graph: Graph) -> None:
    """Run a lowered graph forward and backward on two rows, then forward as outside training."""
    program = Program(graph, batch_size=2)
    params = np.full(program.layout.size, 0.1, np.float32)
    feeds = {name: _value(graph, graph[name]) for name in program.feeds}
    program.forward(feeds, params)
    program.backward()
    program.forward(feeds, params, train=False)


def _value(graph: Graph, op: Op) -> Any:
    if op.type.form is Form.ROWS:
        columns = [graph[name].type for name in op.inputs]
        inverse = tuple(np.zeros(4 if c.form is Form.RAGGED else (2, *c.shape), np.int32) for c in columns)
        offsets = tuple(np.array([0, 1, 4]) if c.form is Form.RAGGED else None for c in columns)
        return Rows(np.ones((1, op.attrs["width"]), np.float32), inverse, offsets, np.zeros(1, np.uint64))
    if op.type.form is Form.RAGGED:
        return Lists(np.zeros(1, np.uint64), np.array([0, 1, 1]))
    return np.ones((2, *op.type.shape), op.type.dtype)
