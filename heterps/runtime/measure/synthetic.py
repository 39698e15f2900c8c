"""Batches made up to fit a graph, where no data was given."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.graph import Form, Graph
from heterps.ragged import Ragged
from heterps.stages.drawn import drawing_ops, with_drawn

__all__ = ["synthetic_batch"]

_ZIPF = 1.1
_VOCABULARY = 100_000


def synthetic_batch(graph: Graph, n: int, seed: int = 0) -> dict[str, Any]:
    """Columns as a graph declares them: normal numbers, 0/1 labels, ids by a Zipf law."""
    rng = np.random.default_rng(seed)
    columns = {op.name: _column(op.type, n, rng) for op in graph.inputs}
    return dict(with_drawn(drawing_ops(graph), columns, n, seed))


def _column(type_: Any, n: int, rng: np.random.Generator) -> Any:
    if type_.form is Form.RAGGED:
        lengths = rng.poisson(type_.mean_length, n)
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        return Ragged(_ids(int(offsets[-1]), rng), offsets)
    shape = (n, *type_.shape)
    if type_.dtype == "uint64":
        slots = np.arange(math.prod(type_.shape), dtype=np.uint64).reshape(type_.shape) * np.uint64(_VOCABULARY)
        return _ids(math.prod(shape), rng).reshape(shape) + slots
    if type_.dtype == "float32":
        return rng.standard_normal(shape, dtype=np.float32) if type_.shape else rng.integers(0, 2, n).astype(np.float32)
    return rng.integers(0, 2, shape).astype(type_.dtype)


def _ids(n: int, rng: np.random.Generator) -> npt.NDArray[np.uint64]:
    return (rng.zipf(_ZIPF, n) % _VOCABULARY).astype(np.uint64)
