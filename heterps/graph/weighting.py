"""A weight for each row in the loss of a model that has none."""

from __future__ import annotations

from heterps.graph.graph import Graph

__all__ = ["weighted"]


def weighted(graph: Graph) -> Graph:
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
