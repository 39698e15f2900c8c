"""Dense parameters of one host as it had them, and a worker's own steps on top that it has not taken yet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from heterps.tables.live.dense import DenseBlock
from heterps.tables.specs.spec import DenseSpec

__all__ = ["OwnDense"]

F32 = npt.NDArray[np.float32]


class OwnDense:
    """Parameters that live in a piece of a worker's flat vector. One thread calls it.

    Parameters
    ----------
    specs, seed
        As the host has them.
    values
        The piece.
    """

    def __init__(self, specs: Sequence[DenseSpec], seed: int, values: F32) -> None:
        self._block = DenseBlock(specs, seed=seed)
        self._block.values = values

    def set_rate(self, rate: float) -> None:
        """Multiply learning rates by a factor from now on."""
        self._block.set_rate(rate)

    def hear(self, values: F32, slots: F32, own: Iterable[F32], step: int) -> None:
        """Take what the host has, with the optimiser's slots; then the steps that it has not taken."""
        np.copyto(self._block.values, values)
        np.copyto(self._block.slots, slots)
        for gradient in own:
            self.learn(gradient, step)

    def learn(self, gradient: F32, step: int) -> None:
        """Take a step."""
        self._block.push(gradient, step=step)
