"""Weights of rows and classes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.errors import DataError
from heterps.graph import Graph

__all__ = ["class_weights", "weighted_graph"]


def weighted_graph(graph: Graph) -> Graph:
    """Return the graph with a weight, the input ``w``, in its loss; one that has its own is returned as it is."""
    loss = graph[graph.loss]
    if len(loss.inputs) > 2:
        return graph
    plain = graph.to_json()
    by_name = {op["name"]: op for op in plain["ops"]}
    like = dict(by_name[loss.inputs[1]])  # the label: also one number a row
    attrs = dict(like["attrs"]) | {"dtype": "float32"}
    weight = like | {"name": "w", "attrs": attrs}
    last = dict(by_name[loss.name]) | {"inputs": [*loss.inputs, "w"]}
    ops = [last if op["name"] == loss.name else op for op in plain["ops"]]
    at = ops.index(last)
    return Graph.from_json(plain | {"ops": [*ops[:at], weight, *ops[at:]]})


def class_weights(
    class_weight: Any, classes: npt.NDArray[Any], counts: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64] | None:
    """Return a weight for each class.

    Parameters
    ----------
    class_weight
        None; ``"balanced"``: as many times its share as would make all shares equal; or a weight by class, 1 where
        none is given.
    classes, counts
        The classes, and the rows of each.
    """
    if class_weight is None:
        return None
    if isinstance(class_weight, str):
        if class_weight != "balanced":
            raise DataError(f"class_weight is {class_weight!r}: give 'balanced', weights by class, or None")
        return np.asarray(counts.sum() / (len(classes) * np.maximum(counts, 1)))
    known = {_plain(one) for one in classes}
    for one in class_weight:
        if one not in known:
            raise DataError(f"class_weight names {one!r}, which is no class; there are {', '.join(map(str, classes))}")
    return np.array([class_weight.get(_plain(one), 1.0) for one in classes], np.float64)


def _plain(one: Any) -> Any:
    return one.item() if isinstance(one, np.generic) else one
