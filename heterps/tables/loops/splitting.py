"""Ids to the partitions that hold them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.compiled import entry_loop
from heterps.tables.hashing import RESERVED, mix

__all__ = ["split_ids"]

U64 = npt.NDArray[np.uint64]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]


@entry_loop
def split_ids(ids: U64, part_of: I32, parts: I32, order: I32, bounds: I64) -> Any:
    """Sort positions by partition; return the first position whose id does not belong here, or -1."""
    shards, n_parts = np.uint64(part_of.size), bounds.size - 1
    mask = shards - np.uint64(1) if shards & (shards - np.uint64(1)) == np.uint64(0) else np.uint64(0)
    bounds[:] = 0
    for i in range(ids.size):
        h = mix(ids[i])
        part = part_of[np.int64(h & mask if mask else h % shards)]
        if part < 0 or ids[i] == np.uint64(RESERVED):
            return i
        parts[i] = part
        bounds[part + 1] += 1
    for p in range(n_parts):
        bounds[p + 1] += bounds[p]
    for i in range(ids.size):
        order[bounds[parts[i]]] = i
        bounds[parts[i]] += 1
    for p in range(n_parts, 0, -1):
        bounds[p] = bounds[p - 1]
    bounds[0] = 0
    return -1
