"""Sums of floats that do not depend on the order of adding.

A float64 is an integer of 53 bits times a power of two. The sum keeps one int64 counter per 32-bit digit of the
number line (base 2**32), so adding is integer addition: associative, commutative, exact. The result is rounded once.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.compiled import njit

__all__ = ["DIGITS", "add_exact", "round_exact", "zero_exact"]

# Digit k weighs 2**(32 * k - 1152): from below the smallest subnormal to above the largest float, and carries.
DIGITS = 70
_LOWEST = -1152
_DIGIT_MASK = np.int64(0xFFFFFFFF)


def zero_exact() -> npt.NDArray[np.int64]:
    """Return the empty sum."""
    return np.zeros(DIGITS, np.int64)


@njit(nogil=True, cache=True)
def _add(digits: Any, values: Any) -> Any:
    """Add values, carrying every 2**20 so that no digit overflows; False at a value that is not finite."""
    pending = 0
    for value in values:
        if not math.isfinite(value):
            return False
        fraction, exponent = math.frexp(value)
        whole = np.int64(math.ldexp(fraction, 53))
        at = exponent - 53 - _LOWEST
        k, shift = at // 32, at % 32
        sign = np.int64(1)
        if whole < 0:
            sign, whole = np.int64(-1), -whole
        low = (whole & _DIGIT_MASK) << shift
        high = (whole >> 32) << shift
        digits[k] += sign * (low & _DIGIT_MASK)
        digits[k + 1] += sign * ((low >> 32) + (high & _DIGIT_MASK))
        digits[k + 2] += sign * (high >> 32)
        pending += 1
        if pending == 1 << 20:
            _carry(digits)
            pending = 0
    _carry(digits)
    return True


@njit(nogil=True, cache=True)
def _carry(digits: Any) -> None:
    """Bring each digit but the last into 0 .. 2**32 - 1: the one form a sum has."""
    for k in range(len(digits) - 1):
        digits[k + 1] += digits[k] >> 32
        digits[k] &= _DIGIT_MASK


def add_exact(digits: npt.NDArray[np.int64], values: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Return the sum with values added; a value that is not finite raises ValueError."""
    total = digits.copy()
    if not _add(total, np.ascontiguousarray(values, np.float64).reshape(-1)):
        raise ValueError("cannot add a value that is not finite to an exact sum")
    return total


def merge_exact(a: npt.NDArray[np.int64], b: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the sum of two sums."""
    total = a + b
    _carry(total)
    return total


def round_exact(digits: npt.NDArray[np.int64]) -> float:
    """Return the sum, rounded once to the nearest float64."""
    whole = 0
    for digit in reversed(digits.tolist()):
        whole = (whole << 32) + digit
    return float(_scaled(whole))


def _scaled(whole: int) -> float:
    # int / int division is correctly rounded in Python for any size.
    return whole / (1 << -_LOWEST)
