"""The sum of several lanes' row gradients where they are: the order, and so the bits, of ``sum_lanes``."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from heterps.device.arrays import array_namespace, is_host, to_device
from heterps.tables.live.gradients import RowGradients, sum_lanes

__all__ = ["sum_there"]


def sum_there(lanes: Sequence[RowGradients]) -> RowGradients:
    """Return the sum over lanes, in lane order, of gradients on a device; ids are on the host and come out ascending.

    Each lane's ids are distinct, so each is added by one gather and one scatter: nothing depends on threads.
    """
    if len(lanes) == 1 or is_host(lanes[0].values):
        return sum_lanes(lanes)
    xp = array_namespace(lanes[0].values)
    ids, where = np.unique(np.concatenate([lane.ids for lane in lanes]), return_inverse=True)
    total = xp.zeros((len(ids), lanes[0].values.shape[1]), np.float32)
    bounds = np.cumsum([0, *map(len, lanes)])
    for lane, (low, high) in zip(lanes, pairwise(bounds), strict=True):
        at = to_device(where[low:high], xp)
        total[at] = xp.take(total, at, axis=0) + lane.values
    versions = [lane.version for lane in lanes if lane.version is not None]
    return RowGradients(ids, total, version=min(versions, default=None))
