"""Products of pairs of vectors: dot_interaction (DLRM) and fm (DeepFM)."""

from __future__ import annotations

from functools import cache

import numpy as np

from heterps.device.arrays import Array, Namespace
from heterps.kernels.cost import OpCost, OpWork, passes
from heterps.kernels.jit import loop, reassociating_loop
from heterps.kernels.kernel import FUSED, Call, Kernel, register_kernel
from heterps.kernels.ops.fused_cuda import cuda_passes, dot_pairs_cuda, dot_pairs_slope_cuda
from heterps.kernels.ops.pair_tiles import fits_tiles, tiled_pairs
from heterps.kernels.ops.pointwise import flat_rows

__all__: list[str] = []


@reassociating_loop
def dot_pairs(z, y, stride):  # type: ignore[no-untyped-def]
    """Dot products of pairs (1,0), (2,0), (2,1), ...; z is ``[n, fields, dim]``, y flat with a stride per sample."""
    n, fields, dim = z.shape
    flat, pairs = z.reshape(-1), fields * (fields - 1) // 2
    for b in range(n):
        start, pair = b * fields * dim, np.uint64(0)
        out = y[b * stride : b * stride + pairs]
        for i in range(1, fields):
            left, right = np.uint64(start + i * dim), np.uint64(start)
            for _ in range(i):
                total = z.dtype.type(0)
                for d in range(dim):
                    total += flat[left + np.uint64(d)] * flat[right + np.uint64(d)]
                out[pair] = total
                pair += np.uint64(1)
                right += np.uint64(dim)


@loop
def symmetric(dy, stride, g):  # type: ignore[no-untyped-def]
    """Pair gradients as symmetric matrices with zero diagonal."""
    n, fields, _ = g.shape
    for b in range(n):
        at = np.uint64(b * stride)
        for i in range(fields):
            g[b, i, i] = 0
            for j in range(i):
                v = dy[at + np.uint64(j)]
                g[b, i, j] = v
                g[b, j, i] = v
            at += np.uint64(i)


@loop
def fm_pairs(x, sums, y):  # type: ignore[no-untyped-def]
    """``y = sum_d ((sum_f x)^2 - sum_f x^2) / 2``, keeping the sums over fields."""
    n, fields, dim = x.shape
    squares = np.empty(dim, x.dtype)
    for b in range(n):
        sums[b] = 0
        squares[:] = 0
        for f in range(fields):
            for d in range(dim):
                v = x[b, f, d]
                sums[b, d] += v
                squares[d] += v * v
        total = x.dtype.type(0)
        for d in range(dim):
            total += sums[b, d] * sums[b, d] - squares[d]
        y[b] = total / 2


@loop
def fm_pairs_backward(x, sums, dy, dx):  # type: ignore[no-untyped-def]
    """``dx = dy (sum - x)``."""
    n, fields, dim = x.shape
    for b in range(n):
        for f in range(fields):
            for d in range(dim):
                dx[b, f, d] = dy[b] * (sums[b, d] - x[b, f, d])


def _fields(c: Call) -> list[tuple[int, int]]:
    """Range of fields each input holds in the stacked array."""
    ranges, at = [], 0
    for x in c.xs:
        count = 1 if x.ndim == 2 else x.shape[1]
        ranges.append((at, at + count))
        at += count
    return ranges


def _stacked(c: Call) -> tuple[Array, list[tuple[int, int]]]:
    ranges = _fields(c)
    return c.scratch("z", (c.n, ranges[-1][1], c.xs[0].shape[-1]), c.xs[0].dtype), ranges


@cache
def _pairs(xp: Namespace, fields: int) -> Array:
    """Flat positions of the pairs in a ``fields x fields`` matrix."""
    i, j = np.tril_indices(fields, -1)
    return xp.asarray(i * fields + j)


def dot_interaction_forward(c: Call) -> None:
    """Stack the vectors, then all dot products of pairs."""
    z, ranges = _stacked(c)
    for (a, b), x in zip(ranges, c.xs, strict=True):
        z[:, a:b] = x.reshape(c.n, b - a, x.shape[-1])
    _dots(c, z)


