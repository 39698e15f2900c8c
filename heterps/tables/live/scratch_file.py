"""A file without a name: it goes with the process, however that ends."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.errors import TableError, TableFullError

__all__ = ["ScratchFile", "nameless"]


class ScratchFile:
    """Opened for reads and writes that go past the page cache, where the file system has such.

    Attributes
    ----------
    number
        What the operating system knows it by.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            plain = nameless(folder)
        except OSError as error:
            raise TableError(f"cannot keep table rows in {folder}: {error}") from error
        self.number = _past_the_cache(plain)
        self._size = 0  # that was taken: whoever writes makes a file long again that was cut short, with zeros for rows

    def allocate(self, start: int, size: int) -> None:
        """Take blocks of the disk, so that it cannot be full when they are written."""
        self._check_size()
        try:
            os.posix_fallocate(self.number, start, size)
        except OSError as error:
            raise TableFullError(
                f"no room on disk for table rows: {error.strerror} after {start} bytes in {self.folder}. Free some, "
                "use more shard hosts, shrink the table, or give it a budget"
            ) from error
        self._size = max(self._size, start + size)

    def write(self, words: npt.NDArray[Any], start: int) -> None:
        """Write whole pages that lie in memory where a page begins."""
        self._check_size()
        left = memoryview(words.reshape(-1).view(np.uint8))  # type: ignore[arg-type,unused-ignore]
        try:
            while left:
                done = os.pwrite(self.number, left, start)
                left, start = left[done:], start + done
        except OSError as error:
            raise TableError(f"cannot write table rows in {self.folder}: {error.strerror} at byte {start}") from error

    def _check_size(self) -> None:
        taken = self._size  # before the look at the file, which others may make longer meanwhile, and then say so
        if os.fstat(self.number).st_size < taken:
            raise self.why(taken, 0)

    def why(self, start: int, size: int) -> TableError:
        """Say why bytes could not be read."""
        there = os.fstat(self.number).st_size
        if start + size > there:
            return TableError(
                f"the file of table rows in {self.folder} was cut short: it has {there} bytes, row at {start}. What it "
                "held is gone; begin again from the last checkpoint"
            )
        try:
            os.pread(self.number, size, start)
        except OSError as error:
            return TableError(f"cannot read table rows in {self.folder}: {error.strerror} at byte {start}")
        return TableError(f"cannot read table rows in {self.folder} at byte {start}")

    def __del__(self) -> None:
        if hasattr(self, "number"):
            os.close(self.number)


def nameless(folder: Path) -> int:
    """Open a file without a name."""
    try:
        return os.open(folder, os.O_RDWR | os.O_TMPFILE | os.O_CLOEXEC, 0o600)
    except (AttributeError, IsADirectoryError, OSError):  # not every system or file system has such files
        number, name = tempfile.mkstemp(prefix="heterps-rows-", dir=folder)
        os.unlink(name)
        return number


def _past_the_cache(plain: int) -> int:
    try:
        number = os.open(f"/proc/self/fd/{plain}", os.O_RDWR | os.O_DIRECT | os.O_CLOEXEC)
    except (AttributeError, OSError):
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(plain, 0, 0, os.POSIX_FADV_RANDOM)
        return plain
    os.close(plain)
    return number
