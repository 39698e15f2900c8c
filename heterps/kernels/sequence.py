"""Ragged histories: pooling, and attention by a query (DIN).

Both are a weighted sum over each list; they differ in where the weights come from.
"""

from __future__ import annotations

import math

from heterps.device.arrays import Array
from heterps.kernels.cost import OpCost, Work, parameter_count
from heterps.kernels.jit import loop
from heterps.kernels.kernel import Call, Kernel, register_kernel
from heterps.kernels.pointwise import stable_sigmoid
from heterps.kernels.rows import Lists

__all__: list[str] = []


@loop
def weighted_sums(values, weight, offsets, y):  # type: ignore[no-untyped-def]
    """``y[i]`` = sum of ``weight[p] values[p]`` over list i, positions in order."""
    for i in range(offsets.size - 1):
        for d in range(y.shape[1]):
            y[i, d] = 0
        for p in range(offsets[i], offsets[i + 1]):
            w = weight[p]
            for d in range(y.shape[1]):
                y[i, d] += w * values[p, d]


def _sum_lists(c: Call, values: Array, weight: Array, offsets: Array, y: Array) -> None:
    if c.loops:
        weighted_sums(values, weight, offsets, y)
        return
    y[...] = 0
    c.xp.add.at(y, _owner(c, values.shape[0], offsets), values * weight[:, None])


def _owner(c: Call, count: int, offsets: Array) -> Array:
    """Which sample each element belongs to."""
    owner = c.scratch("owner", (count,), c.xp.int64)
    owner[...] = c.xp.searchsorted(offsets, c.xp.arange(count), side="right") - 1
    return owner


def _pool_weights(c: Call, history: Lists) -> Array:
    """The weight of each element: 1, one over the length, or 1 for the last only."""
    xp, pooling = c.xp, c.attrs["pooling"]
    values, offsets = history
    weight = c.scratch("weight", values.shape[:1], values.dtype)
    if pooling == "sum":
        weight[...] = 1
        return weight
    owner = _owner(c, values.shape[0], offsets)
    ends, starts = xp.take(offsets, owner + 1), xp.take(offsets, owner)
    weight[...] = 1 / (ends - starts) if pooling == "mean" else xp.arange(values.shape[0]) == ends - 1
    return weight


def sequence_pool_forward(c: Call) -> None:
    """Mean, sum or last of each list."""
    history: Lists = c.xs[0]
    _sum_lists(c, history.values, _pool_weights(c, history), history.offsets, c.y)


def sequence_pool_backward(c: Call) -> None:
    """``weight dy`` added to each element."""
    if c.dxs[0] is None:
        return
    history: Lists = c.xs[0]
    count = history.values.shape[0]
    weight = c.scratch("weight", (count,), c.dy.dtype)
    gradient = c.dxs[0].values
    gradient += c.xp.take(c.dy, _owner(c, count, history.offsets), axis=0) * weight[:, None]


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


def _scores(c: Call, q: Array, k: Array) -> Array:
    """One score per element: the small network's, or a scaled dot product."""
    xp, count = c.xp, q.shape[0]
    if not _layers(c):
        product = _room(c, "product", count, q.shape[1])
        xp.multiply(q, k, out=product)
        return xp.sum(product, axis=1) * (1 / math.sqrt(q.shape[1]))
    h = _features(c, q, k)
    for i in range(_layers(c)):
        weight = c.params[f"weight{i}"]
        z = _room(c, f"h{i}", count, weight.shape[1])
        xp.matmul(h, weight, out=z)
        xp.add(z, c.params[f"bias{i}"], out=z)
        if i + 1 < _layers(c):
            stable_sigmoid(c, z, z)
        h = z
    return h[:, 0]


def _softmax_lists(c: Call, scores: Array, owner: Array) -> Array:
    """Exponentials normalised within each list."""
    xp = c.xp
    top = xp.full((c.n,), -xp.inf, scores.dtype)
    xp.maximum.at(top, owner, scores)
    e = xp.exp(scores - xp.take(top, owner))
    total = xp.zeros((c.n,), scores.dtype)
    xp.add.at(total, owner, e)
    return e / xp.take(total, owner)


