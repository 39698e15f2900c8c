"""Paths, globs, URLs and compression: from a name to bytes."""

from __future__ import annotations

import glob
import gzip
import os
import zlib
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.data.split import Piece
from heterps.errors import DataError

__all__ = ["Lines", "cut", "expand", "is_compressed", "open_bytes", "size_of"]

BLOCK_BYTES = 1 << 20
# Compiled loops look at up to 64 bytes at a time, from any byte.
PAD = 80
_NEWLINE = 10


def is_url(path: str) -> bool:
    """Tell fsspec URLs from local paths."""
    return "://" in path


def is_compressed(path: str) -> bool:
    """Whether a file must be read from its beginning."""
    return path.endswith((".gz", ".zst", ".zstd"))


def _filesystem(path: str) -> tuple[Any, str]:
    import fsspec

    filesystem, inner = fsspec.core.url_to_fs(path)
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
            return _some(path, sorted(str(filesystem.unstrip_protocol(name)) for name in filesystem.glob(inner)))
        return [path]
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
    names = sorted(item.name for item in folder.iterdir())
    shown = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
    return f"{folder} holds {shown or 'nothing'}"


def size_of(path: str) -> int:
    """Bytes of a file."""
    try:
        if is_url(path):
            filesystem, inner = _filesystem(path)
            return int(filesystem.size(inner))
        return os.path.getsize(path)
    except FileNotFoundError:
        raise DataError(f"no such file: {path} ({_what_is_there(path)})") from None
    except OSError as error:
        raise DataError(f"cannot look at {path}: {error.strerror or error}") from error


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


def open_bytes(path: str) -> Any:
    """Open a local file or URL for reading, decompressed."""
    try:
        raw: Any = _open_url(path) if is_url(path) else open(path, "rb", buffering=0)  # noqa: SIM115
    except FileNotFoundError:
        raise DataError(f"no such file: {path} ({_what_is_there(path)})") from None
    except OSError as error:
        raise DataError(f"cannot open {path}: {error.strerror or error}") from error
    return _decompressed(path, raw)


def _open_url(path: str) -> Any:
    filesystem, inner = _filesystem(path)
    return filesystem.open(inner, "rb")


def _decompressed(path: str, raw: Any) -> Any:
    if path.endswith(".gz"):
        return _Gzip(raw)
    if path.endswith((".zst", ".zstd")):
        import pyarrow as pa

        return pa.CompressedInputStream(pa.PythonFile(raw, mode="r"), "zstd")
    return raw


class _Gzip(gzip.GzipFile):
    """A gzip reader that owns the file below it."""

    def __init__(self, raw: Any) -> None:
        self._below = raw
        super().__init__(fileobj=raw, mode="rb")

    def close(self) -> None:
        super().close()
        self._below.close()


class Lines:
    """Blocks of whole lines of one piece, in one reused buffer.

    A line belongs to the piece that holds its first byte, so pieces of a file cover each line once whatever the cut.
    After :meth:`refill` the bytes ``buffer[pos:end]`` are whole lines and ``buffer[end - 1]`` is a newline (one is
    added to a last line without). ``buffer`` has spare bytes after ``end``: compiled loops may load whole words.
    """

    def __init__(self, piece: Piece, block: int = BLOCK_BYTES) -> None:
        self.piece, self.block = piece, block
        self._bytes = bytearray(block + PAD)
        self.buffer: npt.NDArray[np.uint8] = np.frombuffer(self._bytes, np.uint8)
        self.file = open_bytes(piece.source)
        self.pos = self.end = self.filled = 0
        self.at_eof = False
        self.too_long = -1
        self.limit = piece.end if piece.end >= 0 else 1 << 62
        self.origin = piece.begin
        if piece.begin > 0:
            self.origin = piece.begin - 1
            self.file.seek(self.origin)
            self._fill()
            self._drop_line()

    def close(self) -> None:
        """Close the file."""
        self.file.close()

    @property
    def offset(self) -> int:
        """Position in the (decompressed) file of ``buffer[pos]``."""
        return self.origin + self.pos

    def refill(self) -> bool:
        """Bring the next lines in; False at the end of the piece."""
        self.pos = max(self.pos, self.end)
        if self.offset >= self.limit:
            return False
        self.end = self._last_line()
        while self.end == self.pos and not self.at_eof:
            if self.pos == 0 and self.filled == self.block:
                # One line fills the whole buffer: leave it to the caller to count, go on behind it.
                self.too_long = self.origin
                self._drop_line()
                return True
            self._fill()
            self.end = self._last_line()
        return self.end > self.pos

    def _fill(self) -> None:
        keep = self.filled - self.pos
        self.buffer[:keep] = self.buffer[self.pos : self.filled].copy()
        self.origin += self.pos
        self.pos, self.end, self.filled = 0, 0, keep
        got = self._read_into(memoryview(self._bytes)[keep : self.block])
        self.filled += got
        if got == 0:
            self.at_eof = True
            if self.filled > 0 and self.buffer[self.filled - 1] != _NEWLINE:
                self.buffer[self.filled] = _NEWLINE
                self.filled += 1

    def _read_into(self, room: memoryview) -> int:
        try:
            return self.file.readinto(room) or 0 if len(room) else 0
        except (OSError, EOFError, ValueError, zlib.error) as error:
            raise DataError(f"cannot read {self.piece.source} at byte {self.origin}: {error}") from error

    def _last_line(self) -> int:
        """Return the end of the last whole line in the buffer that this piece owns."""
        newest = self.limit - self.origin
        if newest < self.filled:
            # The last owned line starts before ``newest``: it ends at the first newline from newest - 1 on.
            found = self._bytes.find(b"\n", max(newest - 1, self.pos), self.filled)
            return found + 1 if found >= 0 else self.pos
        return max(self._bytes.rfind(b"\n", self.pos, self.filled) + 1, self.pos)

    def _drop_line(self) -> None:
        """Move behind the next newline."""
        while True:
            found = self._bytes.find(b"\n", self.pos, self.filled)
            if found >= 0:
                self.pos = self.end = found + 1
                return
            self.pos = self.end = self.filled
            if self.at_eof:
                return
            self._fill()
