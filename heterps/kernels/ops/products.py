"""The products of a layer, in tiles that stay in registers: a library lays out both matrices anew, piece by piece,
which layers of some hundred inputs and outputs do not repay.

A tile's rows go over all columns before the next rows: the weights of such a layer stay in the second-level cache, and
bias and activation are done to a few rows while they are in the first.

Each number is a sum in one order, whatever its place: results depend neither on the size of the batch nor on threads.
"""

from __future__ import annotations

import numpy as np

from heterps.compiled import inline
from heterps.device.arrays import Array
from heterps.kernels.jit import loop
from heterps.kernels.kernel import Call
from heterps.kernels.ops.pointwise import bias_relu, flat_rows
from heterps.kernels.ops.row_parts import over_rows
from heterps.kernels.ops.tiles import (
    COLUMNS,
    FUSES,
    ROWS,
    WIDE,
    WIDTH,
    row_narrow,
    row_wide,
    rows_narrow,
    rows_wide,
    turn_square,
)

__all__ = ["input_gradient", "product", "weight_gradient"]

#: Outputs up to which a layer is narrow, and inputs from which it then repays that loops are compiled for it.
NARROW, LEAST = 64, 256
#: Weights of the largest layer: more would come from the third-level cache for every few rows.
MOST = 1 << 19
#: Samples whose part of a weight gradient is added up before the next, in a narrow layer and in others: as many of
#: some columns as the first-level cache holds. Narrow layers have many inputs: each sample may lie on pages of its own.
SAMPLES = 16, 64
_NOTHING = np.empty(0, np.float32)


@inline
def tile(x, x0, xr, xk, rows, w, w0, wk, y, y0, yr, width, n, more):  # type: ignore[no-untyped-def]
    """Write some rows and columns of a product, at most as many as the largest tile has."""
    if WIDE and width == np.uint64(WIDTH):
        if rows == np.uint64(ROWS):
            rows_wide(x, x0, xr, xk, w, w0, wk, y, y0, yr, n, more)
        else:
            for r in range(rows):
                row_wide(x, x0 + r * xr, xr, xk, w, w0, wk, y, y0 + r * yr, yr, n, more)
    else:
        for c in range(np.uint64(0), width, np.uint64(COLUMNS)):
            if rows == np.uint64(ROWS):
                rows_narrow(x, x0, xr, xk, w, w0 + c, wk, y, y0 + c, yr, n, more)
            else:
                for r in range(rows):
                    row_narrow(x, x0 + r * xr, xr, xk, w, w0 + c, wk, y, y0 + r * yr + c, yr, n, more)


@inline
def panel(p, columns):  # type: ignore[no-untyped-def]
    """Return how wide the p-th panel of some columns is, and where it begins: the last may overlap."""
    width = min(WIDTH, -(-(columns - p * WIDTH) // COLUMNS) * COLUMNS)
    return width, min(p * WIDTH, columns - width)


@loop
def tiled_product(x, x_stride, w, w_step, w_stride, y, y_stride, n, inner, columns, bias):  # type: ignore[no-untyped-def]
    """``y = x w`` for ``n`` samples, or ``max(x w + bias, 0)``; a panel of ``w`` is ``w_step`` from the next."""
    one, xr, yr, wk, k = np.uint64(1), np.uint64(x_stride), np.uint64(y_stride), np.uint64(w_stride), np.uint64(inner)
    for i in range(0, n, ROWS):
        rows, at = np.uint64(min(ROWS, n - i)), np.uint64(i * x_stride)
        for p in range(-(-columns // WIDTH)):
            width, first = panel(p, columns)
            to = np.uint64(i * y_stride + first)
            tile(x, at, xr, one, rows, w, np.uint64(p * w_step), wk, y, to, yr, np.uint64(width), k, False)
        if bias.size:
            bias_relu(y, y_stride, i, i + rows, bias)


@loop
def tiled_gradient(x, x_stride, dy, dy_stride, out, n, columns, some):  # type: ignore[no-untyped-def]
    """``out = xT dy`` over ``n`` samples, ``some`` of them at a time."""
    inputs, wide, xk, dk = np.uint64(out.size // columns), np.uint64(columns), np.uint64(x_stride), np.uint64(dy_stride)
    one, tall, width = np.uint64(1), np.uint64(ROWS), np.uint64(WIDTH)
    for s in range(np.uint64(0), np.uint64(max(n, 1)), np.uint64(some)):
        samples, more = min(np.uint64(some), np.uint64(n) - s), s > np.uint64(0)
        for c in range(np.uint64(0), wide, width):
            across, here = min(width, wide - c), s * dk + c
            for f in range(np.uint64(0), inputs, tall):
                rows, to = min(tall, inputs - f), f * wide + c
                tile(x, s * xk + f, one, xk, rows, dy, here, dk, out, to, wide, across, samples, more)


@loop
def turned(w, panels, inputs, columns):  # type: ignore[no-untyped-def]
    """Write weights turned round, as many inputs at a time as the widest tile has columns."""
    for p in range(-(-inputs // WIDTH)):
        width, first = panel(p, inputs)
        for i in range(0, width, COLUMNS):
            for j in range(0, columns, COLUMNS):
                at, to = np.uint64((first + i) * columns + j), np.uint64((p * columns + j) * WIDTH + i)
                turn_square(w, at, np.uint64(columns), panels, to, np.uint64(WIDTH))


def _is_tiled(c: Call, weight: Array) -> bool:
    """Whether the products with these weights, forward and for their gradient, are ours."""
    inputs, columns = weight.shape
    if not (FUSES and c.loops and columns and columns % COLUMNS == 0 and weight.dtype == np.float32):
        return False
    return inputs >= LEAST if columns <= NARROW else WIDE and inputs * columns <= MOST


def product(c: Call, x: Array, weight: Array, y: Array, bias: Array | None = None) -> bool:
    """``y = x W``. With a bias, and where that costs no pass of its own, ``max(x W + bias, 0)``: then return True."""
    if not _is_tiled(c, weight):
        c.xp.matmul(x, weight, out=y)
        return False
    (inner, columns), flat, added = weight.shape, weight.reshape(-1), _NOTHING if bias is None else bias

    def run(x: Array, y: Array) -> None:
        tiled_product(*flat_rows(x), flat, WIDTH, columns, *flat_rows(y), len(y), inner, columns, added)

    over_rows(run, ROWS, x, y)
    return bias is not None


def weight_gradient(c: Call, x: Array, dy: Array, out: Array) -> None:
    """``dW = xT dy``."""
    if not _is_tiled(c, out):
        c.xp.matmul(x.T, dy, out=out)
        return

    some = SAMPLES[dy.shape[1] > NARROW]

    def run(inputs: Array, out: Array) -> None:
        tiled_gradient(*flat_rows(inputs.T), *flat_rows(dy), out.reshape(-1), *dy.shape, some)

    over_rows(run, ROWS, x.T, out)


def input_gradient(c: Call, dy: Array, weight: Array, dx: Array) -> None:
    """``dx = dy WT``."""
    inputs, columns = weight.shape
    if not _is_tiled(c, weight) or inputs < WIDTH:
        c.xp.matmul(dy, weight.T, out=dx)
        return
    step = columns * WIDTH
    panels = c.scratch("panels", (-(-inputs // WIDTH) * step,), weight.dtype)
    turned(weight.reshape(-1), panels, inputs, columns)

    def run(dy: Array, dx: Array) -> None:
        tiled_product(*flat_rows(dy), panels, step, WIDTH, *flat_rows(dx), len(dx), columns, inputs, _NOTHING)

    over_rows(run, ROWS, dy, dx)
