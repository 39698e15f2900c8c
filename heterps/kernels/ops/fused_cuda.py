"""Launching ``fused.cu``: whole passes in one kernel where array functions would take several. Not run on a GPU yet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from heterps.device.arrays import Array, Namespace
from heterps.device.raw import RawModule, cuda_text, raw_module

if TYPE_CHECKING:
    from heterps.kernels.kernel import Call

__all__ = [
    "bias_cuda",
    "column_sums_cuda",
    "cuda_passes",
    "dot_pairs_cuda",
    "dot_pairs_slope_cuda",
    "drop_cuda",
    "logloss_cuda",
    "logloss_slope_cuda",
    "relu_slope_cuda",
]

SOURCE = Path(__file__).with_name("fused.cu")
#: Rows that one thread adds up, and running sums of a loss. Part of the bits of a result, so the same on every device.
CHUNK = 64
LANES = 1024


def cuda_passes(xp: Namespace, *arrays: Array) -> RawModule | None:
    """Return the kernels, where the device has them, numbers are float32, and each sample is contiguous."""
    if xp is np or any(a.dtype != np.float32 or not _rows_contiguous(a) for a in arrays):
        return None
    return raw_module(xp, cuda_text(SOURCE))


def _rows_contiguous(a: Array) -> bool:
    """Whether samples are contiguous, though they may lie apart."""
    expected = a.itemsize
    for length, stride in zip(a.shape[:0:-1], a.strides[:0:-1], strict=True):
        if length != 1 and stride != expected:
            return False
        expected *= length
    return a.shape[:1] in ((), (0,), (1,)) or a.strides[0] >= expected


def _stride(a: Array) -> np.int64:
    return np.int64(a.strides[0] // a.itemsize if a.ndim else 1)


def bias_cuda(module: RawModule, y: Array, bias: Array, *, relu: bool) -> None:
    """``y = max(y + bias, 0)``, or without the activation, in place."""
    args = (y, _stride(y), bias, np.int32(y.shape[1]), np.int32(relu), np.int64(y.size))
    module.launch("add_bias", y.size, args)


def relu_slope_cuda(module: RawModule, dz: Array, y: Array) -> None:
    """Zero ``dz`` where ``y`` is not positive, in place."""
    args = (dz, _stride(dz), y, _stride(y), np.int32(y.shape[1]), np.int64(y.size))
    module.launch("relu_slope", y.size, args)


def column_sums_cuda(c: Call, module: RawModule, a: Array, out: Array) -> None:
    """``out`` = sums of the columns of ``a``, chunk by chunk of rows."""
    rows, width = a.shape
    chunks = max(-(-rows // CHUNK), 1)
    partial = c.scratch("column sums", (chunks, width), a.dtype)
    for source, length, chunk, target in ((a, rows, CHUNK, partial), (partial, chunks, chunks, out)):
        count = target.size
        args = (source, _stride(source), np.int64(length), np.int32(width), np.int64(chunk), target, np.int64(count))
        module.launch("sum_columns", count, args)


def drop_cuda(module: RawModule, x: Array, seed: int, threshold: int, factor: np.float32, y: Array) -> None:
    """Dropout of contiguous arrays."""
    args = (x, y, np.uint64(seed), np.uint64(threshold), np.float32(factor), np.int64(x.size))
    module.launch("drop", x.size, args)


def logloss_cuda(c: Call, module: RawModule, z: Array, label: Array, weight: Array | None, p: Array) -> None:
    """Mean loss to ``c.y``, probabilities to ``p``."""
    partial = c.scratch("lanes", (LANES,), np.float64)
    given = (z if weight is None else weight, np.int32(weight is not None))
    module.launch("logloss", LANES, (z, label, *given, p, partial, np.int32(LANES), np.int64(z.size)))
    module.launch("mean_of_lanes", 1, (partial, np.int32(LANES), c.y, np.int64(z.size)))


def logloss_slope_cuda(module: RawModule, p: Array, label: Array, weight: Array | None, dz: Array) -> None:
    """``(p - label) w / n``."""
    given = (p if weight is None else weight, np.int32(weight is not None))
    scale = np.float32(1.0 / max(p.size, 1))
    module.launch("logloss_slope", p.size, (p, label, *given, dz, scale, np.int64(p.size)))


def dot_pairs_cuda(module: RawModule, z: Array, y: Array) -> None:
    """Dot products of all pairs of the vectors of a sample."""
    n, fields, dim = z.shape
    pairs = fields * (fields - 1) // 2
    args = (z, _stride(z), np.int32(dim), np.int32(pairs), y, _stride(y), np.int64(n * pairs))
    module.launch("dot_pairs", n * pairs, args)


def dot_pairs_slope_cuda(module: RawModule, z: Array, dy: Array, dz: Array) -> None:
    """Gradient of the vectors."""
    _, fields, dim = z.shape
    place = (dy, _stride(dy), dz, _stride(dz), np.int64(z.size))
    module.launch("dot_pairs_slope", z.size, (z, _stride(z), np.int32(fields), np.int32(dim), *place))
