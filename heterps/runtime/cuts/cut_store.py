"""Cuts on disk: a checkpoint that a run can return to, and another run can go on from.

The first cut of a run holds everything, later ones what changed since the last that was completed; when such changes
together outweigh what they build on, or after so many, one holds everything again.

A cut is a snapshot like any other (``heterps inspect`` reads it); its position says in addition where the run stood:
the protocol's :class:`~heterps.protocol.words.cut.Cut`, the windows of the hosts, what was counted.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heterps.errors import CheckpointError
from heterps.protocol import Window
from heterps.protocol.words.cut import Cut
from heterps.runtime.batch.job import Job
from heterps.runtime.config import settings
from heterps.tables import Manifest, SnapshotPart, Snapshots, find_generation, since_of

__all__ = ["CutStore", "HostPart", "Standing", "host_state"]

_log = logging.getLogger("heterps")


@dataclass(frozen=True)
class HostPart:
    """What one host contributes to a cut: files, protocol state, counts."""

    part: Mapping[str, Any]
    state: Mapping[str, Any]
    counts: Mapping[str, Any]


def host_state(manifest: Manifest) -> dict[str, Any]:
    """Return the protocol's part of a cut as a host takes it.

    The ledger is the manifest's. In cuts of earlier versions it stands in the state, and the manifest's is another.
    """
    return {"window": manifest.window.to_json(), **manifest.position["state"]}


@dataclass(frozen=True)
class Standing:
    """Where a run stood at a cut.

    ``first`` is the pass with which the run began, ``life`` how often it was started.
    """

    cut: Cut
    folder: Path
    first: int
    life: int

    @classmethod
    def read(cls, path: str | Path, job: Job) -> Standing:
        """Read the newest cut below a folder, and refuse one that another job made."""
        root = Path(path)
        folder = find_generation(root / "checkpoint" if (root / "checkpoint").is_dir() else root)
        position = Manifest.read(folder).position
        if "cut" not in position:
            raise CheckpointError(f"{folder} was saved between runs, not by one: use session.load, then train")
        for name, wanted in _facts(job).items():
            if position[name] != wanted:
                raise CheckpointError(
                    f"{folder}: the run had {name} {position[name]!r}, this one has {wanted!r}; to go on exactly they "
                    "must be the same"
                )
        return cls(
            Cut.from_json(position["cut"]),
            folder,
            position["first"],
            position["life"],
        )


def _facts(job: Job) -> dict[str, Any]:
    """What must not change between lives of a run: it decides where batches begin and how they are summed."""
    return {"batch_size": job.batch_size, "mode": job.mode.to_json(), "lanes": job.lanes}


class CutStore:
    """Writes the cuts of one run.

    Parameters
    ----------
    path
        Folder of the model; cuts lie in ``checkpoint/`` below it, the two newest are kept, with what they build on.
    job
        What is trained.
    first, life
        See :class:`Standing`.
    """

    def __init__(self, path: str | Path, job: Job, first: int, life: int) -> None:
        self._snapshots = Snapshots(Path(path) / "checkpoint")
        self._job, self._first, self._life = job, first, life
        self._open: dict[int, Path] = {}  # folders that hosts write to, by number of the cut
        self._done: dict[int, Path] = {}  # finished cuts
        self._chain: list[tuple[Path, int]] = []  # the run's last cut with everything and those since, with their bytes
        self._full_every = settings().full_every

    def know(self, number: int, folder: Path) -> None:
        """Remember where a cut of an earlier life is."""
        self._done[number] = folder

    def folder(self, number: int) -> Path:
        """Return where hosts write their parts of a cut, or where a finished one is read."""
        if number in self._done:
            return self._done[number]
        if number not in self._open:
            self._open[number] = self._begin()
        return self._open[number]

    def _begin(self) -> Path:
        follow = self._follow()
        try:
            return self._snapshots.begin(follow)
        except CheckpointError as error:
            if follow is None:
                raise
            _log.warning("the next cut holds everything, for the one before cannot be built on: %s", error)
            self._chain = []
            return self._snapshots.begin()

    def _follow(self) -> Path | None:
        """Return the cut that the next one builds on; None if that shall hold everything."""
        if not 0 < len(self._chain) < self._full_every:
            return None
        (_, base), *changes = self._chain
        return self._chain[-1][0] if sum(size for _, size in changes) < base else None

    def publish(self, cut: Cut, parts: Sequence[HostPart]) -> Path:
        """Write the manifest, last and whole; from now on the run can return to the cut.

        Nothing was in flight: all hosts have applied the same batches, so one state stands for all.
        """
        model, state = self._job.model, dict(parts[0].state)
        ledger = Window.from_json(state.pop("window"))
        written = [SnapshotPart.from_json(part.part) for part in parts]
        position = {
            "passes": cut.pass_ + 1,
            "cut": cut.to_json(),
            "first": self._first,
            "life": self._life,
            "state": state,
            "counts": dict(parts[0].counts),
            **_facts(self._job),
        }
        folder = self._open.pop(cut.number)
        partial = since_of(folder) is not None
        done = self._snapshots.commit(
            folder,
            written,
            ledger=ledger,
            seed=model.seed,
            groups=model.groups,
            dense=model.parameters,
            kind="changes" if partial else "checkpoint",
            position=position,
        )
        self._done[cut.number] = done
        size = sum(file.size for part in written for file in part.files)
        self._chain = [*self._chain, (done, size)] if partial else [(done, size)]
        return done

    def drop(self, number: int) -> None:
        """Remove the parts of a cut that will not be completed."""
        folder = self._open.pop(number, None)
        if folder is not None:
            with suppress(OSError):
                self._snapshots.abandon(folder)
