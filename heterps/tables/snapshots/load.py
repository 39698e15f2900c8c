"""Reading snapshots: exact restore onto any number of hosts, one table alone, a warm start from another model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.errors import CheckpointError, HeterpsError, TableError, TableFullError
from heterps.tables.hashing import shards_of
from heterps.tables.live.group import RowGroup
from heterps.tables.live.shard import Shard
from heterps.tables.snapshots.chain import Chain, find_generation, read_rows
from heterps.tables.snapshots.disk import ReadBuffer, guarded, read_checked
from heterps.tables.snapshots.manifest import Manifest
from heterps.tables.snapshots.records import RowBuffer
from heterps.tables.snapshots.snapshot import DENSE, Snapshots, links_of
from heterps.tables.specs.spec import DenseSpec, GroupSpec

__all__ = ["find_generation", "load_table", "restore", "verify"]

Columns = dict[str, npt.NDArray[Any]]


def restore(shard: Shard, path: str | Path) -> Manifest:
    """Fill a shard with its part of a checkpoint: rows of the logical shards it holds, its dense parameters, windows.

    Changes are read together with what they build on. The shard may hold any subset of the logical shards; hosts that
    together hold all restore the identical tables.
    """
    folder = find_generation(path)
    try:
        chain = Chain(folder)
        manifest = chain.manifest
        with guarded(folder):
            _check_same(shard, manifest, folder)
        shard.clear()
        for group in shard.groups.values():
            _restore_group(group, chain, folder)
            if group.waiting is not None:
                _restore_group(group.waiting, chain, folder)
        _restore_dense(shard, manifest, folder)
    except CheckpointError as error:
        raise CheckpointError(f"{error}{_other_generation(folder)}") from error
    shard.adopt(manifest.window, manifest.version)
    return manifest


def _other_generation(folder: Path) -> str:
    others = [path for path in Snapshots(folder.parent).generations() if path != folder]
    return f"; an earlier generation is {others[-1]}" if others else ""


def _check_same(shard: Shard, manifest: Manifest, folder: Path) -> None:
    if manifest.kind not in ("checkpoint", "changes"):
        raise CheckpointError(
            f"{folder} is a {manifest.kind} save: it has no optimiser state to resume from; use load_table"
        )
    if shard.seed != manifest.seed:
        raise CheckpointError(f"{folder} was saved with seed {manifest.seed}, this run has {shard.seed}")
    for name, group in shard.groups.items():
        saved = manifest.group(name)
        if saved.n_shards != group.spec.n_shards or saved.tables != group.spec.tables:
            raise CheckpointError(
                f"{folder}: group {name!r} was saved as {_words(saved)}, this model has {_words(group.spec)}; "
                "load_table takes single tables"
            )


def _words(spec: GroupSpec) -> str:
    tables = ", ".join(f"{t.name}[{t.dim}] {t.dtype} {t.rule}" for t in spec.tables)
    return f"{tables} in {spec.n_shards} logical shards"


def _restore_group(group: RowGroup, chain: Chain, folder: Path) -> None:
    like = RowBuffer(group.layout, np.empty(group.layout.stride * 2, np.uint32)).columns(0)

    def take(columns: Columns) -> None:
        _check_columns(columns, like)
        group.append(columns)

    chain.for_each(group.spec, take, owned=_owned_mask(group))
    try:
        group.build_index()
    except TableFullError:
        raise
    except TableError as error:
        raise CheckpointError(f"{folder}: {error}") from error


def _check_columns(columns: Columns, like: Columns) -> None:
    """Refuse columns of another form: NumPy would stretch or cast them without a word."""
    for name, wanted in like.items():
        found = columns[name]
        if found.dtype != wanted.dtype or found.shape[1:] != wanted.shape[1:]:
            raise ValueError(f"column {name!r} is {found.dtype}{list(found.shape[1:])}, not {wanted.dtype}")


def _owned_mask(group: RowGroup) -> npt.NDArray[np.bool_]:
    owned = np.zeros(group.spec.n_shards, np.bool_)
    owned[list(group.owned)] = True
    return owned


def _restore_dense(shard: Shard, manifest: Manifest, folder: Path) -> None:
    wanted = {spec.name: spec for spec in shard.dense.specs}
    for file in manifest.files_of(DENSE):
        if not wanted:
            return
        columns = read_rows(folder, file)
        with guarded(folder / file.name):
            for name, *rest in zip(*(columns[c] for c in ("name", "shape", "values", "slots")), strict=True):
                if name in wanted:
                    _restore_parameter(shard, wanted.pop(name), folder, *rest)
    if wanted:
        raise CheckpointError(f"{folder} has no dense parameters {sorted(wanted)}")


def _restore_parameter(shard: Shard, spec: DenseSpec, folder: Path, shape: Any, values: Any, slots: Any) -> None:
    if tuple(shape) != spec.shape:
        saved = tuple(map(int, shape))
        raise CheckpointError(f"{folder}: {spec.name!r} was saved as {saved}, this model has {spec.shape}")
    room = shard.dense.slots_where[spec.name]
    if len(slots) != room.stop - room.start:
        raise CheckpointError(
            f"{folder}: {spec.name!r} has {len(slots)} optimiser values, not {room.stop - room.start}"
        )
    shard.dense.set(spec.name, values, slots)


def load_table(shard: Shard, path: str | Path, table: str, *, into: str | None = None) -> int:
    """Set the rows of one table from a snapshot (of any kind, of this or another model); return how many.

    Other tables of the row keep what they have, or start at their first values. Optimiser slots come along where the
    rule is the same and they were saved.

    Parameters
    ----------
    table
        Name in the snapshot.
    into
        Name in this model, if another.
    """
    folder = find_generation(path)
    chain = Chain(folder)
    with guarded(folder):
        return _load_table(shard, chain, folder, table, into or table)


def _load_table(shard: Shard, chain: Chain, folder: Path, table: str, into: str) -> int:
    manifest = chain.manifest
    source = next((group for group in manifest.groups if any(t.name == table for t in group.tables)), None)
    if source is None:
        names = [t.name for group in manifest.groups for t in group.tables]
        raise CheckpointError(f"{folder} has no table {table!r}; it has {names}")
    target = _group_with(shard, into)
    old, new = source.table(table), target.spec.table(into)
    if old.dim != new.dim:
        raise CheckpointError(f"{folder}: table {table!r} has dim {old.dim}, {new.name!r} here has {new.dim}")
    slots = f"{table}.slots" if old.rule == new.rule and old.accessor == new.accessor else ""
    total = 0
    like: Columns = {"id": np.empty(0, np.uint64), table: np.empty((0, new.dim), np.float32)}
    owned = _owned_mask(target)

    def take(columns: Columns) -> None:
        nonlocal total
        _check_columns(columns, like)
        mine = owned[shards_of(columns["id"], len(owned))]
        some = {name: array[mine] for name, array in columns.items()}
        target.set_table(new.name, some["id"], some[table], some.get(slots))
        total += len(some["id"])

    chain.for_each(source, take, threads=1)
    return total


def _group_with(shard: Shard, table: str) -> RowGroup:
    for group in shard.groups.values():
        if any(t.name == table for t in group.spec.tables):
            return group
    names = [t.name for group in shard.groups.values() for t in group.spec.tables]
    raise CheckpointError(f"this model has no table {table!r}; it has {names}")


def verify(path: str | Path) -> Manifest:
    """Check the hash of every file of a snapshot and of those it builds on; the error names all that are damaged."""
    folder = find_generation(path)
    manifest = Manifest.read(folder)
    problems, buffer = [], ReadBuffer()
    for link in links_of(folder):
        for file in link.manifest.files:
            try:
                read_checked(link.folder / file.name, file.sha256, file.size, buffer)
            except HeterpsError as error:
                problems.append(str(error))
    if problems:
        raise CheckpointError("; ".join(problems))
    return manifest
