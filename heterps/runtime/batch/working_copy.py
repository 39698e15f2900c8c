"""Between a bench and the shard hosts: whose rows a batch is trained on, and what is owed to the hosts for it.

Without a copy of its own a worker asks the hosts for each batch's rows and owes them each batch's gradients
(:class:`NoCopy`). One that trains on rows of its own for a while stands behind the same methods: it asks for what it
lacks, learns from batches itself, and settles a unit of batches at once (docs/adr/0801).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from heterps.data import Batch
from heterps.kernels.program.param_layout import ParamLayout
from heterps.kernels.random import batch_seed
from heterps.protocol.words.keys import BatchKey
from heterps.ragged import Ragged
from heterps.runtime.batch.batch_work import BatchWork
from heterps.runtime.batch.exchange import Exchange
from heterps.runtime.batch.job import Job
from heterps.runtime.batch.kept_parameters import KeptParameters
from heterps.runtime.batch.payload import Pulled, PushedGradients, Refreshed, Wanted
from heterps.runtime.batch.phases import Phases
from heterps.runtime.batch.walk import Walk
from heterps.stages.lowering import Group
from heterps.tables import RowGradients, sum_lanes

__all__ = ["NoCopy", "ShownIds", "WorkingCopy"]

F32 = npt.NDArray[np.float32]


class WorkingCopy(Protocol):
    """What a bench trains on. All calls come from the thread that has the bench."""

    @property
    def learns(self) -> bool:
        """Whether :meth:`learn` takes all that is needed of a batch: its buffers can then be used again at once."""

    def wanted(self, work: BatchWork, host: int) -> Wanted | None:
        """Return what to ask a host for before a batch can be computed; None if nothing is lacking."""

    def take(self, work: BatchWork, host: int, wanted: Wanted | None, pulled: Pulled) -> None:
        """Take what a host answered."""

    def fill(self, work: BatchWork) -> None:
        """Put the rows and parameters that a batch is computed from into its buffers; all were asked for."""

    def learn(self, work: BatchWork) -> None:
        """Take the gradients of a batch that was computed."""

    def settle(self, unit: BatchKey, works: Sequence[BatchWork], host: int, settles: int = 0) -> PushedGradients:
        """Return what is owed to a host for a unit of batches, the same whenever it is asked until it is freed.

        ``settles``: of how many batches, up to the last of the unit, changes of rows of one's own go with it.
        """

    def free(self, unit: BatchKey) -> None:
        """Every host has acknowledged what it was owed for a unit."""

    def refresh(self, host: int, refreshed: Refreshed) -> None:
        """Take what others changed at a host."""

    def enter(self, attempt: int, trainer: int, terms: tuple[int, ...]) -> None:
        """Let an attempt train on it; ``trainer`` names its worker, ``terms`` the hosts' state."""

    def belongs_to(self, attempt: int) -> bool:
        """Say whether an attempt may still use it."""

    def leave(self, attempt: int, terms: tuple[int, ...], *, whole: bool) -> None:
        """End an attempt; ``whole`` if everything it owed is acknowledged."""

    @property
    def size(self) -> Exchange:
        """How many rows are kept, in its counts of local rows and bytes."""


