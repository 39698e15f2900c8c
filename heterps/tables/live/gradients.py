"""What a push carries, what came of it, and the sum of several lanes' gradients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from heterps.compiled import entry_loop
from heterps.errors import TableError
from heterps.tables.hashing import check_ids
from heterps.tables.loops.store import GradientColumns

__all__ = ["NOTHING", "PushCounts", "RowGradients", "sum_lanes"]

U64 = npt.NDArray[np.uint64]
U32 = npt.NDArray[np.uint32]
F32 = npt.NDArray[np.float32]

_NONE32: F32 = np.empty(0, np.float32)
_NO_ROWS: U32 = np.empty(0, np.uint32)


@dataclass(frozen=True, eq=False)
class RowGradients:
    """Gradients of the rows of a group.

    Parameters
    ----------
    ids
        Each id once.
    values
        ``[len(ids), width]`` float32, summed over the batch.
    rows
        Where a pull found the rows: a hint that saves a search and may be wrong or absent.
    show, click
        Times each id was shown and clicked in the batch, for accessors, entries and scaled rules.
    version
        The shard's version at the pull, from which staleness follows.
    """

    ids: U64
    values: F32
    rows: U32 | None = None
    show: F32 | None = None
    click: F32 | None = None
    version: int | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, at: npt.NDArray[np.int64]) -> RowGradients:
        """Return the gradients at some positions, without hints."""
        show, click = (None if x is None else x[at] for x in (self.show, self.click))
        return RowGradients(self.ids[at], self.values[at], None, show, click, self.version)

    def check(self, group: str, width: int) -> None:
        """Raise unless all arrays fit each other and the group."""
        n = len(self.ids)
        if self.values.shape != (n, width) or self.values.dtype != np.float32:
            raise TableError(
                f"group {group!r}: gradients must be float32 of shape {(n, width)}, "
                f"got {self.values.dtype} of shape {self.values.shape}"
            )
        for name in ("rows", "show", "click"):
            array = getattr(self, name)
            if array is not None and array.shape != (n,):
                raise TableError(f"group {group!r}: {name} must have one element an id, got shape {array.shape}")

    def columns(self, group: str) -> GradientColumns:
        """Return them as compiled loops take them: contiguous arrays, empty ones for what is absent."""
        values = np.ascontiguousarray(self.values).reshape(-1)
        return GradientColumns(
            check_ids(self.ids, f"group {group!r}"),
            _NO_ROWS if self.rows is None else self.rows,
            values,
            values.view(np.uint32),
            _NONE32 if self.show is None else np.ascontiguousarray(self.show, np.float32),
            _NONE32 if self.click is None else np.ascontiguousarray(self.click, np.float32),
        )


class PushCounts(NamedTuple):
    """Rows of a push: updated, skipped for NaN or Inf, created, and dropped because no entry admitted the id."""

    applied: int = 0
    skipped: int = 0
    created: int = 0
    dropped: int = 0

    def plus(self, other: PushCounts) -> PushCounts:
        """Return the sum."""
        return PushCounts(*(a + b for a, b in zip(self, other, strict=True)))


NOTHING = PushCounts()


@entry_loop
def _add_rows(values: F32, where: npt.NDArray[np.int64], out: F32) -> None:
    for i in range(where.size):
        for j in range(out.shape[1]):
            out[where[i], j] += values[i, j]


def sum_lanes(lanes: Sequence[RowGradients]) -> RowGradients:
    """Return the sum over lanes, added in lane order, of gradients per id.

    Ids come out in ascending order, so the result depends on the lanes' contents and order only.
    """
    if len(lanes) == 1:
        return lanes[0]
    ids, where = np.unique(np.concatenate([lane.ids for lane in lanes]), return_inverse=True)
    values = np.zeros((len(ids), lanes[0].values.shape[1]), np.float32)
    bounds = np.cumsum([0, *map(len, lanes)])
    parts = [where[a:b] for a, b in pairwise(bounds)]
    for lane, part in zip(lanes, parts, strict=True):
        _add_rows(np.ascontiguousarray(lane.values), part, values)
    versions = [lane.version for lane in lanes if lane.version is not None]
    show, click = (_sum_counts([getattr(lane, name) for lane in lanes], parts, len(ids)) for name in ("show", "click"))
    return RowGradients(ids, values, _merge_rows(lanes, parts, len(ids)), show, click, min(versions, default=None))


def _sum_counts(counts: Sequence[F32 | None], parts: Sequence[npt.NDArray[np.int64]], n: int) -> F32 | None:
    if all(count is None for count in counts):
        return None
    total = np.zeros(n, np.float32)
    for count, part in zip(counts, parts, strict=True):
        if count is not None:
            total[part] += count  # ids of one lane are unique
    return total


def _merge_rows(lanes: Sequence[RowGradients], parts: Sequence[npt.NDArray[np.int64]], n: int) -> U32 | None:
    rows = np.empty(n, np.uint32)
    for lane, part in zip(lanes, parts, strict=True):
        if lane.rows is None:
            return None
        rows[part] = lane.rows
    return rows
