"""A model evaluated one sample at a time with plain NumPy: no batches, no buffers, no gradients, no shared code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from heterps.graph import Graph, Op

Params = Mapping[str, np.ndarray]


def evaluate(graph: Graph, feeds: Mapping[str, Any], params: Params, n: int) -> float:
    """The loss: the mean over samples."""
    return float(np.mean([_sample_loss(graph, feeds, params, s) for s in range(n)]))


def _sample_loss(graph: Graph, feeds: Mapping[str, Any], params: Params, s: int) -> float:
    known: dict[str, Any] = {}
    for op in graph:
        if op.kind == "pull" or (op.kind == "input" and op.type.dtype == "uint64"):
            continue
        if op.kind == "input":
            known[op.name] = np.asarray(feeds[op.name][s])
        elif op.kind == "gather_pool":
            known[op.name] = _gather(op, feeds[op.inputs[0]], s)
        else:
            own = {key.rpartition(".")[2]: p for key, p in params.items() if key.rpartition(".")[0] == op.name}
            known[op.name] = RULES[op.kind](op, [known[name] for name in op.inputs], own)
    return float(known[graph.loss])


def _gather(op: Op, rows: Any, s: int) -> np.ndarray:
    low, high = op.attrs["columns"]
    index, offsets = rows.inverse[op.attrs["source"]], rows.offsets_of(op.attrs["source"])
    mine = index[s] if offsets is None else index[offsets[s] : offsets[s + 1]]
    found = rows.values[mine, low:high]
    if op.attrs["pooling"] == "none":
        return np.asarray(found)
    if len(found) == 0:
        return np.zeros(high - low)
    return np.asarray(getattr(np, op.attrs["pooling"])(found, axis=0))


def _broadcast(function: Callable[..., Any]) -> Callable[..., Any]:
    def rule(op: Op, xs: list[Any], p: Params) -> Any:
        result = xs[0]
        for x in xs[1:]:
            result = function(result, x)
        return np.asarray(result).reshape(op.type.shape)

    return rule


def _cross(op: Op, xs: list[Any], p: Params) -> Any:
    weight = p["weight"] if "weight" in p else p["down"] @ p["up"]
    return xs[0] * (xs[1] @ weight + p["bias"]) + xs[1]


def _layer_norm(op: Op, xs: list[Any], p: Params) -> Any:
    x = xs[0]
    hat = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + op.attrs["eps"])
    return hat * p["scale"] + p["shift"]


def _dots(op: Op, xs: list[Any], p: Params) -> Any:
    z = np.concatenate([np.atleast_2d(x) for x in xs])
    return np.array([z[i] @ z[j] for i in range(len(z)) for j in range(i)])


def _fm(op: Op, xs: list[Any], p: Params) -> Any:
    x = xs[0]
    return sum(x[i] @ x[j] for i in range(len(x)) for j in range(i))


def _logloss(op: Op, xs: list[Any], p: Params) -> Any:
    z, y = xs[0].reshape(()), xs[1].reshape(())
    # Of a probability near 1 the rest to 1 has few digits left: both logarithms are taken of the logit.
    return y * np.logaddexp(0, -z) + (1 - y) * np.logaddexp(0, z)


def _split(op: Op, xs: list[Any], p: Params) -> Any:
    return np.take(xs[0], range(op.attrs["start"], op.attrs["stop"]), axis=op.attrs["axis"])


def _concat(op: Op, xs: list[Any], p: Params) -> Any:
    if op.attrs["axis"] is None:
        return np.concatenate([x.ravel() for x in xs])
    return np.concatenate(xs, axis=op.attrs["axis"])


RULES: dict[str, Callable[[Op, list[Any], Params], Any]] = {
    "add": _broadcast(np.add),
    "sub": _broadcast(np.subtract),
    "mul": _broadcast(np.multiply),
    "concat": _concat,
    "cross": _cross,
    "dense": lambda op, xs, p: xs[0] @ p["weight"] + p.get("bias", 0),
    "dot_interaction": _dots,
    "fm": _fm,
    "layer_norm": _layer_norm,
    "logloss": _logloss,
    "mean": lambda op, xs, p: xs[0].mean(axis=op.attrs["axis"], keepdims=op.attrs["keepdims"]),
    "relu": lambda op, xs, p: np.where(xs[0] > 0, xs[0], 0),
    "reshape": lambda op, xs, p: xs[0].reshape(op.type.shape),
    "sigmoid": lambda op, xs, p: 1 / (1 + np.exp(-xs[0])),
    "split": _split,
    "sum": lambda op, xs, p: xs[0].sum(axis=op.attrs["axis"], keepdims=op.attrs["keepdims"]),
    "tanh": lambda op, xs, p: np.tanh(xs[0]),
}
