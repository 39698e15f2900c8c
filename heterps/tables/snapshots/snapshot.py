"""Snapshots: Parquet files by logical shard under a manifest, in numbered generations of which two are kept.

Steps of a save, so that a crash at any point leaves the previous generation as it was:

1. :meth:`Snapshots.begin` makes a temporary folder (and clears away those of saves that died).
2. Every shard host writes its files there (:func:`write_part`), each hashed and synced.
3. :meth:`Snapshots.commit` writes the manifest last, renames the folder to its number, and only then deletes the
   generation before the previous one.
"""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from heterps.errors import CheckpointError
from heterps.protocol import Window
from heterps.tables.live.ageing import Kind, select
from heterps.tables.live.row_layout import RowLayout
from heterps.tables.live.shard import KeyedShard
from heterps.tables.live.shard_cut import GroupCut, ShardCut
from heterps.tables.snapshots.disk import HashedFile, remove_tree, rename_folder
from heterps.tables.snapshots.manifest import NAME, Manifest, SnapshotPart, StoredFile
from heterps.tables.snapshots.plain_parquet import PlainWriter
from heterps.tables.snapshots.records import RowBuffer
from heterps.tables.specs.spec import DenseSpec, GroupSpec

__all__ = ["DENSE", "THREADS", "Snapshots", "save_shard", "write_part"]

#: Group name of files with dense parameters.
DENSE = "dense parameters"
#: Bytes of rows from which a group's logical shards go to more than one file, and bytes of a Parquet row group.
FILE_BYTES, ROW_GROUP_BYTES = 1 << 25, 1 << 22
#: Files written or read side by side.
THREADS = 2
_UNFINISHED = ".unfinished-"


def write_part(cut: ShardCut, folder: str | Path, *, kind: Kind = "checkpoint", host: int = 0) -> SnapshotPart:
    """Write what a shard host held at a cut; return what goes into the manifest.

    Delta and base saves hold values and counters of the rows their accessor selects; a checkpoint holds everything.
    """
    folder, memory = Path(folder), _WriteMemory()
    jobs = [
        (group, folder / f"rows-{k:03d}-{host:04d}-{n:04d}.parquet", shards)
        for k, group in enumerate(cut)
        if kind == "checkpoint" or not group.group.spec.name.endswith("/waiting")
        for n, shards in enumerate(_bundles(group))
    ]
    with ThreadPoolExecutor(THREADS) as pool:
        files = list(pool.map(lambda job: _write_file(*job, kind=kind, memory=memory), jobs))
    if len(cut.dense_values):
        files.append(_write_dense(cut, folder, kind, host))
    return SnapshotPart(tuple(files), cut.version)


