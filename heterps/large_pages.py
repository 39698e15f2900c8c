"""Memory in large pages of its own: what is megabytes large is gone through with fewer looks at page tables."""

from __future__ import annotations

import mmap

import numpy as np
import numpy.typing as npt

__all__ = ["large_block"]

_LARGE_PAGE = 1 << 21
_LEAST = 1 << 19  # what is smaller would leave most of its page empty


def large_block(size: int) -> npt.NDArray[np.uint8]:
    """Return that many bytes, beginning at the start of a large page, where there are any.

    Pages come into being where something is written. NumPy's reference to the mapping gives it back to the system when
    its last array goes.
    """
    if size < _LEAST:
        return np.empty(size, np.uint8)
    area = mmap.mmap(-1, size + _LARGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        area.madvise(mmap.MADV_HUGEPAGE)
    whole = np.frombuffer(area, np.uint8)
    start = -whole.ctypes.data % _LARGE_PAGE
    return whole[start : start + size]
