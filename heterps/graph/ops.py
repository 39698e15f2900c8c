"""The functions a model is written with (``from heterps import ops``).

Shapes are per sample: the batch dimension is never written. Every function takes an optional ``name``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import heterps.graph.builtin  # noqa: F401  (registers the kinds)
from heterps.errors import GraphError
from heterps.graph.builtin import axes_of
from heterps.graph.ops_pointwise import cosine, dice, gelu, l2_normalize, prelu, top_k, top_k_indices
from heterps.graph.ops_sampling import in_batch_softmax, multi_logloss, nce, negative_sampling, sampled_softmax
from heterps.graph.ops_sequence import attention, sequence_last, sequence_mean, sequence_sum
from heterps.graph.ops_vision import avg_pool, batch_norm, conv2d, global_avg_pool, global_max_pool, max_pool
from heterps.graph.tensor import Tensor, build, place

__all__ = [
    "Tensor",
    "add",
    "attention",
    "avg_pool",
    "batch_norm",
    "build",
    "concat",
    "conv2d",
    "cosine",
    "cross",
    "dense",
    "dice",
    "dot_interaction",
    "dropout",
    "fm",
    "gelu",
    "global_avg_pool",
    "global_max_pool",
    "in_batch_softmax",
    "input",
    "l2_normalize",
    "layer_norm",
    "logloss",
    "lookup",
    "matmul",
    "max_pool",
    "mean",
    "mse",
    "mul",
    "multi_logloss",
    "nce",
    "negative_sampling",
    "place",
    "prelu",
    "relu",
    "reshape",
    "sampled_softmax",
    "sequence_last",
    "sequence_mean",
    "sequence_sum",
    "sigmoid",
    "softmax",
    "softmax_cross_entropy",
    "split",
    "sub",
    "sum",
    "tanh",
    "top_k",
    "top_k_indices",
]

Axis = int | Sequence[int] | None
Spec = Mapping[str, Any] | Any  # a JSON value, or an object with to_json()


def input(
    name: str,
    shape: Sequence[int] = (),
    dtype: str = "float32",
    *,
    ragged: bool = False,
    mean_length: float = 1.0,
) -> Tensor:
    """Declare a column of the data.

    Parameters
    ----------
    name
        Column name in the dataset.
    shape
        Shape per sample, ``()`` for one number.
    dtype
        ``"float32"``, ``"uint64"`` for ids, ``"int64"`` for class labels.
    ragged
        One list of any length per sample (ids).
    mean_length
        Expected list length; only costs depend on it.
    """
    return build("input", name=name, shape=shape, dtype=dtype, ragged=ragged, mean_length=mean_length)


def lookup(
    ids: Tensor,
    table: str,
    dim: int,
    *,
    pooling: str = "none",
    padding_id: int | None = None,
    rule: Spec = None,
    init: Spec = None,
    entry: Spec = None,
    accessor: Spec = None,
    storage: str = "memory",
    budget: int | None = None,
    when_full: str = "refuse",
    name: str | None = None,
) -> Tensor:
    """Look rows of a sparse table up by id.

    Parameters
    ----------
    ids
        uint64, shape ``(slots,)`` or ``()`` per sample, or ragged.
    table
        Table name. Lookups of one table agree on everything but pooling and padding.
    dim
        Length of a row.
    pooling
        ``"none"`` keeps a row per id; ``"sum"``, ``"mean"``, ``"max"`` combine the rows of a sample.
    padding_id
        An id whose row is zero and never trained, and which pooling leaves out.
    rule, init, entry, accessor
        Optimiser rule, initialiser, admission and accessor of the table; None takes the run's defaults.
    storage
        ``"memory"`` or ``"ssd"`` of a shard host; ``"gpu"`` or ``"gpu+ssd"``: rows are trained in the memory of the GPU
        that computes with them, and all of them are in the memory, or on the disk, of its worker below.
    budget
        Rows that a shard host may hold; None for as many as its memory allows.
    when_full
        ``"refuse"`` new ids with an error, or let rows go: ``"least_recent"``, ``"lowest_score"`` (needs an accessor).
    """
    return build(
        "lookup",
        ids,
        name=name,
        table=table,
        dim=dim,
        pooling=pooling,
        padding_id=padding_id,
        rule=rule,
        init=init,
        entry=entry,
        accessor=accessor,
        storage=storage,
        budget=budget,
        when_full=when_full,
    )


def dense(x: Tensor, width: int, *, bias: bool = True, init: Spec = None, name: str | None = None) -> Tensor:
    """Multiply the last axis by a weight matrix and add a bias."""
    return build("dense", x, name=name, width=width, bias=bias, init=init)


def matmul(a: Tensor, b: Tensor, *, transpose_b: bool = False, name: str | None = None) -> Tensor:
    """Per-sample matrix product of ``(m, k)`` and ``(k, n)``."""
    return build("matmul", a, b, name=name, transpose_b=transpose_b)


def add(*xs: Tensor, name: str | None = None) -> Tensor:
    """Sum of two or more tensors, broadcasting per-sample shapes."""
    return build("add", *xs, name=name)


def sub(a: Tensor, b: Tensor, *, name: str | None = None) -> Tensor:
    """Difference, broadcasting per-sample shapes."""
    return build("sub", a, b, name=name)


def mul(a: Tensor, b: Tensor, *, name: str | None = None) -> Tensor:
    """Element-wise product, broadcasting per-sample shapes."""
    return build("mul", a, b, name=name)


def concat(*xs: Tensor, axis: int | None = None, name: str | None = None) -> Tensor:
    """Join along a per-sample axis; without axis, flatten each input to a vector and join those."""
    return build("concat", *xs, name=name, axis=axis)


def split(x: Tensor, sizes: Sequence[int], *, axis: int = -1, name: str | None = None) -> tuple[Tensor, ...]:
    """Cut along an axis into pieces of the given sizes, which must add up to the axis."""
    (a,) = axes_of(axis, len(x.shape))
    if any(s < 1 for s in sizes) or _total(sizes) != x.shape[a]:
        raise GraphError(f"split {name or ''}: sizes {tuple(sizes)} must be positive and add up to {x.shape[a]}")
    stops = [_total(sizes[: i + 1]) for i in range(len(sizes))]
    names = [f"{name}.{i}" if name else None for i in range(len(sizes))]
    return tuple(
        build("split", x, name=piece, axis=a, start=stop - size, stop=stop)
        for piece, stop, size in zip(names, stops, sizes, strict=True)
    )


def reshape(x: Tensor, shape: Sequence[int], *, name: str | None = None) -> Tensor:
    """Another per-sample shape with as many numbers; one dimension may be -1."""
    return build("reshape", x, name=name, shape=shape)


def sum(x: Tensor, *, axis: Axis = None, keepdims: bool = False, name: str | None = None) -> Tensor:
    """Sum over per-sample axes (all of them by default)."""
    return build("sum", x, name=name, axis=axis, keepdims=keepdims)


def mean(x: Tensor, *, axis: Axis = None, keepdims: bool = False, name: str | None = None) -> Tensor:
    """Mean over per-sample axes (all of them by default)."""
    return build("mean", x, name=name, axis=axis, keepdims=keepdims)


def relu(x: Tensor, *, name: str | None = None) -> Tensor:
    """``max(x, 0)``."""
    return build("relu", x, name=name)


def sigmoid(x: Tensor, *, name: str | None = None) -> Tensor:
    """``1 / (1 + exp(-x))``."""
    return build("sigmoid", x, name=name)


def tanh(x: Tensor, *, name: str | None = None) -> Tensor:
    """Hyperbolic tangent."""
    return build("tanh", x, name=name)


def softmax(x: Tensor, *, axis: int = -1, name: str | None = None) -> Tensor:
    """Exponentials normalised along a per-sample axis."""
    return build("softmax", x, name=name, axis=axis)


def dropout(x: Tensor, rate: float = 0.5, *, name: str | None = None) -> Tensor:
    """Zero each number with probability ``rate`` in training, scaling the rest; identity otherwise."""
    return build("dropout", x, name=name, rate=rate)


def layer_norm(x: Tensor, *, eps: float = 1e-5, name: str | None = None) -> Tensor:
    """Normalise the last axis to mean 0 and variance 1, then scale and shift."""
    return build("layer_norm", x, name=name, eps=eps)


def dot_interaction(*xs: Tensor, name: str | None = None) -> Tensor:
    """All dot products of pairs of vectors; inputs are ``(dim,)`` or ``(fields, dim)``."""
    return build("dot_interaction", *xs, name=name)


def fm(x: Tensor, *, name: str | None = None) -> Tensor:
    """Second-order factorisation-machine term of ``(fields, dim)``: one number per sample."""
    return build("fm", x, name=name)


def cross(x0: Tensor, x: Tensor, *, rank: int | None = None, name: str | None = None) -> Tensor:
    """One cross layer of DCN-v2: ``x0 * (W x + b) + x``, W of full or given rank."""
    return build("cross", x0, x, name=name, rank=rank)


def logloss(logits: Tensor, y: Tensor, weight: Tensor | None = None, *, name: str | None = None) -> Tensor:
    """Mean binary cross entropy of logits against 0/1 labels."""
    return build("logloss", logits, y, *_given(weight), name=name)


def softmax_cross_entropy(
    logits: Tensor, label: Tensor, weight: Tensor | None = None, *, name: str | None = None
) -> Tensor:
    """Mean cross entropy of logits against class numbers."""
    return build("softmax_cross_entropy", logits, label, *_given(weight), name=name)


def mse(prediction: Tensor, target: Tensor, weight: Tensor | None = None, *, name: str | None = None) -> Tensor:
    """Mean squared error."""
    return build("mse", prediction, target, *_given(weight), name=name)


def _given(weight: Tensor | None) -> tuple[Tensor, ...]:
    return () if weight is None else (weight,)


def _total(sizes: Sequence[int]) -> int:
    total = 0  # the module's own ``sum`` is an op
    for size in sizes:
        total += size
    return total
