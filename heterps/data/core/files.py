"""Paths, globs, URLs and compression: from a name to bytes."""

from __future__ import annotations

import glob
import gzip
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from heterps.data.core.split import Piece
from heterps.errors import DataError

__all__ = [
    "ByteReader",
    "about",
    "cut",
    "expand",
    "first_line",
    "is_compressed",
    "modified_at",
    "open_bytes",
    "open_raw",
    "size_of",
    "whole",
]


_ROOM = 1 << 20  # bytes read at a time


def is_url(path: str) -> bool:
    """Tell fsspec URLs from local paths."""
    return "://" in path


def is_compressed(path: str) -> bool:
    """Whether a file must be read from its beginning."""
    return path.endswith((".gz", ".zst", ".zstd"))


def _filesystem(path: str) -> tuple[Any, str]:
    import fsspec

    try:
        filesystem, inner = fsspec.core.url_to_fs(path)
    except ImportError as error:
        raise DataError(f"cannot open {path}: {error}") from error
    except Exception as error:  # whatever a filesystem raises for an address it does not understand
        raise DataError(
            f"cannot open {path}: {error}; local files need no scheme, others one that fsspec has"
        ) from error
    return filesystem, inner


def expand(paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> tuple[str, ...]:
    """Return the files that paths, folders, globs and URLs name, sorted within each; say so if there are none."""
    given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    if not given:
        raise DataError("no files were given: expected a path, a glob, a URL or a list of them")
    return tuple(found for path in given for found in _expand_one(os.fspath(path)))


def _expand_one(path: str) -> list[str]:
    if is_url(path):
        filesystem, inner = _filesystem(path)
        if any(mark in inner for mark in "*?["):
            with _named(path):
                found = sorted(str(filesystem.unstrip_protocol(name)) for name in filesystem.glob(inner))
            return _some(path, found)
        return [path]
    with _named(path):
        if os.path.isdir(path):
            inside = (os.path.join(path, name) for name in sorted(os.listdir(path)) if not name.startswith((".", "_")))
            return _some(path, [name for name in inside if os.path.isfile(name)])
        if os.path.exists(path):
            return [path]
        return _some(path, sorted(glob.glob(path, recursive=True)))


def _some(path: str, found: list[str]) -> list[str]:
    if found:
        return found
    raise DataError(f"no such file: {path} ({_what_is_there(path)})")


def _what_is_there(path: str) -> str:
    if is_url(path):
        return "nothing matches there"
    folder = Path(path)
    while not folder.is_dir():
        folder = folder.parent
    try:
        names = sorted(item.name for item in folder.iterdir())
    except OSError as error:
        return f"{folder} cannot be listed: {error.strerror}"
    shown = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
    return f"{folder} holds {shown or 'nothing'}"


@contextmanager
def _named(path: str) -> Iterator[None]:
    """Turn whatever a file system raises into an error that names the path."""
    try:
        yield
    except DataError:
        raise
    except FileNotFoundError:
        raise DataError(f"no such file: {path} ({_what_is_there(path)})") from None
    except PermissionError as error:
        raise DataError(f"cannot read {path}: permission denied; make it readable for this user") from error
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error
    except Exception as error:
        if is_url(path) or isinstance(error, ValueError):  # filesystems of others; a NUL in a name
            raise DataError(f"cannot read {path!r}: {error}") from error
        raise


@contextmanager
def about(path: str) -> Iterator[None]:
    """Name the file in an error about what it holds."""
    try:
        yield
    except DataError as error:
        raise error if path in str(error) else DataError(f"{path}: {error}") from error


def size_of(path: str) -> int:
    """Bytes of a file."""
    with _named(path):
        if is_url(path):
            filesystem, inner = _filesystem(path)
            return int(filesystem.size(inner))
        return _regular(path).st_size


def modified_at(path: str) -> str:
    """When a file was last written, as far as it can be told."""
    with _named(path):
        if not is_url(path):
            seconds, rest = divmod(_regular(path).st_mtime_ns, 10**9)
            return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}.{rest:09d}"
    filesystem, inner = _filesystem(path)
    with suppress(Exception):  # not every filesystem knows
        return str(filesystem.modified(inner))
    return "unknown time"


