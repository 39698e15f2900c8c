"""Moving and reducing without arithmetic worth the name: concat, split, reshape, sum, mean."""

from __future__ import annotations

import math

from heterps.device.arrays import Array
from heterps.graph.builtin import axes_of
from heterps.kernels.cost import OpCost, OpWork, passes
from heterps.kernels.kernel import Call, Kernel, register_kernel
from heterps.kernels.ops.pointwise import ANY_RANK

__all__ = ["pieces"]


def pieces(c: Call, whole: Array, parts: list[Array]) -> list[Array]:
    """Views of a concat result (or its gradient), one per input, each in that input's shape."""
    axis = c.attrs["axis"]
    if axis is None:
        return _flat_pieces(whole, parts)
    (a,) = axes_of(axis, whole.ndim - 1)
    views, at = [], 0
    for part in parts:
        width = part.shape[a + 1]
        views.append(whole[(slice(None),) * (a + 1) + (slice(at, at + width),)])
        at += width
    return views


def _flat_pieces(whole: Array, parts: list[Array]) -> list[Array]:
    views, at = [], 0
    for part in parts:
        width = math.prod(part.shape[1:])
        views.append(whole[:, at : at + width].reshape(part.shape))  # splitting a contiguous axis never copies
        at += width
    return views


def concat_forward(c: Call) -> None:
    """Inputs side by side; an input that was written in place already is not copied."""
    if "copied" not in c.kept:
        c.kept["copied"] = [(i, view) for i, view in enumerate(pieces(c, c.y, c.xs)) if i not in c.placed]
    for i, view in c.kept["copied"]:
        view[...] = c.xs[i]


def concat_backward(c: Call) -> None:
    """Each input's piece of dy; a gradient that is that piece already is not copied."""
    wanted = [i for i, dx in enumerate(c.dxs) if dx is not None and i not in c.dplaced]
    views = pieces(c, c.dy, c.xs) if wanted else []
    for i in wanted:
        c.dxs[i][...] = views[i]


def split_forward(c: Call) -> None:
    """``x[start:stop]`` along the axis."""
    c.y[...] = _piece(c, c.xs[0])


def split_backward(c: Call) -> None:
    """``dy`` in its place, zero elsewhere."""
    if c.dxs[0] is not None:
        c.dxs[0][...] = 0
        _piece(c, c.dxs[0])[...] = c.dy


def _piece(c: Call, x: Array) -> Array:
    (a,) = axes_of(c.attrs["axis"], x.ndim - 1)
    return x[(slice(None),) * (a + 1) + (slice(c.attrs["start"], c.attrs["stop"]),)]


def reshape_forward(c: Call) -> None:
    """The same numbers in another shape."""
    c.y[...] = c.xs[0].reshape(c.y.shape)


def reshape_backward(c: Call) -> None:
    """The same numbers in the old shape."""
    if c.dxs[0] is not None:
        c.dxs[0][...] = c.dy.reshape(c.dxs[0].shape)


def sum_forward(c: Call) -> None:
    """Sum over per-sample axes."""
    axes = _axes(c)
    if not axes:
        c.y[...] = c.xs[0]
    else:
        c.xp.sum(c.xs[0], axis=axes, keepdims=c.attrs["keepdims"], out=c.y)


def sum_backward(c: Call) -> None:
    """``dy`` to every number that went into the sum."""
    if c.dxs[0] is not None:
        c.dxs[0][...] = _spread(c)


def mean_forward(c: Call) -> None:
    """Mean over per-sample axes."""
    sum_forward(c)
    c.y *= 1.0 / _count(c)


def mean_backward(c: Call) -> None:
    """``dy`` over the count to every number that went into the mean."""
    if c.dxs[0] is not None:
        c.xp.multiply(_spread(c), 1.0 / _count(c), out=c.dxs[0])


def _axes(c: Call) -> tuple[int, ...]:
    return tuple(a + 1 for a in axes_of(c.attrs["axis"], c.xs[0].ndim - 1))


def _spread(c: Call) -> Array:
    """``dy`` with the reduced axes put back as ones."""
    axes, shape = _axes(c), c.xs[0].shape
    return c.dy.reshape(tuple(1 if a in axes else length for a, length in enumerate(shape)))


def _count(c: Call) -> int:
    return math.prod(c.xs[0].shape[a] for a in _axes(c))


def move_cost(work: OpWork) -> OpCost:
    """Every number is read and written once each way."""
    moved = work.bytes(work.output)
    return OpCost(0.0, 2 * moved, 2 * moved)


register_kernel("concat", Kernel(move_cost, concat_forward, concat_backward, strided=ANY_RANK))
register_kernel("split", Kernel(move_cost, split_forward, split_backward))
register_kernel("reshape", Kernel(move_cost, reshape_forward, reshape_backward))
register_kernel("sum", Kernel(passes(1, reads=1), sum_forward, sum_backward))
register_kernel("mean", Kernel(passes(2, reads=1), mean_forward, mean_backward))