class _WriteMemory(threading.local):
    """Room for a row group, for each thread its own. It is used again: new memory can be slower than the disk."""

    def __init__(self) -> None:
        self._words = np.empty(0, np.uint32)

    def rows(self, layout: RowLayout, *, state: bool) -> RowBuffer:
        """Return room for the rows of a row group, at least one."""
        size = max(ROW_GROUP_BYTES // 4, 2 * layout.stride)
        if len(self._words) < size:
            self._words = np.empty(size, np.uint32)
        return RowBuffer(layout, self._words[:size], state=state)


def _bundles(group: GroupCut) -> Iterator[list[int]]:
    """Yield runs of owned logical shards with about the rows of one file."""
    bundle: list[int] = []
    size = 0
    for shard in group.group.owned:
        bundle.append(shard)
        size += group.rows(shard) * group.group.layout.row_bytes
        if size >= FILE_BYTES:
            yield bundle
            bundle, size = [], 0
    if bundle:
        yield bundle


def _write_file(group: GroupCut, path: Path, shards: Sequence[int], *, kind: Kind, memory: _WriteMemory) -> StoredFile:
    buffer, spec = memory.rows(group.group.layout, state=kind == "checkpoint"), group.group.spec
    with HashedFile(path) as file:
        writer = PlainWriter(file, buffer.columns(0), statistics=("id",))
        for n in group.read(shards, buffer):
            rows = select(spec.accessor, buffer.columns(n), kind)
            if len(rows["id"]):
                writer.write(rows)
        writer.close()
    return StoredFile(path.name, spec.name, shards[0], shards[-1], writer.rows, file.size, file.sha256)


def _write_dense(cut: ShardCut, folder: Path, kind: Kind, host: int) -> StoredFile:
    """Write the dense parameters of a host, one row each."""
    path, dense = folder / f"dense-{host:04d}.parquet", cut.dense
    names = [spec.name for spec in dense.specs]
    slots = cut.dense_slots if kind == "checkpoint" else cut.dense_slots[:0]
    columns = {
        "name": names,
        "shape": [list(spec.shape) for spec in dense.specs],
        "values": [cut.dense_values[dense.where[name]] for name in names],
        "slots": [slots[dense.slots_where[name]] for name in names],
    }
    kinds = (pa.string(), pa.list_(pa.int64()), pa.list_(pa.float32()), pa.list_(pa.float32()))
    schema = pa.schema(list(zip(columns, kinds, strict=True)))
    encoded = pa.BufferOutputStream()
    pq.write_table(pa.table(columns, schema=schema), encoded, compression="none", use_dictionary=False)
    with HashedFile(path) as file:
        file.write(encoded.getvalue())
    return StoredFile(path.name, DENSE, host, host, len(names), file.size, file.sha256)


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdigit()


class Snapshots:
    """The generations of snapshots below one folder.

    Parameters
    ----------
    root
        The folder; made if it is missing.
    keep
        How many finished generations stay.
    """

    def __init__(self, root: str | Path, *, keep: int = 2) -> None:
        self.root, self._keep = Path(root), keep

    def generations(self) -> list[Path]:
        """Return the finished generations, oldest first."""
        if not self.root.is_dir():
            return []
        found = [path for path in self.root.iterdir() if _is_number(path.name) and not path.is_symlink()]
        found = [path for path in found if (path / NAME).is_file()]
        return sorted(found, key=lambda path: int(path.name))

    def latest(self) -> Path:
        """Return the newest finished generation."""
        found = self.generations()
        if not found:
            raise CheckpointError(f"{self.root} has no finished snapshot")
        return found[-1]

    def begin(self) -> Path:
        """Return a new folder to write into. What saves that died have left is cleared away."""
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            for path in self.root.glob(f"{_UNFINISHED}*"):
                remove_tree(path)
            folder = self.root / f"{_UNFINISHED}{os.getpid()}-{uuid.uuid4().hex[:8]}"
            folder.mkdir()
        except OSError as error:
            raise CheckpointError(f"cannot write below {self.root}: {error.strerror}") from error
        return folder

    def commit(
        self,
        folder: Path,
        parts: Sequence[SnapshotPart],
        *,
        ledger: Window,
        seed: int,
        groups: Sequence[GroupSpec],
        dense: Sequence[DenseSpec] = (),
        kind: Kind = "checkpoint",
        position: Mapping[str, Any] | None = None,
    ) -> Path:
        """Finish a snapshot once every host has written its part; return its folder.

        One ledger stands for all parts: nothing was in flight, so all hosts had applied the same batches.
        """
        files = tuple(file for part in parts for file in part.files)
        version = max((part.version for part in parts), default=0)
        Manifest(kind, seed, tuple(groups), tuple(dense), files, ledger, version, position or {}).write(folder)
        number = 1 + max((int(path.name) for path in self.root.iterdir() if _is_number(path.name)), default=0)
        target = self.root / f"{number:08d}"
        rename_folder(folder, target)
        for old in self.generations()[: -self._keep]:
            remove_tree(old)
        return target

    def abandon(self, folder: Path) -> None:
        """Delete a folder whose save failed."""
        remove_tree(folder)


def save_shard(
    shard: KeyedShard,
    root: str | Path,
    *,
    kind: Kind = "checkpoint",
    position: Mapping[str, Any] | None = None,
    keep: int = 2,
) -> Path:
    """Save one shard that holds everything: cut, write, commit, note. Return the generation's folder."""
    snapshots = Snapshots(root, keep=keep)
    folder = snapshots.begin()
    try:
        with shard.cut() as cut:
            part = write_part(cut, folder, kind=kind)
        assert cut.window is not None, "these tables keep their own ledger"
        groups = [group.spec for group in shard.groups.values()]
        about = {"seed": shard.seed, "groups": groups, "dense": shard.dense.specs}
        done = snapshots.commit(folder, [part], ledger=cut.window, kind=kind, position=position, **about)
    except BaseException:
        snapshots.abandon(folder)
        raise
    shard.after_save(kind)
    return done
