"""Two types without caps: the cheapest split of a DAG is a minimum cut between them.

Units are taken as divisible, serial parts and gradients that are passed on are left out, and the times of the resources
are added with weights. Since ``max(C, D, E) >= w*C + (1-w)*(D+E)/2`` for every w in [0, 1], the value is a lower bound
for the overlapped model.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from heterps.errors import PlanError
from heterps.planner.solve.dag import alike_branches
from heterps.planner.solve.making import make_problem
from heterps.planner.solve.placement import Floats, Flow
from heterps.planner.solve.problem import Problem

__all__ = ["MOST_FOR_MIN_CUT", "cut_bound", "cut_value", "fold_of", "folded", "folded_name", "min_cut"]

_SOURCE, _SINK = "source", "sink"
_LARGEST = 2**31 - 2  # capacities have 32 bits
_EXACT = 2**52  # parts of all capacities

MOST_FOR_MIN_CUT = 300  # Layers; beyond, networkx takes seconds


def cut_bound(problem: Problem) -> float:
    """Least price per hour for each row per second that any plan of two types has: the best of a few weights.

    Branches that are alike are folded into one. Of the least cuts of a graph, the one with the smallest source side is
    the same whichever way alike branches change places, so it cuts them alike: the folded graph has the same value.
    """
    if problem.types != 2 or len(fold_of(problem)[0]) > MOST_FOR_MIN_CUT:
        return 0.0
    small, _ = folded(problem)
    return max(cut_value(small, weight) for weight in (0.0, 0.25, 0.5, 0.75, 1.0))


def fold_of(problem: Problem) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Layers that stand for themselves and those that are alike, and for each Layer the number of the one for it."""
    into = np.arange(problem.layers)
    for branches in alike_branches(problem):
        for branch in branches[1:]:
            into[branch] = branches[0]
    kept, at = np.unique(into, return_inverse=True)
    return kept, at


def folded(problem: Problem) -> tuple[Problem, npt.NDArray[np.int64]]:
    """The problem with all branches that are alike as one, figures and tensors added up; and the Layers in each one."""
    kept, at = fold_of(problem)
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
    flows = [
        Flow(a, b, folded_name(a, targets), *map(float, size)) for (a, targets), size in sums.items() for b in targets
    ]
    small = make_problem(
        fold @ problem.layer_parallel,
        1.0,
        problem.price,
        allowed=problem.allowed[kept],
        flows=flows,
        receive_s=problem.receive_s,
        send_s=problem.send_s,
        gradients=fold @ problem.gradients,
        memory=fold @ problem.layer_memory,
        layer_held=fold @ problem.layer_held,
        layer_way=fold @ problem.layer_way,
    )
    return small, fold.sum(axis=1).astype(np.int64)


def folded_name(source: int, targets: Iterable[int]) -> str:
    """The name of all tensors together that some Layer makes and some read, branches that are alike being one."""
    return f"{source} {tuple(sorted(targets))}"


def min_cut(problem: Problem, weight: float = 0.5) -> tuple[list[int], float]:
    """Return the type of each Layer, and the least price per hour for each row per second.

    ``weight`` is the share of compute in the sum.
    """
    import networkx as nx  # slow to import, and most plans need no cut between two types

    edges = _edges(problem, weight)
    scale = _EXACT / (sum(filter(math.isfinite, edges.values())) or 1.0)
    graph: nx.DiGraph[object] = nx.DiGraph()
    for (start, end), capacity in edges.items():  # in whole numbers: what rounding leaves of an edge would not part
        graph.add_edge(start, end, capacity=round(capacity * scale) if math.isfinite(capacity) else math.inf)
    value, (near, _) = nx.minimum_cut(graph, _SOURCE, _SINK)
    return [0 if v in near else 1 for v in range(problem.layers)], float(value) / scale


def cut_value(problem: Problem, weight: float = 0.5) -> float:
    """The same least price alone, or a millionth less: a flow of whole numbers, rounded down, is found faster."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_flow

    edges = {edge: capacity for edge, capacity in _edges(problem, weight).items() if capacity > 0}
    names = dict.fromkeys([_SOURCE, _SINK, *itertools.chain.from_iterable(edges)])
    points = {name: i for i, name in enumerate(names)}
    capacities = np.array(list(edges.values()))
    bounded = np.isfinite(capacities)
    scale = _LARGEST / (2 * capacities[bounded].sum() or 1.0)  # no flow is more than half of what has no bound
    whole = np.where(bounded, np.where(bounded, capacities, 0.0) * scale, _LARGEST).astype(np.int32)
    places = ([points[edge[side]] for edge in edges] for side in (0, 1))
    network = csr_array((whole, tuple(places)), shape=(len(points), len(points)))
    return float(maximum_flow(network, 0, 1).flow_value / scale)


def _edges(problem: Problem, weight: float) -> dict[tuple[object, object], float]:
    """What a cut may go through, from where to where, and what that costs.

    A tensor has a point of its own for either direction of crossing, so that it is paid for once however many Layers
    read it.
    """
    if problem.types != 2:
        raise PlanError(f"a minimum cut separates two types, the problem has {problem.types}")
    resources = len(problem.layer_parallel)
    weights = np.array([weight, *[(1 - weight) / (resources - 1)] * (resources - 1)])
    own = np.einsum("r,rvt->vt", weights, problem.layer_parallel) * problem.price
    receive, send = weights @ problem.receive_s * problem.price, weights @ problem.send_s * problem.price
    edges: dict[tuple[object, object], float] = {}
    for v in range(problem.layers):
        # A Layer on the source's side is on type 0: cutting its edge to the sink pays for type 0.
        edges[_SOURCE, v] = float(own[v, 1]) if problem.allowed[v, 1] else np.inf
        edges[v, _SINK] = float(own[v, 0]) if problem.allowed[v, 0] else np.inf
    for flow in problem.flows:
        # From type 0 to type 1, and the other way.
        there, here = (
            float(flow.bytes * (send[a] + receive[b]) + flow.back * (receive[a] + send[b])) for a, b in ((0, 1), (1, 0))
        )
        ahead, behind = ("ahead", flow.tensor), ("behind", flow.tensor)
        edges[flow.source, ahead], edges[ahead, flow.target] = there, np.inf
        edges[behind, flow.source], edges[flow.target, behind] = here, np.inf
    return edges
