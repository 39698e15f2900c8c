"""What each op kind is in ONNX: one small function each, which adds nodes and returns the name of the result."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from heterps.export.onnx_builder import OnnxBuilder
from heterps.graph import Op
from heterps.graph.builtin import axes_of
from heterps.graph.builtin_vision import pair

__all__ = ["OPS", "register_onnx"]

Emit = Callable[[OnnxBuilder, Op], str]
OPS: dict[str, Emit] = {}
_HIDDEN = -1e30  # the score of what must not count in a softmax


def register_onnx(kind: str) -> Callable[[Emit], Emit]:
    """Say what an op kind is in ONNX; kinds of other packages come through the same door.

    Examples
    --------
    >>> @register_onnx("sign")
    ... def sign(to: OnnxBuilder, op: Op) -> str:
    ...     return to.node("Sign", *[to.names[name] for name in op.inputs])
    >>> del OPS["sign"]
    """

    def known(emit: Emit) -> Emit:
        OPS[kind] = emit
        return emit

    return known


def _xs(to: OnnxBuilder, op: Op) -> list[str]:
    return [to.names[name] for name in op.inputs]


def _rank(to: OnnxBuilder, op: Op, i: int = 0) -> int:
    return len(to.graph[op.inputs[i]].type.shape)


def _same_rank(to: OnnxBuilder, op: Op) -> list[str]:
    """Return the inputs with per-sample shapes of one length: they are combined from the right, samples apart."""
    rank = len(op.type.shape)
    made = []
    for i, x in enumerate(_xs(to, op)):
        shape = to.graph[op.inputs[i]].type.shape
        made.append(x if len(shape) == rank else to.reshape(x, *(1,) * (rank - len(shape)), *shape))
    return made


@register_onnx("dense")
def _dense(to: OnnxBuilder, op: Op) -> str:
    y = to.node("MatMul", *_xs(to, op), to.weight(op, "weight"))
    return to.node("Add", y, to.weight(op, "bias")) if op.attrs["bias"] else y


@register_onnx("matmul")
def _matmul(to: OnnxBuilder, op: Op) -> str:
    a, b = _xs(to, op)
    return to.node("MatMul", a, to.node("Transpose", b, perm=[0, 2, 1]) if op.attrs["transpose_b"] else b)


@register_onnx("add")
def _add(to: OnnxBuilder, op: Op) -> str:
    y, *rest = _same_rank(to, op)
    for x in rest:
        y = to.node("Add", y, x)
    return y


@register_onnx("sub")
def _sub(to: OnnxBuilder, op: Op) -> str:
    return to.node("Sub", *_same_rank(to, op))


@register_onnx("mul")
def _mul(to: OnnxBuilder, op: Op) -> str:
    return to.node("Mul", *_same_rank(to, op))


@register_onnx("concat")
def _concat(to: OnnxBuilder, op: Op) -> str:
    xs, axis = _xs(to, op), op.attrs["axis"]
    if axis is not None:
        return to.node("Concat", *xs, axis=axes_of(axis, _rank(to, op))[0] + 1)
    sizes = [math.prod(to.graph[name].type.shape) for name in op.inputs]
    return to.node("Concat", *(to.reshape(x, size) for x, size in zip(xs, sizes, strict=True)), axis=1)


@register_onnx("split")
def _split(to: OnnxBuilder, op: Op) -> str:
    (x,), axis = _xs(to, op), axes_of(op.attrs["axis"], _rank(to, op))[0] + 1
    return to.node("Slice", x, to.numbers(op.attrs["start"]), to.numbers(op.attrs["stop"]), to.numbers(axis))


@register_onnx("reshape")
def _reshape(to: OnnxBuilder, op: Op) -> str:
    return to.reshape(_xs(to, op)[0], *op.type.shape)


def _reduced(kind: str) -> Emit:
    def emit(to: OnnxBuilder, op: Op) -> str:
        axes = [axis + 1 for axis in axes_of(op.attrs["axis"], _rank(to, op))]
        return to.reduce(kind, _xs(to, op)[0], axes, op.attrs["keepdims"])

    return emit


OPS["sum"], OPS["mean"] = _reduced("ReduceSum"), _reduced("ReduceMean")


def _pointwise(kind: str) -> Emit:
    return lambda to, op: to.node(kind, *_xs(to, op))


OPS["relu"], OPS["sigmoid"], OPS["tanh"] = _pointwise("Relu"), _pointwise("Sigmoid"), _pointwise("Tanh")
OPS["dropout"] = _pointwise("Identity")


@register_onnx("softmax")
def _softmax(to: OnnxBuilder, op: Op) -> str:
    return to.node("Softmax", *_xs(to, op), axis=axes_of(op.attrs["axis"], _rank(to, op))[0] + 1)


@register_onnx("layer_norm")
def _layer_norm(to: OnnxBuilder, op: Op) -> str:
    scale, shift = to.weight(op, "scale"), to.weight(op, "shift")
    return to.node("LayerNormalization", *_xs(to, op), scale, shift, axis=-1, epsilon=op.attrs["eps"])


@register_onnx("gelu")
def _gelu(to: OnnxBuilder, op: Op) -> str:
    (x,) = _xs(to, op)
    cubed = to.node("Mul", to.node("Mul", x, x), x)
    bent = to.node("Add", x, to.node("Mul", cubed, to.constant(0.044715)))
    t = to.node("Tanh", to.node("Mul", bent, to.constant(math.sqrt(2 / math.pi))))
    return to.node("Mul", to.node("Mul", x, to.constant(0.5)), to.node("Add", t, to.constant(1.0)))


@register_onnx("prelu")
def _prelu(to: OnnxBuilder, op: Op) -> str:
    return to.node("PRelu", *_xs(to, op), to.weight(op, "slope"))


def _normalised(to: OnnxBuilder, op: Op) -> str:
    """Return the input less its running mean, over its running deviation."""
    inverse = 1 / np.sqrt(np.maximum(to.param(op, "variance"), 0) + np.float32(op.attrs["eps"]))
    return to.node("Mul", to.node("Sub", *_xs(to, op), to.weight(op, "mean")), to.constant(inverse))


@register_onnx("batch_norm")
def _batch_norm(to: OnnxBuilder, op: Op) -> str:
    return to.node("Add", to.node("Mul", _normalised(to, op), to.weight(op, "scale")), to.weight(op, "shift"))


@register_onnx("dice")
def _dice(to: OnnxBuilder, op: Op) -> str:
    p = to.node("Sigmoid", _normalised(to, op))
    bend = to.node("Add", to.node("Mul", p, to.constant(1 - to.param(op, "slope"))), to.weight(op, "slope"))
    return to.node("Mul", bend, *_xs(to, op))


def _over_length(to: OnnxBuilder, op: Op, x: str, rank: int) -> str:
    """Return ``1 / sqrt(sum x^2 + eps)`` along the last axis."""
    squares = to.reduce("ReduceSum", to.node("Mul", x, x), [rank], keepdims=True)
    return to.node("Reciprocal", to.node("Sqrt", to.node("Add", squares, to.constant(op.attrs["eps"]))))


@register_onnx("l2_normalize")
def _l2_normalize(to: OnnxBuilder, op: Op) -> str:
    (x,) = _xs(to, op)
    return to.node("Mul", x, _over_length(to, op, x, _rank(to, op)))


@register_onnx("cosine")
def _cosine(to: OnnxBuilder, op: Op) -> str:
    (a, b), rank = _xs(to, op), _rank(to, op)
    dots = to.reduce("ReduceSum", to.node("Mul", a, b), [rank], keepdims=True)
    for x in (a, b):
        dots = to.node("Mul", dots, _over_length(to, op, x, rank))
    return to.node("Squeeze", dots, to.numbers(rank))


def _largest(to: OnnxBuilder, op: Op) -> list[str]:
    return to.many("TopK", [*_xs(to, op), to.numbers(op.attrs["k"])], 2, axis=-1)


@register_onnx("top_k")
def _top_k(to: OnnxBuilder, op: Op) -> str:
    return _largest(to, op)[0]


@register_onnx("top_k_indices")
def _top_k_indices(to: OnnxBuilder, op: Op) -> str:
    return _largest(to, op)[1]


@register_onnx("dot_interaction")
def _dot_interaction(to: OnnxBuilder, op: Op) -> str:
    parts, fields = [], 0
    for x, name in zip(_xs(to, op), op.inputs, strict=True):
        shape = to.graph[name].type.shape
        parts.append(to.reshape(x, 1, *shape) if len(shape) == 1 else x)
        fields += 1 if len(shape) == 1 else shape[0]
    z = to.node("Concat", *parts, axis=1)
    products = to.reshape(to.node("MatMul", z, to.node("Transpose", z, perm=[0, 2, 1])), fields * fields)
    i, j = np.tril_indices(fields, -1)
    return to.node("Gather", products, to.constant(i * fields + j, np.int64), axis=1)


@register_onnx("fm")
def _fm(to: OnnxBuilder, op: Op) -> str:
    (x,) = _xs(to, op)
    sums = to.reduce("ReduceSum", x, [1])
    squares = to.reduce("ReduceSum", to.node("Mul", sums, sums), [1])
    each = to.reduce("ReduceSum", to.node("Mul", x, x), [1, 2])
    return to.node("Mul", to.node("Sub", squares, each), to.constant(0.5))


@register_onnx("cross")
def _cross(to: OnnxBuilder, op: Op) -> str:
    first, x = _xs(to, op)
    names = ("weight",) if to.has_param(op, "weight") else ("down", "up")
    y = x
    for name in names:
        y = to.node("MatMul", y, to.weight(op, name))
    return to.node("Add", to.node("Mul", first, to.node("Add", y, to.weight(op, "bias"))), x)


def _channels_first(to: OnnxBuilder, x: str) -> str:
    return to.node("Transpose", x, perm=[0, 3, 1, 2])


def _channels_last(to: OnnxBuilder, x: str) -> str:
    return to.node("Transpose", x, perm=[0, 2, 3, 1])


def _window(op: Op) -> dict[str, Any]:
    padding = pair(op.attrs["padding"], "padding", 0)
    return {
        "kernel_shape": list(pair(op.attrs["kernel"], "kernel", 1)),
        "strides": list(pair(op.attrs["stride"], "stride", 1)),
        "pads": [*padding, *padding],
    }


@register_onnx("conv2d")
def _conv2d(to: OnnxBuilder, op: Op) -> str:
    kernel, groups = pair(op.attrs["kernel"], "kernel", 1), op.attrs["groups"]
    weight = to.param(op, "weight")
    wide = weight.shape[0] // math.prod(kernel)
    laid = weight.reshape(*kernel, wide, weight.shape[1]).transpose(3, 2, 0, 1)
    inputs = [_channels_first(to, *_xs(to, op)), to.constant(laid)]
    inputs += [to.weight(op, "bias")] if op.attrs["bias"] else []
    return _channels_last(to, to.node("Conv", *inputs, group=groups, **_window(op)))


@register_onnx("max_pool")
def _max_pool(to: OnnxBuilder, op: Op) -> str:
    return _channels_last(to, to.node("MaxPool", _channels_first(to, *_xs(to, op)), **_window(op)))


@register_onnx("avg_pool")
def _avg_pool(to: OnnxBuilder, op: Op) -> str:
    x = _channels_first(to, *_xs(to, op))
    return _channels_last(to, to.node("AveragePool", x, count_include_pad=0, **_window(op)))


@register_onnx("sequence_pool")
def _sequence_pool(to: OnnxBuilder, op: Op) -> str:
    (x,), (name,), pooling = _xs(to, op), op.inputs, op.attrs["pooling"]
    mask = to.node("Unsqueeze", to.mask(x, name, last=pooling == "last"), to.numbers(2))
    total = to.reduce("ReduceSum", to.node("Mul", x, mask), [1])
    if pooling != "mean":
        return total
    return to.node("Div", total, to.node("Max", to.reduce("ReduceSum", mask, [1]), to.constant(1.0)))


@register_onnx("attention")
def _attention(to: OnnxBuilder, op: Op) -> str:
    (query, history), name = _xs(to, op), op.inputs[1]
    mask, dim = to.mask(history, name), to.graph[op.inputs[0]].type.shape[0]
    q = to.node("Expand", to.node("Unsqueeze", query, to.numbers(1)), to.node("Shape", history))
    scores = to.node("Squeeze", _attention_scores(to, op, q, history, dim), to.numbers(2))
    if op.attrs["normalise"]:
        seen = to.node("Where", to.node("Greater", mask, to.constant(0.5)), scores, to.constant(_HIDDEN))
        scores = to.node("Softmax", seen, axis=1)
    weights = to.node("Unsqueeze", to.node("Mul", scores, mask), to.numbers(2))
    return to.reduce("ReduceSum", to.node("Mul", history, weights), [1])


def _attention_scores(to: OnnxBuilder, op: Op, q: str, k: str, dim: int) -> str:
    """Return a score for each element: the small network's, or a scaled dot product; [n, longest, 1]."""
    if not op.attrs["hidden"]:
        dots = to.reduce("ReduceSum", to.node("Mul", q, k), [2], keepdims=True)
        return to.node("Mul", dots, to.constant(1 / math.sqrt(dim)))
    h = to.node("Concat", q, k, to.node("Sub", q, k), to.node("Mul", q, k), axis=2)
    for i in range(len(op.attrs["hidden"]) + 1):
        h = to.node("Sigmoid", h) if i else h
        h = to.node("Add", to.node("MatMul", h, to.weight(op, f"weight{i}")), to.weight(op, f"bias{i}"))
    return h


