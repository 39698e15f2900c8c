"""When a run makes cuts, where they go, and what it goes on from."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import Any

from heterps.data import Dataset
from heterps.errors import CheckpointError, RunError
from heterps.protocol.words.cut import Cut
from heterps.protocol.words.events import CutFailed, CutLost, CutPublished
from heterps.protocol.words.instructions import CreateHost
from heterps.runtime.batch.counts import Counts
from heterps.runtime.batch.job import Job
from heterps.runtime.cuts.carried import Carried
from heterps.runtime.cuts.cut_store import CutStore, HostPart, Standing, facts_of, told_of_job
from heterps.tables import Manifest

__all__ = ["Checkpoints", "Held", "Keeper"]

_log = logging.getLogger("heterps")


@dataclass(frozen=True)
class Checkpoints:
    """What the user wants kept.

    Parameters
    ----------
    path
        Folder for cuts; None for a run without.
    every_batches, every_s
        A cut after so many batches (in Sync: steps; merged batches count as one), or seconds; one is made at the end
        in any case.
    resume
        Folder to go on from; the first training of the session takes it up.
    force
        Go on although data, shuffling, rules of dense parameters or metrics are not those of the run that made the cut.
    """

    path: str | None = None
    every_batches: int | None = None
    every_s: float | None = None
    resume: str | None = None
    force: bool = False

    def __post_init__(self) -> None:
        for name in ("every_batches", "every_s"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise CheckpointError(f"checkpoints {name.replace('_', ' ')} {value}: must be more than 0")
        if self.path is None and (self.every_batches or self.every_s):
            raise CheckpointError("checkpoints are asked for, but no folder is given for them: checkpoint=DIR")


@dataclass(frozen=True)
class Held:
    """What the tables hold between runs.

    Parameters
    ----------
    fresh
        Nothing but what the seed gives.
    cut, folder
        Exactly what this cut on disk holds; None where no cut does.
    why
        Else, why not.
    life
        Of the run before; each run of a session has a greater one.
    bad_streak
        So many batches, up to the last, had a loss that is no finite number: this is not to replace a good model.
    resumed
        The folder to go on from, where one was given, was taken up.
    lost
        Some of the rows are gone for good: nothing is trained on the others.
    """

    fresh: bool = True
    cut: int | None = None
    folder: Path | None = None
    why: str = ""
    life: int = -1
    bad_streak: int = 0
    resumed: bool = False
    lost: bool = False

    def changed(self, why: str) -> Held:
        """Return what they hold after somebody else than a run has changed them."""
        return Held(False, why=why, life=self.life, resumed=self.resumed)

    def checked(self) -> Held:
        """Return the same, unless the cut's folder was removed meanwhile, as by saving to its place."""
        gone = self.folder is not None and not self.folder.is_dir()
        return self.changed(f"{self.folder} was removed") if gone else self


