"""Host memory for the large arrays of a program: in large pages, and given back when the last array goes.

A program's arrays are read and written from end to end for every batch, so with pages of 4 KB looking pages up costs
a per cent or two (docs/adr/0705). And they are made and dropped with every run: the C library would keep most of
them for later, cut up by whatever was allocated meanwhile.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from heterps.device.arrays import Array
from heterps.large_pages import large_block

__all__ = ["Arena"]

_BLOCK = 1 << 25  # address space only: pages appear when they are first written
_LEAST = 1 << 14  # smaller arrays are NumPy's
_LINE = 64


class Arena:
    """Hands out arrays side by side in large pages. A block goes when the last of its arrays has gone."""

    def __init__(self) -> None:
        self._free = np.empty(0, np.uint8)

    def empty(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> Array:
        """Return an uninitialised array."""
        kind = np.dtype(dtype)
        size = math.prod(shape) * kind.itemsize
        if size < _LEAST:
            return np.empty(shape, kind)
        if size > len(self._free):
            self._free = large_block(max(size, _BLOCK))
        array = self._free[:size].view(kind).reshape(shape)
        self._free = self._free[-(-size // _LINE) * _LINE :]
        return array
