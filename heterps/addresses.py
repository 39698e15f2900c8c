"""Where arrays lie in memory, for compiled loops that go over several of them as if they were one.

A loop is given the first array and, for each of the others, how many elements from there it begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import addressof, c_char
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["addresses", "places"]

I64 = npt.NDArray[np.int64]


def _address(array: npt.NDArray[Any]) -> int:
    try:
        memory: Any = array
        return addressof(c_char.from_buffer(memory))  # takes a third of the time that NumPy's way takes
    except (TypeError, ValueError):  # read-only, or empty
        return array.ctypes.data


def addresses(arrays: Sequence[npt.NDArray[Any]]) -> I64:
    """Return where the first elements of contiguous arrays are, in bytes."""
    return np.array([_address(array) for array in arrays], np.int64)


def places(found: I64, itemsize: int) -> I64:
    """Return addresses as elements from the first of them on; they must be aligned."""
    apart: I64 = (found - found[0]) // itemsize
    return apart
