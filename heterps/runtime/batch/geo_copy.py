"""Geo: a worker trains on rows and parameters of its own, and settles a range of batches at once.

1. What is settled for a range is what was learned in it and not settled before, divided by the lanes; hosts add it.
2. A settlement is made once and sent as often as it takes; the range of batches is its key, so it counts once.
3. An answer brings what others changed since the moment the worker last heard of, and the host's dense parameters.
   In Sync it is that to the first pull after a range: before it nobody has committed what the range owed.
4. Whoever leaves a range unfinished leaves nothing: its batches are trained again, here or elsewhere, so what was
   learned from them is dropped with the whole copy. The same if a host returned to an earlier state between attempts.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt

from heterps.protocol.words.keys import BatchKey
from heterps.runtime.batch.batch_work import BatchWork
from heterps.runtime.batch.copy_user import CopyUser
from heterps.runtime.batch.exchange import Exchange
from heterps.runtime.batch.job import Job
from heterps.runtime.batch.payload import Pulled, PushedGradients, Refreshed, Wanted
from heterps.runtime.batch.phases import Phases
from heterps.runtime.batch.settlement import Learned, Settlement
from heterps.runtime.batch.working_copy import ShownIds
from heterps.tables import LocalDense, LocalRows, Moment
from heterps.tables.hashing import shards_of

__all__ = ["GeoCopy"]

F32 = npt.NDArray[np.float32]


class GeoCopy(CopyUser):
    """The rows and dense parameters of one bench.

    Parameters
    ----------
    job
        What is trained; its lanes divide what is settled.
    phases
        Takes the times.
    own
        Row groups that are trained here; None: all, and the dense parameters.
    """

    learns = True

    def __init__(self, job: Job, phases: Phases, own: Collection[str] | None = None) -> None:
        super().__init__()
        self._job, self._phases, self._whole = job, phases, own is None
        self._groups = [spec for spec in job.model.groups if own is None or spec.name in own]
        ranges = job.model.dense_ranges(job.hosts)
        self._spans = [job.model.span(*r) if self._whole else slice(0, 0) for r in ranges]
        self._owners = np.asarray(job.owners, np.int64)
        self._shown = ShownIds(job)
        self._name = uuid.uuid4().hex  # by which hosts know this copy, together with its worker's number
        self._reader = ""
        self._clear()

    def _clear(self) -> None:
        """Forget everything: rows are asked for when they are needed."""
        model = self._job.model
        self._rows = {spec.name: LocalRows(spec, model.seed, self._job.local_rows) for spec in self._groups}
        self._dense = LocalDense(model.parameters if self._whole else (), model.seed)
        self._dense.set_rate(self._job.rate)
        for rows in self._rows.values():
            rows.set_rate(self._job.rate)
        self._without_dense = {host for host, span in enumerate(self._spans) if span.stop > span.start}
        self._moments: dict[int, Moment] = {}  # by host: up to when its changes were heard
        self._versions: dict[int, int] = {}  # by host: how many pushes it had applied then
        self._unit: BatchKey | None = None  # the range that is being learned
        self._learned = Learned()
        self._since_settled = 0  # batches
        self._owed: dict[BatchKey, Settlement] = {}  # ranges whose settlement is on its way
        self._curious: set[int] = set()  # Sync: hosts that have more than was heard of them

    # --- who trains on it

    def enter(self, attempt: int, trainer: int, terms: tuple[int, ...]) -> None:
        """Let an attempt train on it."""
        super().enter(attempt, trainer, terms)
        self._reader = f"{trainer}/{self._name}"

    # --- a batch

    def wanted(self, work: BatchWork, host: int) -> Wanted | None:
        """Return the rows of a batch that are not here, or in doubt."""
        ids = {}
        with self._phases("pull"):
            for name, local in self._rows.items():
                mine = work.routed[name].of(host)
                lacking = local.lacking(mine)
                ids[name] = mine[lacking] if lacking.any() else mine[:0]
        span = self._spans[host]
        dense = np.empty(span.stop - span.start, np.float32) if host in self._without_dense else None
        since = self._moments.get(host) if host in self._curious else None
        reader = self._reader if since is not None or host not in self._moments else ""
        if dense is None and not reader and not any(map(len, ids.values())):
            return None
        return Wanted(ids, dense=dense, reader=reader, since=since)

    def take(self, work: BatchWork, host: int, wanted: Wanted | None, pulled: Pulled) -> None:
        """Take what others changed, where that was asked for, and rows that were lacking."""
        assert wanted is not None
        if pulled.news is not None:
            self._curious.discard(host)
            self.refresh(host, pulled.news)
        if pulled.moment is not None:
            self._moments[host], self._versions[host] = pulled.moment, pulled.version
        doubted = pulled.version < self._versions.get(host, 0)
        with self._phases("pull"):
            for name, ids in wanted.ids.items():
                if len(ids):
                    self._rows[name].take(ids, pulled.values[name], doubted=doubted)
            if pulled.dense is not None and not doubted:
                self._dense.hear(self._spans[host], pulled.dense)
                self._without_dense.discard(host)

    def fill(self, work: BatchWork) -> None:
        """Copy the rows of a batch to its buffers; parameters are lent."""
        with self._phases("pull"):
            for name, rows in self._rows.items():
                work.local[name] = rows.read(work.routed[name].ids, work.rows(name, rows.spec.width))
            if self._whole:
                work.dense = self._dense.values

    def learn(self, work: BatchWork) -> None:
        """Apply the rules to what is here."""
        if self._unit is not None and work.key.n >= self._unit.n + self._job.mode.span:
            self._close_unit()
        if self._unit is None:
            self._unit = work.key
        step = self._versions.get(0, 0) * self._job.mode.unit + self._since_settled
        with self._phases("rule"):
            skipped = self._dense.learn(work.gradient, step) if self._whole else 0
            for name, rows in self._rows.items():
                counts, ids = self._shown.counts(work, name), work.routed[name].ids
                skipped += rows.learn(ids, work.row_gradients[name], work.local[name], step, *counts)
        self._since_settled += 1
        self._learned.samples += work.read.size
        self._learned.loss += work.loss
        self._learned.skipped += skipped

    # --- a range

    def settle(self, unit: BatchKey, works: Sequence[BatchWork], host: int, settles: int = 0) -> PushedGradients:
        """Return a host's share of what is owed for a range."""
        if unit not in self._owed:
            assert unit == self._unit, f"{unit} is settled, but {self._unit} was learned"
            self._close_unit()
        owed = self._owed[unit]
        with self._phases("push"):
            rows = owed.rows_of(host, self._versions.get(host), self._shown.groups)
        learned = owed.learned_at(host)
        return PushedGradients(
            rows,
            owed.dense[self._spans[host]],
            learned.samples,
            learned.loss,
            learned.skipped,
            "" if self._job.mode.ordered else self._reader,
            self._moments.get(host),
        )

    def _close_unit(self) -> None:
        assert self._unit is not None
        with self._phases("push"):
            rows = {name: local.settle(self._job.lanes) for name, local in self._rows.items()}
            dense = self._dense.settle(self._job.lanes)
            self._owed[self._unit] = Settlement.of(rows, self._owners, dense, self._learned)
        self._unit, self._learned, self._since_settled = None, Learned(), 0

    def free(self, unit: BatchKey) -> None:
        """Every host has acknowledged a range."""
        self._owed.pop(unit, None)
        if self._job.mode.ordered:
            self._curious = set(self._moments)

    def refresh(self, host: int, refreshed: Refreshed) -> None:
        """Take what others changed; where a host cannot say what, its rows are in doubt."""
        self._moments[host], self._versions[host] = refreshed.moment, refreshed.version
        with self._phases("pull"):
            if refreshed.known:
                for name, rows in refreshed.rows.items():
                    self._rows[name].drop(rows.deleted)
                    self._rows[name].hear(rows.ids, rows.values)
            else:
                for local in self._rows.values():
                    local.doubt(self._owners[shards_of(local.ids, len(self._owners))] == host)
            if refreshed.dense is not None and refreshed.dense.size:
                self._dense.hear(self._spans[host], refreshed.dense)

    @property
    def size(self) -> Exchange:
        """How much is kept here."""
        rows = list(self._rows.values())
        return Exchange(local_rows=sum(map(len, rows)), local_bytes=sum(local.nbytes for local in rows))
