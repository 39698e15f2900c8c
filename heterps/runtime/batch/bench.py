"""The way of a batch: route its ids, collect rows, compute; what hosts are asked and owed is the working copy's.

A :class:`Workbench` belongs to one thread and is used for one Split after another; its buffers are made once. Training,
evaluation, prediction and the profile's measuring all take their batches through one; a :class:`Walk` says which part
of the model they need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.data import Batch
from heterps.graph import Op
from heterps.kernels.ops.rows import Rows
from heterps.kernels.program.arena import Arena
from heterps.kernels.program.param_layout import ParamLayout
from heterps.kernels.random import batch_seed
from heterps.runtime.batch.batch_work import BatchWork
from heterps.runtime.batch.cache_copy import CacheCopy
from heterps.runtime.batch.crossing import StageOutcome, add_gradients, needs_behind
from heterps.runtime.batch.device_program import DeviceProgram
from heterps.runtime.batch.devices import ChosenDevice
from heterps.runtime.batch.exchange import ExchangeCounter
from heterps.runtime.batch.feeds import column_of, ids_of, rows_of
from heterps.runtime.batch.geo_copy import GeoCopy
from heterps.runtime.batch.job import PREDICTION, Job
from heterps.runtime.batch.kept_metrics import KeptMetrics
from heterps.runtime.batch.mixed_copy import MixedCopy
from heterps.runtime.batch.payload import Pulled, Wanted
from heterps.runtime.batch.phases import Phases
from heterps.runtime.batch.placed import placed
from heterps.runtime.batch.walk import Walk
from heterps.runtime.batch.working_copy import NoCopy, WorkingCopy
from heterps.stages.drawn import drawing_ops, with_drawn
from heterps.stages.lowering import Group, pull_name
from heterps.tables import Router

__all__ = ["Read", "Workbench"]

F32 = npt.NDArray[np.float32]
Read = Callable[[int, Wanted], Pulled]  # from a host, without training; the answer is in the buffers given


class Workbench:
    """Buffers, routers and the compiled program of one thread.

    Parameters
    ----------
    job
        What is trained, and how it is cut into stages: the first runs here.
    walk
        What of the model runs; by default what training needs.
    phases
        Takes the times.
    where
        Named by errors of ops.
    device
        What computes; by default what the job says about the stage that reads.

    Attributes
    ----------
    copy
        What is trained on, and what hosts are owed for it.
    exchange
        Counts what is sent to hosts and comes from them.
    """

    def __init__(
        self,
        job: Job,
        walk: Walk | None = None,
        phases: Phases | None = None,
        where: str = "this process",
        device: ChosenDevice | None = None,
    ) -> None:
        self.job, self.model, self.walk = job, job.model, walk or Walk.training(job)
        self.phases, self._where = phases or Phases(), where
        self.device = device or job.device_here(0)
        self.metrics = KeptMetrics(self.walk.metrics, job.model.label)
        self._routers = {group.name: Router(job.owners_of(group.name), hosts=job.hosts) for group in self.walk.groups}
        self._free: list[BatchWork] = []  # whose buffers wait for another batch
        self._begun = 0  # batches
        self._programs = [self._program()]  # that no batch in flight holds, but the first, which all share
        self.exchange = ExchangeCounter()
        self.copy = self._copy()
        self._drawing = drawing_ops(job.model.graph)
        self._clipped = [piece.span for piece in job.model.layout if piece.rule is None]  # but no running statistics
        self._behind = () if job.fused or not self.walk.train else needs_behind(job, 0)
        # Forward only: the parameters of the program as they were last read, for all batches.
        self._shared = None if self.walk.train else np.empty(self.program.layout.size, np.float32)
        self._changed = True  # whether they are others than those of the last batch

    def _program(self) -> DeviceProgram:
        return self.walk.program(self.job.batch_size, self.device)

    def _copy(self) -> WorkingCopy:
        if self.walk.train and self.job.own_groups:
            return MixedCopy(self.job, self.walk, self.phases)
        if self.walk.train and self.job.mode.adds:
            return GeoCopy(self.job, self.phases)
        if self.walk.train and self.job.mode.has_copy:
            return CacheCopy(self.job, self.phases, self.exchange, self.device)
        return NoCopy(self.job, self.walk, self.phases)

    @property
    def program(self) -> DeviceProgram:
        """The program that computes here."""
        return self._programs[0]

    # --- the life of a batch

    def begin(self, batch: Batch) -> BatchWork:
        """Route the ids of a batch, drawn ones included."""
        work = self._free.pop() if self._free else self._new()
        if self._drawing:
            seed = batch_seed(self.model.seed, *batch.key)
            batch = replace(batch, columns=with_drawn(self._drawing, batch.columns, batch.size, seed))
        self._begun += 1
        work.batch, work.pulled, work.moment = batch, {}, self._begun
        with self.phases("deduplicate"):
            for group in self.walk.groups:
                ids, buffers = ids_of(batch, group), work.routes[group.name]
                work.routed[group.name] = self._routers[group.name].route_parts(ids, buffers)
        return work

    def _new(self) -> BatchWork:
        if self._shared is not None:
            return BatchWork(self._shared, np.empty(0, np.float32))
        shape, memory = (self.model.layout.size,), Arena()  # products read and write them where they lie
        return BatchWork(memory.empty(shape, np.float32), memory.empty(shape, np.float32))

    def refresh(self, read: Read) -> None:
        """Forward only: read the dense parameters as they are now."""
        assert self._shared is not None
        if not self._shared.size:
            return
        flat = np.empty(self.model.layout.size, np.float32)
        for host, ends in enumerate(self.job.dense_ranges):
            span = self.model.span(*ends)
            if span.stop > span.start:
                read(host, Wanted({}, dense=flat[span], train=False))
        np.copyto(self._shared, self._part(flat, self.program.layout))
        self._changed = True

    def wants(self, work: BatchWork) -> dict[int, Wanted]:
        """Forward only: return what to read for a batch, from the hosts that have some of its rows."""
        asked = {host: self.copy.wanted(work, host) for host in range(self.job.hosts)}
        return {host: wanted for host, wanted in asked.items() if wanted and any(map(len, wanted.ids.values()))}

    def pull(self, work: BatchWork, read: Read) -> None:
        """Forward only: read the rows of a batch."""
        work.pulled |= {host: read(host, wanted) for host, wanted in self.wants(work).items()}

    def forward(self, work: BatchWork) -> dict[str, Any]:
        """Forward only: run a batch whose rows are all there; return the outputs of the walk, until the next batch."""
        outputs: dict[str, Any] = {}
        if self.program.feeds:  # else nothing but columns of the data is wanted
            with self.phases("forward"), placed(self._where):
                self._start(work, changed=self._changed)
                self._changed = False
                outputs = self.program.outputs(self.walk.graph.outputs, predicted=self.program.computes_loss)
        self._measure(work, self.program)
        return outputs

    def _start(self, work: BatchWork, changed: bool = True) -> None:
        feeds = self.feeds(work, [name for name in self.program.feeds if name not in self.walk.unread])
        seed = batch_seed(self.model.seed, *work.key)
        self.program.start(feeds, work.dense, changed=changed, train=self.walk.train, seed=seed)

    def compute(
        self,
        work: BatchWork,
        ahead: Callable[[F32, int], None] | None = None,
        between: Callable[[], None] | None = None,
    ) -> None:
        """Forward, loss and backward of a batch whose rows were all asked for and came.

        ``ahead`` is told meanwhile from where on the gradient that is all-reduced is complete; ``between`` is called
        between forward and backward, and may begin and free other batches.
        """
        self.copy.fill(work)
        with self.phases("forward"), placed(self._where):
            self._start(work)
        if between is not None:
            between()
        with self.phases("backward"), placed(self._where):
            # Forward has read the rows and nobody needs them any more: their buffer takes the gradient.
            here = {g.name: work.rows(g.name, g.width) for g in self.walk.groups if g.name not in work.there}
            pulls = {group.name: pull_name(group) for group in self.walk.groups}
            rows = {pulls[name]: buffer for name, buffer in here.items()}
            stay = [pulls[name] for name in work.there]
            self.program.backward(out=work.gradient, rows=rows, reached=self._reached(work, ahead), rows_stay=stay)
            work.row_gradients = here | {name: self.program.row_gradient(pulls[name]) for name in work.there}
        work.loss = self.program.loss * work.read.size
        self.phases.carve(self.program.take_spent())
        self._measure(work, self.program)
        self._learn(work)

    def _learn(self, work: BatchWork) -> None:
        """Clip what was computed, and let what is trained on here have it."""
        clip = self.job.clip
        if clip:
            with self.phases("backward"):
                clip.dense(work.gradient, self._clipped)
                for group in self.walk.groups:
                    for first, last in group.tables.values():
                        clip.rows(work.row_gradients[group.name][:, first:last])
        self.copy.learn(work)

    def _reached(self, work: BatchWork, ahead: Callable[[F32, int], None] | None) -> Callable[[int], None] | None:
        """Return what backward tells of the flat gradient, in terms of the part that is all-reduced."""
        part = self.job.parts[-1]
        if ahead is None or not self.job.reduced or not part.is_view or self.job.clip:  # clipped when it is whole
            return None
        gradient, start = part.take(work.gradient), part.spans[0].start
        return lambda low: ahead(gradient, max(0, low - start))

    def _measure(self, work: BatchWork, made: DeviceProgram | StageOutcome) -> None:
        if self.metrics:
            with self.phases("metrics"):
                self.metrics.update(made.prediction, work.read)

    def _keep(self, work: BatchWork, group: Group, gradient: Any) -> F32:
        """Copy a gradient that was computed elsewhere to the buffer of the rows, which nobody needs any more."""
        rows = work.rows(group.name, group.width)
        np.copyto(rows, gradient)
        return rows

    def lead(self, work: BatchWork) -> tuple[int, dict[str, Any]]:
        """Run the first stage forward; return the batch's seed and what the stages behind it need."""
        seed = batch_seed(self.model.seed, *work.key)
        outputs: dict[str, Any] = {}
        self.copy.fill(work)
        if self.program.has_steps:
            # One program per batch in flight: its buffers are needed again for backward.
            work.program = work.program or (self._programs.pop() if len(self._programs) > 1 else self._program())
            with self.phases("forward"), placed(self._where):
                params = self._part(work.dense, work.program.layout)
                work.program.start(self.feeds(work, work.program.feeds), params, seed=seed)
                outputs = work.program.outputs(self._behind)
        rest = self.feeds(work, [name for name in self._behind if name not in outputs])
        return seed, rest | {name: outputs[name] for name in self._behind if name in outputs}

    def follow(self, work: BatchWork, outcome: StageOutcome) -> None:
        """Take what the stages behind gave back; run the first stage backward."""
        if work.program is not None:
            with self.phases("backward"), placed(self._where):
                given = {name: outcome.gradients.pop(name) for name in work.program.given}
                gradients = work.program.backward(given)
                add_gradients(outcome.gradients, gradients.inputs)
                outcome.dense[0] = gradients.dense
        for group in self.walk.groups:
            gradient = outcome.gradients.get(pull_name(group))
            if gradient is None and group.name in self.job.lent:  # the holder has it
                work.row_gradients.pop(group.name, None)
            else:
                work.row_gradients[group.name] = self._keep(work, group, gradient)
        for stage, flat in outcome.dense.items():
            for here, there in self._spans_of(stage):
                work.gradient[here] = flat[there]
        for stage in set(outcome.kept) - set(outcome.dense):  # the holder adds what it has
            for here, _ in self._spans_of(stage):
                work.gradient[here] = 0
        work.kept = (batch_seed(self.model.seed, *work.key),) if outcome.kept else ()
        work.is_all_kept = bool(outcome.kept) and not any(flat.size for flat in outcome.dense.values())
        work.loss = outcome.loss * work.read.size
        if work.program is not None:
            self.phases.carve(work.program.take_spent())
            self._programs.append(work.program)
            work.program = None
        self._measure(work, outcome)
        self._learn(work)

    def _spans_of(self, stage: int) -> list[tuple[slice, slice]]:
        """Where the parameters of a stage lie among all, and in its own gradient."""
        return list(self.model.layout.spans(ParamLayout(self.model.lowered.graph, self.job.stages[stage])))

    def _part(self, dense: F32, part: ParamLayout) -> F32:
        flat = np.empty(part.size, np.float32)
        for here, there in self.model.layout.spans(part):
            flat[there] = dense[here]
        return flat

    def feeds(self, work: BatchWork, names: Iterable[str]) -> dict[str, Any]:
        """Return columns of the batch and pulled rows by name."""
        graph = self.model.lowered.graph
        ops = [graph[name] for name in names]
        return {op.name: self._rows(work, op) if op.kind == "pull" else column_of(work.read, op) for op in ops}

    def _rows(self, work: BatchWork, op: Op) -> Rows:
        group = self._group(op.attrs["group"])
        return rows_of(work.read, group, work.routed[group.name], self._values(work, group))

    def _values(self, work: BatchWork, group: Group) -> Any:
        """Return the rows of a group: here, on the device, or none where the stage holder lends them."""
        if group.name in work.there:
            return work.there[group.name]
        away = self.walk.train and group.name in self.job.lent
        return np.empty((0, group.width), np.float32) if away else work.rows(group.name, group.width)

    def _group(self, name: str) -> Group:
        return next(g for g in self.model.lowered.groups if g.name == name)

    def free(self, work: BatchWork) -> None:
        """Take the buffers of a finished batch back."""
        work.batch = None
        self._free.append(work)

    def peek(self, fetch: Mapping[str, str]) -> dict[str, Any]:
        """Copy tensors of the batch computed here last: name -> op, or ``prediction``."""
        found = {name: self._look(op) for name, op in fetch.items()}
        return {name: array for name, array in found.items() if array is not None}

    def _look(self, op: str) -> npt.NDArray[Any] | None:
        program = self.program
        if op != PREDICTION:
            return program.look(op)
        return np.array(program.prediction) if program.has_run else None
