"""Strings, numbers and crosses to uint64 ids: one stable hash for every file format.

The definition, which never changes between versions (tables are keyed by its results)::

    fold(h, w)   = let h = (h ^ w) * 0x9E3779B97F4A7C15 in h ^ (h >> 32)            (mod 2**64)
    finish(h)    = splitmix64's finaliser; 2**64 - 1 (the reserved id) becomes 2**64 - 2
    hash(s, salt) = finish(fold over the little-endian 8-byte words of s, last one zero-padded, from salt; ^ len(s))
    salt(name)   = hash(name in UTF-8, salt 0)
    number(i)    = finish(fold(salt, i)), for buckets and salted integers
    cross(ids)   = finish(fold over the ids, from the salt; ^ 8 * number of ids)

A category column is salted with its own name, so equal strings of two columns are different rows, and a missing
value (the empty string) is a row of its own per column. Each step is invertible, hence values of up to eight bytes of
one column can only collide when their lengths differ. A number used as a category is hashed as its decimal text, and
a whole one as an integer, whether it came as 123, 123.0 or the text of either (``hash_cell``): a file gives the same
ids as text and as Parquet. Names (salts, slots) are hashed as they stand.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.compiled import njit
from heterps.data.text.words import load64
from heterps.mixing import GOLDEN, MASK, finalise, finalise_word

__all__ = ["RESERVED_ID", "cross_ids", "hash_bytes", "hash_cell", "hash_strings", "salt_of"]

RESERVED_ID = 2**64 - 1

_U_GOLDEN = np.uint64(GOLDEN)
_U_RESERVED = np.uint64(RESERVED_ID)
_U_ONE = np.uint64(1)
_U8 = np.uint64(8)
_U32 = np.uint64(32)
_WHOLE = re.compile(rb"(-?[0-9]+)\.0")


@njit(nogil=True, cache=True)
def fold(h: Any, word: Any) -> Any:
    """Mix one word into the state."""
    h = (h ^ word) * _U_GOLDEN
    return h ^ (h >> _U32)


@njit(nogil=True, cache=True)
def finish(h: Any) -> Any:
    """Avalanche the state and step off the reserved id."""
    h = finalise_word(h)
    return h - _U_ONE if h == _U_RESERVED else h


@njit(nogil=True, cache=True)
def hash_span(buffer: Any, start: Any, stop: Any, salt: Any) -> Any:
    """Hash ``buffer[start:stop]``; reads up to eight bytes past ``stop``."""
    h = salt
    at = start
    while stop - at >= 8:
        h = fold(h, load64(buffer, at))
        at += 8
    if at < stop:
        keep = (_U_ONE << (_U8 * np.uint64(stop - at))) - _U_ONE
        h = fold(h, load64(buffer, at) & keep)
    return finish(h ^ np.uint64(stop - start))


@njit(nogil=True, cache=True)
def whole_end(buffer: Any, start: Any, stop: Any) -> Any:
    """Return where a cell ends that is a whole float (123.0): behind its integer. Others end at ``stop``."""
    first = start + 1 if stop > start and buffer[start] == 45 else start
    if stop - first < 3 or buffer[stop - 1] != 48 or buffer[stop - 2] != 46:
        return stop
    for at in range(first, stop - 2):
        if buffer[at] < 48 or buffer[at] > 57:
            return stop
    return stop - 2


def whole_text(value: bytes) -> bytes:
    """Return the text of a cell as it counts: of a whole float its integer; the oracle of :func:`whole_end`."""
    found = _WHOLE.fullmatch(value)
    return found[1] if found else value


def hash_cell(value: bytes, salt: int = 0) -> int:
    """Hash a cell, in plain Python.

    Examples
    --------
    >>> hash_cell(b"123.0") == hash_cell(b"123") != hash_cell(b"123.00")
    True
    """
    return hash_bytes(whole_text(value), salt)


def hash_bytes(value: bytes, salt: int = 0) -> int:
    """Hash one value in plain Python: the definition, and the oracle of the compiled versions.

    Examples
    --------
    >>> hash_bytes(b"Bachelors", salt_of("education")) == hash_bytes(b"Bachelors", salt_of("workclass"))
    False
    """
    h = salt
    for at in range(0, len(value), 8):
        h = _fold(h, int.from_bytes(value[at : at + 8], "little"))
    return _finish(h ^ len(value))


def _fold(h: int, word: int) -> int:
    h = ((h ^ word) * GOLDEN) & MASK
    return h ^ (h >> 32)


def _finish(h: int) -> int:
    h = finalise(h)
    return h - 1 if h == RESERVED_ID else h


def salt_of(name: str) -> int:
    """Return the salt of a column: the hash of its name."""
    return hash_bytes(name.encode())


def cross_ids(*ids: int, salt: int = 0) -> int:
    """Combine ids into one, order mattering; needs no vocabulary."""
    h = salt
    for value in ids:
        h = _fold(h, value)
    return _finish(h ^ (8 * len(ids)))


def number_hash(number: int, salt: int) -> int:
    """Return the id of a number under a salt: of a bucket, or of an integer category."""
    return _finish(_fold(salt, number))


def hash_strings(values: Any, salt: int = 0) -> npt.NDArray[np.uint64]:
    """Hash a sequence of strings, bytes or numbers (as decimal text) as cells; None is the empty string."""
    return np.array([hash_cell(as_bytes(value), salt) for value in values], np.uint64)


def as_bytes(value: Any) -> bytes:
    """Return the bytes a value is hashed as."""
    if value is None:
        return b""
    if isinstance(value, bytes):
        return value
    return str(value).encode()
