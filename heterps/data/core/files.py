"""Paths, globs, URLs and compression: from a name to bytes."""

from __future__ import annotations

import glob
import gzip
import os
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

from heterps.data.core.split import Piece
from heterps.errors import DataError

__all__ = ["cut", "expand", "is_compressed", "open_bytes", "open_raw", "size_of", "whole"]


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


def whole(paths: Iterable[str]) -> tuple[Piece, ...]:
    """Return one piece a file, to be read from its beginning to its end."""
    return tuple(Piece(path, 0, -1, max(1, size_of(path))) for path in paths)


def open_bytes(path: str) -> Any:
    """Open a local file or URL for reading, decompressed."""
    return _decompressed(path, open_raw(path))


def open_raw(path: str) -> Any:
    """Open a local file or URL for reading, as stored."""
    try:
        return _open_url(path) if is_url(path) else open(path, "rb", buffering=0)
    except FileNotFoundError:
        raise DataError(f"no such file: {path} ({_what_is_there(path)})") from None
    except OSError as error:
        raise DataError(f"cannot open {path}: {error.strerror or error}") from error


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
