"""Dense parameters that a bench asks for once in some batches: over slow links they are most of what travels.

A batch is computed with those that came last, with one of the twice as many batches before it: it asks if that is long
ago, or if nobody has asked for some batches. So at most as many more are missing as are on their way.
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
    """What came last of each host, and when it was asked for and came; counted in batches that the bench has begun.

    Parameters
    ----------
    every
        Batches for which they are asked for once.
    parts
        By host, its piece of the dense parameters.
    """

    def __init__(self, every: int, parts: Sequence[FlatPart]) -> None:
        self._every, self._parts = every, parts
        self._begun: tuple[int, tuple[int, ...]] = (_NEVER, ())  # the attempt that entered last, terms of its hosts
        self._asked = [_NEVER for _ in parts]  # by host, with which batch
        self._came = [_NEVER for _ in parts]
        self._values: list[F32] = [np.empty(part.size, np.float32) for part in parts]

    def enter(self, attempt: int, terms: tuple[int, ...]) -> None:
        """What came is of no use where hosts may have returned to a cut, or belong to another run."""
        last, before = self._begun
        if attempt <= last or terms != before:
            self._asked, self._came = ([_NEVER for _ in self._parts] for _ in range(2))
        self._begun = attempt, terms

    def asks(self, work: BatchWork, host: int) -> bool:
        """Say whether a batch asks for them; asked again it says the same."""
        n, asked, came = work.moment, self._asked[host], self._came[host]
        wanted = n == asked or n - asked >= self._every or n - came >= 2 * self._every
        self._asked[host] = max(n, asked) if wanted else asked
        return wanted

    def take(self, work: BatchWork, host: int, pulled: Pulled) -> None:
        """Keep those that came with a batch, unless newer ones have."""
        if pulled.dense is not None and work.moment > self._came[host]:
            np.copyto(self._values[host], pulled.dense)
            self._came[host] = work.moment

    def fill(self, work: BatchWork) -> None:
        """Put those that came last where a batch is computed from."""
        for part, values in zip(self._parts, self._values, strict=True):
            part.copy(work.dense, values)
