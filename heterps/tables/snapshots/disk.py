"""Files that are whole or absent: hashed while written, synced, renamed into place."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from heterps.errors import CheckpointError, HeterpsError

__all__ = [
    "HashedFile",
    "ReadBuffer",
    "guarded",
    "read_checked",
    "read_small",
    "remove_tree",
    "rename_folder",
    "sync_folder",
    "write_bytes",
]


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
    hash_ = hashlib.sha256()
    with _open_regular(path) as file, guarded(path):
        found = os.fstat(file.fileno()).st_size
        if found != size:
            raise CheckpointError(f"{path} is damaged: it has {found} bytes, {size} were written")
        data = (buffer or ReadBuffer()).at_least(size)
        done = 0
        while done < size:
            n = file.readinto(data[done : done + _READ]) or _ended(path)  # type: ignore[attr-defined]
            hash_.update(data[done : done + n])
            done += n
    digest = hash_.hexdigest()
    if digest != sha256:
        raise CheckpointError(f"{path} is damaged: sha256 is {digest[:12]}…, {sha256[:12]}… was written")
    return data


def read_small(path: Path, most: int = 1 << 28) -> bytes:
    """Return the bytes of a regular file that is not larger than ``most``."""
    with _open_regular(path) as file, guarded(path):
        found = os.fstat(file.fileno()).st_size
        if found > most:
            raise CheckpointError(f"{path} has {found} bytes: no such file of a checkpoint is larger than {most}")
        return b"".join(iter(lambda: file.read(_READ), b""))


def _open_regular(path: Path) -> BinaryIO:
    """Open a file that lies where its name says: a link could lead anywhere, a pipe or device never ends."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        reason = "it is a link, or a folder on the way is" if getattr(error, "errno", 0) == errno.ELOOP else error
        raise CheckpointError(f"cannot read {path}: {getattr(reason, 'strerror', reason)}") from error
    file = os.fdopen(number, "rb", buffering=0) if stat.S_ISREG(os.fstat(number).st_mode) else None
    if file is None:
        os.close(number)
        raise CheckpointError(f"cannot read {path}: it is no regular file")
    return file


@contextmanager
def guarded(path: Path) -> Iterator[None]:
    """Whatever goes wrong with what a file holds is damage of that file: no byte of it is trusted."""
    try:
        yield
    except HeterpsError:
        raise
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror or error}") from error
    except _DAMAGE as error:
        raise CheckpointError(f"{path} is damaged: {error!r}") from error


# What unexpected contents lead to, however they are looked at. Not the errors of a program that is wrong by itself.
_DAMAGE = (
    ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError, ValueError, pa.ArrowException,
)  # fmt: skip


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
