"""What a wanted tensor needs of a lowered graph: ops that compute, and what is fed to them."""

from __future__ import annotations

from heterps.graph import Graph

__all__ = ["FED", "PREDICTION", "needed_for"]

PREDICTION = "prediction"
#: Kinds whose results are given: columns of the data, and what was looked up.
FED = ("input", "gather_pool")
# Inputs of a loss that its prediction is made of, where it is not the first alone.
_PREDICTS_FROM = {"in_batch_softmax": 2}


def needed_for(graph: Graph, wanted: str) -> set[str]:
    """Return the ops that lead to a tensor, itself among them; nothing beyond what is fed.

    Parameters
    ----------
    graph
        Lowered.
    wanted
        An op, or ``prediction``: the loss with what it predicts from, without label and drawn ids.
    """
    loss = graph[graph.loss]
    found = {loss.name} if wanted == PREDICTION else set()
    todo = list(loss.inputs[: _PREDICTS_FROM.get(loss.kind, 1)]) if wanted == PREDICTION else [wanted]
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            if graph[name].kind not in FED:
                todo += graph[name].inputs
    return found
