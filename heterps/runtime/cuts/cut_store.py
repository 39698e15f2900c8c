"""Cuts on disk: a checkpoint that a run can return to, and another run can go on from.

The first cut below a folder holds everything, later ones what changed since the cut that the tables were last equal
to: the last that was completed, or the one that the run went on from. When such changes together outweigh what they
build on, or after so many, one holds everything again.

A cut is a snapshot like any other (``heterps inspect`` reads it); its position says in addition where the run stood:
the protocol's :class:`~heterps.protocol.words.cut.Cut`, the windows of the hosts, what was counted.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from heterps.data import Dataset
from heterps.data.core.fingerprint import differences
from heterps.errors import CheckpointError
from heterps.protocol import Window
from heterps.protocol.words.cut import Cut
from heterps.runtime.batch.job import Job
from heterps.runtime.config import settings
from heterps.runtime.cuts.carried import Carried
from heterps.tables import Manifest, SnapshotPart, Snapshots, find_generation, since_of
from heterps.tables.snapshots.chain import broken_after
from heterps.tables.snapshots.disk import guarded
from heterps.tables.snapshots.snapshot import links_of

__all__ = ["CutStore", "HostPart", "Standing", "facts_of", "host_state", "told_of_job"]

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

    ``first`` is the pass with which the run began, ``life`` how often it was started, ``carried`` what it began with.
    """

    cut: Cut
    folder: Path
    first: int
    life: int
    carried: Carried = field(default_factory=Carried)

    @classmethod
    def read(cls, path: str | Path, job: Job, facts: Mapping[str, Any], force: bool = False) -> Standing:
        """Read the newest cut below a folder, and refuse one that another job made, or the same with other data."""
        root = Path(path)
        folder = find_generation(root / "checkpoint" if (root / "checkpoint").is_dir() else root)
        position = Manifest.read(folder).position
        if "cut" not in position:
            raise CheckpointError(f"{folder} was saved between runs, not by one: use session.load, then train")
        with guarded(folder):
            _check_job(folder, position, job)
            if not force:
                _check_facts(folder, position, facts)
            return cls(
                Cut.from_json(position["cut"]),
                folder,
                position["first"],
                position["life"],
                Carried.from_json(position.get("carried")),
            )


def _chain_of(folder: Path) -> list[tuple[Path, int]]:
    """Return a cut with all it builds on, oldest first, and their bytes; nothing if one of them cannot be read.

    Nor if it is of a version that gave moments no names: no host could remember it.
    """
    try:
        links = list(links_of(folder))
        return [(link.folder, link.manifest.size) for link in reversed(links)] if links[0].manifest.moment else []
    except CheckpointError as error:
        _log.warning("the next cut holds everything, for %s cannot be built on: %s", folder, error)
        return []


def _check_job(folder: Path, position: Mapping[str, Any], job: Job) -> None:
    for name, wanted in _of_job(job).items():
        if position[name] != wanted:
            raise CheckpointError(
                f"{folder}: the run had {name} {position[name]!r}, this one has {wanted!r}; to go on exactly they "
                "must be the same"
            )


