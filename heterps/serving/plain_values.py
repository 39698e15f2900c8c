"""Cells to texts, numbers and ids without anything compiled: what readers make of them, to the bit.

Python values of one cell each in, arrays out. The readers' own loops (:mod:`heterps.data.text.numeric`,
:mod:`heterps.data.core.value_hash`) say what is right; tests compare.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from heterps.data.columnar.written import written
from heterps.data.core.value_hash import RESERVED_ID, hash_bytes, whole_text
from heterps.data.text.numeric import INVERSE_EDGES, LN2, LOG_EDGES
from heterps.mixing import GOLDEN, finalise_array

__all__ = ["hash_numbers", "hash_texts", "id_of", "log1p_of", "number_of", "text_of"]

U64 = npt.NDArray[np.uint64]
F64 = npt.NDArray[np.float64]
_U = np.uint64
_FLOAT32_MAX = float(np.finfo(np.float32).max)
_LONG = 256  # bytes of a text from which it is hashed alone: all others are padded to the longest
_DECIMAL = re.compile(rb"([+-]?)(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d+))?")
_WHOLE = re.compile(rb"-?\d{1,17}")
_MISSING = (b"?", b"\\N")
_TRUTH = {b"true": 1.0, b"false": 0.0}
_MISSING_WORDS = (b"na", b"nan", b"n/a", b"null", b"none")
_ROOM = 1844674407370955160  # a mantissa that still takes a digit


def text_of(value: Any) -> bytes:
    """Return what a cell is hashed as; nothing if it is missing."""
    kind = type(value)
    if kind is str:
        return whole_text(value.encode())
    if value is None:
        return b""
    if kind is int:
        return b"%d" % value
    if kind is bool:
        return b"1" if value else b"0"
    if kind is bytes:
        return whole_text(value)
    if isinstance(value, np.generic):
        return text_of(value.item())
    if isinstance(value, float):
        return _float_text(value)
    return _arrow_text(value)


def _float_text(value: float) -> bytes:
    """Whole floats are the integers they stand for (pandas has them so beside missing ones)."""
    if value != value:
        return b""
    if value.is_integer() and -(2.0**63) <= value < 2.0**63:
        return b"%d" % int(value)
    return _arrow_text(value)


def _arrow_text(value: Any) -> bytes:
    """Return decimals, dates, times and fractions as Arrow writes them."""
    try:
        return whole_text(str(written(pa.array([value]))[0].as_py()).encode())
    except (pa.ArrowException, TypeError) as error:
        raise ValueError(f"{type(value).__name__} is no category: give text or a number") from error


def number_of(value: Any) -> float:
    """Return a cell as a number, NaN if it is missing; a ValueError says why it is none."""
    kind = type(value)
    if kind is float or kind is int:
        number = float(value)
    elif value is None:
        return math.nan
    elif kind is str or kind is bytes:
        return _parsed(value.encode() if kind is str else value)
    elif isinstance(value, np.generic):
        return number_of(value.item())
    else:
        number = float(value)
    if abs(number) > _FLOAT32_MAX:
        raise ValueError("not a finite number of float32")
    return number


def _parsed(text: bytes) -> float:
    if _WHOLE.fullmatch(text):
        return float(int(text))
    found = _DECIMAL.fullmatch(text)
    digits = (found[2], found[3] or b"") if found else (b"", b"")
    if found is None or not any(digits):
        if not text or text in _MISSING or text.lower() in _MISSING_WORDS:
            return math.nan
        if text.lower() in _TRUTH:
            return _TRUTH[text.lower()]
        raise ValueError("not a number")
    mantissa, exponent = _mantissa(*digits)
    exponent += max(-100_000, min(100_000, int(found[4] or 0)))
    value = _times_power(float(mantissa), exponent)
    if abs(value) > _FLOAT32_MAX:
        raise ValueError("not a finite number of float32")
    return -value if found[1] == b"-" else value


def _mantissa(before: bytes, after: bytes) -> tuple[int, int]:
    """Return the first nineteen digits as a whole number, and the power of ten that belongs to it."""
    mantissa = exponent = 0
    for place, part in enumerate((before, after)):
        for digit in part:
            if mantissa < _ROOM:
                mantissa = mantissa * 10 + digit - 48
                exponent -= place
            else:
                exponent += 1 - place
    return mantissa, exponent


def _times_power(value: float, exponent: int) -> float:
    if exponent == 0 or value == 0.0:
        return value
    if exponent > 0:
        return value * 10.0**exponent if exponent < 309 else math.inf
    if exponent > -309:
        return value / 10.0**-exponent
    return value / 1e308 / 10.0 ** (-exponent - 308) if exponent > -617 else 0.0


def id_of(value: Any) -> int | None:
    """Return a cell as an id, None if it is missing; a ValueError says why it is none."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or value == "" or value == b"" or value != value:
        return None
    if isinstance(value, str | bytes):
        text = whole_text(value.encode() if isinstance(value, str) else value)
        if not text.isdigit():
            raise ValueError("not an id: ids are whole numbers from 0 to 2**64 - 2")
        value = int(text)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or not 0 <= value < RESERVED_ID:
        raise ValueError("not an id: ids are whole numbers from 0 to 2**64 - 2")
    return int(value)


