"""Memory that grows in place: address space is reserved once, pages appear when they are first written.

So a table never copies itself to grow, its arrays never move under a running kernel, and what it takes from the
machine is what its rows need, rounded up to pages.
"""

from __future__ import annotations

import errno
import mmap
import os
from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.errors import TableError, TableFullError

__all__ = ["Region", "physical_bytes"]

_NORESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)
_LEAST = 1 << 22


def physical_bytes() -> int:
    """Bytes of memory in this machine."""
    return int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


class Region:
    """One reserved range, seen as a flat array.

    Parameters
    ----------
    dtype
        Element type of :attr:`array`.
    length
        Elements wanted; a smaller range is taken where the process may not reserve that much.
    """

    def __init__(self, dtype: npt.DTypeLike, length: int) -> None:
        self.array: npt.NDArray[Any] = np.frombuffer(_reserve(length * np.dtype(dtype).itemsize), dtype)

    def __len__(self) -> int:
        return len(self.array)

    def commit(self, length: int) -> None:
        """Make sure the first ``length`` elements can be written."""
        if length > len(self.array):
            raise TableFullError(
                f"a table needs {length} elements but could reserve {len(self.array)}; raise the address-space limit "
                "(ulimit -v, vm.overcommit_memory) or use more shard hosts"
            )


def _reserve(size: int) -> mmap.mmap:
    page = mmap.PAGESIZE
    size = max(-(-size // page) * page, page)
    while True:
        try:
            return _map(size)
        except (OSError, ValueError) as error:
            if size <= _LEAST or getattr(error, "errno", errno.ENOMEM) not in (errno.ENOMEM, errno.EFBIG, errno.EINVAL):
                raise TableError(f"cannot reserve {size} bytes of address space for a table: {error}") from error
            size = max(size // 2 // page * page, _LEAST)


def _map(size: int) -> mmap.mmap:
    area = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        area.madvise(mmap.MADV_HUGEPAGE)
    return area