def _check_facts(folder: Path, position: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
    found = list(differences(position.get("facts", {}), facts))
    if found:
        shown = "".join(f"\n  {line}" for line in found[:8]) + ("\n  ..." if len(found) > 8 else "")
        raise CheckpointError(
            f"{folder}: this run is not the one that made the cut:{shown}\n"
            "To go on exactly they must be the same; force=True (--force) goes on all the same."
        )


def _of_job(job: Job) -> dict[str, Any]:
    """What must never change between lives of a run: it decides where batches begin and how they are summed."""
    return {"batch_size": job.batch_size, "mode": job.mode.to_json(), "lanes": job.lanes}


def told_of_job(job: Job) -> dict[str, Any]:
    """Return what two drivers must agree on to have the same tables on the same shard hosts."""
    model = job.model
    tables = hashlib.sha256(repr((model.groups, model.parameters, model.seed)).encode()).hexdigest()
    return {**_of_job(job), "hosts": job.hosts, "tables": tables}


def facts_of(job: Job, dataset: Dataset) -> dict[str, Any]:
    """Return what should not change between lives of a run, as it comes back from JSON."""
    rules = {"sparse": job.model.sparse.to_json(), "dense": job.model.dense.to_json()}
    rules |= {f"clip {name}": bound for name, bound in vars(job.clip).items() if bound is not None}
    facts = {"data": dataset.fingerprint(), "rules": rules, "metrics": [metric.name for metric in job.metrics]}
    return dict(json.loads(json.dumps(facts)))


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
    facts
        Of job and data, see :func:`facts_of`.
    carried
        What the run began with besides tables.
    """

    def __init__(
        self,
        path: str | Path,
        job: Job,
        first: int,
        life: int,
        facts: Mapping[str, Any],
        carried: Carried | None = None,
    ) -> None:
        self._carried = carried or Carried()
        self._snapshots, self._facts = Snapshots(Path(path) / "checkpoint"), facts
        self._job, self._first, self._life = job, first, life
        self._open: dict[int, Path] = {}  # folders that hosts write to, by number of the cut
        self._done: dict[int, Path] = {}  # finished cuts
        self._lost: set[int] = set()  # finished ones that cannot be read any more
        self._chain: list[tuple[Path, int]] = []  # a cut with everything and those since, with their bytes
        self._full_every = settings().full_every

    def know(self, number: int, folder: Path) -> None:
        """Remember where a cut is that the run begins with, and cuts of its earlier lives that this one builds on."""
        self._done[number] = folder
        with suppress(CheckpointError):  # what cannot be read is not returned to
            for link in links_of(folder):
                if self._is_ours(link.manifest.position):
                    self._done[link.manifest.position["cut"]["number"]] = link.folder
        for other in broken_after(folder) if self._is_here(folder) else ():
            self._snapshots.distrust(other)
        self.go_on_from(number)

    def _is_ours(self, position: Mapping[str, Any]) -> bool:
        """Say whether a cut is of this run: to return further would train data of others again, or other data."""
        return "cut" in position and (position["first"], position.get("facts")) == (self._first, self._facts)

    def _is_here(self, folder: Path) -> bool:
        """Say whether it is a generation of ours, not one elsewhere or a copy that somebody gave a name."""
        names = {each.name for each in self._snapshots.generations()}
        return folder.name in names and folder.parent.resolve() == self._snapshots.root.resolve()

    def go_on_from(self, number: int) -> None:
        """The tables are equal to a cut: the next one can build on it, if it lies here."""
        folder = self._done.get(number)
        if folder is None or not self._is_here(folder):
            self._chain = []
        elif not self._chain or self._chain[-1][0].name != folder.name:
            self._chain = _chain_of(self._snapshots.root / folder.name)

    def is_lost(self, number: int) -> bool:
        """Say whether a cut is known to be unreadable."""
        return number in self._lost

    def before(self, number: int) -> Cut | None:
        """Return the newest cut before one that cannot be read, which is not counted on any more."""
        self._lost.add(number)
        if self._is_here(self._done[number]):
            self._snapshots.distrust(self._done[number])
        for each in sorted((n for n in self._done if n < number and n not in self._lost), reverse=True):
            with suppress(CheckpointError):
                return Cut.from_json(Manifest.read(self._done[each]).position["cut"])
        return None

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
            "facts": dict(self._facts),
            "carried": self._carried.to_json(),
            **_of_job(self._job),
        }
        folder = self._open[cut.number]
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
        del self._open[cut.number]  # until now, so that what could not be committed can be dropped
        size = sum(file.size for part in written for file in part.files)
        self._chain = [*self._chain, (done, size)] if partial else [(done, size)]
        return done

    def drop(self, number: int) -> None:
        """Remove the parts of a cut that will not be completed."""
        folder = self._open.pop(number, None)
        if folder is not None:
            with suppress(OSError):
                self._snapshots.abandon(folder)
