"""The products of a layer with few outputs: a library lays out the large matrix anew, which few columns do not repay.

Each number is a sum in one order, whatever its place: results do not depend on the size of the batch.
"""

from __future__ import annotations

import numpy as np

from heterps.compiled import inline
from heterps.device.arrays import Array
from heterps.kernels.jit import loop
from heterps.kernels.kernel import Call
from heterps.kernels.ops.pointwise import flat_rows
from heterps.kernels.ops.tiles import COLUMNS, FUSES, ROWS, WIDE, row_narrow, row_wide, rows_narrow, rows_wide

__all__ = ["input_gradient", "product", "weight_gradient"]

#: Outputs up to which, and inputs from which, this is faster than a library: not with twice as many, or a quarter.
MOST, LEAST = 4 * COLUMNS, 256
#: Columns of the largest tile.
PANEL = MOST if WIDE else COLUMNS
#: Samples whose part of a weight gradient is added up before the next. Each lies on pages of its own, of which a
#: processor knows some seventy.
SAMPLES = 16


@inline
def tile_row(x, x0, xr, xk, rows, w, w0, wk, y, y0, yr, columns, n, more):  # type: ignore[no-untyped-def]
    """Write some rows of a product, at most as many as a tile has."""
    if WIDE and columns == np.uint64(MOST):
        if rows == np.uint64(ROWS):
            rows_wide(x, x0, xr, xk, w, w0, wk, y, y0, yr, n, more)
        else:
            for r in range(rows):
                row_wide(x, x0 + r * xr, xr, xk, w, w0, wk, y, y0 + r * yr, yr, n, more)
    else:
        for c in range(np.uint64(0), columns, np.uint64(COLUMNS)):
            if rows == np.uint64(ROWS):
                rows_narrow(x, x0, xr, xk, w, w0 + c, wk, y, y0 + c, yr, n, more)
            else:
                for r in range(rows):
                    row_narrow(x, x0 + r * xr, xr, xk, w, w0 + c, wk, y, y0 + r * yr + c, yr, n, more)


@loop
def narrow_product(x, x_stride, w, y, y_stride, n, columns):  # type: ignore[no-untyped-def]
    """``y = x w`` for ``n`` samples."""
    inner, xr, yr = np.uint64(w.size // columns), np.uint64(x_stride), np.uint64(y_stride)
    one, tall, wk = np.uint64(1), np.uint64(ROWS), np.uint64(columns)
    for i in range(np.uint64(0), np.uint64(n), tall):
        rows = min(tall, np.uint64(n) - i)
        tile_row(x, i * xr, xr, one, rows, w, np.uint64(0), wk, y, i * yr, yr, wk, inner, False)


@loop
def narrow_gradient(x, x_stride, dy, dy_stride, out, n, columns):  # type: ignore[no-untyped-def]
    """``out = xT dy`` over ``n`` samples."""
    inputs, xk, dk = np.uint64(out.size // columns), np.uint64(x_stride), np.uint64(dy_stride)
    one, tall, wide = np.uint64(1), np.uint64(ROWS), np.uint64(columns)
    for s in range(np.uint64(0), np.uint64(max(n, 1)), np.uint64(SAMPLES)):
        samples = min(np.uint64(SAMPLES), np.uint64(n) - s)
        for f in range(np.uint64(0), inputs, tall):
            rows, more = min(tall, inputs - f), s > np.uint64(0)
            tile_row(x, s * xk + f, one, xk, rows, dy, s * dk, dk, out, f * wide, wide, wide, samples, more)


@loop
def narrow_inputs(dy, dy_stride, w, panels, dx, dx_stride, n, columns):  # type: ignore[no-untyped-def]
    """``dx = dy wT`` for ``n`` samples; ``panels`` takes the weights, turned round, as many inputs as tiles have
    columns at a time. The last ones overlap.
    """
    inputs, dk, xr, wide = w.size // columns, np.uint64(dy_stride), np.uint64(dx_stride), np.uint64(PANEL)
    for p in range(panels.shape[0]):
        first = min(p * PANEL, inputs - PANEL) * columns
        for j in range(columns):
            for c in range(PANEL):
                panels[p, j, c] = w[first + c * columns + j]
    flat, one, tall, outputs = panels.reshape(-1), np.uint64(1), np.uint64(ROWS), np.uint64(columns)
    for i in range(np.uint64(0), np.uint64(n), tall):
        rows = min(tall, np.uint64(n) - i)
        for p in range(panels.shape[0]):
            here, to = np.uint64(p * columns * PANEL), i * xr + np.uint64(min(p * PANEL, inputs - PANEL))
            tile_row(dy, i * dk, dk, one, rows, flat, here, wide, dx, to, xr, wide, outputs, False)


def _is_narrow(c: Call, weight: Array) -> bool:
    inputs, columns = weight.shape
    fits = inputs >= LEAST and 0 < columns <= MOST and columns % COLUMNS == 0
    return FUSES and fits and c.loops and weight.dtype == np.float32


def product(c: Call, x: Array, weight: Array, y: Array) -> None:
    """``y = x W``."""
    if _is_narrow(c, weight):
        narrow_product(*flat_rows(x), weight.reshape(-1), *flat_rows(y), *y.shape)
    else:
        c.xp.matmul(x, weight, out=y)


def weight_gradient(c: Call, x: Array, dy: Array, out: Array) -> None:
    """``dW = xT dy``."""
    if _is_narrow(c, out):
        narrow_gradient(*flat_rows(x), *flat_rows(dy), out.reshape(-1), *dy.shape)
    else:
        c.xp.matmul(x.T, dy, out=out)


def input_gradient(c: Call, dy: Array, weight: Array, dx: Array) -> None:
    """``dx = dy WT``."""
    inputs, columns = weight.shape
    if _is_narrow(c, weight):
        panels = c.scratch("panels", (-(-inputs // PANEL), columns, PANEL), weight.dtype)
        narrow_inputs(*flat_rows(dy), weight.reshape(-1), panels, *flat_rows(dx), *dy.shape)
    else:
        c.xp.matmul(dy, weight.T, out=dx)
