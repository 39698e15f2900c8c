"""Graphs for tables of numbers and categories, by name, with one score or several."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from heterps import models
from heterps.errors import GraphError, UnknownKindError
from heterps.graph import Graph, ops
from heterps.graph.tensor import Tensor

__all__ = ["MODELS", "Scoring", "graph_for", "tabular"]

_INPUTS = ("ids", "x", "y", "w")
MODELS: Mapping[str, tuple[str, ...]] = {
    "linear": ("linear",),
    "dnn": ("deep",),
    "wide_deep": ("linear", "deep"),
    "deepfm": ("linear", "pairs", "deep"),
    "dcn": ("linear", "crosses", "deep"),
}
"""What the scores of each model are the sum of."""


@dataclass(frozen=True)
class Scoring:
    """What is to be predicted: the kind of the loss, and how many scores it takes."""

    loss: str
    outputs: int = 1


def tabular(
    task: Scoring,
    parts: Sequence[str],
    slots: int,
    dense: int,
    dim: int = 8,
    hidden: tuple[int, ...] = (64, 32),
    crosses: int = 2,
) -> Graph:
    """Build a model over ``ids`` (categories) and ``x`` (numbers), either of which may be missing.

    Parameters
    ----------
    task
        The loss.
    parts
        Terms of the scores: see :data:`MODELS`.
    slots, dense
        Numbers of categories and of numbers.
    dim, hidden, crosses
        Length of a category's vector, widths of the hidden layers, number of cross layers.
    """
    given = _Inputs.of(slots, dense, dim)
    shape = _Shape(task.outputs, tuple(hidden), crosses)
    terms = [term for part in parts for term in _TERMS[part](given, shape)]
    score = terms[0] if len(terms) == 1 else ops.add(*terms, name="score")
    y = ops.input("y", dtype="int64" if task.loss == "softmax_cross_entropy" else "float32")
    return Graph(loss=ops.build(task.loss, score, y, name="loss"))


@dataclass(frozen=True)
class _Shape:
    outputs: int
    hidden: tuple[int, ...]
    crosses: int


@dataclass(frozen=True)
class _Inputs:
    """What terms are made of: ids, their vectors, numbers, and vectors and numbers side by side."""

    ids: Tensor | None
    vectors: Tensor | None
    x: Tensor | None
    features: Tensor

    @classmethod
    def of(cls, slots: int, dense: int, dim: int) -> _Inputs:
        ids = ops.input("ids", shape=(slots,), dtype="uint64") if slots else None
        x = ops.input("x", shape=(dense,)) if dense else None
        vectors = ops.lookup(ids, table="vectors", dim=dim) if ids is not None else None
        parts = [part for part in (vectors, x) if part is not None]
        if not parts:
            raise GraphError("there is no column to learn from")
        return cls(ids, vectors, x, ops.concat(*parts, name="features") if vectors is not None else parts[0])


def _linear(given: _Inputs, shape: _Shape) -> list[Tensor]:
    found = []
    if given.ids is not None:
        rows = ops.lookup(given.ids, table="first", dim=shape.outputs, init={"kind": "Zeros"})
        axis = None if shape.outputs == 1 else 0
        found.append(ops.sum(rows, axis=axis, name="first_order"))
    if given.x is not None:
        found.append(_scores(given.x, shape.outputs, "linear"))
    return found


def _pairs(given: _Inputs, shape: _Shape) -> list[Tensor]:
    """Pairs of categories; several scores weigh the same sum over pairs."""
    if given.vectors is None:
        return []
    pairs = ops.fm(given.vectors, name="fm")
    if shape.outputs == 1:
        return [pairs]
    return [ops.dense(ops.reshape(pairs, (1,)), shape.outputs, bias=False, name="pairs")]


def _crosses(given: _Inputs, shape: _Shape) -> list[Tensor]:
    h = given.features
    for i in range(shape.crosses):
        h = ops.cross(given.features, h, name=f"cross{i}")
    return [_scores(h, shape.outputs, "crossed")]


def _deep(given: _Inputs, shape: _Shape) -> list[Tensor]:
    h = given.features
    for i, width in enumerate(shape.hidden):
        h = ops.relu(ops.dense(h, width, name=f"fc{i}"), name=f"relu{i}")
    return [_scores(h, shape.outputs, "out")]


def _scores(h: Tensor, outputs: int, name: str) -> Tensor:
    found = ops.dense(h, outputs, name=name)
    return ops.reshape(found, (), name=f"{name}_score") if outputs == 1 else found


_TERMS: Mapping[str, Callable[[_Inputs, _Shape], list[Tensor]]] = {
    "linear": _linear,
    "pairs": _pairs,
    "crosses": _crosses,
    "deep": _deep,
}


def graph_for(model: Any, settings: Mapping[str, Any] | None, task: Scoring, slots: int, dense: int) -> Graph:
    """Return the graph of a model for so many categories and numbers.

    Parameters
    ----------
    model
        A name of :data:`MODELS` or of :mod:`heterps.models`, a graph, or a function that returns one; it is called with
        those of ``slots``, ``dense``, ``outputs`` and ``loss`` that it takes.
    settings
        Further arguments of the function, or of :func:`tabular`.
    task
        What is to be predicted.
    slots, dense
        Numbers of categories and of numbers.
    """
    known = {"slots": slots, "dense": dense, "outputs": task.outputs, "loss": task.loss}
    if isinstance(model, Graph):
        graph = model
    elif model in MODELS:
        _refuse_unknown(dict(settings or {}), f"model {model!r}", {"dim", "hidden", "crosses"})
        graph = tabular(task, MODELS[model], slots, dense, **(settings or {}))
    else:
        graph = _called(model if callable(model) else _in_the_zoo(model), known, dict(settings or {}))
    _check(graph, task)
    return graph


def _in_the_zoo(name: Any) -> Callable[..., Any]:
    """Return the function of a model that comes with the package."""
    names = [*MODELS, *models.__all__]
    if name not in names:
        near = difflib.get_close_matches(str(name), names, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        there = ", ".join(dict.fromkeys(names))
        raise UnknownKindError(f"no model is called {name!r}{hint}; there are {there}, or give a function")
    found: Callable[..., Any] = getattr(models, name)
    return found


def _called(function: Callable[..., Any], known: dict[str, Any], settings: dict[str, Any]) -> Graph:
    takes = inspect.signature(function).parameters
    name = getattr(function, "__name__", repr(function))
    _refuse_unknown(settings, f"model {name!r}", set(takes))
    graph = function(**{key: value for key, value in known.items() if key in takes} | settings)
    if not isinstance(graph, Graph):
        raise GraphError(f"model {name!r} returned {type(graph).__name__}, expected a heterps.Graph")
    return graph


def _refuse_unknown(settings: dict[str, Any], what: str, takes: set[str]) -> None:
    for name in settings:
        if name not in takes:
            near = difflib.get_close_matches(name, takes, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise GraphError(f"{what} has no setting {name!r}{hint}; it takes {', '.join(sorted(takes))}")


def _check(graph: Graph, task: Scoring) -> None:
    loss = graph[graph.loss]
    if loss.kind != task.loss:
        raise GraphError(f"the graph ends in a {loss.kind}, and what is to be predicted here needs a {task.loss}")
    others = [op.name for op in graph.inputs if op.name not in _INPUTS]
    if others:
        raise GraphError(f"the graph has an input {others[0]!r}: an estimator has ids (categories), x (numbers) and y")
