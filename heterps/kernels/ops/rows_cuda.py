"""Launching ``rows.cu``: gather, pooling and the scatter-add by row on a device. Not run on a GPU yet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from heterps.device.arrays import Array
from heterps.device.raw import RawModule, cuda_text, raw_module

if TYPE_CHECKING:
    from heterps.kernels.kernel import Call
    from heterps.kernels.ops.rows import Gathering

__all__ = ["SOURCE", "cuda_rows", "gather_cuda", "scatter_cuda"]

SOURCE = Path(__file__).with_name("rows.cu")
MODES = {"none": 0, "sum": 1, "mean": 2, "max": 3}


def cuda_rows(c: Call, values: Array) -> RawModule | None:
    """Return the kernels, where the device has them and the numbers are float32."""
    return raw_module(c.xp, cuda_text(SOURCE)) if values.dtype == np.float32 else None


def gather_cuda(c: Call, module: RawModule, g: Gathering, offsets: Array, y: Array) -> None:
    """Forward of gather_pool."""
    positions, dim = g.inverse.shape[0], g.dim
    head = (g.values, np.int32(g.values.shape[1]), np.int32(g.low), np.int32(dim), g.inverse)
    stride = _stride(y)
    if g.pooling == "none":
        slots = max(positions // max(y.shape[0], 1), 1)
        tail: tuple[Any, ...] = (np.int32(g.pad), y, stride, np.int32(slots), np.int64(positions * dim))
        module.launch("gather_rows", positions * dim, head + tail)
        return
    kept, winner = _counted(c, g)
    tail = (offsets, np.int32(g.pad), np.int32(MODES[g.pooling]), y, stride, kept, winner, np.int64(c.n * dim))
    module.launch("pool_rows", c.n * dim, head + tail)


def scatter_cuda(c: Call, module: RawModule, g: Gathering, offsets: Array, gradient: Array, dy: Array) -> None:
    """Backward of gather_pool: adds to the columns of ``gradient``."""
    order, starts = _segments(c, g, gradient.shape[0])
    slots = max(g.inverse.shape[0] // max(dy.shape[0], 1), 1)
    kept, winner = _counted(c, g)
    sample = order if g.pooling == "none" else _sample_of(c, g, offsets)
    count = gradient.shape[0] * g.dim
    module.launch(
        "scatter_rows",
        count,
        (
            gradient,
            np.int32(gradient.shape[1]),
            np.int32(g.low),
            np.int32(g.dim),
            order,
            starts,
            np.int32(g.pad),
            np.int32(MODES[g.pooling]),
            sample,
            kept,
            winner,
            dy,
            _stride(dy),
            np.int32(slots),
            np.int64(count),
        ),
    )


def _stride(a: Array) -> np.int64:
    return np.int64(a.strides[0] // a.itemsize)


def _counted(c: Call, g: Gathering) -> tuple[Array, Array]:
    """Rows that counted per sample, and winning positions: left by forward for backward."""
    winners = c.n * g.dim if g.pooling == "max" else 1
    return c.scratch("kept", (c.n,), np.int32), c.scratch("winning", (winners,), np.int32)


def _segments(c: Call, g: Gathering, rows: int) -> tuple[Array, Array]:
    """Positions sorted by row, stably, and where each row's begin; shared by all gathers of one id column."""
    key = ("segments", c.attrs["source"])
    known = c.xs[0].memo.get(key)
    if known is None:
        xp = c.xp
        order = xp.argsort(g.inverse, kind="stable").astype(np.int32)
        starts = xp.searchsorted(xp.take(g.inverse, order), xp.arange(rows + 1, dtype=np.int32)).astype(np.int64)
        known = c.xs[0].memo[key] = (order, starts)
    return known  # type: ignore[no-any-return]


def _sample_of(c: Call, g: Gathering, offsets: Array) -> Array:
    """Which sample each position belongs to."""
    key = ("sample", c.attrs["source"])
    known = c.xs[0].memo.get(key)
    if known is None:
        positions = c.xp.arange(g.inverse.shape[0], dtype=np.int64)
        known = c.xs[0].memo[key] = (c.xp.searchsorted(offsets, positions, side="right") - 1).astype(np.int32)
    return known
