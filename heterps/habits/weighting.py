"""Weights of classes: of those that a user names, and of data whose classes are not alike in size."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from heterps.data.core.class_weighted import ClassWeighted, class_weighted
from heterps.data.core.dataset import Dataset
from heterps.errors import DataError, GraphError
from heterps.graph import Graph

__all__ = ["ClassWeight", "class_weights", "weighted_data"]

ClassWeight = Literal["balanced"] | Mapping[Any, float]

_CLASSES = ("logloss", "softmax_cross_entropy")


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
    for one, weight in class_weight.items():
        if one not in known:
            raise DataError(f"class_weight names {one!r}, which is no class; there are {', '.join(map(str, classes))}")
        if not 0 <= weight < np.inf:
            raise DataError(f"class_weight gives {one!r} the weight {weight}: it must be a number of at least 0")
    return np.array([class_weight.get(_plain(one), 1.0) for one in classes], np.float64)


def _plain(one: Any) -> Any:
    return one.item() if isinstance(one, np.generic) else one


def weighted_data(
    graph: Graph, data: Dataset, class_weight: ClassWeight, count: Callable[[int], list[int]]
) -> ClassWeighted:
    """Return training data whose rows weigh as their class does, in the column that the loss takes weights from.

    Parameters
    ----------
    graph
        The model; its loss has a weight.
    data
        Training data.
    class_weight
        See :func:`class_weights`; classes are the labels 0, 1, ...
    count
        ``count(classes)`` goes over the data and returns the rows of each class.
    """
    loss = graph[graph.loss]
    if loss.kind not in _CLASSES:
        raise GraphError(f"class_weight: the loss {loss.name!r} is a {loss.kind}, which knows no classes")
    if len(loss.inputs) < 3 or any(graph[name].kind != "input" for name in loss.inputs[1:]):
        raise GraphError(
            f"class_weight: the loss {loss.name!r} takes no weight of its rows from the data. Give it one before the "
            "launch: hps.launch(hps.weighted(graph)), or weighted=True of built-in models"
        )
    several = 2 if loss.kind == "logloss" else graph[loss.inputs[0]].type.shape[-1]
    classes = np.arange(several)
    counts = np.array(count(several) if class_weight == "balanced" else [0] * several, np.float64)
    found = class_weights(class_weight, classes, counts)
    assert found is not None
    named = {float(label): float(weight) for label, weight in zip(classes, found, strict=True)}
    return class_weighted(data, loss.inputs[1], loss.inputs[2], named)