def hash_texts(texts: Sequence[bytes], salts: U64) -> U64:
    """Hash texts, each under its salt: :func:`~heterps.data.core.value_hash.hash_bytes` for many at once."""
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    longest = int(lengths.max(initial=0))
    if longest > _LONG:
        return _with_long_ones(texts, salts, lengths)
    width = max(8, -(-longest // 8) * 8)
    words = np.array(texts, f"S{width}").view(np.uint64).reshape(len(texts), width // 8)
    h, shortest = salts, int(lengths.min(initial=longest))
    for k in range(-(-longest // 8)):
        folded = fold(h, words[:, k])
        h = folded if shortest > 8 * k else np.where(lengths > 8 * k, folded, h)
    return finish(h ^ lengths.astype(np.uint64))


def _with_long_ones(texts: Sequence[bytes], salts: U64, lengths: npt.NDArray[np.int64]) -> U64:
    out = np.empty(len(texts), np.uint64)
    long = lengths > _LONG
    for i in np.flatnonzero(long).tolist():
        out[i] = hash_bytes(texts[i], int(salts[i]))
    short = np.flatnonzero(~long)
    out[short] = hash_texts([texts[i] for i in short.tolist()], salts[short])
    return out


def fold(h: U64, word: U64) -> U64:
    """Mix a word into each state."""
    h = (h ^ word) * _U(GOLDEN)
    return h ^ (h >> _U(32))


def finish(h: U64) -> U64:
    """Avalanche states and step off the reserved id."""
    made: U64 = finalise_array(h)
    stepped: U64 = made - (made == _U(RESERVED_ID))
    return stepped


def hash_numbers(numbers: U64, salt: int) -> U64:
    """Return the ids of numbers under a salt: of buckets, or of integer categories."""
    return finish(fold(np.full(len(numbers), salt, np.uint64), numbers))


def log1p_of(size: F64) -> F64:
    """Return log(1 + size) as the readers' own logarithm does, step by step."""
    bits = (1.0 + size).view(np.uint64)
    exponent = (bits >> _U(52)).astype(np.int64) - 1023
    edge = ((bits >> _U(45)) & _U(len(LOG_EDGES) - 1)).astype(np.int64)
    mantissa = ((bits & _U(2**52 - 1)) | _U(1023 << 52)).view(np.float64)
    r = mantissa * INVERSE_EDGES[edge] - 1.0
    series = r * (1.0 - r * (0.5 - r * (1.0 / 3.0 - r * (0.25 - r * 0.2))))
    made: F64 = exponent * LN2 + LOG_EDGES[edge] + series
    return made
