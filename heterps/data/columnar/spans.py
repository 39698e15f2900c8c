"""Compiled loops over Arrow-style columns: spans of bytes, indices, numbers."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from heterps.compiled import njit
from heterps.data.core.value_hash import finish, fold, hash_span, whole_end
from heterps.data.text.numeric import BAD_ID, MISSING, OK, RESERVED, bucket_id, parse_id, parse_number, scale

__all__ = [
    "Elements",
    "IdsOfIntegers",
    "all_ids",
    "buckets_of",
    "fold_column",
    "hash_integers",
    "hash_spans",
    "ids_of_spans",
    "numbers_of_spans",
    "put_ids",
    "put_integers",
    "put_numbers",
    "put_taken",
]

_U_TEN = np.uint64(10)
_RESERVED_ID = np.uint64(2**64 - 1)
_U8 = np.uint64(8)


class Elements(NamedTuple):
    """Where a column's values go: one element of each row, from ``out[start]`` on."""

    out: Any
    start: int
    stride: int


class IdsOfIntegers(NamedTuple):
    """How integers become ids: what stands for an absent one, and whether all are mixed with a salt."""

    missing: np.uint64
    salted: bool
    salt: np.uint64


@njit(nogil=True, cache=True)
def hash_spans(data: Any, offsets: Any, valid: Any, salt: Any, out: Any) -> None:
    """Hash ``data[offsets[i]:offsets[i + 1]]``; nulls hash as the empty string. ``data`` is padded by eight bytes."""
    for i in range(len(out)):
        start = offsets[i]
        stop = offsets[i + 1] if len(valid) == 0 or valid[i] else start
        out[i] = hash_span(data, start, whole_end(data, start, stop), salt)


@njit(nogil=True, cache=True)
def hash_integers(values: Any, negative: Any, valid: Any, salt: Any, out: Any) -> None:
    """Hash integers (magnitude and sign) as their decimal text."""
    text = np.zeros(32, np.uint8)
    for i in range(len(values)):
        at = 24
        if len(valid) == 0 or valid[i]:
            left = values[i]
            while True:
                at -= 1
                text[at] = np.uint8(48) + np.uint8(left % _U_TEN)
                left //= _U_TEN
                if left == np.uint64(0):
                    break
            if negative[i]:
                at -= 1
                text[at] = 45
        out[i] = hash_span(text, at, 24, salt)


@njit(nogil=True, cache=True)
def numbers_of_spans(data: Any, offsets: Any, valid: Any, out: Any, present: Any, bad: Any) -> None:
    """Parse numbers from text; what is empty, or says so, is missing."""
    for i in range(len(out)):
        start, stop = offsets[i], offsets[i + 1]
        present[i] = start < stop and (len(valid) == 0 or valid[i] != 0)
        if present[i]:
            status, out[i] = parse_number(data, start, stop)
            present[i] = status != MISSING
            bad[i] = status if status != MISSING else OK


@njit(nogil=True, cache=True)
def ids_of_spans(data: Any, offsets: Any, valid: Any, out: Any, bad: Any) -> None:
    """Parse ids from text."""
    for i in range(len(out)):
        start, stop = offsets[i], offsets[i + 1]
        if len(valid) and not valid[i]:
            bad[i] = BAD_ID
        else:
            status, out[i] = parse_id(data, start, stop)
            bad[i] = status


@njit(nogil=True, cache=True)
def ids_of_integers(values: Any, negative: Any, valid: Any, bad: Any) -> None:
    """Check integers as ids."""
    for i in range(len(values)):
        if negative[i] or (len(valid) and not valid[i]):
            bad[i] = BAD_ID
        elif values[i] == _RESERVED_ID:
            bad[i] = RESERVED
        else:
            bad[i] = OK


@njit(nogil=True, cache=True)
def all_ids(values: Any, valid: Any) -> Any:
    """Whether all present integers are legal ids: not negative, not reserved."""
    for i in range(len(values)):
        if (len(valid) == 0 or valid[i]) and (values[i] < 0 or np.uint64(values[i]) == _RESERVED_ID):
            return False
    return True


@njit(nogil=True, cache=True)
def put_integers(values: Any, valid: Any, ids: IdsOfIntegers, to: Elements) -> None:
    """Put integers as ids: as they stand, or mixed with a salt."""
    at = to.start
    for i in range(len(values)):
        value = np.uint64(values[i]) if len(valid) == 0 or valid[i] else ids.missing
        to.out[at] = finish(fold(ids.salt, value)) if ids.salted else value
        at += to.stride


@njit(nogil=True, cache=True)
def buckets_of(values: Any, present: Any, bounds: Any, salt: Any, out: Any) -> None:
    """Return the bucket ids of numbers; missing is the bucket behind the last."""
    for i in range(len(out)):
        if len(present) == 0 or present[i]:
            out[i] = bucket_id(float(values[i]), bounds, 0, len(bounds), salt)
        else:
            out[i] = finish(fold(salt, np.uint64(len(bounds) + 1)))


@njit(nogil=True, cache=True)
def fold_column(state: Any, ids: Any) -> None:
    """Fold one id a row into the states of a cross."""
    for i in range(len(state)):
        state[i] = fold(state[i], ids[i])


@njit(nogil=True, cache=True)
def finish_column(state: Any, parts: Any) -> None:
    """Turn folded states into ids."""
    for i in range(len(state)):
        state[i] = finish(state[i] ^ (_U8 * np.uint64(parts)))


@njit(nogil=True, cache=True)
def put_numbers(values: Any, present: Any, params: Any, to: Elements) -> None:
    """Scale and put numbers; ``params`` = missing, mean, 1/std, log."""
    missing, mean, inverse_std, log = params[0], params[1], params[2], params[3]
    at = to.start
    for i in range(len(values)):
        value = missing
        if len(present) == 0 or present[i]:
            value = scale(float(values[i]), mean, inverse_std, log)
        to.out[at] = np.float32(value)
        at += to.stride


@njit(nogil=True, cache=True)
def put_ids(ids: Any, to: Elements) -> None:
    """Copy ids."""
    for i in range(len(ids)):
        to.out[to.start + i * to.stride] = ids[i]


@njit(nogil=True, cache=True)
def put_taken(table: Any, index: Any, to: Elements) -> None:
    """Copy ``table[index]``."""
    for i in range(len(index)):
        to.out[to.start + i * to.stride] = table[index[i]]
