"""Dense parameters that a worker trains itself: as :mod:`~heterps.tables.live.local_rows`, one flat vector of all."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from heterps.tables.live.dense import DenseBlock
from heterps.tables.specs.spec import DenseSpec

__all__ = ["LocalDense"]

F32 = npt.NDArray[np.float32]


class LocalDense:
    """What parameters are now, and what hosts have of them as far as is known. One thread calls it."""

    def __init__(self, specs: Sequence[DenseSpec], seed: int) -> None:
        self._block = DenseBlock(specs, seed=seed)
        self._then = self._block.values.copy()

    def set_rate(self, rate: float) -> None:
        """Multiply learning rates by a factor from now on."""
        self._block.set_rate(rate)

    @property
    def values(self) -> F32:
        """The live values."""
        return self._block.values

    def learn(self, gradient: F32, step: int) -> int:
        """Apply the rules; return how many rows were left as they are for a NaN or Inf."""
        return self._block.push(gradient, step=step)

    def settle(self, lanes: int) -> F32:
        """Return what is owed: a lane's share of what was learned and not settled."""
        owed: F32 = (self._block.values - self._then) / np.float32(lanes)
        self._then += owed
        return owed

    def hear(self, where: slice, values: F32) -> None:
        """Take what hosts have now; what was learned here and not settled stays."""
        self._block.values[where] += values - self._then[where]
        self._then[where] = values
