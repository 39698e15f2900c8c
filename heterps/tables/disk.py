"""Files that are whole or absent: hashed while written, synced, renamed into place."""

from __future__ import annotations

import hashlib
import os
import shutil
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

from heterps.errors import CheckpointError

__all__ = ["HashedFile", "read_checked", "remove_tree", "rename_folder", "sync_folder", "write_bytes"]


class HashedFile:
    """A file being written, with the sha256 and the number of bytes so far. Synced when it is closed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._hash = hashlib.sha256()
        self.size = 0
        self._file: BinaryIO = _open_new(path)

    closed = False
    mode = "wb"

    def write(self, data: Any) -> int:
        """Write all of ``data``."""
        view = memoryview(data).cast("B")
        done = 0
        try:
            while done < len(view):  # a nearly full disk takes a part
                done += self._file.write(view[done:])
        except OSError as error:
            raise CheckpointError(f"cannot write {self.path}: {error.strerror}") from error
        self._hash.update(view)
        self.size += done
        return done

    def tell(self) -> int:
        """Return the position."""
        return self.size

    def flush(self) -> None:
        """Do nothing: bytes go to the disk on close."""

    @property
    def sha256(self) -> str:
        """Hex digest of what was written."""
        return self._hash.hexdigest()

    def close(self) -> None:
        """Sync and close."""
        if self.closed:
            return
        self.closed = True
        try:
            self._file.flush()
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
            self.closed = True
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


def read_checked(path: Path, sha256: str, size: int) -> bytes:
    """Return the bytes of a file, or say that they are not those that were written."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror}") from error
    if len(data) != size:
        raise CheckpointError(f"{path} is damaged: it has {len(data)} bytes, {size} were written")
    found = hashlib.sha256(data).hexdigest()
    if found != sha256:
        raise CheckpointError(f"{path} is damaged: sha256 is {found[:12]}…, {sha256[:12]}… was written")
    return data


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
