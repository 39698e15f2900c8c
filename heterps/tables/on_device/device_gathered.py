"""Gradients of several batches, added up row by row on a device until they are settled: one copy down for a unit.

Not run on a GPU yet.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from heterps.device.arrays import Array, Namespace, to_host
from heterps.tables.live.cached_rows import index_group
from heterps.tables.live.gathered import Gathered, GatheredIds
from heterps.tables.live.local_rows import OwedRows
from heterps.tables.specs.spec import GroupSpec

__all__ = ["DeviceGathered", "take_gathered"]

F32 = npt.NDArray[np.float32]


class DeviceGathered(GatheredIds):
    """Sums for the rows of one group on a device; which rows they are is known here. One thread calls it.

    All kernels are queued on the current stream of the calling thread.
    """

    def __init__(self, spec: GroupSpec, xp: Namespace) -> None:
        super().__init__(index_group(spec))
        self.xp = xp
        self._sums: Array = xp.zeros((0, spec.width), np.float32)

    def add(self, rows: Array, first: Array | None, gradients: Array) -> None:
        """Add gradients where :meth:`place` said; ``first`` is None if all of them are the first of their sum.

        Those are not added to zeros: that would make a plus of a minus zero.
        """
        self._grow()
        if first is not None:
            added = self.xp.take(self._sums, rows, axis=0) + gradients
            gradients = self.xp.where(first.reshape(-1, 1), gradients, added)
        self._sums[rows] = gradients

    def _grow(self) -> None:
        room, width = self._sums.shape
        if len(self) > room:
            sums = self.xp.zeros((max(len(self), 2 * room), width), np.float32)
            if room:
                sums[:room] = self._sums
            self._sums = sums

    @property
    def sums(self) -> Array:
        """The sums, where they are."""
        return self._sums[: len(self)]

    def take(self, sums: F32) -> OwedRows:
        """Return the sums, which came here, and begin anew."""
        return self._taken(sums)


def take_gathered(gathered: Mapping[str, Gathered | DeviceGathered]) -> dict[str, OwedRows]:
    """Return the sums of all groups, and begin anew; those on a device come down in one piece. The host waits once."""
    there = {name: each for name, each in gathered.items() if isinstance(each, DeviceGathered)}
    flat: F32 = np.empty(0, np.float32)
    if there:
        xp = next(iter(there.values())).xp
        flat = to_host(xp.concatenate([each.sums.reshape(-1) for each in there.values()]))
    owed, at = {}, 0
    for name, each in gathered.items():
        if isinstance(each, Gathered):
            owed[name] = each.take()
            continue
        n, width = each.sums.shape
        owed[name] = each.take(flat[at : at + n * width].reshape(n, width))
        at += n * width
    return owed
