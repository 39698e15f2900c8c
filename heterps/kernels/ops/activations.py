"""Further activations: gelu and prelu (dice stands with batch_norm, whose statistics it shares)."""

from __future__ import annotations

import math

from heterps.device.arrays import Array
from heterps.kernels.cost import passes
from heterps.kernels.kernel import Call, Kernel, register_kernel

__all__ = ["columns_of"]

ROOT = math.sqrt(2 / math.pi)
CUBIC = 0.044715


def columns_of(x: Array, width: int) -> Array:
    """``[n, ..., width]`` as a matrix of that many columns."""
    return x.reshape(-1, width)


def _bend(c: Call) -> Array:
    """``tanh(sqrt(2 / pi) (x + 0.044715 x^3))``, kept from forward to backward."""
    return c.scratch("bend", c.xs[0].shape, c.xs[0].dtype)


def gelu_forward(c: Call) -> None:
    """``x (1 + tanh(...)) / 2``."""
    x, t, xp = c.xs[0], _bend(c), c.xp
    xp.multiply(x, x, out=t)
    xp.multiply(t, CUBIC, out=t)
    xp.add(t, 1, out=t)
    xp.multiply(t, x, out=t)
    xp.multiply(t, ROOT, out=t)
    xp.tanh(t, out=t)
    xp.add(t, 1, out=c.y)
    xp.multiply(c.y, x, out=c.y)
    xp.multiply(c.y, 0.5, out=c.y)


def gelu_backward(c: Call) -> None:
    """``dy ((1 + t) + x (1 - t^2) slope) / 2`` with the slope of what went into the tanh."""
    x, dx, t, xp = c.xs[0], c.dxs[0], _bend(c), c.xp
    if dx is None:
        return
    slope = c.scratch("slope", x.shape, x.dtype)
    xp.multiply(x, x, out=slope)
    xp.multiply(slope, 3 * CUBIC, out=slope)
    xp.add(slope, 1, out=slope)
    xp.multiply(slope, x, out=slope)
    xp.multiply(slope, ROOT, out=slope)
    xp.multiply(t, t, out=dx)
    xp.subtract(1, dx, out=dx)
    xp.multiply(dx, slope, out=dx)
    xp.add(dx, t, out=dx)
    xp.add(dx, 1, out=dx)
    xp.multiply(dx, c.dy, out=dx)
    xp.multiply(dx, 0.5, out=dx)


def prelu_forward(c: Call) -> None:
    """``max(x, 0) + slope min(x, 0)``."""
    slope, xp = c.params["slope"], c.xp
    x, y = (columns_of(a, slope.shape[0]) for a in (c.xs[0], c.y))
    low = c.scratch("low", x.shape, x.dtype)
    xp.minimum(x, 0, out=low)
    xp.multiply(low, slope, out=y)
    xp.add(y, xp.maximum(x, 0, out=c.scratch("high", x.shape, x.dtype)), out=y)


def prelu_backward(c: Call) -> None:
    """``dy`` above 0, ``slope dy`` below; the slope gets what lies below."""
    slope, xp = c.params["slope"], c.xp
    x, dy = (columns_of(a, slope.shape[0]) for a in (c.xs[0], c.dy))
    low = c.scratch("low", x.shape, x.dtype)
    product = c.scratch("high", x.shape, x.dtype)
    xp.multiply(dy, low, out=product)
    xp.sum(product, axis=0, out=c.dparams["slope"])
    if c.dxs[0] is not None:
        dx = columns_of(c.dxs[0], slope.shape[0])
        mask = c.scratch("positive", x.shape, bool)
        xp.greater(x, 0, out=mask)
        xp.multiply(dy, slope, out=dx)
        xp.copyto(dx, dy, where=mask)


register_kernel("gelu", Kernel(passes(22), gelu_forward, gelu_backward))
register_kernel("prelu", Kernel(passes(6), prelu_forward, prelu_backward))
