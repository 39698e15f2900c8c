"""Between a bench and the shard hosts: whose rows a batch is trained on, and what is owed to the hosts for it.

Without a copy of its own a worker asks the hosts for each batch's rows and owes them each batch's gradients
(:class:`NoCopy`). One that trains on rows of its own for a while stands behind the same methods: it asks for what it
lacks, learns from batches itself, and settles a unit of batches at once (docs/adr/0801).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from heterps.data import Batch
from heterps.kernels.program.param_layout import ParamLayout
from heterps.protocol.words.keys import BatchKey
from heterps.ragged import Ragged
from heterps.runtime.batch.batch_work import BatchWork
from heterps.runtime.batch.job import Job
from heterps.runtime.batch.payload import Pulled, PushedGradients, Wanted
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

    def settle(self, unit: BatchKey, works: Sequence[BatchWork], host: int) -> PushedGradients:
        """Return what is owed to a host for a unit of batches, the same whenever it is asked until it is freed."""


class NoCopy:
    """Every batch is trained on what the hosts have: rows are always asked for, gradients are what is owed.

    Parameters
    ----------
    job, walk
        What is trained, and which part of the model batches pass.
    phases
        Takes the times.
    """

    learns = False

    def __init__(self, job: Job, walk: Walk, phases: Phases) -> None:
        self._walk, self._phases = walk, phases
        # By host: its piece of the dense parameters.
        self._spans = [job.model.span(*r) for r in job.dense_ranges]
        graph = walk.graph
        ops = [op.name for op in graph] if walk.ops is None else walk.ops
        self._has_dense = walk.train and ParamLayout(graph, ops).size > 0  # else others compute with them
        self._holder = job.hosts - 1 if job.holder else -1
        self._shown = ShownIds(job)

    def wanted(self, work: BatchWork, host: int) -> Wanted:
        """Return a host's share of unique ids and its range of dense parameters."""
        ids, out = {}, {}
        with self._phases("pull"):
            for group in self._walk.groups:
                routed = work.routed[group.name]
                low, high = routed.bounds[host], routed.bounds[host + 1]
                ids[group.name] = routed.ids[low:high]
                out[group.name] = work.rows(group.name, group.width)[low:high]
            dense = work.dense[self._spans[host]] if self._has_dense else None
        return Wanted(ids, out, dense, self._walk.train)

    def take(self, work: BatchWork, host: int, wanted: Wanted | None, pulled: Pulled) -> None:
        """Note where rows stand; they are in the buffers that were given with the question."""
        work.pulled[host] = pulled

    def fill(self, work: BatchWork) -> None:
        """Nothing to do: hosts have written to the buffers."""

    def learn(self, work: BatchWork) -> None:
        """Nothing to do: hosts learn."""

    def settle(self, unit: BatchKey, works: Sequence[BatchWork], host: int) -> PushedGradients:
        """Return the gradients of a unit of batches, summed in order."""
        with self._phases("push"):
            parts = [self._gradients(work, host) for work in works]
            if len(parts) == 1:
                return parts[0]
            rows = {name: sum_lanes([part.rows[name] for part in parts]) for name in parts[0].rows}
            given = [part.dense for part in parts if part.dense is not None]
            dense = np.add.reduce(given) if given else None
            kept = tuple(seed for part in parts for seed in part.kept)
            return PushedGradients(rows, dense, sum(p.samples for p in parts), sum(p.loss for p in parts), kept)

    def _gradients(self, work: BatchWork, host: int) -> PushedGradients:
        pulled, rows = work.pulled[host], {}
        for name, routed in work.routed.items():
            low, high = routed.bounds[host], routed.bounds[host + 1]
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
        dense = None if host == self._holder and work.is_all_kept else work.gradient[self._spans[host]]
        return PushedGradients(rows, dense, samples, loss, work.kept if host == self._holder else ())


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
