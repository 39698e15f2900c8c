"""Ragged histories: pooling, and attention by a query (DIN).

Both are a weighted sum over each list; they differ in where the weights come from.
"""

from __future__ import annotations

import math

import numpy as np

from heterps.device.arrays import Array
from heterps.kernels.cost import OpCost, OpWork, parameter_count
from heterps.kernels.kernel import Call, Kernel, register_kernel
from heterps.kernels.ops import sequence_loops as loops
from heterps.kernels.ops.pointwise import stable_sigmoid
from heterps.kernels.ops.rows import Lists

__all__: list[str] = []

POOLING = {"mean": loops.MEAN, "sum": loops.SUM, "last": loops.LAST}


def _owner(c: Call, count: int, offsets: Array) -> Array:
    """Which sample each element belongs to (array functions only)."""
    owner = c.scratch("owner", (count,), c.xp.int64)
    owner[...] = c.xp.searchsorted(offsets, c.xp.arange(count), side="right") - 1
    return owner


def _sum_lists(c: Call, values: Array, weight: Array, offsets: Array, y: Array) -> None:
    if c.loops:
        loops.weighted_sums(values, weight, offsets, y)
        return
    y[...] = 0
    c.xp.add.at(y, _owner(c, values.shape[0], offsets), values * weight[:, None])


def _pool_weights(c: Call, history: Lists) -> Array:
    """The weight of each element: 1, one over the length, or 1 for the last only."""
    xp, pooling = c.xp, c.attrs["pooling"]
    values, offsets = history
    weight = c.scratch("weight", values.shape[:1], values.dtype)
    if c.loops:
        loops.pool_weights(offsets, POOLING[pooling], weight)
        return weight
    owner = _owner(c, values.shape[0], offsets)
    ends, starts = xp.take(offsets, owner + 1), xp.take(offsets, owner)
    if pooling == "mean":
        weight[...] = 1 / (ends - starts)
    else:
        weight[...] = 1 if pooling == "sum" else xp.arange(values.shape[0]) == ends - 1
    return weight


def sequence_pool_forward(c: Call) -> None:
    """Mean, sum or last of each list."""
    history: Lists = c.xs[0]
    _sum_lists(c, history.values, _pool_weights(c, history), history.offsets, c.y)


def sequence_pool_backward(c: Call) -> None:
    """``weight dy`` added to each element."""
    if c.dxs[0] is None:
        return
    (values, offsets), gradient = c.xs[0], c.dxs[0].values
    weight = c.scratch("weight", values.shape[:1], c.dy.dtype)
    if c.loops:
        loops.add_spread(c.dy, weight, offsets, gradient)
    else:
        gradient += c.xp.take(c.dy, _owner(c, values.shape[0], offsets), axis=0) * weight[:, None]


def _room(c: Call, name: str, count: int, width: int) -> Array:
    return c.scratch(name, (count, width), c.y.dtype)


def _layers(c: Call) -> int:
    return len(c.attrs["hidden"]) + 1 if c.attrs["hidden"] else 0


def _features(c: Call, q: Array, k: Array) -> Array:
    """``[q, k, q - k, q * k]`` per element."""
    dim = q.shape[1]
    f = _room(c, "features", q.shape[0], 4 * dim)
    f[:, :dim] = q
    f[:, dim : 2 * dim] = k
    c.xp.subtract(q, k, out=f[:, 2 * dim : 3 * dim])
    c.xp.multiply(q, k, out=f[:, 3 * dim :])
    return f


def _scores(c: Call, q: Array, k: Array, weight: Array) -> None:
    """One score per element: the small network's, or a scaled dot product."""
    xp, count = c.xp, q.shape[0]
    if not _layers(c):
        product = _room(c, "product", count, q.shape[1])
        xp.multiply(q, k, out=product)
        xp.sum(product, axis=1, out=weight)
        xp.multiply(weight, 1 / math.sqrt(q.shape[1]), out=weight)
        return
    h = _features(c, q, k)
    for i in range(_layers(c)):
        matrix = c.params[f"weight{i}"]
        z = _room(c, f"h{i}", count, matrix.shape[1])
        xp.matmul(h, matrix, out=z)
        xp.add(z, c.params[f"bias{i}"], out=z)
        if i + 1 < _layers(c):
            stable_sigmoid(c, z, z)
        h = z
    weight[...] = h[:, 0]


def _softmax_arrays(c: Call, weight: Array, owner: Array) -> None:
    xp = c.xp
    top = xp.full((c.n,), -xp.inf, weight.dtype)
    xp.maximum.at(top, owner, weight)
    e = xp.exp(weight - xp.take(top, owner))
    total = xp.zeros((c.n,), weight.dtype)
    xp.add.at(total, owner, e)
    xp.divide(e, xp.take(total, owner), out=weight)


