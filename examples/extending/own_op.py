"""An op of your own: ``softplus(x) = log(1 + exp(x))``, with a slope that is learned for each column.

An op is two values. The *kind* says what can be told without arrays: how many inputs, the shape of the result, which
parameters. The *kernel* computes: forward, backward, and what both cost, by which the planner decides where it runs.
"""

from __future__ import annotations

from heterps import ops
from heterps.errors import GraphError
from heterps.graph import OpKind, Param, register_kind
from heterps.kernels import Kernel, register_kernel
from heterps.kernels.cost import passes


def result_type(attrs, inputs):
    if not inputs[0].shape:
        raise GraphError(f"takes a row of numbers for each sample, got {inputs[0]}")
    return inputs[0]


def parameters(attrs, inputs):
    return (Param("slope", inputs[0].shape[-1:], {"kind": "Constant", "value": 1.0}),)


def forward(c):
    """Write ``c.y``. Array functions come from ``c.xp``: NumPy's on a CPU, CuPy's on a GPU."""
    c.xp.logaddexp(0, c.xs[0] * c.params["slope"], out=c.y)


def backward(c):
    """Write the gradient of the parameter, and of the input where somebody wants it."""
    slope = c.params["slope"]
    upward = c.dy / (1 + c.xp.exp(-c.xs[0] * slope))
    c.dparams["slope"][...] = (upward * c.xs[0]).reshape(-1, slope.size).sum(axis=0)
    if c.dxs[0] is not None:
        c.dxs[0][...] = upward * slope


register_kind(OpKind("softplus", result_type, params=parameters, doc="log(1 + exp(slope x))"))
register_kernel("softplus", Kernel(passes(12), forward, backward))


def softplus(x, *, name=None):
    """Use it like those of ``heterps.ops``."""
    return ops.build("softplus", x, name=name)
