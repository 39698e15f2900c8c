"""Two types without caps: the cheapest split of a DAG is a minimum cut between them (networkx).

Units are taken as divisible, and compute and data time as added up, not overlapped. ``weight`` turns that into a lower
bound for the overlapped model: ``max(C, D) >= w*C + (1-w)*D`` for every w in [0, 1].
"""

from __future__ import annotations

from collections.abc import Mapping

import networkx as nx
import numpy as np
import numpy.typing as npt

__all__ = ["min_cut"]


def min_cut(
    seconds: npt.NDArray[np.float64],
    price: npt.NDArray[np.float64],
    edges: Mapping[tuple[int, int], float],
    allowed: npt.NDArray[np.bool_] | None = None,
    weight: float = 0.5,
) -> tuple[list[int], float]:
    """Return the type of each Layer, and the least price per row times seconds per hour.

    Parameters
    ----------
    seconds
        [2, L, 2]: compute and data seconds per row of each Layer on each of the two types.
    price
        [2], per unit and hour.
    edges
        Price of an edge whose ends lie on different types: data seconds per row at both ends, times their prices.
    allowed
        [L, 2]; a Layer that may run on one type only is tied to it.
    weight
        Share of compute in the sum; edges count as data.
    """
    layers = seconds.shape[1]
    allowed = np.ones((layers, 2), np.bool_) if allowed is None else allowed
    own = (weight * seconds[0] + (1 - weight) * seconds[1]) * price
    graph: nx.DiGraph[object] = nx.DiGraph()
    for v in range(layers):
        # A Layer on the source's side is on type 0: cutting its edge to the sink pays for type 0.
        graph.add_edge("source", v, capacity=float(own[v, 1]) if allowed[v, 1] else np.inf)
        graph.add_edge(v, "sink", capacity=float(own[v, 0]) if allowed[v, 0] else np.inf)
    for (u, v), cost in edges.items():
        for a, b in ((u, v), (v, u)):
            graph.add_edge(a, b, capacity=(1 - weight) * cost)
    value, (near, _) = nx.minimum_cut(graph, "source", "sink")
    return [0 if v in near else 1 for v in range(layers)], float(value)