def attention_forward(c: Call) -> None:
    """Score every element against the query, then the weighted sum of each list."""
    query, (k, offsets) = c.xs
    q, weight = _room(c, "q", *k.shape), c.scratch("weight", k.shape[:1], k.dtype)
    if c.loops:
        loops.repeat_rows(query, offsets, q)
    else:
        q[...] = c.xp.take(query, _owner(c, k.shape[0], offsets), axis=0)
    _scores(c, q, k, weight)
    if c.attrs["normalise"] and c.loops:
        loops.softmax_lists(weight, offsets)
    elif c.attrs["normalise"]:
        _softmax_arrays(c, weight, _owner(c, k.shape[0], offsets))
    _sum_lists(c, k, weight, offsets, c.y)


def attention_backward(c: Call) -> None:
    """Through the sum, the softmax where there is one, and the scores."""
    k, offsets = c.xs[1]
    dk = _room(c, "dk", *k.shape)
    dq = _through_scores(c, _through_sums(c, dk), dk)
    if c.dxs[0] is not None:
        ones = c.scratch("ones", k.shape[:1], k.dtype)
        ones[...] = 1
        _sum_lists(c, dq, ones, offsets, c.dxs[0])
    if c.dxs[1] is not None:
        gradient = c.dxs[1].values
        gradient += dk


def _through_sums(c: Call, dk: Array) -> Array:
    """Write ``weight dy`` to dk; return the gradient of each score."""
    (k, offsets), xp = c.xs[1], c.xp
    weight, dscore = (c.scratch(name, k.shape[:1], k.dtype) for name in ("weight", "dscore"))
    if c.loops:
        loops.through_sums(c.dy, k, weight, offsets, c.attrs["normalise"], dscore, dk)
        return dscore
    owner = _owner(c, k.shape[0], offsets)
    dy = xp.take(c.dy, owner, axis=0)
    xp.sum(dy * k, axis=1, out=dscore)
    xp.multiply(dy, weight[:, None], out=dk)
    if c.attrs["normalise"]:
        shared = xp.zeros((c.n,), k.dtype)
        xp.add.at(shared, owner, weight * dscore)
        xp.multiply(weight, dscore - xp.take(shared, owner), out=dscore)
    return dscore


def _through_scores(c: Call, dscore: Array, dk: Array) -> Array:
    """Write parameter gradients, add to ``dk``, return the query's gradient per element."""
    k = c.xs[1].values
    count, dim = k.shape
    q, dq = _room(c, "q", count, dim), _room(c, "dq", count, dim)
    if not _layers(c):
        scale = np.dtype(k.dtype).type(1 / math.sqrt(dim))
        if c.loops:
            loops.through_dots(dscore, scale, q, k, dq, dk)
        else:
            c.xp.multiply(k, dscore[:, None] * scale, out=dq)
            dk += q * (dscore[:, None] * scale)
        return dq
    df = _through_network(c, dscore[:, None])
    if c.loops:
        loops.through_features(df, q, k, dq, dk)
        return dq
    less, product = df[:, 2 * dim : 3 * dim], df[:, 3 * dim :]
    dq[...] = df[:, :dim] + less + product * k
    dk += df[:, dim : 2 * dim] - less + product * q
    return dq


def _through_network(c: Call, dz: Array) -> Array:
    count, xp = dz.shape[0], c.xp
    for i in reversed(range(_layers(c))):
        matrix = c.params[f"weight{i}"]
        h = _room(c, f"h{i - 1}" if i else "features", count, matrix.shape[0])
        xp.matmul(h.T, dz, out=c.dparams[f"weight{i}"])
        xp.sum(dz, axis=0, out=c.dparams[f"bias{i}"])
        dh = _room(c, f"dh{i}", count, matrix.shape[0])
        xp.matmul(dz, matrix.T, out=dh)
        if i:
            slope = _room(c, f"slope{i}", count, matrix.shape[0])
            xp.subtract(1, h, out=slope)
            xp.multiply(slope, h, out=slope)
            xp.multiply(dh, slope, out=dh)
        dz = dh
    return dz


def sequence_pool_cost(work: OpWork) -> OpCost:
    """One multiply-add per number each way."""
    x, y = work.bytes(*work.inputs), work.bytes(work.output)
    return OpCost(4 * work.numbers(*work.inputs), x + y, x + y)


def attention_cost(work: OpWork) -> OpCost:
    """Three products per weight matrix and element, and passes over the features."""
    history = work.inputs[1]
    elements = work.batch * history.mean_length
    x, y, count = work.bytes(*work.inputs), work.bytes(work.output), parameter_count(work)
    flops = 6 * elements * count + 12 * work.numbers(history)
    return OpCost(flops, 8 * x + y + 8.0 * count, 8 * x + y + 4.0 * count, 4.0 * count)


register_kernel("sequence_pool", Kernel(sequence_pool_cost, sequence_pool_forward, sequence_pool_backward))
register_kernel("attention", Kernel(attention_cost, attention_forward, attention_backward))