class NoCopy:
    """Every batch is trained on what the hosts have: rows are always asked for, gradients are what is owed.

    Parameters
    ----------
    job, walk
        What is trained, and which part of the model batches pass.
    phases
        Takes the times.
    without
        Row groups that somebody else looks after.
    """

    learns = False

    def __init__(self, job: Job, walk: Walk, phases: Phases, without: Collection[str] = ()) -> None:
        self._walk, self._phases, self._without = walk, phases, without
        self._groups = [group for group in walk.groups if group.name not in without]
        self._hosts = job.hosts
        self._parts = job.parts  # by host, then the group: its piece of the dense parameters
        ops = [op.name for op in walk.graph] if walk.ops is None else walk.ops
        self._has_dense = walk.train and ParamLayout(walk.graph, ops).size > 0  # else others compute with them
        every = job.mode.dense_every if self._has_dense else 1
        self._kept = KeptParameters(every, self._parts) if every > 1 else None
        self._holder = job.hosts - 1 if job.holder else -1
        self._leaves = job.stage_group  # then gradients that are all-reduced stay where they were computed
        self._lent = job.lent if walk.train else frozenset()
        self._widths = {spec.name: spec.width for spec in job.model.groups if spec.name in job.on_gpu}
        self._seed = job.model.seed
        self._shown = ShownIds(job)

    def wanted(self, work: BatchWork, host: int) -> Wanted:
        """Return a host's share of unique ids and its range of dense parameters."""
        ids, out = {}, {}
        with self._phases("pull"):
            for group in self._groups if host < self._hosts else ():
                routed = work.routed[group.name]
                low, high = routed.bounds[host], routed.bounds[host + 1]
                ids[group.name] = routed.ids[low:high]
                if group.name not in self._lent:
                    out[group.name] = work.rows(group.name, group.width)[low:high]
            part = self._parts[host]
            here = self._has_dense and part.size and not (self._leaves and host == self._hosts)
            here = here and (self._kept is None or self._kept.asks(work, host))
            dense = part.room(work.dense) if here else None
        lent = batch_seed(self._seed, *work.key) if self._lent and host == self._holder else None
        return Wanted(ids, out, dense, self._walk.train, lent=lent)

    def take(self, work: BatchWork, host: int, wanted: Wanted | None, pulled: Pulled) -> None:
        """Note where rows stand; they are in the buffers that were given with the question."""
        work.pulled[host] = pulled
        if self._kept is not None:
            self._kept.take(work, host, pulled)

    def fill(self, work: BatchWork) -> None:
        """Hosts have written to the buffers; pieces of dense parameters that do not touch come beside them."""
        if self._kept is not None:
            self._kept.fill(work)
            return
        for host, part in enumerate(self._parts):
            dense = work.pulled[host].dense
            if dense is not None:
                part.put(work.dense, dense)

    def learn(self, work: BatchWork) -> None:
        """Nothing to do: hosts learn."""

    def settle(self, unit: BatchKey, works: Sequence[BatchWork], host: int, settles: int = 0) -> PushedGradients:
        """Return the gradients of a unit of batches, summed in order."""
        with self._phases("push"):
            parts = [self._gradients(work, host) for work in works]
            if len(parts) == 1:
                return parts[0]
            rows = {name: sum_lanes([part.rows[name] for part in parts]) for name in parts[0].rows}
            dense = [part.dense for part in parts if part.dense is not None]
            total = np.add.reduce(dense) if dense else None
            kept = tuple(seed for part in parts for seed in part.kept)
            samples, loss = sum(p.samples for p in parts), sum(p.loss for p in parts)
            return PushedGradients(rows, total, samples, loss, kept=kept)

    def _gradients(self, work: BatchWork, host: int) -> PushedGradients:
        pulled, rows = work.pulled[host], {}
        for name, routed in work.routed.items() if host < self._hosts else ():
            if name in self._without:
                continue
            low, high = routed.bounds[host], routed.bounds[host + 1]
            if name in self._widths:
                rows[name] = self._to_holder(work, name, slice(low, high), pulled.version)
                continue
            show, click = self._shown.counts(work, name)
            rows[name] = RowGradients(
                routed.ids[low:high],
                work.row_gradients[name][low:high],
                pulled.rows[name],
                None if show is None else show[low:high],
                None if click is None else click[low:high],
                pulled.version,
            )
        samples, loss = (work.read.size, work.loss) if host == 0 else (0, 0.0)
        if self._leaves and host == self._hosts:
            return PushedGradients(rows, kept=work.kept)
        part, holds = self._parts[host], host == self._holder
        dense = part.take(work.gradient) if part.size and not (holds and work.is_all_kept) else None
        return PushedGradients(rows, dense, samples, loss, kept=work.kept if holds else ())

    def _to_holder(self, work: BatchWork, name: str, share: slice, version: int) -> RowGradients:
        """Return the gradient of rows of the stage holder: nothing where it was left there when it was computed."""
        values = work.row_gradients.get(name)
        if values is None:
            return RowGradients(np.empty(0, np.uint64), np.empty((0, self._widths[name]), np.float32), version=version)
        return RowGradients(work.routed[name].ids[share], values[share], version=version)

    def free(self, unit: BatchKey) -> None:
        """Nothing is kept."""

    def refresh(self, host: int, refreshed: Refreshed) -> None:
        """Nothing is kept that could be refreshed: nobody asks for it."""
        raise TypeError(f"host {host} answered a worker that follows nothing")

    def enter(self, attempt: int, trainer: int, terms: tuple[int, ...]) -> None:
        """Any number of attempts may share it."""
        if self._kept is not None:
            self._kept.enter(attempt, terms)

    def belongs_to(self, attempt: int) -> bool:
        """Say yes."""
        return True

    def leave(self, attempt: int, terms: tuple[int, ...], *, whole: bool) -> None:
        """Nothing is kept."""

    @property
    def size(self) -> Exchange:
        """Nothing is kept."""
        return Exchange()


class ShownIds:
    """How often each unique id of a batch was shown and clicked, for the groups that count it."""

    def __init__(self, job: Job) -> None:
        self.groups = {spec.name for spec in job.model.groups if spec.entry is not None or spec.accessor is not None}
        self._label = job.model.label
        self._by_name = {group.name: group for group in job.model.lowered.groups}

    def counts(self, work: BatchWork, group: str) -> tuple[F32 | None, F32 | None]:
        """Return shows and clicks of the unique ids of a group, in their order; None for what nobody counts."""
        if group not in self.groups:
            return None, None
        routed = work.routed[group]
        show = routed.counts()
        if self._label is None:
            return show, None
        label = np.asarray(work.read[self._label], np.float32).reshape(-1)
        per_id = _spread(work.read, self._by_name[group], label)
        click = np.bincount(routed.inverse, weights=per_id, minlength=len(routed)).astype(np.float32)
        return show, click


def _spread(batch: Batch, group: Group, label: F32) -> F32:
    """Return each id's label, in the order of the routed ids."""
    parts = []
    for name in group.ids:
        ids = batch[name]
        counts = np.diff(ids.offsets) if isinstance(ids, Ragged) else ids.size // max(batch.size, 1)
        parts.append(np.repeat(label, counts))
    return np.concatenate(parts)
