"""max_pool and avg_pool over windows of images."""

from __future__ import annotations

import numpy as np

from heterps.device.arrays import Array
from heterps.graph.builtin_vision import pair
from heterps.kernels.cost import OpCost, OpWork
from heterps.kernels.jit import loop
from heterps.kernels.kernel import Call, Kernel, register_kernel
from heterps.kernels.ops.windows import WindowShape

__all__: list[str] = []


def _winner(c: Call) -> Array:
    """Which position of its window gave each result."""
    return c.scratch("winner", c.y.shape, c.xp.int32)


@loop
def largest_of_windows(x, kh, kw, sh, sw, ph, pw, y, winner):  # type: ignore[no-untyped-def]
    """Largest of each window and the position within the window that gave it."""
    n, height, width, channels = x.shape
    for b in range(n):
        for r in range(y.shape[1]):
            for s in range(y.shape[2]):
                for k in range(channels):
                    best, first = x.dtype.type(-np.inf), -1
                    for i in range(max(0, ph - r * sh), min(kh, height + ph - r * sh)):
                        for j in range(max(0, pw - s * sw), min(kw, width + pw - s * sw)):
                            value = x[b, r * sh - ph + i, s * sw - pw + j, k]
                            if not value <= best and best == best:
                                best, first = value, i * kw + j
                    y[b, r, s, k] = best
                    winner[b, r, s, k] = first


@loop
def to_winners(dy, winner, kw, sh, sw, ph, pw, dx):  # type: ignore[no-untyped-def]
    """Add each window's gradient to the pixel that won."""
    n, oh, ow, channels = dy.shape
    for b in range(n):
        for r in range(oh):
            for s in range(ow):
                for k in range(channels):
                    at = winner[b, r, s, k]
                    if at >= 0:
                        dx[b, r * sh - ph + at // kw, s * sw - pw + at % kw, k] += dy[b, r, s, k]


def max_pool_forward(c: Call) -> None:
    """Largest of each window, the first of equals; NaN is larger than everything, so that it is seen."""
    x, xp, winner = c.xs[0], c.xp, _winner(c)
    if c.loops:
        w = WindowShape.of(c.attrs, c.y)
        largest_of_windows(x, *w.kernel, *w.stride, *w.padding, c.y, winner)
        return
    c.y[...] = -xp.inf
    winner[...] = -1
    for at, (rows, cols), (u, v) in WindowShape.of(c.attrs, c.y).offsets(x.shape[1], x.shape[2]):
        value, best, first = x[:, u, v], c.y[:, rows, cols], winner[:, rows, cols]
        larger = ~(value <= best) & (best == best)
        best[...] = xp.where(larger, value, best)
        first[...] = xp.where(larger, xp.int32(at), first)


def max_pool_backward(c: Call) -> None:
    """All of a window's gradient to the number that won."""
    dx, winner = c.dxs[0], _winner(c)
    if dx is None:
        return
    dx[...] = 0
    if c.loops:
        w = WindowShape.of(c.attrs, c.y)
        to_winners(c.dy, winner, w.kernel[1], *w.stride, *w.padding, dx)
        return
    for at, (rows, cols), (u, v) in WindowShape.of(c.attrs, c.y).offsets(dx.shape[1], dx.shape[2]):
        target = dx[:, u, v]
        target += c.dy[:, rows, cols] * (winner[:, rows, cols] == at)


def _counts(c: Call) -> Array:
    """One over the number of pixels in each window."""
    size, window = c.xs[0].shape, WindowShape.of(c.attrs, c.y)
    counts = c.scratch("counts", (*window.counts, 1), c.y.dtype)
    counts[...] = 0
    for _, (rows, cols), _ in window.offsets(size[1], size[2]):
        inside = counts[rows, cols]
        inside += 1
    c.xp.divide(1, counts, out=counts)
    return counts


def avg_pool_forward(c: Call) -> None:
    """Mean of each window."""
    x = c.xs[0]
    c.y[...] = 0
    for _, (rows, cols), (u, v) in WindowShape.of(c.attrs, c.y).offsets(x.shape[1], x.shape[2]):
        target = c.y[:, rows, cols]
        target += x[:, u, v]
    c.xp.multiply(c.y, _counts(c), out=c.y)


def avg_pool_backward(c: Call) -> None:
    """A window's gradient in equal parts to its pixels."""
    dx = c.dxs[0]
    if dx is None:
        return
    share = c.scratch("share", c.dy.shape, c.dy.dtype)
    c.xp.multiply(c.dy, c.scratch("counts", (*c.dy.shape[1:3], 1), c.dy.dtype), out=share)
    dx[...] = 0
    for _, (rows, cols), (u, v) in WindowShape.of(c.attrs, c.y).offsets(dx.shape[1], dx.shape[2]):
        target = dx[:, u, v]
        target += share[:, rows, cols]


def pool_cost(work: OpWork) -> OpCost:
    """Each window reads and writes as many numbers as it is large, each way."""
    height, width = pair(work.attrs["kernel"], "kernel", 1)
    seen = work.numbers(work.output) * height * width
    x, y = work.bytes(*work.inputs), work.bytes(work.output)
    return OpCost(2 * seen, 4 * seen + y, 4 * seen + x + y)


register_kernel("max_pool", Kernel(pool_cost, max_pool_forward, max_pool_backward))
register_kernel("avg_pool", Kernel(pool_cost, avg_pool_forward, avg_pool_backward))
