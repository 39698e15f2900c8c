"""Small runs of every CUDA kernel of this package against NumPy: one body for `heterps doctor` and for the tests.

Each check takes an array library whose device runs the kernels, and raises a HardwareError that names the kernel.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.device.arrays import Array, Namespace, to_device
from heterps.device.compare import same
from heterps.device.raw import RawModule
from heterps.errors import HardwareError
from heterps.kernels.kernel import Call, kernel
from heterps.kernels.ops.fused_cuda import (
    CHUNK,
    bias_cuda,
    column_sums_cuda,
    cuda_passes,
    dot_pairs_cuda,
    dot_pairs_slope_cuda,
    drop_cuda,
    logloss_cuda,
    logloss_slope_cuda,
    relu_slope_cuda,
)
from heterps.kernels.ops.rows import Lists, Rows
from heterps.kernels.random import uniform_bits

__all__ = ["CHECKS"]

F32 = npt.NDArray[np.float32]
POOLINGS = ("none", "sum", "mean", "max")
INDEX = np.array([0, 1, 1, 2, 3, 0, -1, 2, 1, 4], np.int32)  # repeated rows and padding
ENDS = np.array([[3, 3, 4, 8, 10], [2, 6, 7, 7, 10]])  # of the lists of two columns, empty ones among them
WIDTH, LOW, HIGH = 6, 2, 5


def numbers(seed: int, *shape: int) -> F32:
    """Return numbers with ties and both signs, the same wherever the check runs."""
    return np.random.default_rng(seed).standard_normal(shape).round(1).astype(np.float32)


def _rows(xp: Namespace, times: int, *, ragged: bool) -> Rows:
    """Two id columns of ``5 * times`` samples over the same rows."""
    values = numbers(3, 5, WIDTH)
    values[1] = values[0]  # a tie for the maximum
    columns = (np.tile(INDEX, times), np.tile(INDEX[::-1], times))
    offsets = [np.concatenate([[0], (ends + 10 * np.arange(times)[:, None]).ravel()]) for ends in ENDS]
    shape = -1 if ragged else (-1, 2)
    index = tuple(to_device(np.ascontiguousarray(column.reshape(shape)), xp) for column in columns)
    lists = tuple(to_device(o, xp) if ragged else None for o in offsets)
    return Rows(to_device(values, xp), index, lists, np.arange(5, dtype=np.uint64))


def _gather_and_back(xp: Namespace, rows: Rows, attrs: dict[str, Any], n: int) -> tuple[Array, Array]:
    """Forward, then backward onto a gradient that is not empty: another lookup of these rows came before."""
    call = Call(attrs, xp, n, loops=True)
    call.xs = [rows, None]
    lists = attrs["pooling"] == "none" and rows.offsets[0] is not None
    shape = (2 * n, 3) if lists else (n, 3) if attrs["pooling"] != "none" else (n, 2, 3)
    each = math.prod(shape[1:])
    wide = xp.full((shape[0], 2 * each), 7, np.float32)  # samples lie apart, as in the buffer of a concat
    call.y = Lists(wide, None) if lists else wide[:, :each].reshape(shape)
    chosen = kernel("gather_pool")
    assert chosen.forward is not None
    chosen.forward(call)
    call.dxs = [to_device(numbers(4, 5, WIDTH), xp), None]
    dy = to_device(numbers(5, *shape), xp)
    call.dy = Lists(dy, None) if lists else dy
    chosen.backward(call)
    return (call.y.values if lists else call.y), call.dxs[0]


def check_rows(xp: Namespace) -> None:
    """``rows.cu``: the bits of the CPU loops, for every pooling, with padding, ties, empty lists and empty batches."""
    for times, ragged in itertools.product((0, 1, 31), (True, False)):
        here, there = (_rows(lib, times, ragged=ragged) for lib in (np, xp))
        for pooling, padding, source in itertools.product(POOLINGS, (None, 3), (0, 1)):
            attrs = {"columns": (LOW, HIGH), "source": source, "pooling": pooling, "padding_id": padding}
            what = (
                f"rows.cu, pooling {pooling}, padding {padding}, {'lists' if ragged else 'slots'}, {5 * times} samples"
            )
            y, gradient = _gather_and_back(np, here, attrs, 5 * times)
            got_y, got = _gather_and_back(xp, there, attrs, 5 * times)
            same(f"{what}, forward", got_y, y)
            same(f"{what}, backward", got, gradient)


def _call(xp: Namespace, n: int) -> Call:
    return Call({}, xp, n, loops=True)


def _apart(xp: Namespace, values: F32) -> Array:
    """The same numbers with samples that lie apart, as in the buffer of a concat."""
    wide = xp.zeros((values.shape[0], 2 * values.shape[1]), np.float32)
    wide[:, : values.shape[1]] = to_device(values, xp)
    return wide[:, : values.shape[1]]


def _passes(xp: Namespace) -> RawModule:
    module = cuda_passes(xp)
    if module is None:
        raise HardwareError(f"the device {getattr(xp, '__name__', xp)!r} runs no CUDA kernels")
    return module


def check_fused(xp: Namespace) -> None:
    """``fused.cu``: the bits of NumPy, but for the exponential function and the logarithm: one ulp."""
    for n in (0, 1, 5, 200):
        _check_layer(xp, n)
        _check_dropout(xp, n)
        _check_logloss(xp, 13 * n)  # more samples than running sums
        _check_pairs(xp, n)


def _check_layer(xp: Namespace, n: int) -> None:
    module, x, bias = _passes(xp), numbers(n, n, 7), numbers(1, 7)
    if n:
        x[0, 0] = np.nan  # stays
    for relu in (False, True):
        y = _apart(xp, x)
        bias_cuda(module, y, to_device(bias, xp), relu=relu)
        expected = np.maximum(x + bias, 0) if relu else x + bias
        same(f"fused.cu, add_bias, relu {relu}, {n} rows", y, expected)
    dz, y = _apart(xp, numbers(2, n, 7)), _apart(xp, x)
    relu_slope_cuda(module, dz, y)
    slope = np.where(x <= 0, np.float32(0), numbers(2, n, 7))
    same(f"fused.cu, relu_slope, {n} rows", dz, slope)
    sums = xp.full(7, np.nan, np.float32)
    column_sums_cuda(_call(xp, n), module, dz, sums)
    same(f"fused.cu, sum_columns, {n} rows", sums, _chunk_sums(slope))


def _chunk_sums(a: F32) -> F32:
    """Column sums in the order of the kernel: rows of a chunk, then chunks."""
    total = np.zeros(a.shape[1], np.float32)
    for first in range(0, len(a), CHUNK):
        part = np.zeros(a.shape[1], np.float32)
        for row in a[first : first + CHUNK]:
            part += row
        total += part
    return total


def _check_dropout(xp: Namespace, n: int) -> None:
    x, y = numbers(6, n, 3), xp.empty((n, 3), np.float32)
    threshold, factor, seed = int(0.3 * 2**32), np.float32(1 / 0.7), 2**64 - 5
    drop_cuda(_passes(xp), to_device(x, xp), seed, threshold, factor, y)
    kept = (uniform_bits(np, seed, x.size).reshape(x.shape) >> np.uint64(32)) >= threshold
    same(f"fused.cu, drop, {n} rows", y, np.where(kept, x * factor, np.float32(0)))


def _check_logloss(xp: Namespace, n: int) -> None:
    z, label = numbers(7, n), (numbers(8, n) > 0).astype(np.float32)
    z[::2] *= 30  # logits far out, and near zero
    for weight in (None, abs(numbers(9, n))):
        call, p, dz = _call(xp, n), xp.empty(n, np.float32), xp.empty(n, np.float32)
        call.y = xp.full((), np.nan, np.float32)
        there = None if weight is None else to_device(weight, xp)
        logloss_cuda(call, _passes(xp), to_device(z, xp), to_device(label, xp), there, p)
        x = z.astype(np.float64)
        e, w = np.exp(-abs(x)), 1.0 if weight is None else weight.astype(np.float64)
        loss = (np.maximum(x, 0) - x * label + np.log1p(e)) * w
        expected = np.where(x >= 0, 1 / (1 + e), e / (1 + e)).astype(np.float32)
        same(f"fused.cu, logloss, probabilities of {n}", p, expected, ulps=1)
        same(f"fused.cu, logloss, mean of {n}", call.y, np.asarray(loss.sum() / max(n, 1), np.float32), ulps=1)
        p = to_device(expected, xp)
        logloss_slope_cuda(_passes(xp), p, to_device(label, xp), there, dz)
        slope = (expected - label) * np.float32(1 / max(n, 1))
        same(f"fused.cu, logloss_slope of {n}", dz, slope if weight is None else slope * weight)


def _check_pairs(xp: Namespace, n: int) -> None:
    for fields, dim in ((2, 1), (5, 3), (27, 4)):
        z, dy = numbers(3, n, fields * dim), numbers(4, n, fields * (fields - 1) // 2)
        high, low = np.tril_indices(fields, -1)
        y, dz = _apart(xp, np.zeros_like(dy)), _apart(xp, np.zeros_like(z))
        there = _apart(xp, z).reshape(n, fields, dim)
        dot_pairs_cuda(_passes(xp), there, y)
        dot_pairs_slope_cuda(_passes(xp), there, _apart(xp, dy), dz.reshape(n, fields, dim))
        v, products, slope = z.reshape(n, fields, dim), np.zeros_like(dy), np.zeros((n, fields, dim), np.float32)
        for d in range(dim):
            products += v[:, high, d] * v[:, low, d]
        for other in range(fields):
            for field in (f for f in range(fields) if f != other):
                a, b = max(field, other), min(field, other)
                slope[:, field] += dy[:, a * (a - 1) // 2 + b, None] * v[:, other]
        what = f"{fields} fields of {dim}, {n} samples"
        same(f"fused.cu, dot_pairs, {what}", y, products)
        same(f"fused.cu, dot_pairs_slope, {what}", dz, slope.reshape(n, fields * dim))


#: File name of a source to the check of its kernels.
CHECKS: dict[str, Callable[[Namespace], None]] = {"fused.cu": check_fused, "rows.cu": check_rows}
