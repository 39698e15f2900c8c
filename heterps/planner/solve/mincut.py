"""Two types without caps: the cheapest split of a DAG is a minimum cut between them (networkx).

Units are taken as divisible, serial parts and gradients that are passed on are left out, and the times of the resources
are added with weights. Since ``max(C, D, E) >= w*C + (1-w)*(D+E)/2`` for every w in [0, 1], the value is a lower bound
for the overlapped model.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from heterps.errors import PlanError
from heterps.planner.solve.dag import alike_branches
from heterps.planner.solve.problem import Floats, Flow, Problem, make_problem

__all__ = ["MOST_FOR_MIN_CUT", "cut_bound", "folded", "min_cut"]

MOST_FOR_MIN_CUT = 300  # Layers; beyond, networkx takes seconds


def cut_bound(problem: Problem) -> float:
    """Least price per hour for each row per second that any plan of two types has: the best of a few weights.

    Branches that are alike are folded into one. Of the least cuts of a graph, the one with the smallest source side is
    the same whichever way alike branches change places, so it cuts them alike: the folded graph has the same value.
    """
    if problem.types != 2:
        return 0.0
    small, _ = folded(problem)
    if small.layers > MOST_FOR_MIN_CUT:
        return 0.0
    return max(min_cut(small, weight)[1] for weight in (0.0, 0.25, 0.5, 0.75, 1.0))


def folded(problem: Problem) -> tuple[Problem, npt.NDArray[np.int64]]:
    """The problem with all branches that are alike as one, figures and tensors added up; and the Layers in each one."""
    into = np.arange(problem.layers)
    for branches in alike_branches(problem):
        for branch in branches[1:]:
            into[branch] = branches[0]
    kept, at = np.unique(into, return_inverse=True)
    fold = np.zeros((len(kept), problem.layers))
    fold[at, np.arange(problem.layers)] = 1.0
    readers: dict[str, set[int]] = {}
    for flow in problem.flows:
        readers.setdefault(flow.tensor, set()).add(int(at[flow.target]))
    tensors = {
        flow.tensor: (int(at[flow.source]), tuple(sorted(readers[flow.tensor])), np.array([flow.bytes, flow.back]))
        for flow in problem.flows
    }
    sums: dict[tuple[int, tuple[int, ...]], Floats] = {}
    for source, targets, size in tensors.values():
        sums[source, targets] = sums.get((source, targets), np.zeros(2)) + size
    flows = [Flow(a, b, f"{a} {targets}", *map(float, size)) for (a, targets), size in sums.items() for b in targets]
    small = make_problem(
        fold @ problem.layer_parallel,
        1.0,
        problem.price,
        allowed=problem.allowed[kept],
        flows=flows,
        receive_s=problem.receive_s,
        send_s=problem.send_s,
        gradients=fold @ problem.gradients,
    )
    return small, fold.sum(axis=1).astype(np.int64)


def min_cut(problem: Problem, weight: float = 0.5) -> tuple[list[int], float]:
    """Return the type of each Layer, and the least price per hour for each row per second.

    ``weight`` is the share of compute in the sum. A tensor has a point of its own for either direction of crossing, so
    that it is paid for once however many Layers read it.
    """
    import networkx as nx  # slow to import, and most plans need no cut between two types

    if problem.types != 2:
        raise PlanError(f"a minimum cut separates two types, the problem has {problem.types}")
    resources = len(problem.layer_parallel)
    weights = np.array([weight, *[(1 - weight) / (resources - 1)] * (resources - 1)])
    own = np.einsum("r,rvt->vt", weights, problem.layer_parallel) * problem.price
    receive, send = weights @ problem.receive_s * problem.price, weights @ problem.send_s * problem.price
    graph: nx.DiGraph[object] = nx.DiGraph()
    for v in range(problem.layers):
        # A Layer on the source's side is on type 0: cutting its edge to the sink pays for type 0.
        graph.add_edge("source", v, capacity=float(own[v, 1]) if problem.allowed[v, 1] else np.inf)
        graph.add_edge(v, "sink", capacity=float(own[v, 0]) if problem.allowed[v, 0] else np.inf)
    for flow in problem.flows:
        # From type 0 to type 1, and the other way.
        there, here = (
            float(flow.bytes * (send[a] + receive[b]) + flow.back * (receive[a] + send[b])) for a, b in ((0, 1), (1, 0))
        )
        ahead, behind = ("ahead", flow.tensor), ("behind", flow.tensor)
        graph.add_edge(flow.source, ahead, capacity=there)
        graph.add_edge(ahead, flow.target, capacity=np.inf)
        graph.add_edge(behind, flow.source, capacity=here)
        graph.add_edge(flow.target, behind, capacity=np.inf)
    value, (near, _) = nx.minimum_cut(graph, "source", "sink")
    return [0 if v in near else 1 for v in range(problem.layers)], float(value)
