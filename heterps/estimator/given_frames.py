"""What people hand to an estimator: arrays, pandas, polars, Arrow, dask.dataframe; and results of the same kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from heterps.data.columnar.raw_rows import raw_rows
from heterps.data.core.schema import Schema
from heterps.errors import DataError

__all__ = [
    "FrameKind",
    "array_columns",
    "as_matrix",
    "as_vector",
    "is_textual",
    "kind_of",
    "pairs_of",
    "plain_vector",
    "table_of",
]

FrameKind = Literal["array", "arrow", "columns", "dask", "pandas", "polars"]


def kind_of(X: Any) -> FrameKind:
    """Say what was given; what is none of the frames is an array, or is to be made into one."""
    if isinstance(X, pa.Table | pa.RecordBatch):
        return "arrow"
    if isinstance(X, Mapping) and not hasattr(X, "shape"):
        return "columns"
    if hasattr(X, "to_delayed") and hasattr(X, "npartitions"):
        return "dask"
    if hasattr(X, "iloc") and hasattr(X, "columns"):
        return "pandas"
    return "polars" if type(X).__module__.split(".")[0] == "polars" and hasattr(X, "columns") else "array"


def table_of(X: Any, kind: FrameKind) -> pa.Table:
    """Return the source columns of a frame, or of an array that was checked, by name."""
    if kind == "array":
        return pa.table({name: X[:, i] for i, name in enumerate(array_columns(X.shape[1]))})
    if not len(X):
        raise DataError("there are no rows, or no columns")
    return raw_rows(X, Schema()).table


def array_columns(count: int) -> tuple[str, ...]:
    """Return the names that the columns of an array go by."""
    return tuple(f"x{i}" for i in range(count))


def is_textual(X: Any) -> bool:
    """Say whether an array holds words, which are categories; objects that are all numbers are numbers."""
    kind = getattr(getattr(X, "dtype", None), "kind", "")
    return kind in "UST" or (kind == "O" and any(isinstance(value, str) for value in np.ravel(X)))


def plain_vector(y: Any) -> Any:
    """Return labels or weights as something scikit-learn's checks take."""
    if isinstance(y, pa.Array | pa.ChunkedArray):
        return y.to_numpy(zero_copy_only=False) if isinstance(y, pa.Array) else y.to_numpy()
    return y.to_numpy() if type(y).__module__.split(".")[0] == "polars" else y


def as_vector(values: npt.NDArray[Any], X: Any, kind: FrameKind) -> Any:
    """Return one value a row as the kind of vector that belongs to the frame."""
    if kind == "pandas":
        import pandas

        return pandas.Series(values, index=X.index)
    if kind == "polars":
        import polars

        return polars.Series(values)
    return pa.array(values) if kind == "arrow" else values


def as_matrix(values: npt.NDArray[Any], names: Sequence[Any], X: Any, kind: FrameKind) -> Any:
    """Return a row of values for each row as a frame of the same kind, its columns named."""
    if kind == "pandas":
        import pandas

        return pandas.DataFrame(values, index=X.index, columns=list(names))
    if kind == "polars":
        import polars

        return polars.DataFrame({str(name): values[:, i] for i, name in enumerate(names)})
    if kind == "arrow":
        return pa.table({str(name): values[:, i] for i, name in enumerate(names)})
    return values


def pairs_of(eval_set: Any) -> Sequence[Any]:
    """Return ``(X, y)`` pairs of one, several or none."""
    if eval_set is None:
        return ()
    return [eval_set] if isinstance(eval_set, tuple) else list(eval_set)
