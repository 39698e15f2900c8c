"""A snapshot together with those it builds on: a checkpoint, then changes in order.

Read newest first: what the newest snapshot says of an id counts, and the older ones are asked for the rest. So each id
comes once however many snapshots know it, and a checkpoint that stands alone is the plain case.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from heterps.errors import CheckpointError
from heterps.tables.hashing import shards_of
from heterps.tables.snapshots.disk import ReadBuffer, guarded, read_checked
from heterps.tables.snapshots.manifest import NAME, Manifest, StoredFile, deleted_of
from heterps.tables.snapshots.pages import row_groups
from heterps.tables.snapshots.snapshot import THREADS, Generation, Snapshots, links_of
from heterps.tables.specs.spec import GroupSpec

__all__ = ["Chain", "broken_after", "find_generation", "read_columns", "read_rows"]

Columns = dict[str, npt.NDArray[Any]]
U64 = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]

_log = logging.getLogger("heterps")


def find_generation(path: str | Path) -> Path:
    """Return the snapshot folder meant by a path: itself, or the newest generation below it.

    The newest that is sound: changes with a broken file are passed over with a warning.
    """
    folder = Path(path)
    if (folder / NAME).exists():
        return folder
    snapshots = Snapshots(folder)
    newest = snapshots.latest()
    for found in reversed(snapshots.generations()):
        problem = _broken_changes(found)
        if not problem:
            return found
        _log.warning("%s cannot be used, going back to the snapshot before it: %s", found, problem)
    return newest


def broken_after(folder: Path) -> list[Path]:
    """Return the generations after one that are passed over because their changes are broken."""
    newer = [path for path in Snapshots(folder.parent).generations() if int(path.name) > int(folder.name)]
    return [path for path in newer if _broken_changes(path)]


def _broken_changes(folder: Path) -> str:
    """Say what is wrong with the changes that a snapshot consists of; the checkpoint below them is read later."""
    buffer = ReadBuffer()
    try:
        for link in links_of(folder):
            for file in link.manifest.files if link.manifest.follows else ():
                read_checked(link.folder / file.name, file.sha256, file.size, buffer)
    except CheckpointError as error:
        return str(error) if any(folder.glob("changes-*")) else ""
    return ""


def read_rows(folder: Path, file: StoredFile, columns: list[str] | None = None) -> Columns:
    """Return the columns of a file after checking its hash; lists become two-dimensional."""
    parts = list(read_columns(folder, file, columns))
    return parts[0] if len(parts) == 1 else {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def read_columns(
    folder: Path, file: StoredFile, columns: list[str] | None = None, buffer: ReadBuffer | None = None
) -> Iterator[Columns]:
    """Yield the columns of a file, one Parquet row group (at least one, perhaps empty) after another."""
    path = folder / file.name
    data = read_checked(path, file.sha256, file.size, buffer)
    with guarded(path):
        yield from row_groups(data, columns, rows=file.rows)


class _Said(NamedTuple):
    """What newer snapshots have said: all about some logical shards, and about single ids (sorted)."""

    shards: Mask
    ids: U64

    def new(self, ids: U64, wanted: Mask) -> Mask:
        """Tell which ids of the wanted shards nothing was said about."""
        shards = shards_of(ids, len(self.shards)) if self.shards.any() or not wanted.all() else np.zeros(len(ids), int)
        out: Mask = wanted[shards] & ~self.shards[shards]
        if len(self.ids):
            at = np.minimum(np.searchsorted(self.ids, ids), len(self.ids) - 1)
            out &= self.ids[at] != ids
        return out


class Chain:
    """The snapshot in a folder with all it builds on, newest first."""

    def __init__(self, folder: Path) -> None:
        self.links = tuple(links_of(folder))

    @classmethod
    def of(cls, links: Iterable[Generation]) -> Chain:
        """Return snapshots, newest first, as if there was nothing below the last of them."""
        chain = cls.__new__(cls)
        chain.links = tuple(links)
        return chain

    @property
    def manifest(self) -> Manifest:
        """The manifest of the newest."""
        return self.links[0].manifest

    def size(self, group: str) -> int:
        """Return the bytes of a group's files."""
        return sum(file.size for link in self.links for file in link.manifest.files_of(group))

    def most_rows(self, group: str) -> int:
        """Return how many rows of a group there are at most."""
        return sum(link.manifest.rows(group) for link in self.links)

    def for_each(
        self,
        group: GroupSpec,
        take: Callable[[Columns], None],
        *,
        owned: Mask | None = None,
        columns: list[str] | None = None,
        threads: int = THREADS,
    ) -> None:
        """Call ``take`` with rows of a group in portions; every id comes once.

        Parameters
        ----------
        owned
            Logical shards whose rows are wanted; all by default.
        columns
            Those wanted, ``id`` among them; all by default.
        threads
            How many call ``take`` at once.
        """
        wanted = np.ones(group.n_shards, np.bool_) if owned is None else owned
        said, buffer = _Said(np.zeros(group.n_shards, np.bool_), np.empty(0, np.uint64)), ReadBuffer()
        for n, (folder, manifest) in enumerate(self.links):
            older = n + 1 < len(self.links)

            def load(file: StoredFile, folder: Path = folder, said: _Said = said, older: bool = older) -> list[U64]:
                known = []
                with guarded(folder / file.name):
                    for some in read_columns(folder, file, columns, buffer):
                        _take(some, said.new(_ids_of(some), wanted), take)
                        known += [some["id"].copy()] if older else []
                return known

            files = [f for f in manifest.files_of(group.name) if f.rows and wanted[f.first : f.last + 1].any()]
            with ThreadPoolExecutor(threads) as pool:
                known = [ids for some in pool.map(load, files) for ids in some]
            if older:
                said = _with(said, folder, manifest, group, known)


def _ids_of(columns: Columns) -> U64:
    ids = columns["id"]
    if ids.dtype != np.uint64 or ids.ndim != 1:
        raise ValueError(f"column 'id' is {ids.dtype}, not uint64")
    return ids


def _take(columns: Columns, new: Mask, take: Callable[[Columns], None]) -> None:
    if new.all():
        take(columns)
    elif new.any():
        take({name: array[new] for name, array in columns.items()})


def _with(said: _Said, folder: Path, manifest: Manifest, group: GroupSpec, known: list[U64]) -> _Said:
    shards = said.shards.copy()
    deleted = []
    with guarded(folder):
        shards[list(manifest.whole.get(group.name, ()))] = True
        for file in manifest.files_of(deleted_of(group.name)):
            deleted += [_ids_of(read_rows(folder, file))] if file.rows else []
    return _Said(shards, np.unique(np.concatenate([said.ids, *known, *deleted])))
