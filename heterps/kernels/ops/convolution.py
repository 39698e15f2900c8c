"""conv2d as matrix products over images laid out window by window.

Windows overlap, so the layout is several times the size of the images: a few samples are laid out at a time, which
keeps it in the cache, and once more for the weight's gradient rather than kept.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from heterps.device.arrays import Array
from heterps.graph.builtin_vision import pair
from heterps.kernels.cost import OpCost, OpWork, parameter_count
from heterps.kernels.kernel import Call, Kernel, register_kernel
from heterps.kernels.ops.pointwise import add_bias, column_sums
from heterps.kernels.ops.windows import WindowShape, columns, uncolumns

__all__: list[str] = []

CPU_LAYOUT_BYTES = 1 << 20  # stays in a core's cache
DEVICE_LAYOUT_BYTES = 1 << 28  # fills a device, and leaves room


def _portions(c: Call, window: WindowShape, width: int) -> Iterator[slice]:
    """Samples that are laid out together."""
    each = window.counts[0] * window.counts[1] * width * c.y.dtype.itemsize
    limit = CPU_LAYOUT_BYTES if c.loops else DEVICE_LAYOUT_BYTES
    step = c.n if window.is_point else max(1, limit // each)
    for start in range(0, c.n, step):
        yield slice(start, min(start + step, c.n))


def _groups(c: Call) -> list[tuple[tuple[int, int], slice]]:
    """Input channels and result channels of each group."""
    groups = c.attrs["groups"]
    wide, made = c.xs[0].shape[3] // groups, c.y.shape[3] // groups
    return [((g * wide, (g + 1) * wide), slice(g * made, (g + 1) * made)) for g in range(groups)]


def _laid_out(c: Call, window: WindowShape, part: slice, channels: tuple[int, int], width: int) -> Array:
    x = c.xs[0][part]
    rows = x.shape[0] * window.counts[0] * window.counts[1]
    if window.is_point and c.attrs["groups"] == 1:
        return x.reshape(rows, width)
    out = c.scratch("columns", (rows, width), x.dtype)
    columns(c, x, window, channels, out)
    return out


def conv2d_forward(c: Call) -> None:
    """Windows times weights, plus bias."""
    weight, window = c.params["weight"], WindowShape.of(c.attrs, c.y)
    for part in _portions(c, window, weight.shape[0]):
        y = c.y[part].reshape(-1, weight.shape[1])
        for channels, made in _groups(c):
            laid = _laid_out(c, window, part, channels, weight.shape[0])
            c.xp.matmul(laid, weight[:, made], out=y[:, made])
    if "bias" in c.params:
        add_bias(c, c.y.reshape(-1, weight.shape[1]), c.params["bias"])


def conv2d_backward(c: Call) -> None:
    """``dW = columnsT dy``, ``dx`` = what ``dy WT`` puts back."""
    weight, window, dx = c.params["weight"], WindowShape.of(c.attrs, c.y), c.dxs[0]
    dweight = c.dparams["weight"]
    dweight[...] = 0
    if dx is not None and not (window.is_point and c.attrs["groups"] == 1):
        dx[...] = 0
    for part in _portions(c, window, weight.shape[0]):
        dy = c.dy[part].reshape(-1, weight.shape[1])
        for channels, made in _groups(c):
            laid = _laid_out(c, window, part, channels, weight.shape[0])
            share = c.scratch("share", (weight.shape[0], made.stop - made.start), weight.dtype)
            c.xp.matmul(laid.T, dy[:, made], out=share)
            dweight[:, made] += share
            if dx is not None:
                _dx(c, dy[:, made], weight[:, made], window, dx[part], channels)
    if "bias" in c.dparams:
        column_sums(c, c.dy.reshape(-1, weight.shape[1]), c.dparams["bias"])


def _dx(c: Call, dy: Array, weight: Array, window: WindowShape, dx: Array, channels: tuple[int, int]) -> None:
    if window.is_point and c.attrs["groups"] == 1:
        c.xp.matmul(dy, weight.T, out=dx.reshape(dy.shape[0], weight.shape[0]))
        return
    laid = c.scratch("columns", (dy.shape[0], weight.shape[0]), dy.dtype)
    c.xp.matmul(dy, weight.T, out=laid)
    uncolumns(c, laid, window, channels, dx)


def conv2d_cost(work: OpWork) -> OpCost:
    """Three products of windows by weights; images laid out twice and put back once."""
    x, y = work.bytes(work.inputs[0]), work.bytes(work.output)
    kernel = math.prod(pair(work.attrs["kernel"], "kernel", 1))
    windows = work.batch * math.prod(work.output.shape[:2])
    weight, count = math.prod(work.params[0].shape), parameter_count(work)
    laid = 4.0 * windows * kernel * work.inputs[0].shape[2] if kernel > 1 else 0.0
    return OpCost(
        6.0 * windows * weight + 2.0 * windows * (count - weight),
        2 * x + 2 * y + 3 * laid + 4.0 * (count + weight),
        x + y + 3 * laid + 4.0 * count,
        4.0 * count,
    )


register_kernel("conv2d", Kernel(conv2d_cost, conv2d_forward, conv2d_backward))
