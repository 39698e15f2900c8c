"""Rows, parameters and gradients as float16 on the wire: half the bytes, eleven bits of each number.

An array is multiplied by the power of two that brings its largest number near float16's, which loses nothing, and
divided by it where it arrives: numbers down to a billionth of the largest keep their eleven bits, whatever the scale of
a loss. Arrays that float16 cannot hold, with NaN or infinity in them, travel as they are: they are somebody's to find.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import frexp, isfinite
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["halved", "made_whole"]

F32 = npt.NDArray[np.float32]
_TOP = 15  # the largest number is below 2 ** 15: rounding cannot take it to infinity
_MOST = 126  # powers of two that float32 has, both ways


def halved(array: F32, powers: list[int] | None) -> npt.NDArray[Any]:
    """Return an array as it is to travel, and note the power of two; as it is where nothing is noted."""
    if powers is None or not array.size:
        return array
    largest = float(max(array.max(), -array.min()))
    if not isfinite(largest):
        return array
    power = max(-_MOST, min(_MOST, _TOP - frexp(largest)[1])) if largest else 0
    light = np.empty(array.shape, np.float16)
    np.multiply(array, np.float32(2.0**power), out=light, casting="same_kind")
    powers.append(power)
    return light


def made_whole(array: npt.NDArray[Any], powers: Iterator[int], out: F32 | None = None) -> F32:
    """Return an array that travelled as float32, in ``out`` if there is room; any other as it came."""
    if array.dtype != np.float16:
        return array
    whole = np.empty(array.shape, np.float32) if out is None or out.size < array.size else out[: len(array)]
    np.multiply(array, np.float32(2.0 ** -next(powers)), out=whole, dtype=np.float32)
    return whole
