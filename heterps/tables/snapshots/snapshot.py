"""Snapshots: Parquet files by logical shard under a manifest, in numbered generations of which two are kept.

A generation holds everything, or what changed since the one that it follows; that one is kept as long.

Steps of a save, so that a crash at any point leaves the previous generation as it was:

1. :meth:`Snapshots.begin` makes a temporary folder (and clears away those of saves that died).
2. Every shard host writes its files there (:func:`write_part`), each hashed and synced.
3. :meth:`Snapshots.commit` writes the manifest last, renames the folder to its number, and only then deletes the
   generation before the previous one.
"""

from __future__ import annotations

import json
import os
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from heterps.errors import CheckpointError
from heterps.later import later
from heterps.protocol import Window
from heterps.tables.live.ageing import Kind, select
from heterps.tables.live.row_layout import RowLayout
from heterps.tables.live.shard import KeyedShard
from heterps.tables.live.shard_cut import GroupCut, ShardCut
from heterps.tables.snapshots.disk import HashedFile, read_small, remove_tree, rename_folder, write_bytes
from heterps.tables.snapshots.manifest import NAME, Follows, Manifest, SnapshotPart, StoredFile, deleted_of
from heterps.tables.snapshots.plain_parquet import PlainWriter
from heterps.tables.snapshots.records import RowBuffer
from heterps.tables.specs.spec import DenseSpec, GroupSpec

__all__ = [
    "DENSE",
    "FULL_EVERY",
    "THREADS",
    "Generation",
    "Snapshots",
    "base_of",
    "links_of",
    "save_shard",
    "since_of",
    "write_part",
]

pq = later("pyarrow.parquet")

#: Group name of files with dense parameters.
DENSE = "dense parameters"
#: Bytes of rows from which a group's logical shards go to more than one file, and bytes of a Parquet row group.
FILE_BYTES, ROW_GROUP_BYTES = 1 << 25, 1 << 22
#: Files written or read side by side.
THREADS = 2
#: Of so many snapshots that build on each other the first holds everything.
FULL_EVERY = 20
_UNFINISHED = ".unfinished-"
_FOLLOWS = "follows.json"
#: Kinds from which training goes on: they hold optimiser state and what waits for admission.
_EXACT = ("checkpoint", "changes")


def write_part(cut: ShardCut, folder: str | Path, *, kind: Kind = "checkpoint", host: int = 0) -> SnapshotPart:
    """Write what a shard host held at a cut; return what goes into the manifest.

    Delta and base saves hold values and counters of the rows their accessor selects; a checkpoint holds everything,
    changes what changed since the moment from which the cut was asked.
    """
    if cut.partial != (kind == "changes"):
        rows = "some" if cut.partial else "all"
        raise CheckpointError(f"a {kind} save cannot be written from a cut with {rows} rows")
    folder, memory = Path(folder), _WriteMemory()
    name = "changes" if cut.partial else "rows"
    jobs = [
        (group, folder / f"{name}-{k:03d}-{host:04d}-{n:04d}.parquet", shards)
        for k, group in enumerate(cut)
        if kind in _EXACT or not group.group.spec.name.endswith("/waiting")
        for n, shards in enumerate(_bundles(group))
    ]
    with ThreadPoolExecutor(THREADS) as pool:
        files = list(pool.map(lambda job: _write_file(*job, kind=kind, memory=memory), jobs))
    if len(cut.dense_values):
        files.append(_write_dense(cut, folder, kind, host))
    if not cut.partial:
        return SnapshotPart(tuple(files), cut.version)
    gone = ((group, folder / f"changes-{k:03d}-{host:04d}-deleted.parquet") for k, group in enumerate(cut))
    files += [_write_deleted(group, path) for group, path in gone if len(group.deleted)]
    whole = {group.group.spec.name: group.whole for group in cut if group.whole}
    return SnapshotPart(tuple(files), cut.version, True, whole)


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
    buffer, spec = memory.rows(group.group.layout, state=kind in _EXACT), group.group.spec
    with HashedFile(path) as file:
        writer = PlainWriter(file, buffer.columns(0), statistics=("id",))
        for n in group.read(shards, buffer):
            rows = select(spec.accessor, buffer.columns(n), kind)
            if len(rows["id"]):
                writer.write(rows)
        writer.close()
    return StoredFile(path.name, spec.name, shards[0], shards[-1], writer.rows, file.size, file.sha256)


