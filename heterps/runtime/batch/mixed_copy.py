"""Some tables as in Geo, everything else as without a copy: what one bench trains on where parameters travel both ways.

1. Rows of the tables that travel by Geo are the worker's own; the others are asked for with each batch.
2. Every batch is pushed by itself. With the last one of a range goes what the range has changed in the own rows, so
   that the range counts once, as the batch does. An all-reduce group gets the dense gradients of each batch alone.
3. Whoever takes over an unfinished range trains all of it: hosts drop the batches that they have, and nothing of the
   range has reached the own rows' tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from heterps.protocol.words.keys import BatchKey
from heterps.runtime.batch.batch_work import BatchWork
from heterps.runtime.batch.exchange import Exchange
from heterps.runtime.batch.geo_copy import GeoCopy
from heterps.runtime.batch.job import Job
from heterps.runtime.batch.payload import Pulled, PushedGradients, Refreshed, Wanted
from heterps.runtime.batch.phases import Phases
from heterps.runtime.batch.walk import Walk
from heterps.runtime.batch.working_copy import NoCopy

__all__ = ["MixedCopy"]


class MixedCopy:
    """The rows of one bench.

    Parameters
    ----------
    job, walk
        What is trained, and which part of the model batches pass.
    phases
        Takes the times.
    """

    learns = False  # gradients of rows that are not its own are pushed from the buffers of the batch

    def __init__(self, job: Job, walk: Walk, phases: Phases) -> None:
        self._own = GeoCopy(job, phases, job.own_groups)
        self._others = NoCopy(job, walk, phases, job.own_groups)
        self._names, self._hosts = job.own_groups, job.hosts
        self._ranges: dict[BatchKey, BatchKey] = {}  # by the last batch: the range that goes with it

    def wanted(self, work: BatchWork, host: int) -> Wanted:
        """Return what a batch needs of others' rows, and the own rows that are not here."""
        others = self._others.wanted(work, host)
        own = self._own.wanted(work, host) if host < self._hosts else None
        if own is None:
            return others
        return replace(others, ids={**others.ids, **own.ids}, reader=own.reader, since=own.since)

    def take(self, work: BatchWork, host: int, wanted: Wanted | None, pulled: Pulled) -> None:
        """Take what was asked for."""
        assert wanted is not None
        ids = {name: some for name, some in wanted.ids.items() if name in self._names}
        self._others.take(work, host, wanted, pulled)
        if host == self._hosts:
            return
        self._own.take(work, host, Wanted(ids), replace(pulled, dense=None))

    def fill(self, work: BatchWork) -> None:
        """Copy the own rows of a batch to its buffers."""
        self._others.fill(work)
        self._own.fill(work)

    def learn(self, work: BatchWork) -> None:
        """Apply the rules to the own rows."""
        self._own.learn(work)

    def settle(self, unit: BatchKey, works: Sequence[BatchWork], host: int, settles: int = 0) -> PushedGradients:
        """Return a batch's gradients, with the last one of a range what that has changed."""
        others = self._others.settle(unit, works, host)
        if not settles or host == self._hosts:
            return others
        first = self._ranges[unit] = unit._replace(n=unit.n + 1 - settles)
        own = self._own.settle(first, (), host)
        rows = {**others.rows, **own.rows}
        return replace(own, rows=rows, dense=others.dense, samples=others.samples, loss=others.loss)

    def free(self, unit: BatchKey) -> None:
        """Every host has acknowledged a batch."""
        if unit in self._ranges:
            self._own.free(self._ranges.pop(unit))

    def refresh(self, host: int, refreshed: Refreshed) -> None:
        """Take what others changed in the tables that travel by Geo."""
        self._own.refresh(host, refreshed)

    def enter(self, attempt: int, trainer: int, terms: tuple[int, ...]) -> None:
        """Let an attempt train on it."""
        self._ranges.clear()
        self._own.enter(attempt, trainer, terms)

    def belongs_to(self, attempt: int) -> bool:
        """Say whether an attempt may still use it."""
        return self._own.belongs_to(attempt)

    def leave(self, attempt: int, terms: tuple[int, ...], *, whole: bool) -> None:
        """End an attempt."""
        self._own.leave(attempt, terms, whole=whole)

    @property
    def size(self) -> Exchange:
        """How much is kept here."""
        return self._own.size
