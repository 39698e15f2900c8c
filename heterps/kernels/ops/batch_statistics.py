"""batch_norm and dice: a column's mean and variance over the batch in training, running ones otherwise.

The running ones are parameters with a rule of their own (a step of length 1). Backward writes the step that is the
moving average, so they change where, and as often as, all parameters do: in the shard, once per batch key.
"""

from __future__ import annotations

import numpy as np

from heterps.device.arrays import Array
from heterps.kernels.cost import passes
from heterps.kernels.jit import loop
from heterps.kernels.kernel import Call, Kernel, register_kernel
from heterps.kernels.ops.activations import columns_of
from heterps.kernels.ops.pointwise import stable_sigmoid

__all__: list[str] = []


@loop
def moments(x, mean, variance):  # type: ignore[no-untyped-def]
    """Mean and variance of each column, added up in double precision."""
    rows, width = x.shape
    total = np.zeros(width)
    for i in range(rows):
        for j in range(width):
            total[j] += x[i, j]
    total /= rows
    squares = np.zeros(width)
    for i in range(rows):
        for j in range(width):
            squares[j] += (x[i, j] - total[j]) ** 2
    for j in range(width):
        mean[j] = total[j]
        variance[j] = squares[j] / rows


@loop
def scale_columns(x, mean, inverse, scale, shift, hat, y):  # type: ignore[no-untyped-def]
    """``hat = (x - mean) inverse`` and ``y = hat scale + shift``."""
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            h = (x[i, j] - mean[j]) * inverse[j]
            hat[i, j] = h
            y[i, j] = h * scale[j] + shift[j]


@loop
def slope_sums(dy, hat, sums, products):  # type: ignore[no-untyped-def]
    """Column sums of ``dy`` and of ``dy hat``, added up in double precision."""
    total, weighted = np.zeros(dy.shape[1]), np.zeros(dy.shape[1])
    for i in range(dy.shape[0]):
        for j in range(dy.shape[1]):
            total[j] += dy[i, j]
            weighted[j] += dy[i, j] * hat[i, j]
    for j in range(dy.shape[1]):
        sums[j] = total[j]
        products[j] = weighted[j]


@loop
def through_statistics(dy, hat, factor, a, b, dx):  # type: ignore[no-untyped-def]
    """``dx = factor (dy - a - hat b)``."""
    for i in range(dy.shape[0]):
        for j in range(dy.shape[1]):
            dx[i, j] = factor[j] * (dy[i, j] - a[j] - hat[i, j] * b[j])


def _vector(c: Call, name: str, width: int) -> Array:
    return c.scratch(name, (width,), c.y.dtype)


def _statistics(c: Call, x: Array) -> tuple[Array, Array]:
    """Mean and one over the deviation of each column; those of the batch are kept for backward."""
    width, xp = x.shape[1], c.xp
    mean, variance, inverse = (_vector(c, name, width) for name in ("mean", "variance", "inverse"))
    if not c.train:
        mean[...], variance[...] = c.params["mean"], c.params["variance"]
    elif c.loops:
        moments(x, mean, variance)
    else:
        xp.mean(x, axis=0, out=mean)
        xp.var(x, axis=0, out=variance)
    # A running variance that follows stale steps may dip below 0 for a moment.
    xp.maximum(variance, 0, out=inverse)
    xp.add(inverse, c.attrs["eps"], out=inverse)
    xp.sqrt(inverse, out=inverse)
    xp.divide(1, inverse, out=inverse)
    return mean, inverse


def _steps(c: Call, width: int) -> None:
    """Write the steps that move the running statistics; none outside training."""
    share = 1 - c.attrs["momentum"] if c.train else 0.0
    for name in ("mean", "variance"):
        step = c.dparams[name]
        c.xp.subtract(c.params[name], _vector(c, name, width), out=step)
        c.xp.multiply(step, share, out=step)


def _through(c: Call, dhat: Array, hat: Array, factor: Array, dx: Array) -> None:
    """``dx = factor (dhat - mean(dhat) - hat mean(dhat hat))``; the means stay out where statistics are given."""
    xp, (rows, width) = c.xp, dhat.shape
    a, b = _vector(c, "a", width), _vector(c, "b", width)
    _sums(c, dhat, hat, a, b)
    share = 1 / max(rows, 1) if c.train else 0.0
    a *= share
    b *= share
    if c.loops:
        through_statistics(dhat, hat, factor, a, b, dx)
        return
    xp.multiply(hat, b, out=dx)
    xp.add(dx, a, out=dx)
    xp.subtract(dhat, dx, out=dx)
    xp.multiply(dx, factor, out=dx)


