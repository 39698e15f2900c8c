"""A few gathers that take every branch of ``rows.cu``: ties, padding, empty lists, repeated rows."""

from __future__ import annotations

import numpy as np

from heterps.graph import Form, TensorType, kind
from heterps.kernels import Rows
from heterps.testing.op_cases import OpCase

OFFSETS = np.array([0, 3, 3, 4, 8, 10])
INDEX = np.array([0, 1, 1, 2, 3, 0, -1, 2, 1, 4], np.int32)
VALUES = np.random.default_rng(3).standard_normal((5, 6)).round(1)
VALUES[1] = VALUES[0]  # a tie for the maximum
IDS = np.arange(5, dtype=np.uint64)


def _case(pooling: str, padding: int | None, *, ragged: bool) -> OpCase:
    ids = TensorType((), "uint64", Form.RAGGED, 2.0) if ragged else TensorType((2,), "uint64")
    inverse = INDEX if ragged else INDEX.reshape(5, 2)
    rows = Rows(VALUES, (inverse,), (OFFSETS if ragged else None,), IDS)
    attrs = {"columns": (2, 5), "source": 0, "pooling": pooling, "padding_id": padding}
    types = (TensorType((2, 6), "float32", Form.ROWS), ids)
    return OpCase("gather_pool", attrs, types, (rows, None), {}, 5, kind("gather_pool").result(attrs, types), (0,))


CASES = [
    _case(pooling, padding, ragged=ragged)
    for pooling in ("none", "sum", "mean", "max")
    for padding in (None, 3)
    for ragged in (True, False)
]
