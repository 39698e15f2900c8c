"""What a worker does with a batch: route its ids, collect rows, compute, and hand out gradients by host.

A :class:`Workbench` belongs to one thread and is used for one Split after another; its buffers are made once.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.data import Batch
from heterps.graph import Op
from heterps.kernels.program import Program
from heterps.kernels.random import batch_seed
from heterps.kernels.rows import Rows
from heterps.metrics import Metric, State
from heterps.protocol.keys import BatchKey
from heterps.ragged import Ragged
from heterps.runtime.model import Model
from heterps.runtime.payload import Gradients, Pulled, Wanted
from heterps.runtime.phases import Phases
from heterps.runtime.reading import column_of, ids_of, rows_of
from heterps.stages.lowering import Group, pull_name
from heterps.tables import Routed, Router, RowGradients, sum_lanes

__all__ = ["Work", "Workbench"]

F32 = npt.NDArray[np.float32]


@dataclass(eq=False)
class Work:
    """One batch in flight, with the buffers it fills."""

    dense: F32
    gradient: F32
    values: dict[str, F32] = field(default_factory=dict)
    batch: Batch | None = None
    routed: dict[str, Routed] = field(default_factory=dict)
    pulled: dict[int, Pulled] = field(default_factory=dict)
    row_gradients: dict[str, F32] = field(default_factory=dict)
    loss: float = 0.0

    @property
    def key(self) -> BatchKey:
        """The key of the batch."""
        assert self.batch is not None
        return self.batch.key

    def rows(self, group: str, width: int) -> F32:
        """Return the buffer for the unique rows of a group, enlarged where needed."""
        n = len(self.routed[group])
        buffer = self.values.get(group)
        if buffer is None or len(buffer) < n:
            buffer = self.values[group] = np.empty((n + n // 4, width), np.float32)
        return buffer[:n]


class Workbench:
    """Buffers, routers and the compiled program of one thread.

    Parameters
    ----------
    model
        What is trained.
    batch_size
        Largest number of rows.
    owners
        Host of each logical shard.
    hosts
        Number of shard hosts.
    metrics
        Kept up to date from the predictions of training batches.
    ops
        Ops that run here; None for all.
    depth
        Batches that may be in flight at once.
    """

    def __init__(
        self,
        model: Model,
        batch_size: int,
        owners: Sequence[int],
        hosts: int,
        metrics: Sequence[Metric] = (),
        ops: Sequence[str] | None = None,
        depth: int = 8,
    ) -> None:
        self.model, self.hosts = model, hosts
        self.program = Program(model.lowered.graph, ops, batch_size=batch_size)
        self.phases = Phases()
        self.metrics = {metric.name: (metric, metric.init()) for metric in metrics}
        self._metrics_lock = threading.Lock()
        self._routers = {group.name: Router(owners, depth=depth) for group in model.lowered.groups}
        self._spans = [model.span(*r) for r in model.dense_ranges(hosts)]
        self._free: list[Work] = []
        self._label = model.label
        self._counted = {spec.name for spec in model.groups if spec.entry is not None or spec.accessor is not None}

    # --- the life of a batch

    def begin(self, batch: Batch) -> Work:
        """Route the ids of a batch."""
        work = self._free.pop() if self._free else self._new()
        work.batch, work.pulled = batch, {}
        with self.phases("deduplicate"):
            for group in self.model.lowered.groups:
                work.routed[group.name] = self._routers[group.name].route(ids_of(batch, group))
        return work

    def _new(self) -> Work:
        size = self.model.layout.size
        return Work(np.empty(size, np.float32), np.empty(size, np.float32))

    def wanted(self, work: Work, host: int) -> Wanted:
        """Return what to ask a host for: its share of unique ids, its range of dense parameters."""
        ids, out = {}, {}
        for group in self.model.lowered.groups:
            routed = work.routed[group.name]
            low, high = routed.bounds[host], routed.bounds[host + 1]
            ids[group.name] = routed.ids[low:high]
            out[group.name] = work.rows(group.name, group.width)[low:high]
        return Wanted(ids, out, work.dense[self._spans[host]])

    def compute(self, work: Work) -> None:
        """Forward, loss and backward of a batch whose rows are all there."""
        assert work.batch is not None
        feeds = self.feeds(work)
        with self.phases("forward"):
            self.program.forward(feeds, work.dense, seed=batch_seed(self.model.seed, *work.key))
            work.loss = self.program.loss * work.batch.size
        with self.phases("backward"):
            gradients = self.program.backward(out=work.gradient)
            for group in self.model.lowered.groups:
                work.row_gradients[group.name] = self._keep(work, group, gradients.inputs[pull_name(group)])
        if self.metrics:
            with self.phases("metrics"):
                self._measure(self.program.prediction, work.batch)

    def _keep(self, work: Work, group: Group, gradient: F32) -> F32:
        """The rows were read by forward and backward and are not needed any more: their buffer takes the gradient."""
        rows = work.rows(group.name, group.width)
        np.copyto(rows, gradient)
        return rows

    def feeds(self, work: Work) -> dict[str, Any]:
        """Return what the program reads: columns of the batch, pulled rows."""
        assert work.batch is not None
        feeds: dict[str, Any] = {}
        graph = self.model.lowered.graph
        for name in self.program.feeds:
            op = graph[name]
            feeds[name] = self._rows(work, op) if op.kind == "pull" else column_of(work.batch, op)
        return feeds

    def _rows(self, work: Work, op: Op) -> Rows:
        assert work.batch is not None
        group = self._group(op.attrs["group"])
        return rows_of(work.batch, group, work.routed[group.name], work.rows(group.name, group.width))

    def gradients(self, works: Sequence[Work], host: int) -> Gradients:
        """Return what to push to a host for a unit of batches, summed in order."""
        parts = [self._gradients(work, host) for work in works]
        if len(parts) == 1:
            return parts[0]
        rows = {name: sum_lanes([part.rows[name] for part in parts]) for name in parts[0].rows}
        dense = np.add.reduce([part.dense for part in parts if part.dense is not None])
        return Gradients(rows, dense, sum(p.samples for p in parts), sum(p.loss for p in parts))

    def _gradients(self, work: Work, host: int) -> Gradients:
        assert work.batch is not None
        pulled, rows = work.pulled[host], {}
        for name, routed in work.routed.items():
            low, high = routed.bounds[host], routed.bounds[host + 1]
            show, click = self._counts(work, name, low, high) if name in self._counted else (None, None)
            rows[name] = RowGradients(
                routed.ids[low:high],
                work.row_gradients[name][low:high],
                pulled.rows[name],
                show,
                click,
                pulled.version,
            )
        samples, loss = (work.batch.size, work.loss) if host == 0 else (0, 0.0)
        return Gradients(rows, work.gradient[self._spans[host]], samples, loss)

    def _counts(self, work: Work, group: str, low: int, high: int) -> tuple[F32, F32 | None]:
        """Shows and clicks of the unique ids, for accessors and entries."""
        assert work.batch is not None
        routed = work.routed[group]
        show = routed.counts()[low:high]
        if self._label is None:
            return show, None
        label = np.asarray(work.batch[self._label], np.float32).reshape(-1)
        per_id = _spread(work.batch, self._group(group), label)
        click = np.bincount(routed.inverse, weights=per_id, minlength=len(routed)).astype(np.float32)
        return show, click[low:high]

    def _group(self, name: str) -> Group:
        return next(g for g in self.model.lowered.groups if g.name == name)

    def free(self, work: Work) -> None:
        """Take the buffers of a finished batch back."""
        work.batch = None
        self._free.append(work)

    def _measure(self, prediction: Any, batch: Batch) -> None:
        label = batch[self._label] if self._label else None
        if label is None or isinstance(label, Ragged):
            return
        with self._metrics_lock:  # the driver collects them from another thread
            for name, (metric, state) in self.metrics.items():
                self.metrics[name] = (metric, metric.update(state, prediction, label))

    def take_metrics(self) -> dict[str, State]:
        """Return the states since the last call."""
        with self._metrics_lock:
            states = {name: state for name, (_, state) in self.metrics.items()}
            self.metrics = {name: (metric, metric.init()) for name, (metric, _) in self.metrics.items()}
        return states


def _spread(batch: Batch, group: Group, label: F32) -> F32:
    """Return each id's label, in the order of the routed ids."""
    parts = []
    for name in group.ids:
        ids = batch[name]
        counts = np.diff(ids.offsets) if isinstance(ids, Ragged) else ids.size // max(batch.size, 1)
        parts.append(np.repeat(label, counts))
    return np.concatenate(parts)


def merge_states(metrics: Mapping[str, Metric], a: dict[str, State], b: Mapping[str, State]) -> dict[str, State]:
    """Merge metric states of two workers."""
    return {name: metrics[name].merge(a[name], b[name]) if name in a else b[name] for name in b}
