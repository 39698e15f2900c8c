"""Memory that grows in place: address space is reserved once, pages appear when they are first written.

So a table never copies itself to grow, its arrays never move under a running kernel, and what it takes from the
machine is what its rows need, rounded up to pages.
"""

from __future__ import annotations

import errno
import mmap
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.errors import TableError, TableFullError

__all__ = ["Region", "physical_bytes"]

_NORESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)
_LEAST = 1 << 22
_STEP = 1 << 26


def physical_bytes() -> int:
    """Bytes of memory in this machine."""
    return int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


class Region:
    """One reserved range, in memory or over a file, seen as a flat array.

    Parameters
    ----------
    dtype
        Element type of :attr:`array`.
    length
        Elements wanted; a smaller range is taken where the process may not reserve that much.
    folder
        Keep the bytes in an unnamed file below this folder instead of in memory.
    """

    def __init__(self, dtype: npt.DTypeLike, length: int, folder: Path | None = None) -> None:
        self._itemsize = np.dtype(dtype).itemsize
        self._file = None if folder is None else _scratch_file(folder)
        self._committed = 0
        self._map = _reserve(length * self._itemsize, self._file)
        self.array: npt.NDArray[Any] = np.frombuffer(self._map, dtype)

    def __len__(self) -> int:
        return len(self.array)

    def commit(self, length: int) -> None:
        """Make sure the first ``length`` elements can be written.

        Writing to a mapped page that the disk has no room for kills the process, so file regions take their blocks
        here, where a full disk is an error with a name.
        """
        if length > len(self.array):
            raise TableFullError(
                f"a table needs {length} elements but could reserve {len(self.array)}; raise the address-space limit "
                "(ulimit -v, vm.overcommit_memory) or use more shard hosts"
            )
        if self._file is None or length * self._itemsize <= self._committed:
            return
        target = min(-(-length * self._itemsize // _STEP) * _STEP, len(self._map))
        try:
            os.posix_fallocate(self._file, self._committed, target - self._committed)
        except OSError as error:
            raise TableFullError(
                f"no room on disk for table rows: {error.strerror} after {self._committed} bytes"
            ) from error
        self._committed = target

    def __del__(self) -> None:
        if getattr(self, "_file", None) is not None:
            os.close(self._file)  # type: ignore[arg-type]


def _scratch_file(folder: Path) -> int:
    """Open a file without a name: it goes with the process, however that ends."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        number, name = tempfile.mkstemp(prefix="heterps-rows-", dir=folder)
    except OSError as error:
        raise TableError(f"cannot keep table rows in {folder}: {error}") from error
    os.unlink(name)
    return number


def _reserve(size: int, file: int | None) -> mmap.mmap:
    page = mmap.PAGESIZE
    size = max(-(-size // page) * page, page)
    while True:
        try:
            return _map(size, file)
        except (OSError, ValueError) as error:
            if size <= _LEAST or getattr(error, "errno", errno.ENOMEM) not in (errno.ENOMEM, errno.EFBIG, errno.EINVAL):
                raise TableError(f"cannot reserve {size} bytes of address space for a table: {error}") from error
            size = max(size // 2 // page * page, _LEAST)


def _map(size: int, file: int | None) -> mmap.mmap:
    if file is None:
        area = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            area.madvise(mmap.MADV_HUGEPAGE)
        return area
    os.ftruncate(file, size)
    area = mmap.mmap(file, size, flags=mmap.MAP_SHARED)
    if hasattr(mmap, "MADV_RANDOM"):
        # Rows are touched here and there. Read ahead, the file would lie in the cache in pieces of megabytes, and one
        # changed row would write back all of its piece.
        area.madvise(mmap.MADV_RANDOM)
    return area
