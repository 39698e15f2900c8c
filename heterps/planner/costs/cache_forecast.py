"""What an embedding cache will come to: how many of a batch's rows are there, and how many bytes that saves.

Ids are told apart by how often they are met: an id that was in k of n sampled batches is in the next one with
p = k / n. The rows that are met most are those that stay. One of them is asked for, serves the batches that may still
use it, and is asked for again by the next one that needs it; any other is asked for by each batch. Gradients of all of
them are pushed once for each unit in which they are met.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from heterps.graph import Graph
from heterps.planner.costs.sample import Sample
from heterps.planner.ways import CACHE, Way
from heterps.protocol.words.modes import Cached
from heterps.stages.lowering import Group, groups_of
from heterps.tables import GroupSpec, TableSpec, cached_row_bytes

__all__ = ["CacheForecast", "cache_texts", "forecast_cache"]

_BESIDE = 8 + 4  # bytes beside a row's values: its id, and where it stands
_GATHERED = 8  # the same where gradients are gathered, which does without the place
F64 = npt.NDArray[np.float64]


@dataclass(frozen=True)
class CacheForecast:
    """Expected of one row group: share of rows that are there, bytes of rows and gradients with a cache and without."""

    rows: int
    hit_rate: float
    bytes_per_batch: float
    without: float


def forecast_cache(met: Iterable[tuple[int, int]], batches: int, width: int, rows: int, mode: Cached) -> CacheForecast:
    """Return what a cache of so many rows comes to.

    Parameters
    ----------
    met
        How many ids were in so many of the sampled batches: pairs of times and ids.
    batches
        How many were sampled.
    width
        Columns of a row.
    """
    times, ids = np.array(sorted(met, reverse=True), float).reshape(-1, 2).T
    often = np.minimum(times / max(batches, 1), 1.0)
    kept = np.diff(np.minimum(np.cumsum(ids), rows), prepend=0.0)
    used = float(ids @ often)
    asked = float((ids - kept) @ often + kept @ _asked(often, mode))
    pushed = float(ids @ (1 - (1 - often) ** mode.unit)) / mode.unit
    values = 4 * width
    cached = asked * (values + _GATHERED) + pushed * (values + _GATHERED)
    return CacheForecast(rows, 1 - asked / used if used else 0.0, cached, 2 * used * (values + _BESIDE))


def _asked(often: F64, mode: Cached) -> F64:
    """Return how often a batch asks for a row that stays: after an answer, so many batches need not ask.

    What hosts have when a row is asked for lacks what its unit has come to so far, half of it on average.
    """
    serves = max(0.0, mode.staleness - (mode.unit - 1) / 2)
    return often / (1 + serves * often)


def cache_texts(
    graph: Graph, sample: Sample | None, ways: Mapping[str, Way], mode: object, batch_size: int
) -> list[str]:
    """Say what each cache of a plan is expected to come to."""
    if not isinstance(mode, Cached):
        return []
    return list(_texts(graph, sample, ways, mode, batch_size))


def _texts(
    graph: Graph, sample: Sample | None, ways: Mapping[str, Way], mode: Cached, batch_size: int
) -> Iterator[str]:
    for group in groups_of(graph):
        way, name = ways[next(iter(group.tables))], ", ".join(group.tables)
        if way.kind != CACHE or way.number is None:
            continue
        if sample is None or not sample.met.get(group.name):
            yield f"cache of {name}: how often its rows are there is not known; give the planner data (sample=, --data)"
            continue
        rows = way.number // _row_bytes(group) if way.in_bytes else way.number
        told = forecast_cache(sample.met[group.name], sample.batches, group.width, max(rows, 1), mode)
        other = "" if sample.batch_size == batch_size else f", sampled in batches of {sample.batch_size:,}"
        fewer = told.without / max(told.bytes_per_batch, 1)
        yield (
            f"cache of {name}: {told.rows:,} rows, staleness {mode.staleness}: {100 * told.hit_rate:.0f} % of the rows "
            f"of a batch are there, rows and gradients take {fewer:.1f} times fewer bytes ({sample.rows:,} rows were "
            f"looked at{other}); the forecast above does without it"
        )


def _row_bytes(group: Group) -> int:
    return cached_row_bytes(GroupSpec(group.name, (TableSpec(group.name, group.width),)))
