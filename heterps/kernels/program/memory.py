"""The memory that a program takes, known before anything is allocated."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.graph import Graph
from heterps.kernels.program.buffers import Buffers
from heterps.kernels.program.fusion import fuse
from heterps.kernels.program.param_layout import ParamLayout
from heterps.kernels.program.steps import scope_of

__all__ = ["program_bytes"]


def program_bytes(graph: Graph, ops: Iterable[str], batch_size: int) -> int:
    """Return the bytes of a program's buffers, of its parameters and of their gradient, in float32.

    What kernels ask for while they run, and rows, whose number only a batch knows, come on top.
    """
    names, counted = list(ops), _CountedArrays()
    Buffers(fuse(scope_of(graph, names)), batch_size, np.dtype(np.float32), counted, loops=False)
    return counted.bytes + 2 * 4 * ParamLayout(graph, names).size


class _CountedArrays:
    """Takes the place of an array library; its arrays are never touched, so they take no memory."""

    def __init__(self) -> None:
        self.bytes = 0

    def empty(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Count an array."""
        self.bytes += math.prod(shape) * np.dtype(dtype).itemsize
        return np.empty(shape, dtype)

    zeros = empty
