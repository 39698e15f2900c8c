"""What an op yields: shape per sample, dtype and form. The batch dimension is symbolic and never written down."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from heterps.errors import GraphError

__all__ = ["DTYPES", "Form", "TensorType"]

DTYPES = {"float32": 4, "float64": 8, "uint64": 8, "int64": 8, "int32": 4}


class Form(StrEnum):
    """How the values of a batch lie in memory."""

    DENSE = "dense"  # one array [batch, *shape]
    RAGGED = "ragged"  # one list per sample: values and offsets
    ROWS = "rows"  # unique table rows [unique, width] and the index from positions to rows
    SCALAR = "scalar"  # one number per batch (a loss)


@dataclass(frozen=True)
class TensorType:
    """Type of one op's result.

    Parameters
    ----------
    shape
        Shape per sample. For RAGGED the shape of one element's row after the list dimension, ``()`` for ids. For ROWS
        ``(positions, width)``: how many ids a sample looks up and how wide a row is.
    dtype
        One of :data:`DTYPES`.
    form
        Layout, see :class:`Form`.
    mean_length
        RAGGED only: expected elements per sample, used for costs, never for correctness.
    """

    shape: tuple[int, ...] = ()
    dtype: str = "float32"
    form: Form = Form.DENSE
    mean_length: float = 1.0

    def __post_init__(self) -> None:
        if math.prod(self.shape) >= 1 << 63:
            raise GraphError(f"a shape of {self.shape} per sample has more numbers than can be counted")

    @property
    def size(self) -> float:
        """Numbers per sample (expected, for RAGGED)."""
        return math.prod(self.shape) * (self.mean_length if self.form is Form.RAGGED else 1)

    @property
    def bytes(self) -> float:
        """Bytes per sample (expected, for RAGGED)."""
        return self.size * DTYPES[self.dtype]

    def __str__(self) -> str:
        dims = ", ".join(["batch", *map(str, self.shape)])
        if self.form is Form.SCALAR:
            return f"{self.dtype} scalar"
        if self.form is Form.RAGGED:
            return f"{self.dtype} ragged[{dims}, ~{self.mean_length:g}]"
        return f"{self.dtype} {'rows' if self.form is Form.ROWS else ''}[{dims}]"
