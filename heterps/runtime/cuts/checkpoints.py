"""When a run makes cuts, where they go, and what it goes on from."""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic

from heterps.data import Dataset
from heterps.errors import CheckpointError
from heterps.protocol.words.cut import Cut
from heterps.protocol.words.events import CutAsked
from heterps.runtime.batch.job import Job
from heterps.runtime.cuts.cut_store import CutStore, Standing, facts_of
from heterps.runtime.run.driver import Driver

__all__ = ["Checkpoints", "Keeper"]


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
        Runs of the session before this one; only the first resumes.
    dataset
        What it is trained on.
    """

    def __init__(self, wanted: Checkpoints, job: Job, passes: int, runs: int, dataset: Dataset) -> None:
        self.wanted = wanted
        path = wanted.path or wanted.resume
        facts = facts_of(job, dataset) if path else {}
        resumes = wanted.resume is not None and not runs
        self.standing = Standing.read(wanted.resume, job, facts, wanted.force) if wanted.resume and resumes else None
        self.first, self.life = passes, runs
        self.base = Cut(pass_=passes, mode=job.mode.to_json())
        if self.standing is not None:
            self.first, self.life, self.base = self.standing.first, self.standing.life + 1, self.standing.cut
        self.store = CutStore(path, job, self.first, self.life, facts) if path else None
        if self.store is not None and self.standing is not None:
            self.store.know(self.base.number, self.standing.folder)
        self._then = monotonic()

    @property
    def writes(self) -> bool:
        """Whether cuts are made during and after the run."""
        return self.wanted.path is not None

    def folder(self, cut: int | None) -> str:
        """Return the folder of a cut for a host; cut 0, the beginning, has none."""
        return str(self.store.folder(cut)) if self.store is not None and cut else ""

    def ask(self, driver: Driver) -> None:
        """Ask the run for a cut when one is due by the clock."""
        every_s = self.wanted.every_s
        if every_s is not None and monotonic() - self._then >= every_s:
            self._then = monotonic()
            driver.handle(CutAsked())

    def cut_every(self, host: int) -> int | None:
        """Return after how many batches a host asks for a cut; one that counts is enough."""
        return self.wanted.every_batches if host == 0 else None
