"""What is in a snapshot, and what differs between two: the figures behind ``heterps inspect``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.tables.hashing import shards_of
from heterps.tables.snapshots.chain import Chain, find_generation, read_rows
from heterps.tables.snapshots.disk import guarded
from heterps.tables.snapshots.manifest import Manifest
from heterps.tables.snapshots.snapshot import DENSE
from heterps.tables.specs.spec import GroupSpec, TableSpec

__all__ = ["Comparison", "TableReport", "compare", "describe"]

F64 = npt.NDArray[np.float64]
Columns = dict[str, npt.NDArray[Any]]

#: Rows of both snapshots that a comparison holds in memory at a time.
CHUNK_ROWS = 1 << 22
_BINS = 10


@dataclass(frozen=True)
class TableReport:
    """One table of a snapshot.

    ``top`` are the ids with the highest score (norm where rows have no counters); ``counts[i]`` rows have a norm
    between ``edges[i]`` and ``edges[i + 1]``.
    """

    table: TableSpec
    group: str
    rows: int
    size: int
    ranked_by: str
    top: tuple[tuple[int, float], ...]
    edges: tuple[float, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True)
class Comparison:
    """One table in two snapshots: rows added and deleted from the first to the second, changed and unchanged ones,
    and the largest changes by id.
    """

    table: str
    added: int
    changed: int
    deleted: int
    unchanged: int
    largest: float
    mean: float
    top: tuple[tuple[int, float], ...]


def describe(path: str | Path, *, top: int = 10) -> tuple[Path, Manifest, tuple[TableReport, ...]]:
    """Return the folder, the manifest and a report of each table of a snapshot."""
    folder = find_generation(path)
    chain = Chain(folder)
    pairs = [(group, table) for group in chain.manifest.groups for table in group.tables]
    with guarded(folder), np.errstate(all="ignore"):  # values may be infinite or NaN: figures then say so
        return folder, chain.manifest, tuple(_describe(chain, group, table, top) for group, table in pairs)


def _describe(chain: Chain, group: GroupSpec, table: TableSpec, top: int) -> TableReport:
    wanted = ["id", table.name, *(["show", "click"] if group.accessor else [])]
    norms: list[npt.NDArray[np.float64]] = []
    best: list[tuple[int, float]] = []

    def take(columns: Columns) -> None:
        nonlocal best
        with np.errstate(all="ignore"):  # a damaged file may hold any number; said here, in the thread that reads
            norms.append(np.linalg.norm(columns[table.name].astype(np.float64), axis=1))
            ranks = norms[-1] if group.accessor is None else group.accessor.score(columns["show"], columns["click"])
            best = _best(best, columns["id"], ranks, top)

    chain.for_each(group, take, columns=wanted, threads=1)
    joined = np.concatenate([*norms, np.empty(0)])
    finite = joined[np.isfinite(joined)]
    counts, edges = np.histogram(finite, _BINS, (0.0, float(finite.max(initial=0)) or 1.0))
    ranked = "norm" if group.accessor is None else "score"
    size, rows = chain.size(group.name), sum(map(len, norms))
    return TableReport(
        table, group.name, rows, size, ranked, tuple(best), tuple(map(float, edges)), tuple(map(int, counts))
    )


def _best(
    best: list[tuple[int, float]], ids: npt.NDArray[Any], ranks: npt.NDArray[Any], n: int
) -> list[tuple[int, float]]:
    at = np.argsort(-ranks, kind="stable")[:n]
    merged = best + [(int(ids[i]), float(ranks[i])) for i in at]
    return sorted(merged, key=lambda pair: (-pair[1], pair[0]))[:n]


def compare(first: str | Path, second: str | Path, *, top: int = 10) -> tuple[Comparison, ...]:
    """Compare two snapshots by id: every table that both have, then the dense parameters."""
    sides = [Chain(find_generation(path)) for path in (first, second)]
    homes = [{t.name: (group, t) for group in chain.manifest.groups for t in group.tables} for chain in sides]
    names = [name for name in homes[0] if name in homes[1] and homes[0][name][1].dim == homes[1][name][1].dim]
    with guarded(Path(first)), guarded(Path(second)), np.errstate(all="ignore"):
        out = [
            _compare(name, [(chain, home[name][0]) for chain, home in zip(sides, homes, strict=True)], top)
            for name in names
        ]
        return (*out, *_compare_dense(sides))


def _compare(table: str, sides: list[tuple[Chain, GroupSpec]], top: int) -> Comparison:
    total = np.zeros(4, np.int64)
    largest, summed = 0.0, 0.0
    best: list[tuple[int, float]] = []
    rows = max(chain.most_rows(group.name) for chain, group in sides)
    chunks = max(1, -(-rows // CHUNK_ROWS))
    for k in range(chunks):
        (ids_a, a), (ids_b, b) = (_chunk(chain, group, table, k, chunks) for chain, group in sides)
        both, at_a, at_b = np.intersect1d(ids_a, ids_b, assume_unique=True, return_indices=True)
        change = np.linalg.norm(a[at_a].astype(np.float64) - b[at_b], axis=1)
        moved = int(np.count_nonzero(change))
        total += (len(ids_b) - len(both), moved, len(ids_a) - len(both), len(both) - moved)
        largest, summed = max(largest, float(change.max(initial=0))), summed + float(change.sum())
        best = _best(best, both[change > 0], change[change > 0], top)
    added, changed, deleted, unchanged = total.tolist()
    return Comparison(table, added, changed, deleted, unchanged, largest, summed / max(changed, 1), tuple(best))


def _chunk(chain: Chain, group: GroupSpec, table: str, k: int, chunks: int) -> tuple[Any, Any]:
    """Return ids and values of the k-th part of a table, parted by id so that it does not depend on the sharding."""
    ids, values = [np.empty(0, np.uint64)], [np.empty((0, group.table(table).dim), np.float32)]

    def take(columns: Columns) -> None:
        mine = shards_of(columns["id"], chunks) == k
        ids.append(columns["id"][mine])
        values.append(columns[table][mine])

    chain.for_each(group, take, columns=["id", table], threads=1)
    return np.concatenate(ids), np.concatenate(values)


def _compare_dense(sides: list[Chain]) -> Iterator[Comparison]:
    newest = [chain.links[0] for chain in sides]
    first, second = ({n: v for file in m.files_of(DENSE) for n, v in _dense(f, file)} for f, m in newest)
    for name in first:
        if name in second and len(first[name]) == len(second[name]):
            change = np.abs(first[name].astype(np.float64) - second[name])
            changed = int(np.count_nonzero(change))
            mean = float(change.sum()) / max(changed, 1)
            yield Comparison(name, 0, changed, 0, len(change) - changed, float(change.max(initial=0)), mean, ())


def _dense(folder: Path, file: Any) -> Iterator[tuple[str, npt.NDArray[Any]]]:
    columns = read_rows(folder, file, ["name", "values"])
    yield from zip(columns["name"], columns["values"], strict=True)