def _regular(path: str) -> os.stat_result:
    """A pipe or device can hang, has no size, and cannot be read again by another attempt."""
    found = os.stat(path)
    if stat.S_ISDIR(found.st_mode):
        raise DataError(f"cannot read {path}: it is a folder; name the files in it, or give the folder to the reader")
    if not stat.S_ISREG(found.st_mode):
        raise DataError(f"cannot read {path}: it is no regular file; write it to one, or use pipe_command on files")
    return found


def cut(paths: Iterable[str], grain: int) -> tuple[Piece, ...]:
    """Cut files into byte ranges of about ``grain``; a compressed file is one piece. Looks at sizes only."""
    pieces: list[Piece] = []
    for path in paths:
        size = size_of(path)
        if is_compressed(path):
            pieces.append(Piece(path, 0, -1, max(size, 1)))
            continue
        count = max(1, round(size / grain))
        edges = [size * i // count for i in range(count + 1)]
        pieces += [Piece(path, a, b, b - a) for a, b in pairwise(edges) if b > a]
    return tuple(pieces)


def whole(paths: Iterable[str]) -> tuple[Piece, ...]:
    """Return one piece a file, to be read from its beginning to its end."""
    return tuple(Piece(path, 0, -1, max(1, size_of(path))) for path in paths)


def open_bytes(path: str) -> ByteReader:
    """Open a local file or URL for reading, decompressed; errors name the file and the byte."""
    raw = open_raw(path)
    with _named(path):
        return ByteReader(path, _decompressed(path, raw))


def open_raw(path: str) -> Any:
    """Open a local file or URL for reading, as stored."""
    with _named(path):
        if is_url(path):
            filesystem, inner = _filesystem(path)
            return filesystem.open(inner, "rb")
        _regular(path)
        return open(path, "rb", buffering=0)


def first_line(path: str, most: int = 1 << 20) -> bytes:
    """Return the first line of a file without its end; an error if it is longer than ``most`` bytes."""
    found = b""
    with open_bytes(path) as file:
        while b"\n" not in found and (more := file.read(1 << 16)):
            found += more
            if len(found) > most and b"\n" not in found[: most + 1]:
                raise DataError(f"{path}, line 1: longer than {most} bytes; is it text with a line for each row?")
    return found.split(b"\n", 1)[0]


def _decompressed(path: str, raw: Any) -> Any:
    if path.endswith(".gz"):
        return _Gzip(raw)
    if path.endswith((".zst", ".zstd")):
        import pyarrow as pa

        return pa.CompressedInputStream(pa.PythonFile(raw, mode="r"), "zstd")
    return raw


class ByteReader:
    """A file whose errors name it: a broken or truncated archive, a disk or network that fails."""

    def __init__(self, path: str, file: Any) -> None:
        self.path, self._file, self._at = path, file, 0

    def read(self, size: int) -> bytes:
        """Return at most so many bytes; none at the end."""
        room = bytearray(min(size, _ROOM))
        got = self.readinto(room)
        return bytes(room[:got])

    def read_exactly(self, size: int) -> bytes:
        """Return so many bytes, fewer only at the end; takes no more memory than there are bytes."""
        parts: list[bytes] = []
        while size > 0 and (part := self.read(size)):
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def readinto(self, room: Any) -> int:
        """Fill a buffer; return how many bytes, 0 at the end."""
        try:
            got = int(self._file.readinto(room) or 0) if len(room) else 0
        except DataError:
            raise
        except Exception as error:  # of gzip, zlib, Arrow, the disk, or a filesystem of others
            hint = "; it is damaged or incomplete: copy or compress it again" if is_compressed(self.path) else ""
            raise DataError(f"cannot read {self.path} at byte {self._at}: {error}{hint}") from error
        self._at += got
        return got

    def seek(self, position: int) -> None:
        """Go to a byte."""
        with _named(self.path):
            self._file.seek(position)
        self._at = position

    def close(self) -> None:
        """Close the file."""
        with suppress(Exception):  # nothing was written; what matters was raised by a read
            self._file.close()

    def __enter__(self) -> ByteReader:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class _Gzip(gzip.GzipFile):
    """A gzip reader that owns the file below it."""

    def __init__(self, raw: Any) -> None:
        self._below = raw
        super().__init__(fileobj=raw, mode="rb")

    def close(self) -> None:
        super().close()
        self._below.close()
