"""Short runs of numbers copied and added, sixteen or eight at a time in one register, and asked for ahead.

LLVM vectorises such loops by itself, but for long ones: 32 values at a time, with a check that arrays do not overlap
before and a loop for the rest behind. Rows have 8 to 64 values, so that most of the time goes into what is around the
loop. Here the lanes are spelled out instead. Each lane does what the loop over single values does, in the same
order, so results are the same bits.

Positions are unsigned, since numba has to check signed ones for being negative.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir  # type: ignore[import-untyped,unused-ignore]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from heterps.compiled import inline

__all__ = ["add_row", "copy_row", "onto", "pointer", "prefetch", "prefetch_near"]

Floats = npt.NDArray[np.floating[Any]]
Pos = np.uint64


def pointer(context: Any, builder: Any, kind: Any, array: Any, at: Any, lanes: Any = 8) -> Any:
    """Return where some elements of an array are: so many of its type, or what is told."""
    lanes = ir.VectorType(context.get_data_type(kind.dtype), lanes) if isinstance(lanes, int) else lanes
    view = context.make_array(kind)(context, builder, array)
    return builder.bitcast(builder.gep(view.data, [at]), lanes.as_pointer())


def onto(change: Callable[[Any, Any, Any, list[Any]], Any], lanes: int) -> Callable[..., Any]:
    """Return the code of ``out[to:to + lanes] = change(out[to:to + lanes], source[at:at + lanes], numbers)``."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        align = signature.args[0].dtype.bitwidth // 8
        source = builder.load(pointer(context, builder, signature.args[0], args[0], args[1], lanes), align=align)
        target = pointer(context, builder, signature.args[2], args[2], args[3], lanes)
        builder.store(change(builder, builder.load(target, align=align), source, args[4:]), target, align=align)
        return context.get_dummy_value()

    return emit


def _lanes_of(change: Callable[[Any, Any, Any, list[Any]], Any], lanes: int) -> Any:
    @intrinsic  # type: ignore[untyped-decorator,unused-ignore]
    def change_lanes(typing_context: Any, source: Any, at: Any, out: Any, to: Any) -> Any:
        return types.void(source, types.uint64, out, types.uint64), onto(change, lanes)

    return change_lanes


def _copied(builder: Any, old: Any, new: Any, numbers: list[Any]) -> Any:
    return new


def _added(builder: Any, old: Any, new: Any, numbers: list[Any]) -> Any:
    return builder.fadd(old, new)


_copy16, _copy8 = _lanes_of(_copied, 16), _lanes_of(_copied, 8)
_add16, _add8 = _lanes_of(_added, 16), _lanes_of(_added, 8)


@inline
def copy_row(source: Floats, at: Pos, out: Floats, to: Pos, n: Pos) -> None:
    """``out[to:to + n] = source[at:at + n]``; both have elements of one type."""
    wide, whole = n & ~np.uint64(15), n & ~np.uint64(7)
    for i in range(np.uint64(0), wide, np.uint64(16)):
        _copy16(source, at + i, out, to + i)
    if whole > wide:
        _copy8(source, at + wide, out, to + wide)
    for i in range(whole, n):
        out[to + i] = source[at + i]


@inline
def add_row(source: Floats, at: Pos, out: Floats, to: Pos, n: Pos) -> None:
    """``out[to:to + n] += source[at:at + n]``; both have elements of one type."""
    wide, whole = n & ~np.uint64(15), n & ~np.uint64(7)
    for i in range(np.uint64(0), wide, np.uint64(16)):
        _add16(source, at + i, out, to + i)
    if whole > wide:
        _add8(source, at + wide, out, to + wide)
    for i in range(whole, n):
        out[to + i] += source[at + i]


def _asking(level: int) -> Callable[..., Any]:
    """Return the code that asks for the cache line of ``array[i]``, for the first-level cache (3) or the second (2)."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        view = context.make_array(signature.args[0])(context, builder, args[0])
        address = builder.gep(view.data, [args[1]])
        pointer = builder.bitcast(address, cgutils.voidptr_t)
        i32 = cgutils.int32_t
        kind = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, i32, i32, i32])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        builder.call(function, [pointer, i32(0), i32(level), i32(1)])
        return context.get_dummy_value()

    return emit


@intrinsic  # type: ignore[untyped-decorator,unused-ignore]
def prefetch(typing_context: Any, array: Any, i: Any) -> Any:
    """Ask for the cache line of ``array[i]`` from memory; no effect on results, ``i`` may be out of range.

    It comes to the second-level cache. The first one has room for some twenty misses, and whoever asks for more waits;
    the second has room for more, and is near.
    """
    return types.void(array, types.intp), _asking(2)


@intrinsic  # type: ignore[untyped-decorator,unused-ignore]
def prefetch_near(typing_context: Any, array: Any, i: Any) -> Any:
    """The same for what is in the second-level or third-level cache already: it comes to the first."""
    return types.void(array, types.intp), _asking(3)
