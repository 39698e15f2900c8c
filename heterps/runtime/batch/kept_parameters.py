"""Dense parameters that a bench asks for once in some batches: over slow links they are most of what travels.

The first batch of every push asks, when those before it are settled or on their way; the others are computed with what
came last, with one of the twice as many batches before them: one to which that is too long ago asks as well.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from heterps.runtime.batch.batch_work import BatchWork
from heterps.runtime.batch.flat_part import FlatPart
from heterps.runtime.batch.payload import Pulled

__all__ = ["KeptParameters"]

F32 = npt.NDArray[np.float32]
_NEVER = -(1 << 62)


class KeptParameters:
    """What came last of each host, and when; counted in batches that the bench has begun.

    Parameters
    ----------
    every
        Batches of a push, for which they are asked for once.
    parts
        By host, its piece of the dense parameters.
    """

    def __init__(self, every: int, parts: Sequence[FlatPart]) -> None:
        self._every, self._parts = every, parts
        self._begun: tuple[int, tuple[int, ...]] = (_NEVER, ())  # the attempt that entered last, terms of its hosts
        self._came = [_NEVER for _ in parts]  # by host, with which batch
        self._values: list[F32] = [np.empty(part.size, np.float32) for part in parts]

    def enter(self, attempt: int, terms: tuple[int, ...]) -> None:
        """What came is of no use where hosts may have returned to a cut, or belong to another run."""
        last, before = self._begun
        if attempt <= last or terms != before:
            self._came = [_NEVER for _ in self._parts]
        self._begun = attempt, terms

    def asks(self, work: BatchWork, host: int) -> bool:
        """Say whether a batch asks for them."""
        return work.key.n % self._every == 0 or work.moment - self._came[host] >= 2 * self._every

    def take(self, work: BatchWork, host: int, pulled: Pulled) -> None:
        """Keep those that came with a batch, unless newer ones have."""
        if pulled.dense is not None and work.moment > self._came[host]:
            np.copyto(self._values[host], pulled.dense)
            self._came[host] = work.moment

    def fill(self, work: BatchWork) -> None:
        """Put those that came last where a batch is computed from."""
        for part, values in zip(self._parts, self._values, strict=True):
            part.copy(work.dense, values)