def _write_deleted(group: GroupCut, path: Path) -> StoredFile:
    """Write the ids of a host that have no row any more."""
    spec, ids = group.group.spec, group.deleted
    with HashedFile(path) as file:
        writer = PlainWriter(file, {"id": ids[:0]}, statistics=("id",))
        writer.write({"id": ids})
        writer.close()
    owned = group.group.owned
    return StoredFile(path.name, deleted_of(spec.name), owned[0], owned[-1], len(ids), file.size, file.sha256)


def _write_dense(cut: ShardCut, folder: Path, kind: Kind, host: int) -> StoredFile:
    """Write the dense parameters of a host, one row each."""
    path, dense = folder / f"dense-{host:04d}.parquet", cut.dense
    names = [spec.name for spec in dense.specs]
    slots = cut.dense_slots if kind in _EXACT else cut.dense_slots[:0]
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


class Generation(NamedTuple):
    """A generation and its manifest."""

    folder: Path
    manifest: Manifest


def links_of(folder: Path) -> Iterator[Generation]:
    """Yield a generation and, one after another, those it builds on; raise if one is missing or another."""
    link = Generation(folder, Manifest.read(folder))
    yield link
    while link.manifest.follows is not None:
        follows = link.manifest.follows
        below = folder.parent / follows.name
        if not _is_number(follows.name) or (
            _is_number(link.folder.name) and int(follows.name) >= int(link.folder.name)
        ):
            raise CheckpointError(f"{link.folder / NAME} is damaged: it follows {follows.name!r}")
        if not (below / NAME).is_file():
            raise CheckpointError(f"{link.folder} holds changes to {below}, which is not there")
        link = Generation(below, Manifest.read(below))
        if link.manifest.sha256 != follows.sha256:
            raise CheckpointError(f"{folder} holds changes to another snapshot than the one in {below}")
        yield link


def since_of(folder: str | Path) -> str | None:
    """Return the moment whose snapshot the parts written to an unfinished folder build on; None for all rows."""
    path = Path(folder) / _FOLLOWS
    return str(json.loads(read_small(path))["moment"]) if path.exists() else None


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
        self._broken: set[str] = set()  # generations that somebody could not read

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

    def distrust(self, folder: Path) -> None:
        """Do not count a generation that cannot be read among those that are kept; it goes with the next commit."""
        self._broken.add(folder.name)

    def begin(self, follows: Path | None = None) -> Path:
        """Return a new folder to write into. What saves that died have left is cleared away.

        Its name is the moment that the snapshot will show.

        Parameters
        ----------
        follows
            A generation here: what is written are changes to it (:func:`since_of` tells the hosts).
        """
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            for path in self.root.glob(f"{_UNFINISHED}*"):
                remove_tree(path)
            folder = self.root / f"{_UNFINISHED}{os.getpid()}-{uuid.uuid4().hex[:8]}"
            folder.mkdir()
            if follows is not None:
                below = Manifest.read(follows)
                data = asdict(Follows(follows.name, below.sha256, below.moment))
                write_bytes(folder / _FOLLOWS, json.dumps(data).encode())
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
        more = (position or {}, folder.name, *_follows(folder, parts))
        Manifest(kind, seed, tuple(groups), tuple(dense), files, ledger, version, *more).write(folder)
        number = 1 + max((int(path.name) for path in self.root.iterdir() if _is_number(path.name)), default=0)
        target = self.root / f"{number:08d}"
        rename_folder(folder, target)
        for old in self._not_needed():
            remove_tree(old)
        return target

    def _not_needed(self) -> list[Path]:
        """Return the generations that may go, newest first: never one that another builds on while that is there.

        Those that stay need not be whole. So that one broken file cannot take all with it, the newest state that
        stands on another checkpoint stays too.
        """
        found = self.generations()
        below = _chains(found)
        good = [path for path in found if not any(each.name in self._broken for each in below[path])]
        kept = good[-self._keep :]
        if self._keep > 1 and len({below[path][-1] for path in kept}) == 1:
            kept += [path for path in good if below[path][-1] != below[good[-1]][-1]][-1:]
        needed = {each for path in kept for each in below[path]}
        return [path for path in reversed(found) if path not in needed]

    def abandon(self, folder: Path) -> None:
        """Delete a folder whose save failed."""
        remove_tree(folder)


