"""Numbers from text, and the numeric recipes, as compiled scalars shared by all readers."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np

from heterps.compiled import njit
from heterps.data.core.value_hash import finish, fold, whole_end
from heterps.data.text.words import bits_float, float_bits, load64

__all__ = [
    "BAD_ID",
    "BAD_LABEL",
    "BAD_NUMBER",
    "INVERSE_EDGES",
    "LN2",
    "LOG_EDGES",
    "MISSING",
    "NO_LABEL",
    "OK",
    "RESERVED",
    "bucket_id",
    "log1p",
    "parse_id",
    "parse_number",
    "scale",
]

OK, BAD_NUMBER, BAD_ID, RESERVED = 0, 1, 2, 3
NO_LABEL, BAD_LABEL = 8, 9  # 4 to 7 are the tokeniser's
MISSING = 10  # a word that stands for no number: no fault by itself

_POWERS = np.array([10.0**k for k in range(309)])
_EDGES = 1.0 + np.arange(128) / 128
# Decimal logarithms are correctly rounded; NumPy's and libm's last bits differ between processors.
LOG_EDGES = np.array([float(Decimal(float(edge)).ln()) for edge in _EDGES])
INVERSE_EDGES = 1.0 / _EDGES
LN2 = float(Decimal(2).ln())
_MANTISSA, _ONE_BITS = np.uint64(2**52 - 1), np.uint64(1023 << 52)
_U45, _U52, _U127 = np.uint64(45), np.uint64(52), np.uint64(127)
_U_TEN, _U_ONE, _U8 = np.uint64(10), np.uint64(1), np.uint64(8)
# Words that are read for numbers, in any case but the last: 1, 0, and those that say that nothing is there.
_WORDS = (b"true", b"false", b"na", b"n/a", b"nan", b"null", b"none", b"?", b"\\N")
_SAID = np.array([int.from_bytes(word, "little") for word in _WORDS], np.uint64)
_LETTERS = np.uint64(0x4040404040404040)  # set in all letters; half of it makes them small
# Nineteen digits fit a uint64; more only move the exponent.
_ROOM = np.uint64(1844674407370955160)
_MAX_TENTH, _MAX_LAST = np.uint64((2**64 - 2) // 10), np.uint64((2**64 - 2) % 10)
_RESERVED_ID = np.uint64(2**64 - 1)
_FLOAT32_MAX = float(np.finfo(np.float32).max)


@njit(nogil=True, cache=True)
def parse_number(buffer: Any, start: Any, stop: Any) -> Any:
    """Parse a number; return (status, value). Short integers, the usual case, take a short cut."""
    if stop - start <= 18:
        first = start + 1 if buffer[start] == 45 else start
        at, whole = first, np.int64(0)
        while at < stop and buffer[at] >= 48 and buffer[at] <= 57:
            whole = whole * 10 + np.int64(buffer[at]) - 48
            at += 1
        if at == stop and first < stop:
            return OK, float(-whole if first > start else whole)
    return _parse_decimal(buffer, start, stop)


@njit(nogil=True, cache=True)
def _parse_decimal(buffer: Any, start: Any, stop: Any) -> Any:
    """Parse ``[+-]digits[.digits][e[+-]digits]`` or a word; return (status, value). Infinities are no numbers."""
    at = start
    negative = False
    if at < stop and (buffer[at] == 45 or buffer[at] == 43):
        negative = buffer[at] == 45
        at += 1
    mantissa = np.uint64(0)
    digits = 0
    exponent = 0
    while at < stop and buffer[at] >= 48 and buffer[at] <= 57:
        if mantissa < _ROOM:
            mantissa = mantissa * _U_TEN + np.uint64(buffer[at] - np.uint8(48))
        else:
            exponent += 1
        digits += 1
        at += 1
    if at < stop and buffer[at] == 46:
        at += 1
        while at < stop and buffer[at] >= 48 and buffer[at] <= 57:
            if mantissa < _ROOM:
                mantissa = mantissa * _U_TEN + np.uint64(buffer[at] - np.uint8(48))
                exponent -= 1
            digits += 1
            at += 1
    if digits == 0:
        word = load64(buffer, start) & ((_U_ONE << (_U8 * np.uint64(min(stop - start, 7)))) - _U_ONE)
        small = word | ((word & _LETTERS) >> _U_ONE)
        for i in range(len(_SAID)):
            if _SAID[i] in (word, small):
                return (OK if i < 2 else MISSING), 1.0 if i == 0 else 0.0
        return BAD_NUMBER, 0.0
    if at < stop and (buffer[at] == 101 or buffer[at] == 69):
        at, power = _parse_power(buffer, at + 1, stop)
        if at < 0:
            return BAD_NUMBER, 0.0
        exponent += power
    if at != stop:
        return BAD_NUMBER, 0.0
    value = _times_power(float(mantissa), exponent)
    if not abs(value) <= _FLOAT32_MAX:
        return BAD_NUMBER, 0.0
    return OK, -value if negative else value


@njit(nogil=True, cache=True)
def _parse_power(buffer: Any, at: Any, stop: Any) -> Any:
    negative = False
    if at < stop and (buffer[at] == 45 or buffer[at] == 43):
        negative = buffer[at] == 45
        at += 1
    first = at
    power = 0
    while at < stop and buffer[at] >= 48 and buffer[at] <= 57:
        power = min(power * 10 + int(buffer[at]) - 48, 100_000)
        at += 1
    if at == first:
        return -1, 0
    return at, -power if negative else power


@njit(nogil=True, cache=True)
def _times_power(value: Any, exponent: Any) -> Any:
    if exponent == 0 or value == 0.0:
        return value
    if exponent > 0:
        return value * _POWERS[exponent] if exponent < 309 else math.inf
    if exponent > -309:
        return value / _POWERS[-exponent]
    return value / _POWERS[308] / _POWERS[-exponent - 308] if exponent > -617 else 0.0


@njit(nogil=True, cache=True)
def parse_id(buffer: Any, start: Any, stop: Any) -> Any:
    """Parse a decimal id; return (status, id). Negative, too large and reserved ids are refused, never wrapped."""
    if start == stop:
        return BAD_ID, np.uint64(0)
    value = np.uint64(0)
    for at in range(start, whole_end(buffer, start, stop)):
        if buffer[at] < 48 or buffer[at] > 57:
            return BAD_ID, np.uint64(0)
        digit = np.uint64(buffer[at] - np.uint8(48))
        if value > _MAX_TENTH or (value == _MAX_TENTH and digit > _MAX_LAST):
            return RESERVED, np.uint64(0)
        value = value * _U_TEN + digit
    return OK, value


@njit(nogil=True, cache=True)
def log1p(size: Any) -> Any:
    """Return log(1 + size) for size >= 0, to within 1e-13: several times the speed of libm, the same bits everywhere.

    1 + size = 2**e * m; m is just above one of 128 tabled edges c, and log(m / c) is a short series. 0 gives 0.
    """
    bits = float_bits(1.0 + size)
    exponent = np.int64(bits >> _U52) - 1023
    edge = np.int64((bits >> _U45) & _U127)
    r = bits_float((bits & _MANTISSA) | _ONE_BITS) * INVERSE_EDGES[edge] - 1.0
    series = r * (1.0 - r * (0.5 - r * (1.0 / 3.0 - r * (0.25 - r * 0.2))))
    return exponent * LN2 + LOG_EDGES[edge] + series


@njit(nogil=True, cache=True)
def scale(value: Any, mean: Any, inverse_std: Any, log: Any) -> Any:
    """Log transform (odd, so that negative values keep their order) and standardise."""
    if log != 0.0:
        logged = log1p(abs(value))
        value = -logged if value < 0.0 else logged
    return (value - mean) * inverse_std


@njit(nogil=True, cache=True)
def bucket_id(value: Any, params: Any, a: Any, b: Any, salt: Any) -> Any:
    """Return the id of the bucket of a value: the number of bounds not above it, hashed."""
    bucket = 0
    while bucket < b and value >= params[a + bucket]:
        bucket += 1
    return finish(fold(salt, np.uint64(bucket)))
