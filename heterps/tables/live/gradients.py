"""What a push carries, and the sum of several lanes' gradients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from heterps.errors import TableError
from heterps.tables.loops.jit import entry_loop

__all__ = ["RowGradients", "sum_lanes"]

U64 = npt.NDArray[np.uint64]
U32 = npt.NDArray[np.uint32]
F32 = npt.NDArray[np.float32]


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