class Keeper:
    """The checkpoints of one run.

    Parameters
    ----------
    wanted
        What the user wants.
    job
        What is trained.
    passes
        Passes of the session before this run.
    runs
        Runs of the session before this one.
    dataset
        What it is trained on.
    held
        What the tables hold before the run.
    left
        Takes what :meth:`about` says of the run to be resumed, and returns what its driver said who died and left the
        tables on workers; None if there are none. Then they are gone on with, and the newest cut is there to return to.
    carried
        What the training has carried into this run; one that goes on from another's tables carries what that one did.
    """

    def __init__(
        self,
        wanted: Checkpoints,
        job: Job,
        passes: int,
        runs: int,
        dataset: Dataset,
        held: Held | None = None,
        left: Callable[[Mapping[str, Any]], Mapping[str, Any] | None] | None = None,
        carried: Carried | None = None,
    ) -> None:
        self.wanted, self._held = wanted, (held or Held()).checked()
        if self._held.lost:
            raise RunError(f"the tables are not whole, {self._held.why}: load a saved model, or launch again")
        path = wanted.path or wanted.resume
        facts = facts_of(job, dataset) if path else {}
        self._about: dict[str, Any] = (
            {**told_of_job(job), "folder": os.path.realpath(path), "facts": facts} if path else {}
        )
        resumes = wanted.resume is not None and not self._held.resumed
        self.adopted = left(self.about(wanted.resume)) if left is not None and wanted.resume and resumes else None
        self.standing = self._standing(job, facts) if resumes else None
        self.first, self.life = passes, max(runs, self._held.life + 1)
        # A run returns to the cut that its tables began with, wherever that was made.
        self.base = Cut(self._held.cut or 0, passes, mode=job.mode.to_json())
        if self.standing is not None:
            self.first, self.base = self.standing.first, self.standing.cut
            self.life = max(self.standing.life, self._held.life) + 1
        if self.adopted is not None:
            self.first, self.life = self.adopted["first"], max(self.life, self.adopted["life"] + 1)
            self.base = self.standing.cut if self.standing is not None else replace(self.base, pass_=self.first)
        self.carried = self._carried_into(carried or Carried())
        self.store = CutStore(path, job, self.first, self.life, facts, self.carried) if path else None
        if self.store is not None and self.standing is not None:
            self.store.know(self.base.number, self.standing.folder)
        elif self.store is not None and self._held.cut and self._held.folder is not None:
            self.store.know(self._held.cut, self._held.folder)
        self._then = monotonic()
        self._owes_base = self.writes and not self.base.number and not self.begins_fresh  # until it was asked for
        self._newest: int | None = None  # the last cut of this run that is whole

    def _carried_into(self, given: Carried) -> Carried:
        if self.adopted is not None:
            return Carried.from_json(self.adopted.get("carried"))
        return given if self.standing is None else self.standing.carried

    def _standing(self, job: Job, facts: Mapping[str, Any]) -> Standing | None:
        """Read the newest cut; tables that are there already can do without one."""
        assert self.wanted.resume is not None
        try:
            found = Standing.read(self.wanted.resume, job, facts, self.wanted.force)
        except CheckpointError:
            if self.adopted is None:
                raise
            return None
        if self.adopted is not None and (found.first, True) != (
            self.adopted["first"],
            found.life <= self.adopted["life"],
        ):
            _log.warning("the tables on workers are not those of %s: going on from there", found.folder)
            self.adopted = None
        return found

    def about(self, folder: str | None = None) -> dict[str, Any]:
        """Return what another driver has to know of this run, to go on with its tables; nothing where it has no folder.

        ``folder``: the one that it is called by, if not that of its cuts.
        """
        if not self._about:
            return {}
        named = {"folder": os.path.realpath(folder)} if folder else {}
        if folder:
            return {**self._about, **named}
        begun = {"first": self.first, "life": self.life, "fresh": self.begins_fresh}
        return {**self._about, **begun, "carried": self.carried.to_json()}

    @property
    def writes(self) -> bool:
        """Whether cuts are made during and after the run."""
        return self.wanted.path is not None

    @property
    def newest(self) -> str:
        """The folder of the last cut that this run completed; empty before the first."""
        return self.folder(self._newest)

    def folder(self, cut: int | None) -> str:
        """Return the folder of a cut for a host; cut 0, the beginning, has none."""
        return str(self.store.folder(cut)) if self.store is not None and cut else ""

    def is_due(self) -> bool:
        """Say whether it is time for a cut, by the clock or because the run has none to return to; once each time."""
        every_s = self.wanted.every_s
        if self._owes_base or (every_s is not None and monotonic() - self._then >= every_s):
            self._then, self._owes_base = monotonic(), False
            return True
        return False

    def owe(self) -> None:
        """Somebody has changed the tables while the run rested: the cuts before do not have it."""
        self._owes_base = self.writes

    @property
    def begins_fresh(self) -> bool:
        """Whether what the run began with can be made again from the seed."""
        fresh = self._held.fresh if self.adopted is None else bool(self.adopted["fresh"])
        return fresh and self.standing is None

    @property
    def why_no_cut(self) -> str:
        """Say why there is none, to a user who has lost a host."""
        if not self.writes:
            return "with launch(..., checkpoint=DIR) the run would have gone on by itself"
        return f"{self._held.why or 'none was made yet'}, and the run's own first cut was not written yet"

    def as_held(self, create: CreateHost) -> CreateHost:
        """Return what to make of a host whose tables are there: what they hold already is not loaded again."""
        return replace(create, cut=0) if create.cut == self._held.cut else create

    def returns_to(self, cut: int | None) -> None:
        """All hosts are about to load a cut: the next ones build on it, or on none if it is the beginning."""
        if self.store is not None:
            self.store.go_on_from(cut or 0)

    def lost(self, cut: int, error: CheckpointError) -> CutLost:
        """Say what the run can return to instead of a cut that a host could not load."""
        assert self.store is not None
        first, before = not self.store.is_lost(cut), self.store.before(cut)
        if before is None and self.begins_fresh:
            before = self.base
        if first and before is not None:
            where = self.store.folder(before.number) if before.number else "the beginning"
            _log.warning("%s cannot be used, the run goes back to %s: %s", self.store.folder(cut), where, error)
        return CutLost(cut, before, str(error))

    def publish(self, cut: Cut, parts: Sequence[HostPart]) -> CutPublished | CutFailed:
        """Write the manifest of a cut, and say what became of it."""
        assert self.store is not None
        try:
            self.store.publish(cut, parts)
        except (OSError, CheckpointError) as error:
            return CutFailed(0, cut.number, f"{type(error).__name__}: {error}")
        self._newest = cut.number
        return CutPublished(cut.number)

    def drop(self, cut: int) -> None:
        """Remove the parts of a cut that will not be completed."""
        if self.store is not None:
            self.store.drop(cut)

    def held_after(self, finished: bool, bad_streak: int, returning: int | None = None) -> Held:
        """Return what the tables hold after the run; ``returning`` is the cut that hosts were loading when it ended."""
        if returning is not None:
            return self._held_again(returning)
        if not finished:
            return self._left("the training before was left early", bad_streak)
        if not self.writes or self.store is None or self._newest is None:
            return self._left("the training before made no cut", bad_streak)
        return Held(False, self._newest, self.store.folder(self._newest), life=self.life, resumed=True)

    def _left(self, why: str, bad_streak: int = 0) -> Held:
        return Held(False, why=why, life=self.life, bad_streak=bad_streak, resumed=True)

    def _held_again(self, cut: int) -> Held:
        """Return what hosts were loading: a cut of this run, or what the run began with."""
        if cut == self.base.number:
            return replace(self._held, life=self.life)
        assert self.store is not None
        return Held(False, cut, self.store.folder(cut), life=self.life, resumed=True)

    def counted_before(self, now: Counts) -> Counts:
        """Return what was counted before this run, of which hosts say ``now``: those that load it say nothing yet."""
        if self.adopted is not None:  # as a resumed run, which counts on
            return Counts()
        if now.batches or not self.base.number or self.standing is not None:
            return now
        return Counts(**Manifest.read(Path(self.folder(self.base.number))).position["counts"])

    @property
    def can_begin_again(self) -> bool:
        """Whether what the run began with can be loaded, or made, once more."""
        return self.base.number != 0 or self.begins_fresh

    def cut_every(self, host: int) -> int | None:
        """Return after how many batches a host asks for a cut; one that counts is enough."""
        return self.wanted.every_batches if host == 0 else None
