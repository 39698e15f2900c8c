"""Variable-length lists of ids, as two flat arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Ragged"]


@dataclass(frozen=True, eq=False)
class Ragged:
    """A batch of lists: list ``i`` is ``values[offsets[i]:offsets[i + 1]]``.

    Parameters
    ----------
    values
        All elements, one after another.
    offsets
        ``n + 1`` ascending int64 positions; the first is 0 and the last ``len(values)``.
    """

    values: npt.NDArray[Any]
    offsets: npt.NDArray[np.int64]

    def __post_init__(self) -> None:
        if self.offsets.ndim != 1 or len(self.offsets) == 0 or self.offsets[0] != 0:
            raise ValueError("Ragged.offsets must be one-dimensional and start with 0")
        if self.offsets[-1] != len(self.values):
            raise ValueError(f"Ragged.offsets ends at {self.offsets[-1]} but there are {len(self.values)} values")

    @classmethod
    def from_lists(cls, lists: Iterable[Sequence[int]], dtype: npt.DTypeLike = np.uint64) -> Ragged:
        """Build from Python lists (tests and small inputs)."""
        rows = [np.asarray(row, dtype=dtype) for row in lists]
        offsets = np.zeros(len(rows) + 1, np.int64)
        np.cumsum([len(row) for row in rows], out=offsets[1:])
        values = np.concatenate(rows) if rows else np.empty(0, dtype)
        return cls(values.astype(dtype, copy=False), offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, where: slice) -> Ragged:
        start, stop, step = where.indices(len(self))
        if step != 1:
            raise ValueError("Ragged supports contiguous slices only")
        stop = max(stop, start)
        lo, hi = self.offsets[start], self.offsets[stop]
        return Ragged(self.values[lo:hi], self.offsets[start : stop + 1] - lo)

    @property
    def nbytes(self) -> int:
        """Bytes of both arrays."""
        return int(self.values.nbytes + self.offsets.nbytes)

    def tolist(self) -> list[list[Any]]:
        """Return plain Python lists."""
        return [self.values[a:b].tolist() for a, b in zip(self.offsets[:-1], self.offsets[1:], strict=True)]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Ragged):
            return NotImplemented
        return bool(np.array_equal(self.offsets, other.offsets) and np.array_equal(self.values, other.values))

    __hash__ = None  # type: ignore[assignment]
