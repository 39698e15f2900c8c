"""Saving and loading all tables of an engine: every shard host writes or reads its own part.

A saved model is a folder: ``model.json`` says what it is, ``checkpoint/`` (with changes between), ``delta/`` and
``base/`` hold numbered snapshots (see :mod:`heterps.tables.snapshots.snapshot`). Hosts on other machines need the
folder under the same path.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeVar

from heterps.errors import CheckpointError
from heterps.protocol import Window
from heterps.runtime.batch.job import Job
from heterps.runtime.config import settings
from heterps.runtime.cuts.checkpoints import Held
from heterps.tables import (
    KINDS,
    Kind,
    Manifest,
    Shard,
    SnapshotPart,
    Snapshots,
    base_of,
    find_generation,
    load_table,
    restore,
    since_of,
    write_part,
)

__all__ = ["load_one_table", "load_tables", "note_of", "save_tables", "shrink_tables", "snapshot_folder"]

_T = TypeVar("_T")
_log = logging.getLogger("heterps")
_NOTE = "note"
_KEEP = {"checkpoint": 2, "base": 2, "delta": 1 << 30}  # deltas build on each other: none may be dropped


class Tables(Protocol):
    """What holds the tables, as far as saving is concerned: see :class:`~heterps.runtime.run.engines.Engine`."""

    @property
    def job(self) -> Job:
        """What they are."""

    passes: int

    @property
    def next_pass(self) -> int:
        """Number of the next pass of which no batch is in the tables."""

    held: Held

    @property
    def bad_streak(self) -> int:
        """Batches since the last one whose loss was a finite number."""

    def at_rest(self, act: Callable[[], _T], changes: bool = False) -> _T:
        """Call while nothing is in flight."""

    def each_shard(self, function: Callable[..., _T], *args: Any) -> list[_T]:
        """Call with every shard where it lies."""


def save_tables(engine: Tables, path: Path, kind: Kind = "checkpoint", note: Mapping[str, Any] | None = None) -> Path:
    """Write a snapshot of all tables; return its folder. What was there before stays until it is whole.

    Training that goes on rests meanwhile: all hosts have applied the same batches in what is written. A ``note`` is in
    the manifest: it is there if and only if the tables are.
    """
    if kind not in KINDS:
        raise CheckpointError(f"a save is one of {', '.join(KINDS)}, not {kind!r}")
    counts = kind in ("delta", "base")  # counters of rows change with it
    return engine.at_rest(lambda: _save(engine, path, kind, note), changes=counts)


def _refuse_diverged(engine: Tables, folder: Path) -> None:
    """A model whose loss is no number any more does not take the place of a good one."""
    if engine.bad_streak and folder.is_dir() and any(folder.iterdir()):
        raise CheckpointError(
            f"the loss of the last {engine.bad_streak} batches is not a finite number: what is in {folder} is not "
            "replaced by that. Save it to a folder of its own, or load the good model and go on from there"
        )


def _save(engine: Tables, path: Path, kind: Kind, note: Mapping[str, Any] | None) -> Path:
    name = "checkpoint" if kind == "changes" else kind
    _refuse_diverged(engine, path / name)
    snapshots, reader = Snapshots(path / name, keep=_KEEP[name]), f"saves {path.resolve()}"
    followed = name == "checkpoint" and all(engine.each_shard(_follows, reader))
    follows = base_of(snapshots, settings().full_every) if kind == "changes" and followed else None
    follower = reader if followed or kind == "changes" else None
    if kind == "changes" and follows is None:
        _log.info(
            "%s has no snapshot that the tables remember and that changes may follow: everything is saved, later what "
            "changed",
            snapshots.root,
        )
        kind = "checkpoint"
    folder = snapshots.begin(follows)
    model = engine.job.model
    try:
        parts = [SnapshotPart.from_json(part) for part in engine.each_shard(_write, str(folder), kind, follower)]
        done = snapshots.commit(
            folder,
            parts,
            # No batch of the next pass is in the tables, and none of the passes before will come again.
            ledger=Window.of_passes(engine.next_pass),
            seed=model.seed,
            groups=model.groups,
            dense=model.parameters,
            kind=kind,
            position={"passes": engine.next_pass} | ({} if note is None else {_NOTE: dict(note)}),
        )
    except BaseException:
        snapshots.abandon(folder)
        raise
    engine.each_shard(_after, kind)
    if kind not in ("checkpoint", "changes"):  # counters of rows have changed with it
        engine.held = engine.held.changed(f"a {kind} was saved after the training before")
    return done


def note_of(path: Path) -> Mapping[str, Any] | None:
    """Return the note of the checkpoint that :func:`load_tables` would take; None where it has none."""
    note = Manifest.read(find_generation(snapshot_folder(path))).position.get(_NOTE)
    return note if isinstance(note, dict) else None


def load_tables(engine: Tables, path: Path) -> None:
    """Restore all tables from a checkpoint; training goes on after the passes that are in it."""
    if engine.next_pass != engine.passes:
        raise CheckpointError(f"cannot load {path} while training goes on: leave the loop over session.train first")
    folder = find_generation(snapshot_folder(path))
    passes = Manifest.read(folder).position.get("passes")
    if type(passes) is not int or passes < 0:
        raise CheckpointError(f"{folder} does not say how many passes are in it: it is damaged")
    engine.held = engine.held.changed(f"{path} was loaded")
    engine.each_shard(_restore, str(folder))
    engine.passes = passes


def load_one_table(engine: Tables, path: Path, table: str, into: str | None = None) -> int:
    """Set the rows of one table from a snapshot of this or another model; return how many."""
    folder = str(find_generation(snapshot_folder(path)))
    engine.held = engine.held.changed(f"table {into or table} was loaded from {path}")
    return sum(engine.at_rest(lambda: engine.each_shard(_load_table, folder, table, into), changes=True))


def shrink_tables(engine: Tables) -> int:
    """Age counters and delete rows not worth keeping; return how many went."""
    engine.held = engine.held.changed("the tables were shrunk")
    return sum(engine.at_rest(lambda: engine.each_shard(_shrink), changes=True))


def snapshot_folder(path: Path) -> Path:
    """Return where the snapshots of a saved model are: its checkpoints, or the folder itself."""
    if not path.is_dir():
        near = sorted(p.name for p in path.parent.iterdir() if p.is_dir())[:8] if path.parent.is_dir() else []
        raise CheckpointError(f"there is no folder {path}" + (f"; {path.parent} has {', '.join(near)}" if near else ""))
    return path / "checkpoint" if (path / "checkpoint").is_dir() else path


# What runs at a host. Plain functions of this module, so that they travel to workers by name.


def _follows(shard: Shard, host: int, reader: str) -> bool:
    return shard.follows(reader)


def _write(shard: Shard, host: int, folder: str, kind: Kind, reader: str | None) -> dict[str, Any]:
    with shard.cut(reader, moment=Path(folder).name, since=since_of(folder)) as cut:
        return write_part(cut, folder, kind=kind, host=host).to_json()


def _after(shard: Shard, host: int, kind: Kind) -> None:
    shard.after_save(kind)


def _restore(shard: Shard, host: int, folder: str) -> None:
    restore(shard, folder)


def _load_table(shard: Shard, host: int, folder: str, table: str, into: str | None) -> int:
    return load_table(shard, folder, table, into=into)


def _shrink(shard: Shard, host: int) -> int:
    return shard.shrink()