def attention_forward(c: Call) -> None:
    """Score every element against the query, then the weighted sum of each list."""
    query, (k, offsets) = c.xs
    owner = _owner(c, k.shape[0], offsets)
    q = _room(c, "q", *k.shape)
    q[...] = c.xp.take(query, owner, axis=0)
    scores = _scores(c, q, k)
    weight = c.scratch("weight", k.shape[:1], k.dtype)
    weight[...] = _softmax_lists(c, scores, owner) if c.attrs["normalise"] else scores
    _sum_lists(c, k, weight, offsets, c.y)


def attention_backward(c: Call) -> None:
    """Through the sum, the softmax where there is one, and the scores."""
    (_, (k, offsets)), xp = c.xs, c.xp
    owner = c.scratch("owner", k.shape[:1], xp.int64)
    weight = c.scratch("weight", k.shape[:1], k.dtype)
    dy, dk = xp.take(c.dy, owner, axis=0), _room(c, "dk", *k.shape)
    dscore = xp.sum(dy * k, axis=1)
    if c.attrs["normalise"]:
        shared = xp.zeros((c.n,), k.dtype)
        xp.add.at(shared, owner, weight * dscore)
        dscore = weight * (dscore - xp.take(shared, owner))
    xp.multiply(dy, weight[:, None], out=dk)
    dq = _scores_backward(c, dscore, dk)
    if c.dxs[0] is not None:
        ones = c.scratch("ones", k.shape[:1], k.dtype)
        ones[...] = 1
        _sum_lists(c, dq, ones, offsets, c.dxs[0])
    if c.dxs[1] is not None:
        gradient = c.dxs[1].values
        gradient += dk


def _scores_backward(c: Call, dscore: Array, dk: Array) -> Array:
    """Write parameter gradients, add to ``dk``, return the query's gradient per element."""
    k, xp = c.xs[1].values, c.xp
    count, dim = k.shape
    q, dq = _room(c, "q", count, dim), _room(c, "dq", count, dim)
    if not _layers(c):
        scaled = dscore[:, None] * (1 / math.sqrt(dim))
        xp.multiply(k, scaled, out=dq)
        dk += q * scaled
        return dq
    df = _network_backward(c, dscore[:, None])
    product = df[:, 3 * dim :]
    dq[...] = df[:, :dim] + df[:, 2 * dim : 3 * dim] + product * k
    dk += df[:, dim : 2 * dim] - df[:, 2 * dim : 3 * dim] + product * q
    return dq


def _network_backward(c: Call, dz: Array) -> Array:
    count = dz.shape[0]
    for i in reversed(range(_layers(c))):
        weight = c.params[f"weight{i}"]
        h = _room(c, f"h{i - 1}" if i else "features", count, weight.shape[0])
        c.xp.matmul(h.T, dz, out=c.dparams[f"weight{i}"])
        c.xp.sum(dz, axis=0, out=c.dparams[f"bias{i}"])
        dh = _room(c, f"dh{i}", count, weight.shape[0])
        c.xp.matmul(dz, weight.T, out=dh)
        if i:
            dh *= h * (1 - h)
        dz = dh
    return dz


def sequence_pool_cost(work: Work) -> OpCost:
    """One multiply-add per number each way."""
    x, y = work.bytes(*work.inputs), work.bytes(work.output)
    return OpCost(4 * work.numbers(*work.inputs), x + y, x + y)


def attention_cost(work: Work) -> OpCost:
    """Three products per weight matrix and element, and passes over the features."""
    history = work.inputs[1]
    elements = work.batch * history.mean_length
    x, y, count = work.bytes(*work.inputs), work.bytes(work.output), parameter_count(work)
    flops = 6 * elements * count + 12 * work.numbers(history)
    return OpCost(flops, 8 * x + y + 8.0 * count, 8 * x + y + 4.0 * count, 4.0 * count)


register_kernel("sequence_pool", Kernel(sequence_pool_cost, sequence_pool_forward, sequence_pool_backward))
register_kernel("attention", Kernel(attention_cost, attention_forward, attention_backward))
