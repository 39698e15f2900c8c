"""Seeded permutations that stay the same for ever.

NumPy's generators promise no stable stream between versions; batch boundaries must not depend on the version on
a worker, so this is a Fisher-Yates shuffle over splitmix64, spelled out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.compiled import njit
from heterps.data.core.value_hash import cross_ids
from heterps.mixing import GOLDEN, finalise_word

__all__ = ["permutation", "seed_key"]

_STEP, _U32 = np.uint64(GOLDEN), np.uint64(32)


def seed_key(*parts: int) -> int:
    """Combine a seed with whatever a permutation depends on."""
    return cross_ids(*(part & (2**64 - 1) for part in parts))


@njit(nogil=True, cache=True)
def _shuffle(order: Any, state: Any) -> None:
    for i in range(len(order) - 1, 0, -1):
        state += _STEP
        z = finalise_word(state)
        # The high 32 bits times the bound, shifted: unbiased to within n / 2**32.
        j = np.int64(((z >> _U32) * np.uint64(i + 1)) >> _U32)
        order[i], order[j] = order[j], order[i]


def permutation(n: int, key: int) -> npt.NDArray[np.int64]:
    """Return a permutation of ``range(n)`` determined by ``key``; n must be below 2**32."""
    order = np.arange(n, dtype=np.int64)
    _shuffle(order, np.uint64(key))
    return order
