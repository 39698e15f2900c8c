"""Forward only: predictions, chosen tensors and metric states of one Split.

Pure but for ``read``, the way to the shard hosts; so the same function runs in the calling thread and as a Dask task.
New ids read as zeros and get no rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import networkx as nx
import numpy as np
import numpy.typing as npt

from heterps.data import BadRow, BadRows, Batch, Dataset, Schema, Split
from heterps.errors import DataError, GraphError
from heterps.graph import Graph
from heterps.graph.types import Form
from heterps.kernels.program.program import Program
from heterps.kernels.random import batch_seed
from heterps.metrics import Metric, State
from heterps.ragged import Ragged
from heterps.runtime.batch.columns import check_columns
from heterps.runtime.batch.feeds import column_of, ids_of, other_columns, rows_of
from heterps.runtime.batch.job import PREDICTION, Job
from heterps.runtime.batch.payload import Pulled, Wanted
from heterps.stages.drawn import drawing_ops, with_drawn
from heterps.stages.lowering import Group, pull_name
from heterps.tables import Router

__all__ = ["PREDICTION", "Inference", "Inferred", "Read", "Values", "infer_split", "joined", "sources_of"]

F32 = npt.NDArray[np.float32]
Read = Callable[[int, Wanted], Pulled]
Values = npt.NDArray[Any] | Ragged


@dataclass(frozen=True, eq=False)
class Inferred:
    """What one Split gave: number of rows, metric states, and the fetched tensors with rows in order."""

    split: int
    samples: int
    states: Mapping[str, State] = field(default_factory=dict)
    fetched: Mapping[str, Values] = field(default_factory=dict)
    bad: tuple[BadRow, ...] = ()


def sources_of(graph: Graph, schema: Schema, fetch: Sequence[str]) -> dict[str, str]:
    """Say where each fetched name comes from: ``prediction``, an output or op of the graph, or a column of the data.

    Returns
    -------
    dict
        For each name the op or column that gives its values.
    """
    return {name: _source(graph, schema, name) for name in fetch}


def _source(graph: Graph, schema: Schema, name: str) -> str:
    if name == PREDICTION and name not in graph.outputs:
        return PREDICTION
    op = graph.outputs.get(name, name)
    if op in graph:
        if graph[op].kind != "input" and graph[op].type.form is not Form.DENSE:
            raise GraphError(f"cannot fetch {name!r}: it yields {graph[op].type}, not one array row a sample")
        return op
    if name in schema:
        return name
    known = [PREDICTION, *graph.outputs, *(o.name for o in graph), *(n for n in schema.names if n not in graph)]
    raise GraphError(f"nothing to fetch is called {name!r}; there are {', '.join(dict.fromkeys(known))}")


class Inference:
    """A program without backward, and the buffers around it; belongs to one thread.

    Parameters
    ----------
    job
        What was trained.
    metrics
        Kept over the rows read.
    fetch
        Name -> source, as :func:`sources_of` gives it.
    """

    def __init__(self, job: Job, metrics: Sequence[Metric] = (), fetch: Mapping[str, str] | None = None) -> None:
        self.job, self.metrics, self.fetch = job, tuple(metrics), dict(fetch or {})
        lowered = job.model.lowered
        self._tensors = {op for op in self.fetch.values() if op in lowered.graph and lowered.graph[op].kind != "input"}
        self._predicts = bool(self.metrics) or PREDICTION in self.fetch.values()
        self.program = self._program(lowered.graph)
        self._unread = set() if self.metrics else _only_for_loss(lowered.graph)
        self.groups = tuple(g for g in lowered.groups if pull_name(g) in self.program.feeds)
        self._routers = {group.name: Router(job.owners, depth=1) for group in self.groups}
        self._params = np.empty(job.model.layout.size, np.float32)
        self._views = {
            f"{op}.{name}": view
            for op, views in job.model.layout.views(self._params).items()
            for name, view in views.items()
        }
        self._rows: dict[str, F32] = {}
        self._drawing = drawing_ops(lowered.graph)

    def _program(self, graph: Graph) -> Program:
        """Only what leads to something wanted: item vectors need no columns of the user's side."""
        roots = self._tensors | ({graph.loss} if self._predicts else set())
        needed = roots.union(*(nx.ancestors(graph.nx, root) for root in roots))
        named = Graph.from_ops(graph.ops, graph.loss, {name: name for name in self._tensors})
        return Program(named, [op.name for op in graph if op.name in needed], batch_size=self.job.batch_size)

    def check(self, schema: Schema) -> None:
        """Raise a DataError if the data lacks a column; the label is needed for metrics only."""
        graph, label = self.program.graph, self.job.model.label
        needed = {name for name in self.program.feeds if graph[name].kind == "input"}
        needed |= {name for group in self.groups for name in group.ids if graph[name].kind == "input"}
        needed -= self._unread
        if self.metrics and label is None:
            raise DataError(f"metrics compare with a label, but {graph.loss!r} computes its own")
        needed |= {name for name in self.fetch.values() if name in graph and graph[name].kind == "input"}
        check_columns(graph, schema, needed)

    def run(self, read: Read, dataset: Dataset, split: Split) -> Inferred:
        """Read one Split with the parameters as they are now."""
        self.refresh(read)
        states = {metric.name: metric.init() for metric in self.metrics}
        pieces: dict[str, list[Values]] = {name: [] for name in self.fetch}
        bad, samples = BadRows(dataset.bad_input, keeps=True), 0
        for batch in map(self._with_drawn, dataset.read(split, batch_size=self.job.batch_size, bad=bad)):
            results = self._forward(read, batch)
            self._measure(states, batch)
            for name, source in self.fetch.items():
                pieces[name].append(_copy(self._value(batch, source, results)))
            samples += batch.size
        return Inferred(
            split.index, samples, states, {name: _joined(p) for name, p in pieces.items() if p}, tuple(bad.rows)
        )

    def _with_drawn(self, batch: Batch) -> Batch:
        if not self._drawing:
            return batch
        seed = batch_seed(self.job.model.seed, *batch.key)
        return replace(batch, columns=with_drawn(self._drawing, batch.columns, batch.size, seed))

    def refresh(self, read: Read) -> None:
        """Pull the dense parameters."""
        model, hosts = self.job.model, self.job.hosts
        for host, span in enumerate(model.span(*r) for r in model.dense_ranges(hosts)):
            if span.stop > span.start:
                _into(self._params[span], read(host, Wanted({}, dense=self._params[span], train=False)).dense)

    def _forward(self, read: Read, batch: Batch) -> dict[str, Any]:
        if not self.program.feeds:  # only columns of the data are wanted
            return {}
        feeds = {group.name: self._pull(read, batch, group) for group in self.groups}
        graph = self.program.graph
        fed: dict[str, Any] = {}
        for name in self.program.feeds:
            op = graph[name]
            if op.kind == "pull":
                fed[name] = feeds[op.attrs["group"]]
            elif name not in self._unread:
                fed[name] = column_of(batch, op)
        return self.program.forward(fed, self._views, train=False)

    def _pull(self, read: Read, batch: Batch, group: Group) -> Any:
        routed = self._routers[group.name].route(ids_of(batch, group))
        rows = self._buffer(group, len(routed))
        for host in range(self.job.hosts):
            low, high = routed.bounds[host], routed.bounds[host + 1]
            if high > low:
                wanted = Wanted({group.name: routed.ids[low:high]}, {group.name: rows[low:high]}, train=False)
                _into(rows[low:high], read(host, wanted).values[group.name])
        return rows_of(batch, group, routed, rows)

    def _buffer(self, group: Group, n: int) -> F32:
        buffer = self._rows.get(group.name)
        if buffer is None or len(buffer) < n:
            buffer = self._rows[group.name] = np.empty((n + n // 4, group.width), np.float32)
        return buffer[:n]

    def _measure(self, states: dict[str, State], batch: Batch) -> None:
        name = self.job.model.label
        if not self.metrics or name is None:
            return
        label: Any = batch[name]
        columns = other_columns(batch, name)
        for metric in self.metrics:
            try:
                states[metric.name] = metric.update(states[metric.name], self.program.prediction, label, **columns)
            except KeyError as error:
                raise DataError(f"metric {metric.name!r}: {error.args[0]}") from error

    def _value(self, batch: Batch, source: str, results: Mapping[str, Any]) -> Values:
        if source == PREDICTION:
            return np.asarray(self.program.prediction)
        return results[source] if source in self._tensors else batch[source]


def infer_split(
    job: Job,
    read: Read,
    dataset: Dataset,
    split: Split,
    metrics: Sequence[Metric] = (),
    fetch: Mapping[str, str] | None = None,
) -> Inferred:
    """Make an :class:`Inference` and run it on one Split."""
    return Inference(job, metrics, fetch).run(read, dataset, split)


def _only_for_loss(graph: Graph) -> set[str]:
    """Label and weight: predictions do not need them, and come out the same with and without."""
    others = graph[graph.loss].inputs[1:]
    return {name for name in others if [op.name for op in graph.consumers(name)] == [graph.loss]}


def joined(parts: Iterable[Mapping[str, Values]], names: Iterable[str]) -> dict[str, Values]:
    """Put the tensors of several Splits one behind the other."""
    pieces: dict[str, list[Values]] = {name: [] for name in names}
    for part in parts:
        for name, values in part.items():
            pieces[name].append(values)
    if not all(pieces.values()):
        raise DataError("the dataset has no rows")
    return {name: _joined(values) for name, values in pieces.items()}


def _into(buffer: F32, values: F32 | None) -> None:
    """A host in this process has written to the buffer itself; an answer from elsewhere is copied to it."""
    if values is not None and not np.may_share_memory(buffer, values):
        np.copyto(buffer, values)


def _copy(values: Values) -> Values:
    if isinstance(values, Ragged):
        return Ragged(values.values.copy(), values.offsets.copy())
    return values.copy()


def _joined(pieces: Sequence[Any]) -> Values:
    if not isinstance(pieces[0], Ragged):
        return np.concatenate(pieces)
    starts = np.cumsum([0, *(len(piece.values) for piece in pieces)])
    offsets = [piece.offsets[:-1] - piece.offsets[0] + start for piece, start in zip(pieces, starts, strict=False)]
    return Ragged(np.concatenate([piece.values for piece in pieces]), np.concatenate([*offsets, starts[-1:]]))
