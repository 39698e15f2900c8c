"""Forward, backward and cost of every op kind."""

from heterps.kernels.cost import OpCost, OpWork
from heterps.kernels.kernel import Call, Kernel, kernel, kernels, op_cost, register_kernel
from heterps.kernels.ops import (  # noqa: F401  # importing them registers their kernels
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
from heterps.kernels.ops.rows import Lists, Rows
from heterps.kernels.program.param_layout import ParamLayout, ParamPiece
from heterps.kernels.program.program import Gradients, Program
from heterps.kernels.random import batch_seed

__all__ = [
    "Call",
    "Gradients",
    "Kernel",
    "Lists",
    "OpCost",
    "OpWork",
    "ParamLayout",
    "ParamPiece",
    "Program",
    "Rows",
    "batch_seed",
    "kernel",
    "kernels",
    "op_cost",
    "register_kernel",
]
