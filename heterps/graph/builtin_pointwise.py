"""Shape rules of further activations and of comparisons between vectors."""

from __future__ import annotations

from dataclasses import replace

from heterps.errors import GraphError
from heterps.graph.attribute_types import types_of
from heterps.graph.builtin import ONES, Types, expect_dense
from heterps.graph.kinds import REQUIRED, Attrs, OpKind, Param, register_kind
from heterps.graph.types import TensorType

__all__ = ["RUNNING", "expect_vectors", "running_params"]

# A running statistic is no parameter that a loss makes small. Its "gradient" is (running - batch) * (1 - momentum), so
# that a plain step of length 1, taken where all parameters are changed, is the moving average.
RUNNING = {"kind": "SGD", "lr": 1.0}


def running_params(width: int) -> tuple[Param, Param]:
    """Return running mean and variance, moved by their own rule."""
    return Param("mean", (width,), rule=RUNNING), Param("variance", (width,), ONES, rule=RUNNING)


def expect_vectors(*types: TensorType) -> None:
    """Refuse inputs without a last axis."""
    expect_dense(*types)
    for i, t in enumerate(types):
        if not t.shape:
            raise GraphError(f"input {i} must have a last dimension, got {t}")


def _same(attrs: Attrs, inputs: Types) -> TensorType:
    expect_dense(inputs[0])
    return inputs[0]


def _same_vectors(attrs: Attrs, inputs: Types) -> TensorType:
    expect_vectors(inputs[0])
    return inputs[0]


def _width(inputs: Types) -> int:
    return inputs[0].shape[-1] if inputs[0].shape else 1


def _prelu_params(attrs: Attrs, inputs: Types) -> tuple[Param, ...]:
    return (Param("slope", (_width(inputs),), {"kind": "Constant", "value": attrs["first"]}),)


def _dice_params(attrs: Attrs, inputs: Types) -> tuple[Param, ...]:
    width = inputs[0].shape[-1]
    return (Param("slope", (width,)), *running_params(width))


def _cosine(attrs: Attrs, inputs: Types) -> TensorType:
    expect_vectors(*inputs)
    if inputs[0].shape != inputs[1].shape:
        raise GraphError(f"both inputs must have one shape, got {inputs[0].shape} and {inputs[1].shape}")
    return TensorType(inputs[0].shape[:-1])


def _top(attrs: Attrs, inputs: Types, dtype: str) -> TensorType:
    expect_vectors(inputs[0])
    width, k = inputs[0].shape[-1], attrs["k"]
    if k > width:
        raise GraphError(f"k must be 1 to {width}, the length of the last axis, got {k!r}")
    return TensorType((*inputs[0].shape[:-1], k), dtype)


def _top_k(attrs: Attrs, inputs: Types) -> TensorType:
    return _top(attrs, inputs, "float32")


def _top_k_indices(attrs: Attrs, inputs: Types) -> TensorType:
    return _top(attrs, inputs, "int64")


DICE = {"momentum": 0.99, "eps": 1e-8}

for _kind in (
    OpKind("gelu", _same, doc="x times the normal distribution function, tanh form"),
    OpKind("prelu", _same, {"first": 0.25}, params=_prelu_params, doc="x, or slope x below 0, slope learnt"),
    OpKind("dice", _same_vectors, DICE, params=_dice_params, doc="prelu that bends by the batch's statistics (DIN)"),
    OpKind("cosine", _cosine, {"eps": 1e-12}, (2, 2), doc="cosine of the angle between vectors"),
    OpKind("l2_normalize", _same_vectors, {"eps": 1e-12}, doc="last axis to length 1"),
    OpKind("top_k", _top_k, {"k": REQUIRED}, doc="the k largest along the last axis, largest first"),
    OpKind("top_k_indices", _top_k_indices, {"k": REQUIRED}, doc="where the k largest stand"),
):
    register_kind(replace(_kind, types=types_of(_kind.attrs)))
