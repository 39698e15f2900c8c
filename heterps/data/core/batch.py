"""What a reader yields: named columns of one batch under its key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.protocol.words.keys import BatchKey
from heterps.ragged import Ragged

__all__ = ["Batch", "Column"]

Column = npt.NDArray[Any] | Ragged


@dataclass(frozen=True, eq=False)
class Batch:
    """``size`` rows as named columns.

    Dense columns are float32 ``[size, width]`` (or ``[size]`` for a scalar such as the label), fixed slots uint64
    ``[size, slots]``, variable-length slots :class:`~heterps.ragged.Ragged` of uint64. A column belongs to the
    receiver until the next batch is asked for.
    """

    key: BatchKey
    size: int
    columns: Mapping[str, Column]

    def __getitem__(self, name: str) -> Column:
        return self.columns[name]

    @property
    def nbytes(self) -> int:
        """Bytes of all columns."""
        return sum(int(np.int64(column.nbytes)) for column in self.columns.values())
