"""The one scrambler of 64 bits, splitmix64's: in plain Python, for arrays, and inside compiled loops.

Shards, first values of rows, shuffles, dropout and the ids of strings follow from it: snapshots hold its results, so it
never changes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from heterps.compiled import njit

__all__ = ["GOLDEN", "MASK", "finalise", "finalise_array", "finalise_word"]

#: Increment of the splitmix64 sequence.
GOLDEN = 0x9E3779B97F4A7C15
MASK = 2**64 - 1
_FIRST, _SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def finalise(z: int) -> int:
    """Scramble the 64 bits of an integer.

    Examples
    --------
    >>> hex(finalise(GOLDEN))
    '0xe220a8397b1dcdaf'
    """
    z &= MASK
    z = (z ^ (z >> 30)) * _FIRST & MASK
    z = (z ^ (z >> 27)) * _SECOND & MASK
    return z ^ (z >> 31)


def finalise_array(z: Any) -> Any:
    """Scramble each element of a uint64 array of any array library."""
    u = np.uint64
    z = (z ^ (z >> u(30))) * u(_FIRST)
    z = (z ^ (z >> u(27))) * u(_SECOND)
    return z ^ (z >> u(31))


@njit(nogil=True, error_model="numpy", inline="always")
def finalise_word(z: Any) -> Any:
    """Scramble a uint64 inside a compiled loop, of which it becomes a part."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(_FIRST)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(_SECOND)
    return z ^ (z >> np.uint64(31))
