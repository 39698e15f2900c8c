"""Gradients that are too large made smaller, where they are computed: each parameter and each row by itself.

A parameter is not compared with others: no stage has to know what other stages computed. In Sync every lane clips its
own gradients before they are added, so the result does not depend on the number of workers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from heterps.device.arrays import Array, array_namespace, is_host
from heterps.errors import PlanError

__all__ = ["Clip"]

F32 = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Clip:
    """Bounds of gradients.

    Parameters
    ----------
    norm
        Largest Euclidean norm of a dense parameter's gradient, and of a row's in each table.
    value
        Largest absolute value of an element; before the norm.
    """

    norm: float | None = None
    value: float | None = None

    def __post_init__(self) -> None:
        for name, bound in (("clip_norm", self.norm), ("clip_value", self.value)):
            if bound is not None and not (bound > 0 and math.isfinite(bound)):
                raise PlanError(f"{name}={bound}: must be a finite number above 0")

    def __bool__(self) -> bool:
        return self.norm is not None or self.value is not None

    def dense(self, flat: F32, spans: Iterable[slice]) -> None:
        """Clip parameters that lie side by side, in place."""
        for span in spans:
            self.rows(flat[span].reshape(1, -1))

    def rows(self, gradient: Array) -> None:
        """Clip each row, in place. What is not finite stays so: rules leave such rows alone, and count them."""
        if not is_host(gradient):
            gradient[...] = self._clipped(gradient)
            return
        if self.value is not None:
            np.clip(gradient, -self.value, self.value, out=gradient)
        if self.norm is not None:
            norms = np.sqrt(np.einsum("ij,ij->i", gradient, gradient, dtype=np.float64))
            over = np.flatnonzero(np.isfinite(norms) & (norms > self.norm))
            gradient[over] *= (self.norm / norms[over]).astype(np.float32)[:, None]

    def _clipped(self, gradient: Array) -> Array:
        """Return rows on a device clipped, with the same numbers; nobody waits for it."""
        xp = array_namespace(gradient)
        if self.value is not None:
            gradient = xp.clip(gradient, -self.value, self.value)
        if self.norm is not None:
            wide = gradient.astype(np.float64)
            norms = xp.sqrt(xp.sum(wide * wide, axis=1, keepdims=True))
            over = xp.logical_and(xp.isfinite(norms), norms > self.norm)
            factors = self.norm / xp.where(over, norms, xp.ones_like(norms))
            gradient = xp.where(over, gradient * factors.astype(np.float32), gradient)
        return gradient
