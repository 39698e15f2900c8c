"""Loops over the values of a row, eight at a time in one register (:mod:`heterps.lanes` says why).

Positions are unsigned, since numba has to check signed ones for being negative.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir  # type: ignore[import-untyped,unused-ignore]
from numba import types
from numba.extending import intrinsic

from heterps.compiled import inline
from heterps.lanes import onto, pointer

__all__ = ["all_finite", "bound", "first_of_hash", "step_row"]

F32 = npt.NDArray[np.float32]
U32 = npt.NDArray[np.uint32]
Pos = np.uint64

_FLOATS, _WORDS, _LONGS = (ir.VectorType(one, 8) for one in (ir.FloatType(), ir.IntType(32), ir.IntType(64)))
_INFINITE = np.uint32(0x7F800000)


def _spread(builder: Any, number: Any, lanes: Any = None) -> Any:
    """Return a register with one number in all lanes."""
    nothing = ir.Constant(lanes or _FLOATS, ir.Undefined)
    first = builder.insert_element(nothing, number, ir.IntType(32)(0))
    return builder.shuffle_vector(first, nothing, ir.Constant(_WORDS, [0] * 8))


def _step(builder: Any, old: Any, source: Any, numbers: list[Any]) -> Any:
    rate, lower, upper = (_spread(builder, number) for number in numbers)
    value = builder.fsub(old, builder.fmul(rate, source))
    value = builder.select(builder.fcmp_ordered(">", value, upper), upper, value)
    return builder.select(builder.fcmp_ordered("<", value, lower), lower, value)


@intrinsic  # type: ignore[untyped-decorator,unused-ignore]
def _step8(typing_context: Any, g: Any, g0: Any, w: Any, w0: Any, rate: Any, lower: Any, upper: Any) -> Any:
    number = types.float32
    return types.void(g, types.uint64, w, types.uint64, number, number, number), onto(_step, 8)


@intrinsic  # type: ignore[untyped-decorator,unused-ignore]
def _finite8(typing_context: Any, bits: Any, at: Any) -> Any:
    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        loaded = builder.load(pointer(context, builder, signature.args[0], args[0], args[1], _WORDS), align=4)
        infinite = ir.Constant(_WORDS, [int(_INFINITE)] * 8)
        bad = builder.icmp_unsigned("==", builder.and_(loaded, infinite), infinite)
        return builder.icmp_unsigned("==", builder.bitcast(bad, ir.IntType(8)), ir.IntType(8)(0))

    return types.boolean(bits, types.uint64), emit


@intrinsic  # type: ignore[untyped-decorator,unused-ignore]
def first_of_hash(typing_context: Any, entries: Any, at: Any, h: Any) -> Any:
    """Return which of the eight entries from ``at`` on is the first whose upper half is ``h``; 8 if none is."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        loaded = builder.load(pointer(context, builder, signature.args[0], args[0], args[1]), align=8)
        upper = builder.lshr(loaded, ir.Constant(_LONGS, [32] * 8))
        same = builder.bitcast(builder.icmp_unsigned("==", upper, _spread(builder, args[2], _LONGS)), ir.IntType(8))
        wide = builder.or_(builder.zext(same, ir.IntType(64)), ir.IntType(64)(1 << 8))
        return builder.cttz(wide, ir.IntType(1)(1))

    return types.uint64(entries, types.uint64, types.uint64), emit


@inline
def bound(lower: np.float32, upper: np.float32, w: np.float32) -> Any:
    """Keep a value between two bounds; NaN stays NaN."""
    if w < lower:
        return lower
    return upper if w > upper else w


@inline
def step_row(g: F32, g0: Pos, w: F32, w0: Pos, n: Pos, rate: np.float32, lower: np.float32, upper: np.float32) -> None:
    """``w[w0:w0 + n] -= rate * g[g0:g0 + n]``, within bounds."""
    whole = n & ~np.uint64(7)
    for i in range(np.uint64(0), whole, np.uint64(8)):
        _step8(g, g0 + i, w, w0 + i, rate, lower, upper)
    for i in range(whole, n):
        w[w0 + i] = bound(lower, upper, w[w0 + i] - rate * g[g0 + i])


@inline
def all_finite(bits: U32, at: Pos, n: Pos) -> Any:
    """Whether none of the ``n`` float32 with these bits is NaN or infinite."""
    whole = n & ~np.uint64(7)
    good = True
    for i in range(np.uint64(0), whole, np.uint64(8)):
        good &= _finite8(bits, at + i)
    for i in range(whole, n):
        good &= bits[at + i] & _INFINITE != _INFINITE
    return good
