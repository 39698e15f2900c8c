"""What a look at the data tells: how many ids of a batch are distinct, and how the tables will grow.

The number of distinct ids V after N ids follows Heaps' law closely, ``V = K * N**b``: b near 1 for ids that hardly
repeat, near 0 for a closed set. K and b come from the distinct ids counted while batches go by.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.data import Dataset
from heterps.errors import DataError
from heterps.graph import Graph
from heterps.ragged import Ragged
from heterps.stages.drawn import drawing_ops, with_drawn
from heterps.stages.lowering import groups_of

__all__ = ["Growth", "Sample", "fit_growth", "sample_batches", "sample_dataset"]

_SPLIT_COST = 1 << 20  # small Splits: how many rows there are in all is told by those read to their end


@dataclass(frozen=True)
class Growth:
    """Distinct ids of one row group: ``scale * ids**exponent``, with what was seen of it."""

    scale: float
    exponent: float
    ids: float
    distinct: float

    def rows(self, ids: float) -> float:
        """Distinct ids expected after so many; never fewer than were seen, never more than there are ids."""
        return min(max(self.distinct, self.scale * float(ids**self.exponent)), ids)


@dataclass(frozen=True)
class Sample:
    """What was seen of the data: rows looked at, distinct ids per id of a batch, growth by row group, ids per row.

    ``met`` has for each row group pairs of times and ids: so many ids were in so many of the ``batches``.
    """

    rows: int
    batch_size: int
    unique_fraction: float
    growth: Mapping[str, Growth]
    ids_per_row: Mapping[str, float]
    total_rows: float | None = None
    batches: int = 0
    met: Mapping[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Sample:
        """Inverse of :meth:`to_json`."""
        growth = {name: Growth(**growth) for name, growth in data["growth"].items()}
        met = {name: tuple((times, ids) for times, ids in pairs) for name, pairs in data.get("met", {}).items()}
        return cls(**{**data, "growth": growth, "met": met})


def fit_growth(ids: Sequence[float], distinct: Sequence[float]) -> Growth:
    """Fit Heaps' law to counts taken along the way; the later half counts, since the start is not yet a power law."""
    n, v = np.asarray(ids, float), np.asarray(distinct, float)
    late = slice(len(n) // 2, None) if len(n) > 3 else slice(None)
    if len(n[late]) < 2 or v[-1] < 1:
        return Growth(float(v[-1] / max(n[-1], 1)), 1.0, float(n[-1]), float(v[-1]))
    slope = float(np.polyfit(np.log(n[late]), np.log(v[late]), 1)[0])
    exponent = min(max(slope, 0.0), 1.0)
    return Growth(float(v[-1] / n[-1] ** exponent), exponent, float(n[-1]), float(v[-1]))


class _SeenIds:
    """The ids that were seen, and in how many batches each."""

    def __init__(self) -> None:
        self._ids = np.empty(0, np.uint64)
        self._times = np.empty(0, np.int64)

    def __len__(self) -> int:
        return len(self._ids)

    def add(self, found: npt.NDArray[np.uint64]) -> None:
        """Count the distinct ids of a batch."""
        ids, where = np.unique(np.concatenate([self._ids, found]), return_inverse=True)
        times = np.concatenate([self._times, np.ones(len(found), np.int64)])
        self._ids, self._times = ids, np.bincount(where, weights=times, minlength=len(ids)).astype(np.int64)

    def times(self) -> tuple[tuple[int, int], ...]:
        """Return how many ids were seen so often, most often first."""
        times, ids = np.unique(self._times, return_counts=True)
        return tuple(zip(times[::-1].tolist(), ids[::-1].tolist(), strict=True))


def sample_batches(
    graph: Graph, batches: Iterable[Mapping[str, Any]], *, total_rows: float | None = None, most_rows: int = 200_000
) -> Sample:
    """Count ids in batches (anything that gives columns by name) until ``most_rows`` rows were seen."""
    groups = groups_of(graph)
    seen = {group.name: _SeenIds() for group in groups}
    counts: dict[str, list[tuple[float, float]]] = {group.name: [] for group in groups}
    rows, sizes, unique, looked_up = 0, [0], 0, 0
    drawing = drawing_ops(graph)
    for number, read in enumerate(batches):
        size = _rows(graph, read)
        batch = with_drawn(drawing, read, size, number)
        for group in groups:
            ids = np.concatenate([_flat(batch, name) for name in group.ids])
            found = np.unique(ids)
            unique, looked_up = unique + len(found), looked_up + len(ids)
            seen[group.name].add(found)
            before = counts[group.name][-1][0] if counts[group.name] else 0.0
            counts[group.name].append((before + len(ids), float(len(seen[group.name]))))
        rows, sizes = rows + size, [*sizes, size]
        if rows >= most_rows:
            break
    if not rows:
        raise DataError("the sample has no rows: give the planner data that has some, or none at all")
    growth = {name: fit_growth(*zip(*points, strict=True)) for name, points in counts.items()}
    per_row = {name: growth[name].ids / rows for name in growth}
    met = {name: some.times() for name, some in seen.items()}
    return Sample(rows, max(sizes), unique / max(looked_up, 1), growth, per_row, total_rows, len(sizes) - 1, met)


def sample_dataset(graph: Graph, dataset: Dataset, *, batch_size: int = 4096, most_rows: int = 200_000) -> Sample:
    """Count ids in the first batches of a dataset; its number of rows follows from the size of what was read."""
    small = replace(dataset, split_cost=min(dataset.split_cost, _SPLIT_COST)).shuffle("none")
    splits = small.splits()
    read: list[tuple[int, int]] = []  # cost and rows of Splits read to their end

    def batches() -> Iterator[Mapping[str, Any]]:
        for split in splits:
            rows = 0
            for batch in small.read(split, batch_size=batch_size):
                rows += batch.size
                yield batch.columns
            read.append((split.cost, rows))

    found = sample_batches(graph, batches(), most_rows=most_rows)
    cost, rows = (sum(column) for column in zip(*read, strict=True)) if read else (0, 0)
    known = rows * sum(split.cost for split in splits) / cost if cost > 0 else None
    return replace(found, total_rows=known)


def _flat(batch: Mapping[str, Any], name: str) -> npt.NDArray[np.uint64]:
    column = batch[name]
    values = column.values if isinstance(column, Ragged) else column
    return np.asarray(values, np.uint64).reshape(-1)


def _rows(graph: Graph, batch: Mapping[str, Any]) -> int:
    column = batch[graph.inputs[0].name]
    return len(column.offsets) - 1 if isinstance(column, Ragged) else len(column)
