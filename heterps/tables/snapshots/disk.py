"""Files that are whole or absent: hashed while written, synced, renamed into place."""

from __future__ import annotations

import hashlib
import os
import shutil
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import numpy as np

from heterps.errors import CheckpointError

__all__ = ["HashedFile", "ReadBuffer", "read_checked", "remove_tree", "rename_folder", "sync_folder", "write_bytes"]


#: Bytes after which the disk is told to begin writing them.
_WRITEBACK = 1 << 23
#: Bytes read at a time: they are hashed while they are in the cache, and the disk goes on meanwhile.
_READ = 1 << 20


class HashedFile:
    """A file being written, with the sha256 and the number of bytes so far. Synced when it is closed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._hash = hashlib.sha256()
        self.size = self._begun = 0
        self._file: BinaryIO = _open_new(path)

    def write(self, data: Any) -> int:
        """Write all of ``data``."""
        view = memoryview(data).cast("B")
        done = 0
        try:
            while done < len(view):  # a nearly full disk takes a part
                done += self._file.write(view[done:])
        except OSError as error:
            raise CheckpointError(f"cannot write {self.path}: {error.strerror}") from error
        self.size += done
        self._begin_writeback()
        self._hash.update(view)
        return done

    def _begin_writeback(self) -> None:
        """Let the disk work while the next bytes are made; what it has written need not stay in the page cache."""
        if self.size - self._begun >= _WRITEBACK and hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self._file.fileno(), 0, self.size, os.POSIX_FADV_DONTNEED)
            self._begun = self.size

    @property
    def sha256(self) -> str:
        """Hex digest of what was written."""
        return self._hash.hexdigest()

    def close(self) -> None:
        """Sync and close."""
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            raise CheckpointError(f"cannot write {self.path}: {error.strerror}") from error
        finally:
            _close_quietly(self._file)

    def __enter__(self) -> HashedFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            _close_quietly(self._file)


def _open_new(path: Path) -> BinaryIO:
    try:
        return open(path, "wb", buffering=0)
    except OSError as error:
        raise CheckpointError(f"cannot create {path}: {error.strerror}") from error


def _close_quietly(file: BinaryIO) -> None:
    with suppress(OSError):  # what matters was reported by write or fsync
        file.close()


def write_bytes(path: Path, data: bytes) -> None:
    """Write a small file so that a crash leaves the old one or the new one."""
    temporary = path.with_name(f".{path.name}.tmp")
    with HashedFile(temporary) as file:
        file.write(data)
    os.replace(temporary, path)
    sync_folder(path.parent)


class ReadBuffer(threading.local):
    """Room for the bytes of a file, for each thread its own, used again: new memory can be slower than the disk."""

    def __init__(self) -> None:
        self._bytes = np.empty(0, np.uint8)

    def at_least(self, size: int) -> memoryview:
        """Return room for ``size`` bytes; what was there is lost."""
        if len(self._bytes) < size:
            self._bytes = np.empty(size, np.uint8)
        return self._bytes.data[:size]


def read_checked(path: Path, sha256: str, size: int, buffer: ReadBuffer | None = None) -> memoryview:
    """Return the bytes of a file, or say that they are not those that were written.

    With a buffer they are valid until this thread reads the next file into it.
    """
    data, hash_ = (buffer or ReadBuffer()).at_least(size), hashlib.sha256()
    try:
        with open(path, "rb", buffering=0) as file:
            found = os.fstat(file.fileno()).st_size
            done = 0
            while found == size and done < size:
                n = file.readinto(data[done : done + _READ]) or _ended(path)
                hash_.update(data[done : done + n])
                done += n
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror}") from error
    if found != size:
        raise CheckpointError(f"{path} is damaged: it has {found} bytes, {size} were written")
    digest = hash_.hexdigest()
    if digest != sha256:
        raise CheckpointError(f"{path} is damaged: sha256 is {digest[:12]}…, {sha256[:12]}… was written")
    return data


def _ended(path: Path) -> int:
    raise CheckpointError(f"{path} became shorter while it was read")


def sync_folder(path: Path) -> None:
    """Make names in a folder durable."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def rename_folder(source: Path, target: Path) -> None:
    """Give a finished folder its final name, durably."""
    sync_folder(source)
    try:
        os.rename(source, target)
    except OSError as error:
        raise CheckpointError(f"cannot rename {source} to {target}: {error.strerror}") from error
    sync_folder(target.parent)


def remove_tree(path: Path) -> None:
    """Delete a folder that nobody needs; what cannot be deleted stays."""
    shutil.rmtree(path, ignore_errors=True)
