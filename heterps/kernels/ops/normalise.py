"""softmax, layer_norm and dropout."""

from __future__ import annotations

import numpy as np

from heterps.device.arrays import Array
from heterps.graph.builtin import axes_of
from heterps.kernels.cost import passes
from heterps.kernels.jit import loop
from heterps.kernels.kernel import Call, Kernel, register_kernel
from heterps.kernels.ops.fused_cuda import cuda_passes, drop_cuda
from heterps.kernels.random import uniform_bits
from heterps.mixing import GOLDEN, finalise_word

__all__: list[str] = []


def _axis(c: Call) -> int:
    return axes_of(c.attrs["axis"], c.y.ndim - 1)[0] + 1


def _kept_shape(c: Call, axis: int) -> tuple[int, ...]:
    shape = c.y.shape
    return (*shape[:axis], 1, *shape[axis + 1 :])


def softmax_forward(c: Call) -> None:
    """Exponentials normalised along the axis, the largest taken out first."""
    axis, xp = _axis(c), c.xp
    along = c.scratch("along", _kept_shape(c, axis), c.y.dtype)
    xp.max(c.xs[0], axis=axis, keepdims=True, out=along)
    xp.subtract(c.xs[0], along, out=c.y)
    xp.exp(c.y, out=c.y)
    xp.sum(c.y, axis=axis, keepdims=True, out=along)
    xp.divide(c.y, along, out=c.y)


def softmax_backward(c: Call) -> None:
    """``y (dy - sum(y dy))``."""
    dx, xp, axis = c.dxs[0], c.xp, _axis(c)
    if dx is not None:
        xp.multiply(c.y, c.dy, out=dx)
        along = c.scratch("along", _kept_shape(c, axis), c.y.dtype)
        xp.sum(dx, axis=axis, keepdims=True, out=along)
        xp.subtract(c.dy, along, out=dx)
        xp.multiply(dx, c.y, out=dx)


@loop
def normalise_rows(x, scale, shift, eps, hat, inverse, y):  # type: ignore[no-untyped-def]
    """Mean 0 and variance 1 per row, then scale and shift; keeps the normalised row and 1/deviation."""
    rows, width = x.shape
    for i in range(rows):
        mean = 0.0
        for j in range(width):
            mean += x[i, j]
        mean /= width
        variance = 0.0
        for j in range(width):
            variance += (x[i, j] - mean) ** 2
        inv = 1.0 / np.sqrt(variance / width + eps)
        inverse[i] = inv
        for j in range(width):
            h = (x[i, j] - mean) * inv
            hat[i, j] = h
            y[i, j] = hat[i, j] * scale[j] + shift[j]


@loop
def normalise_rows_backward(dy, scale, hat, inverse, dx, dscale, dshift, want_dx):  # type: ignore[no-untyped-def]
    """Gradients of input, scale and shift in one pass."""
    rows, width = dy.shape
    dscale[:] = 0
    dshift[:] = 0
    for i in range(rows):
        mean_g, mean_gh = 0.0, 0.0
        for j in range(width):
            g = dy[i, j] * scale[j]
            mean_g += g
            mean_gh += g * hat[i, j]
            dscale[j] += dy[i, j] * hat[i, j]
            dshift[j] += dy[i, j]
        mean_g /= width
        mean_gh /= width
        if want_dx:
            for j in range(width):
                dx[i, j] = inverse[i] * (dy[i, j] * scale[j] - mean_g - hat[i, j] * mean_gh)


def _matrix(x: Array) -> Array:
    return x.reshape(-1, x.shape[-1])


def layer_norm_forward(c: Call) -> None:
    """``(x - mean) / sqrt(var + eps) * scale + shift`` over the last axis."""
    x, y, xp = _matrix(c.xs[0]), _matrix(c.y), c.xp
    scale, shift = c.params["scale"], c.params["shift"]
    hat = c.scratch("hat", x.shape, x.dtype)
    inverse = c.scratch("inverse", x.shape[:1], x.dtype)
    if c.loops:
        normalise_rows(x, scale, shift, c.attrs["eps"], hat, inverse, y)
        return
    xp.subtract(x, x.mean(axis=1, keepdims=True), out=hat)
    inverse[...] = 1.0 / xp.sqrt((hat * hat).mean(axis=1) + c.attrs["eps"])
    xp.multiply(hat, inverse[:, None], out=hat)
    xp.multiply(hat, scale, out=y)
    xp.add(y, shift, out=y)


def layer_norm_backward(c: Call) -> None:
    """``dx = (g - mean(g) - hat mean(g hat)) / deviation`` with ``g = dy scale``."""
    dy, scale, dx = _matrix(c.dy), c.params["scale"], c.dxs[0]
    hat = c.scratch("hat", dy.shape, dy.dtype)
    inverse = c.scratch("inverse", dy.shape[:1], dy.dtype)
    dscale, dshift = c.dparams["scale"], c.dparams["shift"]
    if c.loops:
        out = hat if dx is None else _matrix(dx)
        normalise_rows_backward(dy, scale, hat, inverse, out, dscale, dshift, dx is not None)
        return
    (dy * hat).sum(axis=0, out=dscale)
    dy.sum(axis=0, out=dshift)
    if dx is not None:
        g = dy * scale
        g -= g.mean(axis=1, keepdims=True) + hat * (g * hat).mean(axis=1, keepdims=True)
        c.xp.multiply(g, inverse[:, None], out=_matrix(dx))


@loop
def drop(x, seed, threshold, factor, y):  # type: ignore[no-untyped-def]
    """Keep x * factor where the number drawn for its position reaches the threshold."""
    for i in range(x.size):
        z = finalise_word(seed + np.uint64(i + 1) * np.uint64(GOLDEN))
        y[i] = x[i] * factor if (z >> np.uint64(32)) >= threshold else x.dtype.type(0)


def dropout_forward(c: Call) -> None:
    """Zero with probability rate, the rest scaled up so that the mean stays; identity outside training."""
    _drop(c, c.xs[0], c.y)


def dropout_backward(c: Call) -> None:
    """The same positions, drawn again from the same seed."""
    if c.dxs[0] is not None:
        _drop(c, c.dy, c.dxs[0])


def _drop(c: Call, x: Array, y: Array) -> None:
    rate = c.attrs["rate"]
    if not c.train or not rate:
        y[...] = x
        return
    threshold, factor = np.uint64(rate * 2.0**32), x.dtype.type(1 / (1 - rate))
    if c.loops:
        drop(x.reshape(-1), np.uint64(c.seed), threshold, factor, y.reshape(-1))
        return
    module = cuda_passes(c.xp, x, y)
    if module is not None and x.flags.c_contiguous and y.flags.c_contiguous:
        drop_cuda(module, x, c.seed, int(threshold), factor, y)
        return
    bits = uniform_bits(c.xp, c.seed, x.size).reshape(x.shape)
    y[...] = c.xp.where((bits >> 32) >= int(threshold), x * factor, 0)


register_kernel("softmax", Kernel(passes(9), softmax_forward, softmax_backward))
register_kernel("layer_norm", Kernel(passes(17), layer_norm_forward, layer_norm_backward))
register_kernel("dropout", Kernel(passes(2, reads=1), dropout_forward, dropout_backward, random=True))