# What losses predict, without a label.


@register_onnx("logloss")
def _logloss(to: OnnxBuilder, op: Op) -> str:
    return to.node("Sigmoid", to.node("Reshape", to.names[op.inputs[0]], to.numbers(-1)))


OPS["nce"] = _logloss


@register_onnx("sampled_softmax")
def _sampled_softmax(to: OnnxBuilder, op: Op) -> str:
    return to.node("Reshape", to.names[op.inputs[0]], to.numbers(-1))


@register_onnx("softmax_cross_entropy")
def _softmax_cross_entropy(to: OnnxBuilder, op: Op) -> str:
    return to.node("Softmax", to.names[op.inputs[0]], axis=1)


@register_onnx("mse")
def _mse(to: OnnxBuilder, op: Op) -> str:
    return to.names[op.inputs[0]]


@register_onnx("multi_logloss")
def _multi_logloss(to: OnnxBuilder, op: Op) -> str:
    return to.node("Sigmoid", to.names[op.inputs[0]])


@register_onnx("in_batch_softmax")
def _in_batch_softmax(to: OnnxBuilder, op: Op) -> str:
    a, b = (to.names[name] for name in op.inputs[:2])
    dots = to.reduce("ReduceSum", to.node("Mul", a, b), [1])
    return to.node("Mul", dots, to.constant(1 / op.attrs["temperature"]))