def dot_interaction_backward(c: Call) -> None:
    """``(G + GT) z`` with the pair gradients as matrix G."""
    z, ranges = _stacked(c)
    dz = c.scratch("dz", z.shape, z.dtype)
    _dots_backward(c, z, dz)
    for (a, b), dx in zip(ranges, c.dxs, strict=True):
        if dx is not None:
            dx.reshape(c.n, b - a, dx.shape[-1])[...] = dz[:, a:b]


def side_by_side_forward(c: Call) -> None:
    """The same for vectors that lie side by side already."""
    _dots(c, c.xs[0].reshape(c.n, -1, c.attrs["dim"]))


def side_by_side_backward(c: Call) -> None:
    """The same, written in place."""
    if c.dxs[0] is not None:
        z = c.xs[0].reshape(c.n, -1, c.attrs["dim"])
        _dots_backward(c, z, c.dxs[0].reshape(z.shape))


def _dots(c: Call, z: Array) -> None:
    if fits_tiles(c, z):
        tiled_pairs(c, z)
        return
    if c.loops:
        dot_pairs(z, *flat_rows(c.y))
        return
    if (module := cuda_passes(c.xp, z, c.y)) is not None:
        dot_pairs_cuda(module, z, c.y)
        return
    fields = z.shape[1]
    products = c.xp.matmul(z, z.swapaxes(1, 2)).reshape(c.n, fields * fields)
    c.y[...] = c.xp.take(products, _pairs(c.xp, fields), axis=1)


def _dots_backward(c: Call, z: Array, dz: Array) -> None:
    """``(G + GT) z`` with the pair gradients as matrix G."""
    if (module := cuda_passes(c.xp, z, c.dy, dz)) is not None:
        dot_pairs_slope_cuda(module, z, c.dy, dz)
    else:
        c.xp.matmul(_symmetric(c, z), z, out=dz)


def _symmetric(c: Call, z: Array) -> Array:
    fields = z.shape[1]
    g = c.scratch("g", (c.n, fields, fields), z.dtype)
    if c.loops:
        symmetric(*flat_rows(c.dy), g)
        return g
    flat = g.reshape(c.n, fields * fields)
    flat[...] = 0
    flat[:, _pairs(c.xp, fields)] = c.dy
    return g + g.swapaxes(1, 2)


def dot_interaction_cost(work: OpWork) -> OpCost:
    """One multiply-add per pair and column forward, two backward."""
    pairs, dim = work.output.shape[0], work.inputs[0].shape[-1]
    inputs, output = work.bytes(*work.inputs), work.bytes(work.output)
    return OpCost(6.0 * work.batch * pairs * dim, 2 * inputs + output, inputs + output)


def fm_forward(c: Call) -> None:
    """Half of (square of the sum minus sum of the squares)."""
    x, xp = c.xs[0], c.xp
    sums = c.scratch("sums", (c.n, x.shape[2]), x.dtype)
    if c.loops:
        fm_pairs(x, sums, c.y)
        return
    xp.sum(x, axis=1, out=sums)
    c.y[...] = (xp.sum(sums * sums, axis=1) - xp.sum(x * x, axis=(1, 2))) * 0.5


def fm_backward(c: Call) -> None:
    """``dy`` times the sum of the other vectors."""
    x, dx = c.xs[0], c.dxs[0]
    if dx is None:
        return
    sums = c.scratch("sums", (c.n, x.shape[2]), x.dtype)
    if c.loops:
        fm_pairs_backward(x, sums, c.dy, dx)
        return
    c.xp.subtract(sums[:, None, :], x, out=dx)
    c.xp.multiply(dx, c.dy[:, None, None], out=dx)


register_kernel("dot_interaction", Kernel(dot_interaction_cost, dot_interaction_forward, dot_interaction_backward))
FUSED["concat+dot_interaction"] = Kernel(dot_interaction_cost, side_by_side_forward, side_by_side_backward, strided=1)
register_kernel("fm", Kernel(passes(5), fm_forward, fm_backward))
