"""Element by element: bias, activations, add, sub, mul with broadcasting of per-sample shapes."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.lib.stride_tricks import as_strided

from heterps.device.arrays import Array
from heterps.kernels.cost import passes
from heterps.kernels.jit import loop
from heterps.kernels.kernel import Call, Kernel, register_kernel
from heterps.kernels.ops.fused_cuda import bias_cuda, column_sums_cuda, cuda_passes

__all__ = ["add_bias", "column_sums", "flat_rows", "sum_to"]


@loop
def sum_columns(a, stride, rows, out):  # type: ignore[no-untyped-def]
    """Column sums, rows added in order."""
    out[:] = 0
    for i in range(rows):
        at = np.uint64(i * stride)
        for j in range(out.size):
            out[j] += a[at + np.uint64(j)]


@loop
def bias_rows(z, stride, rows, bias):  # type: ignore[no-untyped-def]
    """``z += bias`` in place."""
    for i in range(rows):
        at = np.uint64(i * stride)
        for j in range(bias.size):
            z[at + np.uint64(j)] += bias[j]


@loop
def bias_relu(z, stride, first, last, bias):  # type: ignore[no-untyped-def]
    """``z = max(z + bias, 0)`` in place, for some rows. Written so that NaN stays NaN."""
    zero = z.dtype.type(0)
    for i in range(first, last):
        at = np.uint64(i * stride)
        for j in range(bias.size):
            v = z[at + np.uint64(j)] + bias[j]
            z[at + np.uint64(j)] = zero if v < zero else v


@loop
def relu_slope(dz, dz_stride, y, y_stride, rows, sums):  # type: ignore[no-untyped-def]
    """Zero dz where y is not positive, and add up its columns, in one pass.

    In place, because two output arrays that might overlap would keep the loop from being vectorised.
    """
    zero = y.dtype.type(0)
    sums[:] = 0
    for i in range(rows):
        p, q = np.uint64(i * dz_stride), np.uint64(i * y_stride)
        for j in range(sums.size):
            g = zero if y[q + np.uint64(j)] <= zero else dz[p + np.uint64(j)]
            dz[p + np.uint64(j)] = g
            sums[j] += g


@loop
def relu_mask(dy, y, dx):  # type: ignore[no-untyped-def]
    """``dx = dy`` where y is positive."""
    zero = y.dtype.type(0)
    for i in range(y.size):
        dx[i] = zero if y[i] <= zero else dy[i]


def flat_rows(a: Array) -> tuple[Array, int]:
    """Return a NumPy array as one flat array and the distance between samples, for loops over rows that lie apart."""
    if a.flags.c_contiguous:
        return a.reshape(-1), a.strides[0] // a.itemsize if a.ndim else 1
    stride = a.strides[0] // a.itemsize
    span = stride * (a.shape[0] - 1) + math.prod(a.shape[1:]) if a.shape[0] else 0
    return as_strided(a, (span,), (a.itemsize,)), stride


def add_bias(c: Call, y: Array, bias: Array) -> None:
    """``y += bias`` for every row."""
    if c.loops:
        bias_rows(*flat_rows(y), y.shape[0], bias)
    elif (module := cuda_passes(c.xp, y, bias)) is not None:
        bias_cuda(module, y, bias, relu=False)
    else:
        c.xp.add(y, bias, out=y)


def column_sums(c: Call, a: Array, out: Array) -> None:
    """``out`` = sum of the rows of ``a``."""
    if c.loops:
        sum_columns(*flat_rows(a), a.shape[0], out)
    elif (module := cuda_passes(c.xp, a, out)) is not None:
        column_sums_cuda(c, module, a, out)
    else:
        c.xp.sum(a, axis=0, out=out)


def relu_forward(c: Call) -> None:
    """``max(x, 0)``; NaN stays NaN."""
    c.xp.maximum(c.xs[0], 0, out=c.y)


def relu_backward(c: Call) -> None:
    """``dy`` where the result is positive."""
    dx = c.dxs[0]
    if dx is None:
        return
    if c.loops and c.y.flags.c_contiguous and c.dy.flags.c_contiguous and dx.flags.c_contiguous:
        relu_mask(c.dy.reshape(-1), c.y.reshape(-1), dx.reshape(-1))
    else:
        c.xp.multiply(c.dy, c.y > 0, out=dx)


def sigmoid_forward(c: Call) -> None:
    """``1 / (1 + exp(-x))`` as ``(1 + tanh(x / 2)) / 2``, which never overflows."""
    stable_sigmoid(c, c.xs[0], c.y)


def stable_sigmoid(c: Call, x: Array, out: Array) -> None:
    """Write the logistic function of ``x`` without overflow for any x."""
    xp = c.xp
    xp.multiply(x, 0.5, out=out)
    xp.tanh(out, out=out)
    xp.multiply(out, 0.5, out=out)
    xp.add(out, 0.5, out=out)


def sigmoid_backward(c: Call) -> None:
    """``dy y (1 - y)``."""
    if c.dxs[0] is not None:
        dx = c.dxs[0]
        c.xp.subtract(1, c.y, out=dx)
        c.xp.multiply(dx, c.y, out=dx)
        c.xp.multiply(dx, c.dy, out=dx)


def tanh_forward(c: Call) -> None:
    """Hyperbolic tangent."""
    c.xp.tanh(c.xs[0], out=c.y)


def tanh_backward(c: Call) -> None:
    """``dy (1 - y^2)``."""
    if c.dxs[0] is not None:
        dx = c.dxs[0]
        c.xp.multiply(c.y, c.y, out=dx)
        c.xp.subtract(1, dx, out=dx)
        c.xp.multiply(dx, c.dy, out=dx)


def aligned(x: Array, ndim: int) -> Array:
    """``[n, *shape]`` with ones put in after the batch so that per-sample shapes align on the right."""
    return x if x.ndim == ndim else x.reshape(x.shape[0], *(1,) * (ndim - x.ndim), *x.shape[1:])


def sum_to(c: Call, gradient: Array, out: Array) -> None:
    """Write ``gradient`` summed over the axes along which ``out`` was broadcast."""
    target = aligned(out, gradient.ndim)
    axes = tuple(a for a in range(1, gradient.ndim) if target.shape[a] == 1 and gradient.shape[a] != 1)
    if axes:
        c.xp.sum(gradient, axis=axes, keepdims=True, out=target)
    else:
        target[...] = gradient


def add_forward(c: Call) -> None:
    """Sum of all inputs."""
    ndim = c.y.ndim
    c.xp.add(aligned(c.xs[0], ndim), aligned(c.xs[1], ndim), out=c.y)
    for x in c.xs[2:]:
        c.xp.add(c.y, aligned(x, ndim), out=c.y)


def add_backward(c: Call) -> None:
    """``dy`` to every input."""
    for dx in c.dxs:
        if dx is not None:
            sum_to(c, c.dy, dx)


def sub_forward(c: Call) -> None:
    """``a - b``."""
    c.xp.subtract(aligned(c.xs[0], c.y.ndim), aligned(c.xs[1], c.y.ndim), out=c.y)


def sub_backward(c: Call) -> None:
    """``dy`` and ``-dy``."""
    add_backward(c)
    if c.dxs[1] is not None:
        c.xp.negative(c.dxs[1], out=c.dxs[1])


def mul_forward(c: Call) -> None:
    """``a * b``."""
    c.xp.multiply(aligned(c.xs[0], c.y.ndim), aligned(c.xs[1], c.y.ndim), out=c.y)


def mul_backward(c: Call) -> None:
    """``dy * b`` and ``dy * a``."""
    for dx, other in zip(c.dxs, reversed(c.xs), strict=True):
        if dx is None:
            continue
        if math.prod(dx.shape) == math.prod(c.dy.shape):
            c.xp.multiply(c.dy, aligned(other, c.dy.ndim), out=aligned(dx, c.dy.ndim))
        else:
            product = c.scratch("product", c.dy.shape, c.dy.dtype)
            c.xp.multiply(c.dy, aligned(other, c.dy.ndim), out=product)
            sum_to(c, product, dx)


_Rule = Callable[[Call], None]
ANY_RANK = 8


def _register(name: str, forward: _Rule, backward: _Rule, flops: float, reads: int = 2) -> None:
    register_kernel(name, Kernel(passes(flops, reads=reads), forward, backward, strided=ANY_RANK))


_register("add", add_forward, add_backward, 1, reads=1)
_register("sub", sub_forward, sub_backward, 1, reads=1)
_register("mul", mul_forward, mul_backward, 1.5)
_register("relu", relu_forward, relu_backward, 2)
_register("sigmoid", sigmoid_forward, sigmoid_backward, 7)
_register("tanh", tanh_forward, tanh_backward, 8)
