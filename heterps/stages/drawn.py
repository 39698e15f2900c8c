"""Ids that a model draws instead of reading: columns made for a batch before its rows are pulled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from heterps.graph import Graph, Op
from heterps.kernels.kernel import kernel
from heterps.kernels.random import op_salt
from heterps.mixing import finalise

__all__ = ["drawing_ops", "with_drawn"]


def drawing_ops(graph: Graph) -> tuple[Op, ...]:
    """Return the ops of a graph that draw ids."""
    return tuple(op for op in graph if kernel(op.kind).draw is not None)


def with_drawn(ops: tuple[Op, ...], columns: Mapping[str, Any], rows: int, seed: int) -> Mapping[str, Any]:
    """Return the columns of a batch and those that ``ops`` draw for it, each under its op's name.

    Parameters
    ----------
    ops
        See :func:`drawing_ops`.
    columns, rows
        What was read.
    seed
        64 bits for this batch (:func:`~heterps.kernels.random.batch_seed`): any attempt draws the same.
    """
    if not ops:
        return columns
    return {**columns, **{op.name: _draw(op, rows, finalise(seed ^ op_salt(op.name))) for op in ops}}


def _draw(op: Op, rows: int, seed: int) -> Any:
    draw = kernel(op.kind).draw
    assert draw is not None
    return draw(op.attrs, rows, seed)
