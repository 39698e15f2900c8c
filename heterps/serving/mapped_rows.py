"""The rows of an exported model: generation over generation, the newest that knows an id says what its row is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from heterps.errors import CheckpointError
from heterps.serving.manifest import Export
from heterps.serving.row_files import RowFile, Values, open_rows
from heterps.stages.lowering import Group
from heterps.tables.hashing import shards_of
from heterps.tables.snapshots.manifest import StoredFile, deleted_of

__all__ = ["MappedRows"]

U64 = npt.NDArray[np.uint64]
_NO_TABLES: Mapping[str, int] = {}


class _Part(NamedTuple):
    """A file with rows of some logical shards."""

    file: RowFile
    first: int
    last: int


@dataclass(frozen=True)
class _Generation:
    """What one generation says of a group: rows by logical shard, and ids that have none any more."""

    parts: tuple[_Part, ...]
    deleted: RowFile | None
    n_shards: int

    def fill(self, group: Group, ids: U64, todo: npt.NDArray[np.intp], out: Values) -> npt.NDArray[np.intp]:
        """Put the rows of ``ids[todo]`` into ``out``; return those that nothing was said about."""
        shards = shards_of(ids[todo], self.n_shards) if len(self.parts) > 1 else None
        for part in self.parts:
            mine = slice(None) if shards is None else np.flatnonzero((shards >= part.first) & (shards <= part.last))
            asked = todo[mine]
            at, found = part.file.find(ids[asked])
            where = asked if found.all() else asked[found]
            at = at if len(where) == len(at) else at[found]
            for table, (low, high) in group.tables.items():
                out[where, low:high] = part.file.take(table, at)
            if shards is None:
                todo = asked[~found]
            else:
                keep = np.ones(len(todo), np.bool_)
                keep[mine[found]] = False  # type: ignore[index]
                todo, shards = todo[keep], shards[keep]
        return todo if self.deleted is None else todo[~self.deleted.find(ids[todo])[1]]


class MappedRows:
    """Rows of one row group.

    Parameters
    ----------
    group
        Its tables and where they lie in a row.
    links
        Generations, newest first.
    """

    def __init__(self, group: Group, links: Sequence[tuple[Path, Export]]) -> None:
        self.group = group
        self._generations = tuple(_opened(folder, export, group) for folder, export in links)

    @property
    def generations(self) -> int:
        """How many files an id may have to be looked for in, one behind the other."""
        return len(self._generations)

    def __call__(self, ids: U64) -> Values:
        """Return a row for each id: zeros where it has none."""
        out = np.zeros((len(ids), self.group.width), np.float32)
        todo = np.argsort(ids)  # neighbours are looked for one after another: they are in the same pages and caches
        for generation in self._generations:
            if not len(todo):
                break
            todo = generation.fill(self.group, ids, todo, out)
        return out

    def ids(self) -> U64:
        """Return all ids that have a row, in ascending order; reads every file."""
        alive = np.empty(0, np.uint64)
        for generation in reversed(self._generations):
            if generation.deleted is not None:
                alive = np.setdiff1d(alive, generation.deleted.ids)
            alive = np.union1d(alive, np.concatenate([part.file.ids for part in generation.parts] or [alive[:0]]))
        return alive


def _opened(folder: Path, export: Export, group: Group) -> _Generation:
    dims = {table: high - low for table, (low, high) in group.tables.items()}
    if group.name not in export.shards:
        raise CheckpointError(f"{folder} has no rows of {group.name!r}; it has {', '.join(export.shards) or 'none'}")

    def rows(file: StoredFile, tables: Mapping[str, int]) -> RowFile:
        return open_rows(folder, file, tables, export.encoding, export.format)

    parts = tuple(_Part(rows(file, dims), file.first, file.last) for file in export.files_of(group.name) if file.rows)
    gone = [rows(file, _NO_TABLES) for file in export.files_of(deleted_of(group.name))]
    if len(gone) > 1:
        raise CheckpointError(f"{folder} lists deleted ids of {group.name!r} in {len(gone)} files, not in one")
    return _Generation(parts, gone[0] if gone else None, export.shards[group.name])
