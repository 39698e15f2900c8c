"""The rows of a list added up, or each given the same gradient, some columns at a time that stay in registers.

As a loop over rows that adds each to a vector in memory (:func:`heterps.lanes.add_row`), every row waits for what the
one before it wrote, and most instructions are for loops of one or two rounds. Rows are added in the same order here, so
results are the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped,unused-ignore]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from heterps.compiled import inline
from heterps.lanes import pointer

__all__ = ["give_rows", "sum_rows"]

_PLACES = (types.uint64, types.uint64)  # of rows in the flat array: from one to the next, and the first column
_LIST = (types.uint64, types.uint64, types.int64)  # first and last place in the inverse, the row that is padding


@contextmanager
def _each_row(context: Any, builder: Any, kinds: Any, args: Any, lanes: int) -> Iterator[Any]:
    """Emit a loop over the rows of a list that are no padding; yield where the columns of one are."""
    (flat, inverse), (width, low, first, last, pad) = args[:2], args[2:7]
    numbers = context.make_array(kinds[1])(context, builder, inverse)
    with cgutils.for_range_slice(builder, first, last, first.type(1)) as (p, _):
        place = cgutils.get_item_pointer(context, builder, kinds[1], numbers, [p], wraparound=False)
        row = builder.sext(builder.load(place), first.type)
        there = builder.and_(builder.icmp_signed(">=", row, row.type(0)), builder.icmp_signed("!=", row, pad))
        with builder.if_then(there, likely=True):
            yield pointer(context, builder, kinds[0], flat, builder.add(builder.mul(row, width), low), lanes)


def _summing(lanes: int) -> Callable[..., Any]:
    @intrinsic  # type: ignore[untyped-decorator,unused-ignore]
    def sum_lanes(typing_context, flat, inverse, width, low, first, last, pad, y, at):  # type: ignore[no-untyped-def]
        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            kinds, align = signature.args, flat.dtype.bitwidth // 8
            target = pointer(context, builder, kinds[7], args[7], args[8], lanes)
            total = cgutils.alloca_once_value(builder, ir.Constant(target.type.pointee, None))
            with _each_row(context, builder, kinds, args, lanes) as row:
                builder.store(builder.fadd(builder.load(total), builder.load(row, align=align)), total)
            builder.store(builder.load(total), target, align=align)
            return context.get_dummy_value()

        return types.void(flat, inverse, *_PLACES, *_LIST, y, types.uint64), emit

    return sum_lanes  # type: ignore[no-any-return]


def _giving(lanes: int) -> Callable[..., Any]:
    @intrinsic  # type: ignore[untyped-decorator,unused-ignore]
    def give_lanes(typing_context, flat, inverse, width, low, first, last, pad, dy, at):  # type: ignore[no-untyped-def]
        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            kinds, align = signature.args, flat.dtype.bitwidth // 8
            given = builder.load(pointer(context, builder, kinds[7], args[7], args[8], lanes), align=align)
            with _each_row(context, builder, kinds, args, lanes) as row:
                builder.store(builder.fadd(builder.load(row, align=align), given), row, align=align)
            return context.get_dummy_value()

        return types.void(flat, inverse, *_PLACES, *_LIST, dy, types.uint64), emit

    return give_lanes  # type: ignore[no-any-return]


_sum32, _sum16, _sum8 = (_summing(lanes) for lanes in (32, 16, 8))
_give32, _give16, _give8 = (_giving(lanes) for lanes in (32, 16, 8))


@inline
def sum_rows(flat, inverse, width, low, first, last, pad, y, at, dim):  # type: ignore[no-untyped-def]
    """Write the sum of the rows that ``inverse[first:last]`` says to ``y``: ``dim`` columns from ``low`` on."""
    d = np.uint64(0)
    while d + np.uint64(32) <= dim:
        _sum32(flat, inverse, width, low + d, first, last, pad, y, at + d)
        d += np.uint64(32)
    if dim & np.uint64(16):
        _sum16(flat, inverse, width, low + d, first, last, pad, y, at + d)
        d += np.uint64(16)
    if dim & np.uint64(8):
        _sum8(flat, inverse, width, low + d, first, last, pad, y, at + d)
        d += np.uint64(8)
    while d < dim:
        y[at + d] = 0
        for p in range(first, last):
            row = inverse[p]
            if row >= 0 and row != pad:
                y[at + d] += flat[np.uint64(row) * width + low + d]
        d += np.uint64(1)


@inline
def give_rows(flat, inverse, width, low, first, last, pad, dy, at, dim):  # type: ignore[no-untyped-def]
    """Add ``dy[at:at + dim]`` to each of the rows that ``inverse[first:last]`` says."""
    d = np.uint64(0)
    while d + np.uint64(32) <= dim:
        _give32(flat, inverse, width, low + d, first, last, pad, dy, at + d)
        d += np.uint64(32)
    if dim & np.uint64(16):
        _give16(flat, inverse, width, low + d, first, last, pad, dy, at + d)
        d += np.uint64(16)
    if dim & np.uint64(8):
        _give8(flat, inverse, width, low + d, first, last, pad, dy, at + d)
        d += np.uint64(8)
    while d < dim:
        for p in range(first, last):
            row = inverse[p]
            if row >= 0 and row != pad:
                flat[np.uint64(row) * width + low + d] += dy[at + d]
        d += np.uint64(1)
