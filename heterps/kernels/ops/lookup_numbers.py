"""What a loop over several lookups is told of each: a row of numbers (:mod:`~heterps.kernels.ops.row_loops`).

Most of them stay as they are from batch to batch and are worked out once. Where the ids and lists of a batch lie is
asked once for all lookups, forward and backward: asking NumPy for an address takes a microsecond, in which no other
lane can go on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from heterps.addresses import addresses, places
from heterps.device.arrays import Array
from heterps.errors import DataError
from heterps.kernels.kernel import Call
from heterps.kernels.ops.pointwise import flat_rows
from heterps.kernels.ops.row_loops import FIRST, MEAN, NONE, OFFSETS, PAD, SUM

__all__ = ["POOLINGS", "even_offsets", "padding_row", "run_lookups"]

I64 = npt.NDArray[np.int64]
POOLINGS = {"none": NONE, "sum": SUM, "mean": MEAN}
_PLACES, _PADDING = "places", "padding rows"  # what lookups of one batch share


class Fixed(NamedTuple):
    """What a loop knows of some lookups before it sees a batch."""

    vectors: list[Array]  # what they write, or read gradients from: kept, so that no other array has their identity
    flat: Array  # the first of them, as loops take it
    sources: I64  # the id column of each
    padded: tuple[int, ...]  # those with a padding id
    numbers: I64  # one row each

    def is_of(self, vectors: Sequence[Array]) -> bool:
        """Whether these are the same arrays."""
        return list(map(id, self.vectors)) == list(map(id, vectors))


class BatchPlaces(NamedTuple):
    """Where the ids and lists of a batch lie: an address for each id column."""

    lists: list[Array]
    inverse_at: I64
    lists_at: I64


def run_lookups(run: Callable[..., None], rows: Array, calls: Sequence[Call], vectors: Sequence[Array]) -> None:
    """Call a loop with rows (or their gradients) and the vectors of some lookups of one pull."""
    kept = calls[0].kept
    fixed: Fixed | None = kept.get(run)
    if fixed is None or not fixed.is_of(vectors):
        fixed = kept[run] = _fixed(calls, vectors)
    pulled = calls[0].xs[0]
    of_batch: BatchPlaces | None = pulled.memo.get(_PLACES)
    if of_batch is None:
        of_batch = pulled.memo[_PLACES] = _places(pulled, calls[0])
    inverse, lists = pulled.inverse[fixed.sources[0]].reshape(-1), of_batch.lists[fixed.sources[0]]
    numbers = fixed.numbers.copy()
    numbers[:, FIRST] = places(of_batch.inverse_at[fixed.sources], inverse.itemsize)
    numbers[:, OFFSETS] = places(of_batch.lists_at[fixed.sources], lists.itemsize)
    for k in fixed.padded:
        numbers[k, PAD] = padding_row(calls[k], pulled)
    run(rows, inverse, lists, fixed.flat, numbers)


def _fixed(calls: Sequence[Call], vectors: Sequence[Array]) -> Fixed:
    start = vectors[0].ctypes.data
    numbers = np.array([_numbers(c, each, start) for c, each in zip(calls, vectors, strict=True)], np.int64)
    sources = np.array([c.attrs["source"] for c in calls], np.int64)
    padded = tuple(k for k, c in enumerate(calls) if c.attrs["padding_id"] is not None)
    return Fixed(list(vectors), flat_rows(vectors[0])[0], sources, padded, numbers)


def _numbers(c: Call, vectors: Array, start: int) -> tuple[int, ...]:
    """One row, but for what the batch decides."""
    low, high = c.attrs["columns"]
    n, stride = vectors.shape[0], vectors.strides[0] // vectors.itemsize
    slots = c.xs[0].inverse[c.attrs["source"]].size // max(n, 1)
    at = (vectors.ctypes.data - start) // vectors.itemsize
    return low, high - low, -1, POOLINGS[c.attrs["pooling"]], n, 0, 0, at, stride, slots


def _places(rows: Any, c: Call) -> BatchPlaces:
    each = [rows.offsets_of(k) for k in range(len(rows.inverse))]
    sizes = (array.size // max(c.n, 1) for array in rows.inverse)
    lists = [even_offsets(c.xp, c.n, n) if own is None else own for own, n in zip(each, sizes, strict=True)]
    return BatchPlaces(lists, addresses(rows.inverse), addresses(lists))


@lru_cache(maxsize=64)
def even_offsets(xp: Any, n: int, slots: int) -> Array:
    """Offsets of lists that are all of one length."""
    return xp.arange(n + 1, dtype=xp.int64) * slots


def padding_row(c: Call, rows: Any) -> int:
    """Row of the padding id, -1 where the batch has none."""
    known, id_ = rows.memo.setdefault(_PADDING, {}), c.attrs["padding_id"]
    if rows.ids is None:
        raise DataError("a lookup with a padding id needs Rows.ids (the unique ids of the batch)")
    if id_ not in known:
        found = np.flatnonzero(np.asarray(rows.ids) == np.uint64(id_))
        known[id_] = int(found[0]) if len(found) else -1
    return int(known[id_])
