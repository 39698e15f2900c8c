"""float16 storage: numba has no half floats on the CPU, so the bits are converted by hand, rounding to nearest even.

Eight values at a time in one register, and what is left one at a time, by the same operations and without a branch:
whether a value is tiny, usual or infinite cannot be foreseen, so all three answers are made and one is taken. No part
of a processor that knows halves is used, so the bits are the same on all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir  # type: ignore[import-untyped,unused-ignore]
from numba import types
from numba.extending import intrinsic

from heterps.compiled import inline
from heterps.lanes import pointer

__all__ = ["decode", "encode"]

U32 = npt.NDArray[np.uint32]
F32 = npt.NDArray[np.float32]

#: Of float32: the sign, infinity, what a half's infinity becomes when its bits are put where a float's are.
_SIGN, _INFINITE, _HALF_INFINITE = 0x80000000, 0x7F800000, 0x0F800000
#: The exponents of halves begin 112 later: that power of two, as float32.
_EXPONENTS_APART = float(2.0**112)
#: The least float32 that is no half any more, the least that is a usual half, and one whose last bit is the least half.
_TOO_LARGE, _USUAL, _TINY = 0x47800000, 0x38800000, 0x3F000000


class _Lanes:
    """Operations on some 32-bit numbers at once."""

    def __init__(self, builder: Any, lanes: int) -> None:
        self._builder = builder
        self.halves, self.words, self.floats = (
            ir.VectorType(one, lanes) for one in (ir.IntType(16), ir.IntType(32), ir.FloatType())
        )
        self._lanes = lanes

    def all(self, number: int) -> Any:
        """Return one number in all lanes."""
        return ir.Constant(self.words, [number] * self._lanes)

    def as_floats(self, bits: Any) -> Any:
        """Return the floats with these bits."""
        return self._builder.bitcast(bits, self.floats)

    def widen(self, halves: Any) -> Any:
        """Return the float32 bits of float16 bits: moved to their place, then multiplied to the right exponent."""
        b = self._builder
        bits = b.zext(halves, self.words)
        rest = b.shl(b.and_(bits, self.all(0x7FFF)), self.all(13))
        scale = ir.Constant(self.floats, [_EXPONENTS_APART] * self._lanes)
        usual = b.bitcast(b.fmul(self.as_floats(rest), scale), self.words)
        is_infinite = b.icmp_unsigned(">=", rest, self.all(_HALF_INFINITE))
        value = b.select(is_infinite, b.or_(rest, self.all(_INFINITE)), usual)
        return b.or_(value, b.shl(b.and_(bits, self.all(0x8000)), self.all(16)))

    def narrow(self, bits: Any) -> Any:
        """Return the float16 bits nearest to float32 bits; too large becomes infinity, NaN stays NaN."""
        b = self._builder
        rest = b.and_(bits, self.all(_SIGN - 1))
        is_nan = b.icmp_unsigned(">", rest, self.all(_INFINITE))
        too_large = b.select(is_nan, self.all(0x7E00), self.all(0x7C00))
        # Added to a number whose last bit is the least half: the processor rounds.
        sum_ = b.fadd(self.as_floats(rest), self.as_floats(self.all(_TINY)))
        tiny = b.sub(b.bitcast(sum_, self.words), self.all(_TINY))
        odd = b.and_(b.lshr(rest, self.all(13)), self.all(1))
        moved = b.add(b.sub(rest, self.all(_USUAL - (1 << 23))), self.all(0xFFF))
        usual = b.lshr(b.add(moved, odd), self.all(13))
        value = b.select(b.icmp_unsigned("<", rest, self.all(_USUAL)), tiny, usual)
        value = b.select(b.icmp_unsigned(">=", rest, self.all(_TOO_LARGE)), too_large, value)
        signed = b.or_(value, b.lshr(b.and_(bits, self.all(_SIGN)), self.all(16)))
        return b.trunc(signed, self.halves)


def _half_pointer(context: Any, builder: Any, kind: Any, words: Any, at: Any, lanes: Any) -> Any:
    """Return where halves are: the ``at``-th of an array of words."""
    first = builder.bitcast(context.make_array(kind)(context, builder, words).data, ir.IntType(16).as_pointer())
    return builder.bitcast(builder.gep(first, [at]), lanes.as_pointer())


def _reading(lanes: int) -> Callable[..., Any]:
    @intrinsic  # type: ignore[untyped-decorator,unused-ignore]
    def read_halves(typing_context: Any, words: Any, at: Any, out: Any, to: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            some = _Lanes(builder, lanes)
            source = _half_pointer(context, builder, signature.args[0], args[0], args[1], some.halves)
            target = pointer(context, builder, signature.args[2], args[2], args[3], some.floats)
            builder.store(some.as_floats(some.widen(builder.load(source, align=2))), target, align=4)
            return context.get_dummy_value()

        return types.void(words, types.uint64, out, types.uint64), emit

    return read_halves  # type: ignore[no-any-return]


def _writing(lanes: int) -> Callable[..., Any]:
    @intrinsic  # type: ignore[untyped-decorator,unused-ignore]
    def write_halves(typing_context: Any, values: Any, start: Any, words: Any, at: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            some = _Lanes(builder, lanes)
            source = pointer(context, builder, signature.args[0], args[0], args[1], some.words)
            target = _half_pointer(context, builder, signature.args[2], args[2], args[3], some.halves)
            builder.store(some.narrow(builder.load(source, align=4)), target, align=2)
            return context.get_dummy_value()

        return types.void(values, types.uint64, words, types.uint64), emit

    return write_halves  # type: ignore[no-any-return]


_read8, _read1, _write8, _write1 = _reading(8), _reading(1), _writing(8), _writing(1)


@inline
def decode(words: U32, at: np.uint64, n: np.uint64, out: F32, to: np.uint64) -> None:
    """Read ``n`` float16 values that start at word ``at``."""
    first, whole = np.uint64(2) * at, n & ~np.uint64(7)
    for i in range(np.uint64(0), whole, np.uint64(8)):
        _read8(words, first + i, out, to + i)
    for i in range(whole, n):
        _read1(words, first + i, out, to + i)


@inline
def encode(values: F32, start: np.uint64, n: np.uint64, words: U32, at: np.uint64) -> None:
    """Write ``n`` values as float16 from word ``at`` on."""
    first, whole = np.uint64(2) * at, n & ~np.uint64(7)
    for i in range(np.uint64(0), whole, np.uint64(8)):
        _write8(values, start + i, words, first + i)
    for i in range(whole, n):
        _write1(values, start + i, words, first + i)
