"""Shape rules of ops over ragged histories."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from heterps.errors import GraphError
from heterps.graph.attribute_types import types_of
from heterps.graph.builtin import XAVIER, Types, expect_dense, expect_rank
from heterps.graph.kinds import Attrs, OpKind, Param, register_kind
from heterps.graph.types import Form, TensorType

__all__: list[str] = []

SEQUENCE_POOLINGS = ("mean", "sum", "last")


def _expect_history(t: TensorType, what: str) -> None:
    if t.form is not Form.RAGGED or len(t.shape) != 1 or not t.dtype.startswith("float"):
        raise GraphError(f"{what} must be a list of vectors per sample (a lookup of ragged ids, unpooled), got {t}")


def _sequence_pool(attrs: Attrs, inputs: Types) -> TensorType:
    _expect_history(inputs[0], "input")
    if attrs["pooling"] not in SEQUENCE_POOLINGS:
        raise GraphError(f"pooling must be one of {SEQUENCE_POOLINGS}, got {attrs['pooling']!r}")
    return TensorType(inputs[0].shape)


def _attention(attrs: Attrs, inputs: Types) -> TensorType:
    query, history = inputs
    expect_dense(query)
    expect_rank(query, 1, "the query")
    _expect_history(history, "the history")
    if query.shape != history.shape:
        raise GraphError(f"query and history must have one length, got {query.shape} and {history.shape}")
    return TensorType(query.shape)


def _attention_params(attrs: Attrs, inputs: Types) -> tuple[Param, ...]:
    params: list[Param] = []
    widths = (4 * inputs[0].shape[0], *attrs["hidden"], 1)
    for i, (fan_in, width) in enumerate(pairwise(widths)):
        params += [Param(f"weight{i}", (fan_in, width), XAVIER), Param(f"bias{i}", (width,))]
    return tuple(params) if attrs["hidden"] else ()


for _kind in (
    OpKind("sequence_pool", _sequence_pool, {"pooling": "mean"}, doc="mean, sum or last of each list; empty: 0"),
    OpKind(
        "attention",
        _attention,
        {"hidden": (36,), "normalise": False},
        (2, 2),
        params=_attention_params,
        doc="a history's vectors weighted by how they suit a query (DIN)",
    ),
):
    register_kind(replace(_kind, types=types_of(_kind.attrs)))
