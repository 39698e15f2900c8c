"""Shape rules of ops over images ``(height, width, channels)``."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from heterps.errors import GraphError
from heterps.graph.attribute_types import types_of
from heterps.graph.builtin import ONES, Types, expect_dense, expect_rank
from heterps.graph.builtin_pointwise import expect_vectors, running_params
from heterps.graph.kinds import REQUIRED, Attrs, OpKind, Param, register_kind
from heterps.graph.types import TensorType

__all__ = ["pair"]


def pair(value: Any, what: str, low: int) -> tuple[int, int]:
    """Return (vertical, horizontal) from one number or two."""
    both = tuple(value) if isinstance(value, (tuple, list)) else (value, value)
    if len(both) != 2 or any(not isinstance(v, int) or v < low for v in both):
        raise GraphError(f"{what} must be one or two whole numbers of at least {low}, got {value!r}")
    return both[0], both[1]


def _windows(attrs: Attrs, t: TensorType) -> tuple[int, int]:
    """Height and width of the result of sliding a window."""
    expect_dense(t)
    expect_rank(t, 3, "an image")
    kernel, stride = pair(attrs["kernel"], "kernel", 1), pair(attrs["stride"], "stride", 1)
    padding = pair(attrs["padding"], "padding", 0)
    sizes = [(t.shape[a] + 2 * padding[a] - kernel[a]) // stride[a] + 1 for a in (0, 1)]
    if min(sizes) < 1:
        raise GraphError(f"a window of {kernel} does not fit into {t.shape} with padding {padding}")
    return sizes[0], sizes[1]


def _conv2d(attrs: Attrs, inputs: Types) -> TensorType:
    height, width = _windows(attrs, inputs[0])
    channels, groups = attrs["channels"], attrs["groups"]
    if inputs[0].shape[2] % groups or channels % groups:
        raise GraphError(f"groups must divide {inputs[0].shape[2]} and {channels} channels, got {groups!r}")
    return TensorType((height, width, channels))


def _conv2d_params(attrs: Attrs, inputs: Types) -> tuple[Param, ...]:
    fan_in = math.prod(pair(attrs["kernel"], "kernel", 1)) * inputs[0].shape[2] // attrs["groups"]
    # He et al.: keeps the variance through layers that are followed by a relu.
    init = attrs["init"] or {"kind": "Normal", "std": math.sqrt(2 / fan_in)}
    weight = Param("weight", (fan_in, attrs["channels"]), init)
    return (weight, Param("bias", (attrs["channels"],))) if attrs["bias"] else (weight,)


def _pool(attrs: Attrs, inputs: Types) -> TensorType:
    kernel, padding = pair(attrs["kernel"], "kernel", 1), pair(attrs["padding"], "padding", 0)
    if any(p >= k for p, k in zip(padding, kernel, strict=True)):
        raise GraphError(f"padding {padding} must be smaller than the window {kernel}: a window would see nothing")
    return TensorType((*_windows(attrs, inputs[0]), inputs[0].shape[2]))


def _batch_norm(attrs: Attrs, inputs: Types) -> TensorType:
    expect_vectors(inputs[0])
    return inputs[0]


def _batch_norm_params(attrs: Attrs, inputs: Types) -> tuple[Param, ...]:
    width = inputs[0].shape[-1]
    return (Param("scale", (width,), ONES), Param("shift", (width,)), *running_params(width))


WINDOW = {"kernel": REQUIRED, "stride": 1, "padding": 0}
CONV = {"channels": REQUIRED, **WINDOW, "groups": 1, "bias": True, "init": None}

for _kind in (
    OpKind("conv2d", _conv2d, CONV, params=_conv2d_params, doc="convolution, channels last"),
    OpKind("max_pool", _pool, WINDOW, doc="largest of each window"),
    OpKind("avg_pool", _pool, WINDOW, doc="mean of each window, padding not counted"),
    OpKind(
        "batch_norm",
        _batch_norm,
        {"momentum": 0.9, "eps": 1e-5},
        params=_batch_norm_params,
        doc="normalise each channel over the batch; outside training by running statistics",
    ),
):
    register_kind(replace(_kind, types=types_of(_kind.attrs)))
