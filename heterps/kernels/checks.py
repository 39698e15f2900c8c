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
from heterps.kernels.kernel import Call, kernel
from heterps.kernels.ops.rows import Lists, Rows

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


#: File name of a source to the check of its kernels.
CHECKS: dict[str, Callable[[Namespace], None]] = {"rows.cu": check_rows}
