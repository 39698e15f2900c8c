"""Who adds up what of a gradient that all workers have a share in: buckets of the flat vector, each cut once per owner.

Buckets go from the end of the vector to its beginning, as backward does: the last layers are complete first.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt

from heterps.runtime.batch.flat_part import FlatPart

__all__ = ["Segments"]

F32 = npt.NDArray[np.float32]


class Segments:
    """The cuts.

    Parameters
    ----------
    size
        Numbers in the vector.
    owners
        How many share it.
    bucket_bytes
        Most bytes of a bucket.
    """

    def __init__(self, size: int, owners: int, bucket_bytes: int) -> None:
        self.size, self.owners = size, owners
        self._bucket = max(owners, bucket_bytes // 4)

    @cached_property
    def buckets(self) -> list[slice]:
        """The buckets, in the order in which backward completes them."""
        stops = range(self.size, 0, -self._bucket)
        return [slice(max(0, stop - self._bucket), stop) for stop in stops]

    def share(self, bucket: slice, owner: int) -> slice:
        """Return what of a bucket an owner adds up."""
        size = bucket.stop - bucket.start
        return slice(bucket.start + size * owner // self.owners, bucket.start + size * (owner + 1) // self.owners)

    def place(self, bucket: int, owner: int) -> int:
        """Return where an owner's share of a bucket begins in all of its shares, which lie in the vector's order."""
        return sum(share.stop - share.start for share in (self.share(b, owner) for b in self.buckets[bucket + 1 :]))

    @cached_property
    def parts(self) -> list[FlatPart]:
        """By owner: all of its shares."""
        return [
            FlatPart(self.share(bucket, owner) for bucket in reversed(self.buckets)) for owner in range(self.owners)
        ]
