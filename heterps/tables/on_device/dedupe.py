"""Ids of a batch, each once, on the device: sorted, so that the result and every sum over it repeat bit for bit."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from heterps.device.arrays import Array, Namespace

__all__ = ["DistinctIds", "distinct"]


class DistinctIds(NamedTuple):
    """Ids in ascending order and where they stood.

    Attributes
    ----------
    ids
        Each id once.
    inverse
        For each position the number of its id.
    order, starts
        Positions of id ``k`` are ``order[starts[k]:starts[k + 1]]``, ascending.
    """

    ids: Array
    inverse: Array
    order: Array
    starts: Array

    def __len__(self) -> int:
        return int(self.ids.shape[0])


def distinct(xp: Namespace, ids: Array) -> DistinctIds:
    """Sort ids (stably) and keep one of each. The host waits once, for their number."""
    n = ids.shape[0]
    if n >= 2**31:
        raise ValueError(f"{n} positions in one batch; positions are 32-bit numbers on a device, so at most 2**31 - 1")
    order = xp.argsort(ids, kind="stable").astype(np.int32)
    ordered = xp.take(ids, order)
    first = xp.ones(n, bool)
    first[1:] = ordered[1:] != ordered[:-1]
    starts = xp.flatnonzero(first)
    inverse = xp.empty(n, np.int32)
    inverse[order] = (xp.cumsum(first) - 1).astype(np.int32)
    ends = xp.full(1, n, np.int64)
    return DistinctIds(xp.take(ordered, starts), inverse, order, xp.concatenate([starts.astype(np.int64), ends]))
