"""Two types without caps: the cheapest split of a DAG is a minimum cut between them (networkx).

Units are taken as divisible, serial parts are left out, and compute and data time are added with weights. Since
``max(C, D) >= w*C + (1-w)*D`` for every w in [0, 1], the value is a lower bound for the overlapped model.
"""

from __future__ import annotations

import networkx as nx
import numpy as np

from heterps.errors import PlanError
from heterps.planner.solve.problem import Problem

__all__ = ["MOST_FOR_MIN_CUT", "min_cut"]

MOST_FOR_MIN_CUT = 300  # Layers; beyond, networkx takes seconds


def min_cut(problem: Problem, weight: float = 0.5) -> tuple[list[int], float]:
    """Return the type of each Layer, and the least price per hour for each row per second.

    ``weight`` is the share of compute in the sum. A tensor has a point of its own for either direction of crossing, so
    that it is paid for once however many Layers read it.
    """
    if problem.types != 2:
        raise PlanError(f"a minimum cut separates two types, the problem has {problem.types}")
    own = (weight * problem.layer_parallel[0] + (1 - weight) * problem.layer_parallel[1]) * problem.price
    graph: nx.DiGraph[object] = nx.DiGraph()
    for v in range(problem.layers):
        # A Layer on the source's side is on type 0: cutting its edge to the sink pays for type 0.
        graph.add_edge("source", v, capacity=float(own[v, 1]) if problem.allowed[v, 1] else np.inf)
        graph.add_edge(v, "sink", capacity=float(own[v, 0]) if problem.allowed[v, 0] else np.inf)
    for flow in problem.flows:
        cost = flow.bytes * float((weight * problem.byte_s[0] + (1 - weight) * problem.byte_s[1]) @ problem.price)
        ahead, behind = ("ahead", flow.tensor), ("behind", flow.tensor)
        graph.add_edge(flow.source, ahead, capacity=cost)
        graph.add_edge(ahead, flow.target, capacity=np.inf)
        graph.add_edge(behind, flow.source, capacity=cost)
        graph.add_edge(flow.target, behind, capacity=np.inf)
    value, (near, _) = nx.minimum_cut(graph, "source", "sink")
    return [0 if v in near else 1 for v in range(problem.layers)], float(value)