def _chains(generations: Sequence[Path]) -> dict[Path, list[Path]]:
    """Return each generation, oldest first, with all below it, as far as they can be read. Each is read once."""
    chains: dict[Path, list[Path]] = {}
    hashes: dict[Path, str] = {}
    for folder in generations:
        chains[folder] = [folder]
        with suppress(CheckpointError):
            manifest = Manifest.read(folder)
            hashes[folder] = manifest.sha256
            below = None if manifest.follows is None else folder.parent / manifest.follows.name
            if below in hashes and manifest.follows is not None and hashes[below] == manifest.follows.sha256:
                chains[folder] += chains[below]
    return chains


def _follows(folder: Path, parts: Sequence[SnapshotPart]) -> tuple[Follows | None, dict[str, list[int]]]:
    path = folder / _FOLLOWS
    if {part.partial for part in parts} not in ({path.exists()}, set()):
        raise CheckpointError(f"{folder}: some hosts have written changes there, others all rows")
    if not path.exists():
        return None, {}
    names = {name for part in parts for name in part.whole}
    whole = {name: sorted(shard for part in parts for shard in part.whole.get(name, ())) for name in sorted(names)}
    return Follows(**json.loads(path.read_bytes())), whole


def save_shard(
    shard: KeyedShard,
    root: str | Path,
    *,
    kind: Kind = "checkpoint",
    position: Mapping[str, Any] | None = None,
    keep: int = 2,
) -> Path:
    """Save one shard that holds everything: cut, write, commit, note. Return the generation's folder.

    Changes follow the newest snapshot there if the shard remembers its moment; otherwise everything is saved.
    """
    snapshots, name = Snapshots(root, keep=keep), f"saves {Path(root).resolve()}"
    reader = name if kind == "changes" or (kind == "checkpoint" and shard.follows(name)) else None
    follows = base_of(snapshots) if kind == "changes" and shard.follows(name) else None
    kind = "checkpoint" if kind == "changes" and follows is None else kind
    folder = snapshots.begin(follows)
    try:
        with shard.cut(reader, moment=folder.name, since=since_of(folder)) as cut:
            part = write_part(cut, folder, kind=kind)
        assert cut.window is not None, "these tables keep their own ledger"
        done = snapshots.commit(
            folder,
            [part],
            ledger=cut.window,
            seed=shard.seed,
            groups=[group.spec for group in shard.groups.values()],
            dense=shard.dense.specs,
            kind=kind,
            position=position,
        )
    except BaseException:
        snapshots.abandon(folder)
        raise
    shard.after_save(kind)
    return done


def base_of(snapshots: Snapshots, full_every: int = FULL_EVERY) -> Path | None:
    """Return the newest generation if changes can build on it; None once so many build on each other.

    Whoever restores reads all of them, and none can go while another builds on it.
    """
    with suppress(CheckpointError):
        for newest in snapshots.generations()[-1:]:
            links = list(links_of(newest))
            if links[0].manifest.kind in _EXACT and len(links) < full_every:
                return newest
    return None
