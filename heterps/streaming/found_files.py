"""What lies under a pattern of passes, on local disks and behind URLs."""

from __future__ import annotations

import glob
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heterps.data.core.files import is_url
from heterps.errors import DataError
from heterps.streaming.pattern import NamedPass, PassPattern

__all__ = ["FoundFile", "copied", "listed", "settled_s"]


@dataclass(frozen=True)
class FoundFile:
    """A file of a pass: its size, and when it changed, as its file system says it."""

    which: NamedPass
    path: str
    size: int
    changed: str
    changed_s: float = float("inf")  # since the epoch, where that can be told

    def is_mark(self, done: str | None) -> bool:
        """Whether it holds no rows but says something about others: done-files, hidden ones."""
        name = os.path.basename(self.path)
        return name.startswith((".", "_")) or (done is not None and name == os.path.basename(done))


Wanted = Callable[[NamedPass], bool]


def listed(pattern: PassPattern, wanted: Wanted) -> list[FoundFile]:
    """Return all files of passes that are wanted, by path; folders that match stand for the files in them."""
    try:
        found = _behind_url(pattern, wanted) if is_url(pattern.text) else _on_disk(pattern, wanted)
        return sorted(found, key=lambda file: file.path)
    except OSError as error:
        raise DataError(f"cannot look for {pattern.text}: {error.strerror or error}") from error


def _on_disk(pattern: PassPattern, wanted: Wanted) -> Iterator[FoundFile]:
    for path in glob.iglob(pattern.glob):
        which = pattern.match(path)
        if which is None or not wanted(which):
            continue
        inside = _in_folder(path) if os.path.isdir(path) else [path]
        for file in inside:
            try:
                stat = os.stat(file)
            except FileNotFoundError:  # it was there a moment ago: a name that its writer gives up at the end
                continue
            newest = max(stat.st_mtime, stat.st_ctime)  # a file that was moved here has an old mtime
            yield FoundFile(which, file, stat.st_size, f"{stat.st_mtime_ns} {stat.st_ino}", newest)


def _in_folder(path: str) -> list[str]:
    return [entry.path for entry in os.scandir(path) if entry.is_file()]


def _behind_url(pattern: PassPattern, wanted: Wanted) -> Iterator[FoundFile]:
    import fsspec

    filesystem, globbed = fsspec.core.url_to_fs(pattern.glob)
    scheme = pattern.text.partition("://")[0]
    filesystem.invalidate_cache()
    for path in filesystem.glob(globbed):
        which = pattern.match(f"{scheme}://{str(path).lstrip('/')}") or pattern.match(filesystem.unstrip_protocol(path))
        if which is not None and wanted(which):
            yield from _files_at(filesystem, str(path), which)


def _files_at(filesystem: Any, path: str, which: NamedPass) -> Iterator[FoundFile]:
    info = filesystem.info(path)
    inside = [info] if info["type"] == "file" else filesystem.ls(path, detail=True)
    for each in inside:
        if each["type"] == "file":
            changed = next((str(each[key]) for key in ("mtime", "LastModified", "etag", "created") if key in each), "")
            yield FoundFile(which, str(filesystem.unstrip_protocol(each["name"])), int(each["size"] or 0), changed)


def settled_s(files: Iterable[FoundFile], now: float) -> float:
    """Return for how long no file has changed, as their own times say."""
    return now - max((file.changed_s for file in files), default=float("inf"))


def copied(url: str, folder: Path) -> str:
    """Copy what lies behind a URL; return where."""
    import fsspec

    target = folder / url.rpartition("/")[2]
    with fsspec.open(url, "rb") as source, open(target, "wb") as file:
        shutil.copyfileobj(source, file, 1 << 20)
    return str(target)
