"""Vectors compared and ranked: l2_normalize, cosine, top_k."""

from __future__ import annotations

import math

from heterps.device.arrays import Array
from heterps.kernels.cost import OpCost, OpWork, passes
from heterps.kernels.jit import loop
from heterps.kernels.kernel import Call, Kernel, register_kernel

__all__: list[str] = []


def _along(c: Call, name: str, x: Array) -> Array:
    """Room for one number per vector."""
    return c.scratch(name, (*x.shape[:-1], 1), x.dtype)


def _dots(c: Call, a: Array, b: Array, out: Array) -> None:
    """Dot products along the last axis."""
    product = c.scratch("product", a.shape, a.dtype)
    c.xp.multiply(a, b, out=product)
    c.xp.sum(product, axis=-1, keepdims=True, out=out)


def _inverse_length(c: Call, name: str, x: Array) -> Array:
    """``1 / sqrt(sum x^2 + eps)``."""
    length = _along(c, name, x)
    _dots(c, x, x, length)
    c.xp.add(length, c.attrs["eps"], out=length)
    c.xp.sqrt(length, out=length)
    c.xp.divide(1, length, out=length)
    return length


def l2_normalize_forward(c: Call) -> None:
    """Each vector over its length."""
    c.xp.multiply(c.xs[0], _inverse_length(c, "inverse", c.xs[0]), out=c.y)


def l2_normalize_backward(c: Call) -> None:
    """``(dy - y (y dy)) / length``."""
    dx, along = c.dxs[0], _along(c, "along", c.y)
    if dx is not None:
        _dots(c, c.y, c.dy, along)
        c.xp.multiply(c.y, along, out=dx)
        c.xp.subtract(c.dy, dx, out=dx)
        c.xp.multiply(dx, _along(c, "inverse", c.y), out=dx)


def cosine_forward(c: Call) -> None:
    """``a b / (|a| |b|)``."""
    a, b = c.xs
    result = c.y.reshape(*a.shape[:-1], 1)
    _dots(c, a, b, result)
    for name, x in (("inverse a", a), ("inverse b", b)):
        c.xp.multiply(result, _inverse_length(c, name, x), out=result)


def cosine_backward(c: Call) -> None:
    """``da = dy (b / |b| - cos a / |a|) / |a|``, and the same for b."""
    a, b = c.xs
    cos, dy = (x.reshape(*a.shape[:-1], 1) for x in (c.y, c.dy))
    for dx, own, other, mine, its in ((c.dxs[0], a, b, "a", "b"), (c.dxs[1], b, a, "b", "a")):
        if dx is None:
            continue
        inverse, product = _along(c, f"inverse {mine}", a), c.scratch("product", a.shape, a.dtype)
        c.xp.multiply(other, _along(c, f"inverse {its}", a), out=dx)
        c.xp.multiply(own, inverse, out=product)
        c.xp.multiply(product, cos, out=product)
        c.xp.subtract(dx, product, out=dx)
        c.xp.multiply(dx, inverse, out=dx)
        c.xp.multiply(dx, dy, out=dx)


@loop
def largest(x, order):  # type: ignore[no-untyped-def]
    """Positions of the largest of each row, sorted in as they are met; of equals the first comes first."""
    k = order.shape[1]
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            at = min(j, k)
            while at > 0 and x[i, order[i, at - 1]] < x[i, j]:
                if at < k:
                    order[i, at] = order[i, at - 1]
                at -= 1
            if at < k:
                order[i, at] = j


@loop
def chosen(x, order, y):  # type: ignore[no-untyped-def]
    """``y[i, j] = x[i, order[i, j]]``."""
    for i in range(order.shape[0]):
        for j in range(order.shape[1]):
            y[i, j] = x[i, order[i, j]]


@loop
def put_chosen(dy, order, dx):  # type: ignore[no-untyped-def]
    """Backward of :func:`chosen`; the rest is zero."""
    for i in range(order.shape[0]):
        for j in range(dx.shape[1]):
            dx[i, j] = 0
        for j in range(order.shape[1]):
            dx[i, order[i, j]] = dy[i, j]


def _rows(x: Array) -> Array:
    return x.reshape(-1, x.shape[-1])


def _find(c: Call, order: Array) -> None:
    """Write the positions of the k largest; of equals the first comes first."""
    x = _rows(c.xs[0])
    if c.loops:
        largest(x, order)
    else:
        order[...] = c.xp.argsort(-x, axis=-1, kind="stable")[:, : c.attrs["k"]]


def top_k_forward(c: Call) -> None:
    """The k largest, largest first; backward needs to know which."""
    x, y = _rows(c.xs[0]), _rows(c.y)
    order = c.scratch("order", y.shape, c.xp.int64)
    _find(c, order)
    if c.loops:
        chosen(x, order, y)
    else:
        y[...] = c.xp.take_along_axis(x, order, axis=1)


def top_k_backward(c: Call) -> None:
    """``dy`` to where the number stood, zero elsewhere."""
    dx, xp = c.dxs[0], c.xp
    if dx is None:
        return
    rows, k = c.dy.size // c.attrs["k"], c.attrs["k"]
    order = c.scratch("order", (rows, k), xp.int64)
    if c.loops:
        put_chosen(_rows(c.dy), order, _rows(dx))
        return
    dx[...] = 0
    flat = dx.reshape(-1)
    flat[(order + xp.arange(rows, dtype=xp.int64)[:, None] * dx.shape[-1]).reshape(-1)] = c.dy.reshape(-1)


def top_k_indices_forward(c: Call) -> None:
    """Where the k largest stand."""
    _find(c, _rows(c.y))


def top_k_cost(work: OpWork) -> OpCost:
    """A sort of each vector; backward writes every number once."""
    x, y = work.bytes(*work.inputs), work.bytes(work.output)
    width = work.inputs[0].shape[-1]
    return OpCost(work.numbers(*work.inputs) * max(math.log2(width), 1.0), x + y, x + y)


register_kernel("l2_normalize", Kernel(passes(10), l2_normalize_forward, l2_normalize_backward))
register_kernel("cosine", Kernel(passes(10), cosine_forward, cosine_backward))
register_kernel("top_k", Kernel(top_k_cost, top_k_forward, top_k_backward))
register_kernel("top_k_indices", Kernel(top_k_cost, top_k_indices_forward))
