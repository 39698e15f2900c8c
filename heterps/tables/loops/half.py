"""float16 storage: numba has no half floats on the CPU, so the bits are converted by hand, rounding to nearest even."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.compiled import entry_loop, inline

__all__ = ["decode", "encode"]

U32 = npt.NDArray[np.uint32]
F32 = npt.NDArray[np.float32]


@inline
def widen(half: np.uint32) -> Any:
    """Return the float32 bits of float16 bits."""
    sign = (half & np.uint32(0x8000)) << np.uint32(16)
    exponent = (half >> np.uint32(10)) & np.uint32(0x1F)
    mantissa = half & np.uint32(0x3FF)
    if exponent == np.uint32(0):
        if mantissa == np.uint32(0):
            return sign
        shift = np.uint32(0)
        while mantissa & np.uint32(0x400) == np.uint32(0):
            mantissa <<= np.uint32(1)
            shift += np.uint32(1)
        return sign | ((np.uint32(113) - shift) << np.uint32(23)) | ((mantissa & np.uint32(0x3FF)) << np.uint32(13))
    if exponent == np.uint32(31):
        return sign | np.uint32(0x7F800000) | (mantissa << np.uint32(13))
    return sign | ((exponent + np.uint32(112)) << np.uint32(23)) | (mantissa << np.uint32(13))


@inline
def narrow(bits: np.uint32) -> Any:
    """Return the float16 bits nearest to float32 bits; too large becomes infinity, NaN stays NaN."""
    sign = (bits >> np.uint32(16)) & np.uint32(0x8000)
    rest = bits & np.uint32(0x7FFFFFFF)
    if rest > np.uint32(0x7F800000):
        return sign | np.uint32(0x7E00)
    if rest >= np.uint32(0x477FF000):
        return sign | np.uint32(0x7C00)
    if rest >= np.uint32(0x38800000):
        rest -= np.uint32(0x38000000)
        return sign | ((rest + np.uint32(0xFFF) + ((rest >> np.uint32(13)) & np.uint32(1))) >> np.uint32(13))
    if rest < np.uint32(0x33000000):
        return sign
    shift = np.uint32(126) - (rest >> np.uint32(23))
    mantissa = (rest & np.uint32(0x7FFFFF)) | np.uint32(0x800000)
    kept = mantissa >> shift
    lost = mantissa & ((np.uint32(1) << shift) - np.uint32(1))
    middle = np.uint32(1) << (shift - np.uint32(1))
    if lost > middle or (lost == middle and kept & np.uint32(1)):
        kept += np.uint32(1)
    return sign | kept


@entry_loop
def decode(words: U32, at: np.int64, n: np.int64, out: F32, to: np.int64) -> None:
    """Read ``n`` float16 values that start at word ``at``."""
    halves = words.view(np.uint16)
    bits = out.view(np.uint32)
    for i in range(n):
        bits[to + i] = widen(np.uint32(halves[2 * at + i]))


@entry_loop
def encode(values: F32, start: np.int64, n: np.int64, words: U32, at: np.int64) -> None:
    """Write ``n`` values as float16 from word ``at`` on."""
    halves = words.view(np.uint16)
    bits = values.view(np.uint32)
    for i in range(n):
        halves[2 * at + i] = np.uint16(narrow(bits[start + i]))
