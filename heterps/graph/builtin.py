"""Shape rules and parameters of the built-in kinds, one small function each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from heterps.errors import GraphError
from heterps.graph.attribute_types import types_of
from heterps.graph.kinds import REQUIRED, Attrs, OpKind, Param, register_kind
from heterps.graph.types import DTYPES, Form, TensorType

__all__: list[str] = []

Types = tuple[TensorType, ...]
Shape = tuple[int, ...]
POOLINGS = ("none", "sum", "mean", "max")
XAVIER = {"kind": "Xavier"}
ONES = {"kind": "Constant", "value": 1.0}


def expect_dense(*types: TensorType) -> None:
    """Refuse anything but dense floating-point inputs."""
    for i, t in enumerate(types):
        if t.form is not Form.DENSE or not t.dtype.startswith("float"):
            raise GraphError(f"input {i} must be a dense float tensor, got {t}")


def expect_rank(t: TensorType, rank: int, what: str = "input") -> None:
    """Refuse another number of per-sample dimensions."""
    if len(t.shape) != rank:
        raise GraphError(f"{what} must have {rank} dimension(s) per sample, got {t}")


def broadcast(a: Shape, b: Shape) -> Shape:
    """Right-aligned broadcasting of per-sample shapes."""
    n = max(len(a), len(b))
    pairs = zip((1,) * (n - len(a)) + a, (1,) * (n - len(b)) + b, strict=True)
    out = []
    for p, q in pairs:
        if p != q and 1 not in (p, q):
            raise GraphError(f"cannot combine shapes {a} and {b} per sample: {p} against {q}")
        out.append(max(p, q))
    return tuple(out)


def axes_of(axis: Any, rank: int) -> tuple[int, ...]:
    """Per-sample axes as sorted non-negative numbers; None means all of them."""
    wanted = range(rank) if axis is None else axis if isinstance(axis, Sequence) else (axis,)
    axes = sorted({a + rank if a < 0 else a for a in wanted})
    if any(a < 0 or a >= rank for a in axes):
        raise GraphError(f"axis {axis} is out of range for {rank} dimension(s) per sample")
    return tuple(axes)


def _input(attrs: Attrs, inputs: Types) -> TensorType:
    if attrs["dtype"] not in DTYPES:
        raise GraphError(f"dtype must be one of {sorted(DTYPES)}, got {attrs['dtype']!r}")
    if any(d < 1 for d in attrs["shape"]):
        raise GraphError(f"shape must be positive whole numbers (without the batch), got {attrs['shape']}")
    if attrs["ragged"] and attrs["shape"]:
        raise GraphError(f"a ragged input has one list per sample: shape must be (), got {attrs['shape']}")
    form = Form.RAGGED if attrs["ragged"] else Form.DENSE
    return TensorType(tuple(attrs["shape"]), attrs["dtype"], form, float(attrs["mean_length"]))


def expect_ids(t: TensorType, what: str = "ids") -> None:
    """Refuse anything but uint64 ids, ragged or one to two fixed dimensions."""
    if t.dtype != "uint64" or t.form not in (Form.DENSE, Form.RAGGED):
        raise GraphError(f"{what} must be uint64 (fixed slots or ragged), got {t}")
    if t.form is Form.DENSE and len(t.shape) > 1:
        raise GraphError(f"{what} must have shape (), or (slots,) per sample, got {t}")


def pooled(ids: TensorType, dim: int, pooling: str) -> TensorType:
    """Type of rows looked up for ``ids`` and pooled."""
    if pooling not in POOLINGS:
        raise GraphError(f"pooling must be one of {POOLINGS}, got {pooling!r}")
    if ids.form is Form.RAGGED and pooling == "none":
        return TensorType((dim,), "float32", Form.RAGGED, ids.mean_length)
    return TensorType((dim,) if pooling != "none" else (*ids.shape, dim))


def _lookup(attrs: Attrs, inputs: Types) -> TensorType:
    expect_ids(inputs[0])
    if not attrs["table"]:
        raise GraphError("needs a table name")
    return pooled(inputs[0], attrs["dim"], attrs["pooling"])


def _pull(attrs: Attrs, inputs: Types) -> TensorType:
    for i, t in enumerate(inputs):
        expect_ids(t, f"input {i}")
    positions = sum(t.mean_length if t.form is Form.RAGGED else math.prod(t.shape) for t in inputs)
    return TensorType((math.ceil(positions), attrs["width"]), "float32", Form.ROWS)


def _gather_pool(attrs: Attrs, inputs: Types) -> TensorType:
    rows, ids = inputs
    if rows.form is not Form.ROWS:
        raise GraphError(f"input 0 must be pulled rows, got {rows}")
    low, high = attrs["columns"]
    return pooled(ids, high - low, attrs["pooling"])


def _dense(attrs: Attrs, inputs: Types) -> TensorType:
    expect_dense(inputs[0])
    if not inputs[0].shape:
        raise GraphError(f"input must have a last dimension to multiply, got {inputs[0]}")
    return TensorType((*inputs[0].shape[:-1], attrs["width"]))


def _dense_params(attrs: Attrs, inputs: Types) -> tuple[Param, ...]:
    fan_in, width = inputs[0].shape[-1], attrs["width"]
    weight = Param("weight", (fan_in, width), attrs["init"] or XAVIER)
    return (weight, Param("bias", (width,))) if attrs["bias"] else (weight,)


def _matmul(attrs: Attrs, inputs: Types) -> TensorType:
    expect_dense(*inputs)
    for i, t in enumerate(inputs):
        expect_rank(t, 2, f"input {i}")
    (m, k), (p, q) = inputs[0].shape, inputs[1].shape
    k2, n = (q, p) if attrs["transpose_b"] else (p, q)
    if k != k2:
        raise GraphError(f"inner dimensions differ: {inputs[0].shape} times {inputs[1].shape} per sample")
    return TensorType((m, n))


def _elementwise(attrs: Attrs, inputs: Types) -> TensorType:
    expect_dense(*inputs)
    shape = inputs[0].shape
    for t in inputs[1:]:
        shape = broadcast(shape, t.shape)
    return TensorType(shape)


def _concat(attrs: Attrs, inputs: Types) -> TensorType:
    expect_dense(*inputs)
    if attrs["axis"] is None:  # flatten each, then join
        return TensorType((sum(math.prod(t.shape) for t in inputs),))
    rank = len(inputs[0].shape)
    (axis,) = axes_of(attrs["axis"], rank)
    first = inputs[0].shape
    for i, t in enumerate(inputs):
        expect_rank(t, rank, f"input {i}")
        if any(t.shape[a] != first[a] for a in range(rank) if a != axis):
            raise GraphError(f"input {i} has shape {t.shape}, which differs from {first} outside axis {axis}")
    return TensorType((*first[:axis], sum(t.shape[axis] for t in inputs), *first[axis + 1 :]))


def _split(attrs: Attrs, inputs: Types) -> TensorType:
    (t,) = inputs
    expect_dense(t)
    (axis,) = axes_of(attrs["axis"], len(t.shape))
    start, stop = attrs["start"], attrs["stop"]
    if not 0 <= start < stop <= t.shape[axis]:
        raise GraphError(f"piece {start}:{stop} does not lie within axis {axis} of {t}")
    return TensorType((*t.shape[:axis], stop - start, *t.shape[axis + 1 :]))


def _reshape(attrs: Attrs, inputs: Types) -> TensorType:
    (t,) = inputs
    expect_dense(t)
    shape, total = tuple(attrs["shape"]), math.prod(t.shape)
    if shape.count(-1) > 1:
        raise GraphError(f"shape may have one -1 at most, got {shape}")
    if -1 in shape:
        rest = math.prod(d for d in shape if d != -1)
        shape = tuple(total // rest if d == -1 and rest else d for d in shape)
    if math.prod(shape) != total:
        raise GraphError(f"cannot reshape {t.shape} ({total} numbers per sample) to {attrs['shape']}")
    return TensorType(shape)


def _reduce(attrs: Attrs, inputs: Types) -> TensorType:
    (t,) = inputs
    expect_dense(t)
    axes = axes_of(attrs["axis"], len(t.shape))
    kept = (1 if i in axes else d for i, d in enumerate(t.shape))
    return TensorType(tuple(d for i, d in enumerate(kept) if attrs["keepdims"] or i not in axes))


def _same(attrs: Attrs, inputs: Types) -> TensorType:
    expect_dense(inputs[0])
    return inputs[0]


def _softmax(attrs: Attrs, inputs: Types) -> TensorType:
    _same(attrs, inputs)
    axes_of(attrs["axis"], len(inputs[0].shape))
    if not inputs[0].shape:
        raise GraphError(f"needs a dimension to normalise over, got {inputs[0]}")
    return inputs[0]


def _layer_norm(attrs: Attrs, inputs: Types) -> TensorType:
    if not inputs[0].shape:
        raise GraphError(f"needs a last dimension to normalise over, got {inputs[0]}")
    return _same(attrs, inputs)


def _layer_norm_params(attrs: Attrs, inputs: Types) -> tuple[Param, ...]:
    width = inputs[0].shape[-1]
    return (Param("scale", (width,), ONES), Param("shift", (width,)))


def _dot_interaction(attrs: Attrs, inputs: Types) -> TensorType:
    expect_dense(*inputs)
    dims = {t.shape[-1] for t in inputs if t.shape}
    if len(dims) != 1 or any(len(t.shape) not in (1, 2) for t in inputs):
        raise GraphError(f"inputs must be (dim,) or (fields, dim) with one dim, got {[t.shape for t in inputs]}")
    fields = sum(1 if len(t.shape) == 1 else t.shape[0] for t in inputs)
    if fields < 2:
        raise GraphError("needs at least two vectors to interact")
    return TensorType((fields * (fields - 1) // 2,))


def _fm(attrs: Attrs, inputs: Types) -> TensorType:
    expect_dense(inputs[0])
    expect_rank(inputs[0], 2)
    return TensorType(())


def _cross(attrs: Attrs, inputs: Types) -> TensorType:
    expect_dense(*inputs)
    expect_rank(inputs[0], 1)
    if inputs[0].shape != inputs[1].shape:
        raise GraphError(f"both inputs must have one shape, got {inputs[0].shape} and {inputs[1].shape}")
    return inputs[0]


def _cross_params(attrs: Attrs, inputs: Types) -> tuple[Param, ...]:
    (n,), rank = inputs[0].shape, attrs["rank"]
    bias = Param("bias", (n,))
    if rank is None:
        return (Param("weight", (n, n), XAVIER), bias)
    return (Param("down", (n, rank), XAVIER), Param("up", (rank, n), XAVIER), bias)


def _scalar_loss(inputs: Types) -> TensorType:
    if len(inputs) == 3:
        expect_dense(inputs[2])
        if math.prod(inputs[2].shape) != 1:
            raise GraphError(f"the weight must be one number per sample, got {inputs[2]}")
    return TensorType((), "float32", Form.SCALAR)


def _logloss(attrs: Attrs, inputs: Types) -> TensorType:
    expect_dense(inputs[0], inputs[1])
    if inputs[0].size != 1 or inputs[1].size != 1:
        raise GraphError(f"logits and label must be one number per sample, got {inputs[0]} and {inputs[1]}")
    return _scalar_loss(inputs)


def _softmax_cross_entropy(attrs: Attrs, inputs: Types) -> TensorType:
    logits, label = inputs[:2]
    expect_dense(logits)
    expect_rank(logits, 1, "logits")
    if not label.dtype.startswith(("int", "uint")) or label.size != 1 or label.form is not Form.DENSE:
        raise GraphError(f"the label must be one class number (int64) per sample, got {label}")
    return _scalar_loss(inputs)


def _mse(attrs: Attrs, inputs: Types) -> TensorType:
    expect_dense(inputs[0], inputs[1])
    if inputs[0].size != inputs[1].size:
        raise GraphError(f"prediction and target differ in size: {inputs[0]} and {inputs[1]}")
    return _scalar_loss(inputs)


LOOKUP = {
    "table": REQUIRED,
    "dim": REQUIRED,
    "pooling": "none",
    "padding_id": None,
    "entry": None,
    "rule": None,
    "init": None,
    "accessor": None,
    "storage": "memory",
    "budget": None,
    "when_full": "refuse",
}
INPUT = {"shape": (), "dtype": "float32", "ragged": False, "mean_length": 1.0}
GATHER = {"columns": REQUIRED, "source": 0, "pooling": "none", "padding_id": None}
PULL = {"group": REQUIRED, "width": REQUIRED, "tables": REQUIRED}

for _kind in (
    OpKind("input", _input, INPUT, (0, 0), access="file", doc="a column of the data"),
    OpKind("lookup", _lookup, LOOKUP, access="table", doc="rows of a table by id, pooled"),
    OpKind("pull", _pull, PULL, (1, None), access="table", doc="unique rows of a row group"),
    OpKind("gather_pool", _gather_pool, GATHER, (2, 2), doc="pulled rows to their positions, pooled"),
    OpKind("dense", _dense, {"width": REQUIRED, "bias": True, "init": None}, params=_dense_params, doc="x W + b"),
    OpKind("matmul", _matmul, {"transpose_b": False}, (2, 2), doc="per-sample matrix product"),
    OpKind("add", _elementwise, {}, (2, None), doc="sum of tensors"),
    OpKind("sub", _elementwise, {}, (2, 2), doc="difference"),
    OpKind("mul", _elementwise, {}, (2, 2), doc="element-wise product"),
    OpKind("concat", _concat, {"axis": None}, (1, None), doc="join; without axis: flatten, then join"),
    OpKind("split", _split, {"axis": -1, "start": REQUIRED, "stop": REQUIRED}, doc="a piece along an axis"),
    OpKind("reshape", _reshape, {"shape": REQUIRED}, doc="another shape per sample"),
    OpKind("sum", _reduce, {"axis": None, "keepdims": False}, doc="sum over per-sample axes"),
    OpKind("mean", _reduce, {"axis": None, "keepdims": False}, doc="mean over per-sample axes"),
    OpKind("relu", _same, doc="max(x, 0)"),
    OpKind("sigmoid", _same, doc="1 / (1 + exp(-x))"),
    OpKind("tanh", _same, doc="hyperbolic tangent"),
    OpKind("softmax", _softmax, {"axis": -1}, doc="normalised exponentials"),
    OpKind("dropout", _same, {"rate": 0.5}, doc="random zeros in training, keyed by (seed, op, batch key)"),
    OpKind("layer_norm", _layer_norm, {"eps": 1e-5}, params=_layer_norm_params, doc="normalise the last axis"),
    OpKind("dot_interaction", _dot_interaction, {}, (1, None), doc="all pairwise dot products (DLRM)"),
    OpKind("fm", _fm, doc="second-order factorisation machine term (DeepFM)"),
    OpKind("cross", _cross, {"rank": None}, (2, 2), params=_cross_params, doc="x0 * (W x + b) + x (DCN-v2)"),
    OpKind("logloss", _logloss, {}, (2, 3), loss=True, doc="binary cross entropy from logits"),
    OpKind("softmax_cross_entropy", _softmax_cross_entropy, {}, (2, 3), loss=True, doc="cross entropy from logits"),
    OpKind("mse", _mse, {}, (2, 3), loss=True, doc="mean squared error"),
):
    register_kind(replace(_kind, types=types_of(_kind.attrs)))
