"""The fixed hash of an id and what is derived from it: logical shard, place in an index, first values.

The hash is splitmix64's (:mod:`heterps.mixing`). It is part of the snapshot format: changing it would move every row.

- logical shard: ``mix(id) % n_shards`` (low bits)
- place in an index: the high 32 bits of ``mix(id)``
- randomness of a row: ``mix(mix(id ^ key) + column)`` with a key made of (seed, table)
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.compiled import inline
from heterps.errors import TableError
from heterps.lanes import prefetch
from heterps.mixing import GOLDEN, MASK, finalise, finalise_array, finalise_word

__all__ = ["RESERVED", "check_ids", "key_of", "mix", "prefetch", "shard_of", "shards_of"]

#: Never a legal id: it marks free rows.
RESERVED = 2**64 - 1

U64 = npt.NDArray[np.uint64]


@inline
def mix(x: np.uint64) -> Any:
    """Return the 64-bit hash of an id."""
    return finalise_word(np.uint64(x) + np.uint64(GOLDEN))


def _mix_python(x: int) -> int:
    return finalise(x + GOLDEN)


def key_of(seed: int, name: str) -> int:
    """Return the 64-bit key under which a table's randomness is drawn."""
    key = _mix_python(seed & MASK)
    for byte in name.encode():
        key = _mix_python(key ^ byte)
    return key


def shard_of(id_: int, n_shards: int) -> int:
    """Return the logical shard of one id."""
    return _mix_python(id_) % n_shards


def shards_of(ids: U64, n_shards: int) -> npt.NDArray[np.int64]:
    """Return the logical shard of each id."""
    shards: npt.NDArray[np.int64] = (finalise_array(ids + np.uint64(GOLDEN)) % np.uint64(n_shards)).astype(np.int64)
    return shards


def check_ids(ids: Any, where: str) -> U64:
    """Return ``ids`` as a contiguous one-dimensional uint64 array, or say which value cannot be an id.

    A cast would turn -1 into the reserved id and 2**64 into 0, so the check comes first.
    """
    array = np.asarray(ids)
    if array.dtype != np.uint64:
        array = _cast_ids(array, where)
    if array.ndim != 1:
        raise TableError(f"{where}: ids must be one-dimensional, got shape {array.shape}")
    return np.ascontiguousarray(array)


def _cast_ids(array: npt.NDArray[Any], where: str) -> U64:
    if array.size == 0:
        return np.empty(0, np.uint64)
    if array.dtype.kind not in "iuO":
        raise TableError(f"{where}: ids must be integers, got {array.dtype}; hash strings to uint64 first")
    bad = [x for x in array.ravel().tolist() if not (isinstance(x, int) and 0 <= x < RESERVED)][:1]
    if bad:
        raise TableError(f"{where}: {bad[0]!r} is not an id; ids are integers from 0 to 2**64 - 2")
    return array.astype(np.uint64)
