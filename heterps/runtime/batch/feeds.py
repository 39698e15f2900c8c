"""From a batch's columns to what a program is fed: columns as they are, ids to route, pulled rows with their index."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.data import Batch
from heterps.errors import DataError
from heterps.graph import Op
from heterps.kernels.ops.rows import Rows
from heterps.ragged import Ragged
from heterps.stages.lowering import Group
from heterps.tables import Routed

__all__ = ["column_of", "ids_of", "other_columns", "rows_of"]

F32 = npt.NDArray[np.float32]
_TAKEN = ("self", "state", "prediction", "label")


def column_of(batch: Batch, op: Op) -> Any:
    """Return the column that an input op names; say what is there if it is not."""
    if op.name not in batch.columns:
        raise DataError(f"the model reads the column {op.name!r}; the data has {', '.join(batch.columns)}")
    return batch[op.name]


def other_columns(batch: Batch, label: str) -> dict[str, Any]:
    """Return what metrics may use beside the label: all columns whose names mean nothing else to ``update``."""
    return {name: column for name, column in batch.columns.items() if name not in (label, *_TAKEN)}


def ids_of(batch: Batch, group: Group) -> list[npt.NDArray[Any]]:
    """Return the ids that a group is looked up by, a flat array for each id column."""
    parts = []
    for name in group.ids:
        if name not in batch.columns:
            raise DataError(f"the model looks ids up in the column {name!r}; the data has {', '.join(batch.columns)}")
        ids = batch[name]
        parts.append((ids.values if isinstance(ids, Ragged) else ids).reshape(-1))
    return parts


def rows_of(batch: Batch, group: Group, routed: Routed, values: Any) -> Rows:
    """Return the unique rows of a group and, for each of its id columns, which row each id is."""
    start = 0
    inverse: list[npt.NDArray[Any]] = []
    offsets: list[npt.NDArray[Any] | None] = []
    for name in group.ids:
        ids = batch[name]
        flat = ids.values if isinstance(ids, Ragged) else ids
        part = routed.inverse[start : start + flat.size]
        inverse.append(part if isinstance(ids, Ragged) else part.reshape(ids.shape))
        offsets.append(ids.offsets if isinstance(ids, Ragged) else None)
        start += flat.size
    return Rows(values, tuple(inverse), tuple(offsets), routed.ids)
