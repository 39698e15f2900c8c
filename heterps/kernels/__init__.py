"""Forward, backward and cost of every op kind."""

from heterps.kernels import (  # noqa: F401  (register)
    activations,
    batch_statistics,
    convolution,
    interactions,
    linear,
    losses,
    many,
    normalise,
    pointwise,
    pooling,
    rows,
    sampling,
    sequence,
    shape,
    similarity,
)
from heterps.kernels.cost import OpCost, Work
from heterps.kernels.kernel import Call, Kernel, kernel, kernels, op_cost, register_kernel
from heterps.kernels.layout import ParamLayout, ParamPiece
from heterps.kernels.program import Gradients, Program
from heterps.kernels.random import batch_seed
from heterps.kernels.rows import Lists, Rows

__all__ = [
    "Call",
    "Gradients",
    "Kernel",
    "Lists",
    "OpCost",
    "ParamLayout",
    "ParamPiece",
    "Program",
    "Rows",
    "Work",
    "batch_seed",
    "kernel",
    "kernels",
    "op_cost",
    "register_kernel",
]
