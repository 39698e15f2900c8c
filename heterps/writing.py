"""Results on disk: whole under their name or not there, and never in place of something that is no file.

A command tries its targets before it begins (:func:`check_target`, :func:`check_folder`), works, and writes through
:func:`whole_file`: into a temporary file beside the target, which takes the target's name when it is complete.
"""

from __future__ import annotations

import errno
import os
import stat
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from heterps.errors import OutputError

__all__ = ["check_folder", "check_target", "ending_of", "whole_file", "write_whole"]

# What a write answers when the disk will not take it; such an error names no file.
_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS)

AnyPath = str | os.PathLike[str]

_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
)


def check_target(path: AnyPath, read: Iterable[str] = (), endings: Sequence[str] = ()) -> Path:
    """Say now whether a file can be written under a name; return where it will lie, behind symbolic links.

    Nothing is left behind, and what is there stays as it is.

    Parameters
    ----------
    path
        The file to be written.
    read
        Files that are read for it, which it would replace.
    endings
        Those that a name may have, as it says what the file is; one without any is taken as the first.

    Raises
    ------
    OutputError
        The folder is missing or cannot be written to, the name belongs to something that is no regular file, or to one
        of those that are read, or ends otherwise.
    """
    target = _target(path)
    if endings and ending_of(path) not in ("", *endings):
        raise OutputError(f"cannot write {path}: files end in {' or '.join(endings)}, not in {Path(path).suffix}")
    if any(os.path.realpath(name) == str(target) for name in read):
        raise OutputError(f"cannot write {path}: it is one of the files that are read, and would be lost; name another")
    _try_folder(target.parent, f"cannot write {path}")
    return target


def ending_of(path: AnyPath) -> str:
    """Return what a name ends in from its last point on, in small letters; nothing where there is no point."""
    return Path(path).suffix.lower()


def check_folder(path: AnyPath) -> Path:
    """Say now whether results can be put into a folder, which may have to be made; nothing is left behind."""
    folder = _real(path)
    there = folder
    while not os.path.lexists(there):
        there = there.parent
    kind = _kind(there)
    if kind != "a folder":
        raise OutputError(f"cannot write to the folder {path}: {there} is {kind}; name another folder")
    _try_folder(there, f"cannot write to the folder {path}")
    return folder


@contextmanager
def whole_file(path: AnyPath, mode: str = "w") -> Iterator[IO[Any]]:
    """Open a file for writing (``"w"``: UTF-8 text, ``"wb"``: bytes) that appears under its name when the block ends.

    If the block raises, what was there before is untouched. An earlier file's permissions are kept.

    Examples
    --------
    >>> with whole_file("plan.json") as file:  # doctest: +SKIP
    ...     file.write(text)
    """
    target = _target(path)
    partial = target.with_name(f".heterps-{uuid.uuid4().hex[:12]}.partial")
    try:
        with _created(partial, target, mode) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, target)
    except OutputError:
        raise
    except OSError as error:
        if not _is_about(error, partial, target):
            raise
        raise OutputError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def _is_about(error: OSError, *paths: Path) -> bool:
    """Tell what befell this file from what the block met elsewhere: another file, a lost connection."""
    if error.filename is None:
        return error.errno in _DISK
    return str(error.filename) in map(str, paths)


def write_whole(path: AnyPath, data: str | bytes) -> Path:
    """Write a small result in one go; return its path as it was given."""
    with whole_file(path, "w" if isinstance(data, str) else "wb") as file:
        file.write(data)
    return Path(path)


def _real(path: AnyPath) -> Path:
    if not os.fspath(path):
        raise OutputError("cannot write to a path that is empty: name a file or folder")
    try:
        return Path(os.path.realpath(path))
    except (OSError, ValueError) as error:  # a loop of links; a NUL in the name
        raise OutputError(f"cannot write {os.fspath(path)!r}: {error}") from error


def _target(path: AnyPath) -> Path:
    """Return the file behind symbolic links, if it is one or can become one."""
    target = _real(path)
    kind = _kind(target)
    if kind not in ("", "a file"):
        raise OutputError(f"cannot write {path}: it is {kind}; name a file")
    if os.fspath(path).endswith(os.sep):
        raise OutputError(f"cannot write {path}: this names a folder; name a file")
    if kind and not os.access(target, os.W_OK):
        raise OutputError(f"cannot write {path}: the file that is there is read-only; make it writable or remove it")
    return target


def _kind(path: Path) -> str:
    """Return what lies under a path in words; nothing if nothing does."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return ""
    except (OSError, ValueError) as error:
        raise OutputError(f"cannot write {path}: {error}") from error
    if stat.S_ISREG(mode):
        return "a file"
    return next((words for test, words in _KINDS if test(mode)), "no regular file")


def _try_folder(folder: Path, prefix: str) -> None:
    """Make a file there and remove it: permissions alone do not tell (a read-only disk, a full one, root)."""
    if not folder.is_dir():
        raise OutputError(f"{prefix}: there is no folder {folder}; make it first")
    trial = folder / f".heterps-{uuid.uuid4().hex[:12]}.partial"
    try:
        os.close(os.open(trial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        trial.unlink()
    except OSError as error:
        raise OutputError(f"{prefix}: no file can be made in {folder} ({error.strerror})") from error


def _created(partial: Path, target: Path, mode: str) -> IO[Any]:
    """Open a new file with the permissions of the one it will replace."""
    if not target.parent.is_dir():
        raise OutputError(f"cannot write {target}: there is no folder {target.parent}; make it first")
    number = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
    if target.exists():
        os.fchmod(number, stat.S_IMODE(target.stat().st_mode))
    return os.fdopen(number, mode, encoding=None if "b" in mode else "utf-8")