def _sums(c: Call, dy: Array, hat: Array, sums: Array, products: Array) -> None:
    if c.loops:
        slope_sums(dy, hat, sums, products)
        return
    c.xp.sum(dy, axis=0, out=sums)
    c.xp.sum(dy * hat, axis=0, out=products)


def batch_norm_forward(c: Call) -> None:
    """``(x - mean) / sqrt(variance + eps) * scale + shift`` per column."""
    scale, shift, xp = c.params["scale"], c.params["shift"], c.xp
    x, y = columns_of(c.xs[0], scale.shape[0]), columns_of(c.y, scale.shape[0])
    hat = c.scratch("hat", x.shape, x.dtype)
    mean, inverse = _statistics(c, x)
    if c.loops:
        scale_columns(x, mean, inverse, scale, shift, hat, y)
        return
    xp.subtract(x, mean, out=hat)
    xp.multiply(hat, inverse, out=hat)
    xp.multiply(hat, scale, out=y)
    xp.add(y, shift, out=y)


def batch_norm_backward(c: Call) -> None:
    """Through scale and shift, then through the batch's own statistics."""
    scale = c.params["scale"]
    width = scale.shape[0]
    dy = columns_of(c.dy, width)
    hat = c.scratch("hat", dy.shape, dy.dtype)
    _sums(c, dy, hat, c.dparams["shift"], c.dparams["scale"])
    _steps(c, width)
    if c.dxs[0] is not None:
        factor = _vector(c, "factor", width)
        c.xp.multiply(scale, _vector(c, "inverse", width), out=factor)
        _through(c, dy, hat, factor, columns_of(c.dxs[0], width))


def dice_forward(c: Call) -> None:
    """``x (p + slope (1 - p))`` with p the logistic function of the normalised x."""
    slope, xp = c.params["slope"], c.xp
    x, y = columns_of(c.xs[0], slope.shape[0]), columns_of(c.y, slope.shape[0])
    hat, p = c.scratch("hat", x.shape, x.dtype), c.scratch("p", x.shape, x.dtype)
    mean, inverse = _statistics(c, x)
    xp.subtract(x, mean, out=hat)
    xp.multiply(hat, inverse, out=hat)
    stable_sigmoid(c, hat, p)
    xp.subtract(1, slope, out=_vector(c, "rest", slope.shape[0]))
    xp.multiply(p, _vector(c, "rest", slope.shape[0]), out=y)
    xp.add(y, slope, out=y)
    xp.multiply(y, x, out=y)


def dice_backward(c: Call) -> None:
    """Directly through x, and through p and the statistics it came from."""
    slope, xp = c.params["slope"], c.xp
    width = slope.shape[0]
    x, dy = columns_of(c.xs[0], width), columns_of(c.dy, width)
    hat, p = c.scratch("hat", x.shape, x.dtype), c.scratch("p", x.shape, x.dtype)
    work, direct = c.scratch("work", x.shape, x.dtype), c.scratch("direct", x.shape, x.dtype)
    xp.subtract(1, p, out=work)
    xp.multiply(work, x, out=direct)
    xp.multiply(direct, dy, out=direct)
    xp.sum(direct, axis=0, out=c.dparams["slope"])
    _steps(c, width)
    if c.dxs[0] is None:
        return
    rest = _vector(c, "rest", width)
    xp.multiply(direct, p, out=work)  # dy x p (1 - p)
    xp.multiply(work, rest, out=work)
    xp.multiply(p, rest, out=direct)
    xp.add(direct, slope, out=direct)
    xp.multiply(direct, dy, out=direct)
    dx = columns_of(c.dxs[0], width)
    _through(c, work, hat, _vector(c, "inverse", width), dx)
    xp.add(dx, direct, out=dx)


register_kernel("batch_norm", Kernel(passes(16), batch_norm_forward, batch_norm_backward))
register_kernel("dice", Kernel(passes(26), dice_forward, dice_backward))
