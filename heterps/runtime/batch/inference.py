"""Forward only: predictions, chosen tensors and metric states of one Split.

Pure but for ``reads``, the ways to the shard hosts; so the same function runs in the calling thread and as a Dask task.
New ids read as zeros and get no rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from heterps.data import BadRow, BadRows, Batch, Dataset, Schema, Split
from heterps.errors import DataError, GraphError
from heterps.graph import Graph
from heterps.graph.types import Form
from heterps.metrics import Metric, State
from heterps.ragged import Ragged
from heterps.runtime.batch.batch_work import BatchWork
from heterps.runtime.batch.bench import Read, Workbench
from heterps.runtime.batch.columns import check_columns
from heterps.runtime.batch.job import PREDICTION, Job
from heterps.runtime.batch.rows_ahead import with_rows
from heterps.runtime.batch.walk import Walk

__all__ = [
    "PREDICTION",
    "Cell",
    "Inference",
    "Inferred",
    "Values",
    "check_readable",
    "columns_read",
    "infer_split",
    "joined",
    "sources_of",
]

Values = npt.NDArray[Any] | Ragged


class Cell(str):
    """The name of a source column that is fetched as it stands, without passing through batches."""


@dataclass(frozen=True, eq=False)
class Inferred:
    """What one Split gave: number of rows, metric states, and the fetched tensors with rows in order."""

    split: int
    samples: int
    states: Mapping[str, State] = field(default_factory=dict)
    fetched: Mapping[str, Values] = field(default_factory=dict)
    bad: tuple[BadRow, ...] = ()
    cells: Any = None  # an Arrow table with a row for each row of the input, bad ones too


def sources_of(graph: Graph, schema: Schema, fetch: Sequence[str], cells: Sequence[str] = ()) -> dict[str, str]:
    """Say where each fetched name comes from: ``prediction``, an output or op of the graph, a column, a source column.

    Returns
    -------
    dict
        For each name the op or column that gives its values, or a :class:`Cell`.
    """
    return {name: _source(graph, schema, name, cells) for name in fetch}


def _source(graph: Graph, schema: Schema, name: str, cells: Sequence[str]) -> str:
    if name == PREDICTION and name not in graph.outputs:
        return PREDICTION
    op = graph.outputs.get(name, name)
    if op in graph:
        if graph[op].kind != "input" and graph[op].type.form is not Form.DENSE:
            raise GraphError(f"cannot fetch {name!r}: it yields {graph[op].type}, not one array row a sample")
        return op
    if name in schema:
        return name
    if name in cells:
        return Cell(name)
    known = [PREDICTION, *graph.outputs, *(o.name for o in graph), *schema.names, *cells]
    raise GraphError(f"nothing to fetch is called {name!r}; there are {', '.join(dict.fromkeys(known))}")


def check_readable(job: Job, schema: Schema, metrics: Sequence[Metric] = (), fetch: Iterable[str] = ()) -> None:
    """Raise a DataError if the data lacks a column for these metrics and sources; only metrics need the label."""
    if metrics and job.model.label is None:
        raise DataError(f"metrics compare with a label, but {job.model.graph.loss!r} computes its own")
    check_columns(job.model.graph, schema, columns_read(job, metrics, fetch))


def columns_read(job: Job, metrics: Sequence[Metric] = (), fetch: Iterable[str] = ()) -> set[str]:
    """Return the columns of batches that these metrics and sources take."""
    sources = {source for source in fetch if not isinstance(source, Cell)}
    walk = Walk.reading(job, metrics, sources)
    graph = walk.graph
    read = {*walk.feeds, *sources, *(name for group in walk.groups for name in group.ids if name not in walk.unread)}
    return {name for name in read if name in graph and graph[name].kind == "input"}


class Inference:
    """A bench that runs forward only; belongs to one thread.

    Parameters
    ----------
    job
        What was trained.
    metrics
        Kept over the rows read.
    fetch
        Name -> source, as :func:`sources_of` gives it.
    where
        Named by errors of ops.
    """

    def __init__(
        self,
        job: Job,
        metrics: Sequence[Metric] = (),
        fetch: Mapping[str, str] | None = None,
        where: str = "this process",
    ) -> None:
        self.job = job
        self.fetch = {name: source for name, source in (fetch or {}).items() if not isinstance(source, Cell)}
        self.cells = {name: source for name, source in (fetch or {}).items() if isinstance(source, Cell)}
        walk = Walk.reading(job, metrics, set(self.fetch.values()))
        self.bench = Workbench(job, walk=walk, where=where)

    def run(self, reads: Sequence[Read], dataset: Dataset, split: Split) -> Inferred:
        """Read one Split with the parameters as they are now; ``reads`` are ways to the hosts, for a batch each."""
        self.bench.refresh(reads[0])
        pieces: dict[str, list[Values]] = {name: [] for name in self.fetch}
        bad, samples = BadRows(dataset.bad_input, keeps=True), 0
        batches = dataset.read(split, batch_size=self.job.batch_size, bad=bad, ring=len(reads) + 1)
        with closing(with_rows(self.bench, reads, batches)) as works:
            for work in works:
                samples += work.read.size
                for name, values in self._values(work).items():
                    pieces[name].append(values)
        fetched = {name: _joined(p) for name, p in pieces.items() if p}
        cells = self._cells(dataset, split) if self.cells else None
        return Inferred(split.index, samples, self.bench.metrics.take(), fetched, tuple(bad.rows), cells)

    def _cells(self, dataset: Dataset, split: Split) -> Any:
        """Return source columns under the names they are fetched by."""
        table = dataset.cells(split, list(dict.fromkeys(map(str, self.cells.values()))))
        return pa.table({name: table[str(source)] for name, source in self.cells.items()})

    def _values(self, work: BatchWork) -> dict[str, Values]:
        """Take a batch that has its rows through the bench; return copies of what is fetched."""
        results = self.bench.forward(work)
        values = {name: _copy(self._value(work.read, source, results)) for name, source in self.fetch.items()}
        self.bench.free(work)
        return values

    def _value(self, batch: Batch, source: str, results: Mapping[str, Any]) -> Values:
        if source == PREDICTION:
            return np.asarray(self.bench.program.prediction)
        return results[source] if source in self.bench.walk.graph.outputs else batch[source]


def infer_split(
    job: Job,
    reads: Sequence[Read],
    dataset: Dataset,
    split: Split,
    metrics: Sequence[Metric] = (),
    fetch: Mapping[str, str] | None = None,
    where: str = "this process",
) -> Inferred:
    """Make an :class:`Inference` and run it on one Split."""
    return Inference(job, metrics, fetch, where).run(reads, dataset, split)


def joined(parts: Iterable[Mapping[str, Values]], names: Iterable[str]) -> dict[str, Values]:
    """Put the tensors of several Splits one behind the other."""
    pieces: dict[str, list[Values]] = {name: [] for name in names}
    for part in parts:
        for name, values in part.items():
            pieces[name].append(values)
    if not all(pieces.values()):
        raise DataError("the dataset has no rows")
    return {name: _joined(values) for name, values in pieces.items()}


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
