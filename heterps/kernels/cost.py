"""What one op costs on one batch, and the arithmetic that most kinds share."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from heterps.graph import Param
from heterps.graph.types import TensorType

__all__ = ["OpCost", "OpWork", "parameter_count", "passes", "read_only"]


@dataclass(frozen=True)
class OpCost:
    """Work of one op over one batch, forward and backward together.

    ``flops`` counts a multiply-add as two; ``read_bytes`` and ``written_bytes`` count every array once per pass over
    it; ``parameter_bytes`` is the size of the op's own dense parameters (independent of the batch).
    """

    flops: float = 0.0
    read_bytes: float = 0.0
    written_bytes: float = 0.0
    parameter_bytes: float = 0.0

    def __add__(self, other: OpCost) -> OpCost:
        return OpCost(
            self.flops + other.flops,
            self.read_bytes + other.read_bytes,
            self.written_bytes + other.written_bytes,
            self.parameter_bytes + other.parameter_bytes,
        )

    @property
    def intensity(self) -> float:
        """Floating-point operations per byte moved."""
        moved = self.read_bytes + self.written_bytes
        return self.flops / moved if moved else 0.0


@dataclass(frozen=True)
class OpWork:
    """What a kernel's cost is asked for: one op, its types, the batch."""

    attrs: Mapping[str, Any]
    inputs: tuple[TensorType, ...]
    output: TensorType
    params: tuple[Param, ...]
    batch: int
    unique_fraction: float = 1.0

    def numbers(self, *types: TensorType) -> float:
        """Numbers in tensors of these types, over the batch."""
        return self.batch * sum(t.size for t in types)

    def bytes(self, *types: TensorType) -> float:
        """Bytes in tensors of these types, over the batch."""
        return self.batch * sum(t.bytes for t in types)


def parameter_count(work: OpWork) -> int:
    """Dense parameters of the op."""
    return sum(math.prod(p.shape) for p in work.params)


def passes(flops_per_input: float, *, reads: int = 2) -> Callable[[OpWork], OpCost]:
    """Cost of kinds that pass over their arrays.

    Forward reads the inputs and writes the result; backward reads the result's gradient and, where ``reads`` is 2, the
    inputs (or as much saved data) again, and writes the inputs' gradients. ``flops_per_input`` counts both directions.
    """

    def cost(work: OpWork) -> OpCost:
        inputs, output = work.bytes(*work.inputs), work.bytes(work.output)
        count = parameter_count(work)
        return OpCost(
            flops_per_input * work.numbers(*work.inputs),
            reads * inputs + output + 2 * 4 * count,
            inputs + output + 4 * count,
            4.0 * count,
        )

    return cost


def read_only(work: OpWork) -> OpCost:
    """Cost of reading a column of a file: its bytes arrive once, nothing flows back."""
    return OpCost(0.0, work.bytes(work.output), work.bytes(work.output))
