"""Matrix products: dense, matmul, cross. Layers' are ours or the library's; the passes around them are loops."""

from __future__ import annotations

import math

import numpy as np

from heterps.device.arrays import Array
from heterps.kernels.cost import OpCost, OpWork, parameter_count
from heterps.kernels.jit import loop
from heterps.kernels.kernel import FUSED, Call, Kernel, register_kernel
from heterps.kernels.ops.fused_cuda import bias_cuda, column_sums_cuda, cuda_passes, relu_slope_cuda
from heterps.kernels.ops.pointwise import add_bias, bias_relu, column_sums, flat_rows, relu_slope
from heterps.kernels.ops.products import input_gradient, product, weight_gradient

__all__ = ["as_matrix"]


@loop
def outer(a, b, out):  # type: ignore[no-untyped-def]
    """``out[i, j] = a[i] b[j]``: a product with inner length one is a quarter of the time this way."""
    at = np.uint64(0)
    for i in range(a.size):
        for j in range(b.size):
            out[at + np.uint64(j)] = a[i] * b[j]
        at += np.uint64(b.size)


@loop
def cross_pass(x0, x, t, bias, y):  # type: ignore[no-untyped-def]
    """``t += bias`` and ``y = x0 t + x`` in one pass."""
    at = np.uint64(0)
    for _ in range(y.size // bias.size):
        for j in range(bias.size):
            k = at + np.uint64(j)
            t[k] += bias[j]
            y[k] = x0[k] * t[k] + x[k]
        at += np.uint64(bias.size)


def as_matrix(x: Array) -> Array:
    """``[n, ..., k]`` as ``[n * ..., k]``, without a copy."""
    return x if x.ndim == 2 else x.reshape(-1, x.shape[-1])


def dense_forward(c: Call) -> None:
    """``y = x W + b`` over the last axis."""
    y = as_matrix(c.y)
    product(c, as_matrix(c.xs[0]), c.params["weight"], y)
    if "bias" in c.params:
        add_bias(c, y, c.params["bias"])


def dense_backward(c: Call) -> None:
    """``dW = xT dy``, ``db`` = column sums of dy, ``dx = dy WT``."""
    dy = as_matrix(c.dy)
    weight_gradient(c, as_matrix(c.xs[0]), dy, c.dparams["weight"])
    if "bias" in c.dparams:
        column_sums(c, dy, c.dparams["bias"])
    _dense_dx(c, dy)


def _dense_dx(c: Call, dy: Array) -> None:
    if c.dxs[0] is None:
        return
    weight = c.params["weight"] if c.dx_columns is None else c.params["weight"][c.dx_columns]
    dx = as_matrix(c.dxs[0])
    if c.loops and weight.shape[1] == 1 and dx.flags.c_contiguous:
        outer(dy.reshape(-1), weight.reshape(-1), dx.reshape(-1))
    else:
        input_gradient(c, dy, weight, dx)


def dense_relu_forward(c: Call) -> None:
    """``max(x W + b, 0)``: bias and activation in one pass over the product."""
    y, bias = as_matrix(c.y), _bias(c, as_matrix(c.y))
    if product(c, as_matrix(c.xs[0]), c.params["weight"], y, bias):
        return
    if c.loops:
        bias_relu(*flat_rows(y), 0, y.shape[0], bias)
    elif (module := cuda_passes(c.xp, y, bias)) is not None:
        bias_cuda(module, y, bias, relu=True)
    else:
        c.xp.add(y, bias, out=y)
        c.xp.maximum(y, 0, out=y)


def _bias(c: Call, y: Array) -> Array:
    if "bias" in c.params:
        return c.params["bias"]
    zeros = c.scratch("no bias", (y.shape[1],), y.dtype)
    zeros[...] = 0
    return zeros


def dense_relu_backward(c: Call) -> None:
    """Slope of the activation and bias gradient in one pass, then the products."""
    dy, y = as_matrix(c.dy), as_matrix(c.y)
    dz = dy
    if not c.owns_dy:
        dz = c.scratch("dz", y.shape, y.dtype)
        dz[...] = dy
    sums = c.dparams.get("bias")
    if sums is None:
        sums = c.scratch("sums", (y.shape[1],), y.dtype)
    if c.loops:
        relu_slope(*flat_rows(dz), *flat_rows(y), y.shape[0], sums)
    elif (module := cuda_passes(c.xp, dz, y, sums)) is not None:
        relu_slope_cuda(module, dz, y)
        column_sums_cuda(c, module, dz, sums)
    else:
        c.xp.multiply(dz, y > 0, out=dz)
        c.xp.sum(dz, axis=0, out=sums)
    weight_gradient(c, as_matrix(c.xs[0]), dz, c.dparams["weight"])
    _dense_dx(c, dz)


def dense_cost(work: OpWork) -> OpCost:
    """Three GEMMs (forward, weight gradient, input gradient) and the bias."""
    x, y = work.bytes(work.inputs[0]), work.bytes(work.output)
    rows = work.numbers(work.output) / work.output.shape[-1]
    weight = math.prod(work.params[0].shape)
    bias = parameter_count(work) - weight
    return OpCost(
        6.0 * rows * weight + 2.0 * rows * bias,
        2 * x + 2 * y + 4.0 * (2 * weight + bias),
        x + y + 4.0 * (weight + bias),
        4.0 * (weight + bias),
    )


def matmul_forward(c: Call) -> None:
    """Per-sample product ``a b`` or ``a bT``."""
    a, b = c.xs
    c.xp.matmul(a, b.swapaxes(1, 2) if c.attrs["transpose_b"] else b, out=c.y)


def matmul_backward(c: Call) -> None:
    """``da = dy bT``, ``db = aT dy``, transposed as the product was."""
    (a, b), (da, db), dy, xp = c.xs, c.dxs, c.dy, c.xp
    flipped = c.attrs["transpose_b"]
    if da is not None:
        xp.matmul(dy, b if flipped else b.swapaxes(1, 2), out=da)
    if db is not None and flipped:
        xp.matmul(dy.swapaxes(1, 2), a, out=db)
    elif db is not None:
        xp.matmul(a.swapaxes(1, 2), dy, out=db)


def matmul_cost(work: OpWork) -> OpCost:
    """Three products per sample."""
    (m, k), (_, n) = work.inputs[0].shape, work.output.shape
    inputs, output = work.bytes(*work.inputs), work.bytes(work.output)
    return OpCost(6.0 * work.batch * m * k * n, 2 * inputs + 2 * output, inputs + output)


def cross_forward(c: Call) -> None:
    """``y = x0 * (x W + b) + x``, W one matrix or the product of a narrow pair."""
    (x0, x), xp = c.xs, c.xp
    t = c.scratch("t", x.shape, x.dtype)
    if "weight" in c.params:
        xp.matmul(x, c.params["weight"], out=t)
    else:
        z = c.scratch("z", (c.n, c.attrs["rank"]), x.dtype)
        xp.matmul(x, c.params["down"], out=z)
        xp.matmul(z, c.params["up"], out=t)
    if c.loops:
        cross_pass(x0.reshape(-1), x.reshape(-1), t.reshape(-1), c.params["bias"], c.y.reshape(-1))
        return
    add_bias(c, t, c.params["bias"])
    xp.multiply(x0, t, out=c.y)
    xp.add(c.y, x, out=c.y)


def cross_backward(c: Call) -> None:
    """``dx0 = dy * t``; with ``dt = dy * x0`` as for dense layers, and ``dx`` also gets dy itself."""
    (x0, x), (dx0, dx), xp = c.xs, c.dxs, c.xp
    t, dt = c.scratch("t", x.shape, x.dtype), c.scratch("dt", x.shape, x.dtype)
    xp.multiply(c.dy, x0, out=dt)
    if dx0 is not None:
        xp.multiply(c.dy, t, out=dx0)
    column_sums(c, dt, c.dparams["bias"])
    if "weight" in c.params:
        _full_rank_backward(c, x, dt, dx)
    else:
        _low_rank_backward(c, x, dt, dx)
    if dx is not None:
        xp.add(dx, c.dy, out=dx)


def _full_rank_backward(c: Call, x: Array, dt: Array, dx: Array | None) -> None:
    c.xp.matmul(x.T, dt, out=c.dparams["weight"])
    if dx is not None:
        c.xp.matmul(dt, c.params["weight"].T, out=dx)


def _low_rank_backward(c: Call, x: Array, dt: Array, dx: Array | None) -> None:
    z = c.scratch("z", (c.n, c.attrs["rank"]), x.dtype)
    dz = c.scratch("dz", (c.n, c.attrs["rank"]), x.dtype)
    c.xp.matmul(dt, c.params["up"].T, out=dz)
    c.xp.matmul(z.T, dt, out=c.dparams["up"])
    c.xp.matmul(x.T, dz, out=c.dparams["down"])
    if dx is not None:
        c.xp.matmul(dz, c.params["down"].T, out=dx)


def cross_cost(work: OpWork) -> OpCost:
    """Three products per weight matrix and some passes over the vectors."""
    x, count = work.bytes(work.output), parameter_count(work)
    width = work.output.shape[0]
    flops = work.batch * (6.0 * (count - width) + 9.0 * width)
    return OpCost(flops, 9 * x + 2 * 4.0 * count, 6 * x + 4.0 * count, 4.0 * count)


register_kernel("dense", Kernel(dense_cost, dense_forward, dense_backward, strided=1, partial=True))
FUSED["dense+relu"] = Kernel(dense_cost, dense_relu_forward, dense_relu_backward, strided=1, partial=True)
register_kernel("matmul", Kernel(matmul_cost, matmul_forward, matmul_backward))
register_kernel("cross", Kernel(cross_cost, cross_forward, cross_backward))
