"""Each op is io or compute, and the reason can be read.

An op that touches a file or a table is io by nature. Any other op is judged by its arithmetic intensity (floating-point
operations per byte moved) against a ridge point: below it a processor waits for memory, above it memory waits for the
processor.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from heterps.graph import Form, Graph, Op
from heterps.kernels.cost import OpCost
from heterps.kernels.kernel import op_cost
from heterps.stages.layers import Bound

__all__ = ["RIDGE_FLOPS_PER_BYTE", "Label", "label"]

# About 30 GFLOP/s over 6 GB/s for one busy CPU core; data-centre GPUs lie at 10 to 20.
RIDGE_FLOPS_PER_BYTE = 5.0


@dataclass(frozen=True)
class Label:
    """The label of one op: what bounds it, why, what it costs per batch, and whether it may be placed freely.

    ``forced`` ops (file or table access) stay on the io side whatever their neighbours do.
    """

    bound: Bound
    reason: str
    cost: OpCost
    forced: bool


def label(
    graph: Graph, batch_size: int, unique_fraction: float, ridge: float = RIDGE_FLOPS_PER_BYTE
) -> Mapping[str, Label]:
    """Label every op of a lowered graph."""
    return {op.name: _label(graph, op, batch_size, unique_fraction, ridge) for op in graph}


def _label(graph: Graph, op: Op, batch_size: int, unique: float, ridge: float) -> Label:
    cost = op_cost(graph, op, batch_size, unique)
    access = graph.kind(op).access
    if access == "file":
        return Label(Bound.IO, f"reads the data, {op.type.bytes:.0f} B a sample", cost, True)
    if access == "table":
        return Label(Bound.IO, f"reads and updates table rows of {op.type.shape[-1] * 4} B", cost, True)
    figures = f"{cost.intensity:.1f} FLOP/B"
    if cost.intensity >= ridge:
        return Label(Bound.COMPUTE, f"{figures}, above the ridge of {ridge:g}", cost, False)
    if op.type.form is Form.SCALAR:
        return Label(Bound.COMPUTE, "ends the forward pass and starts the backward pass", cost, False)
    return Label(Bound.IO, f"{figures}, below the ridge of {ridge:g}", cost, False)
