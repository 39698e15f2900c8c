"""Public placement instances as JSON: ops with their times on a CPU and on an accelerator, edges, a memory limit.

The format is that of the inputs to "Efficient Algorithms for Device Placement of DNN Graph Operators" (NeurIPS 2020):
``maxSizePerFPGA``, ``maxFPGAs``, ``maxCPUs``; ``nodes`` with ``id``, ``supportedOnFpga``, ``cpuLatency``,
``fpgaLatency``, ``isBackwardNode``, ``size`` and perhaps ``colorClass``; ``edges`` with ``sourceId``, ``destId`` and
``cost``, the time in which the source's output passes to or from an accelerator. Ops of one colour, forward and
backward, are placed together. Backward ops of a colour without a forward op follow the backward edges, turned round.
"""

from __future__ import annotations

import json
import math
import pathlib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from heterps.errors import PlanError

if TYPE_CHECKING:
    import networkx as nx

__all__ = ["Instance", "OpTensor", "is_instance", "read_instance"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class OpTensor:
    """The output of one op: the piece it is made in, the pieces that read it, the time of a transfer."""

    source: int
    readers: tuple[int, ...]
    cost: float


@dataclass(frozen=True)
class Instance:
    """Pieces that are placed whole, in an order in which each comes after all that it needs.

    ``ids`` are the ops of each piece; times, sizes and support are summed over them.
    """

    ids: tuple[tuple[int, ...], ...]
    edges: frozenset[tuple[int, int]]
    cpu_s: Floats
    accelerator_s: Floats
    bytes: Floats
    supported: npt.NDArray[np.bool_]
    tensors: tuple[OpTensor, ...]
    accelerators: int
    cpus: int
    memory_bytes: float


def is_instance(path: str) -> bool:
    """Whether a file is an instance, however good, and no model."""
    try:
        data = json.loads(pathlib.Path(path).read_text()) if path.endswith(".json") else None
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, RecursionError):
        return False
    return isinstance(data, Mapping) and "maxFPGAs" in data


def read_instance(path: str) -> Instance:
    """Read an instance.

    Raises
    ------
    PlanError
        If the file is not one: the message names the field.
    """
    try:
        data = json.loads(pathlib.Path(path).read_text())
    except OSError as error:
        raise PlanError(f"{path}: cannot be read ({error.strerror or error})") from error
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise PlanError(f"{path}: cannot be read as JSON ({error})") from error
    get = _reader(path, data, "instance")
    nodes = [_node(path, each) for each in get("nodes", list)]
    edges = [_edge(path, each, {node["id"] for node in nodes}) for each in get("edges", list)]
    if not nodes:
        raise PlanError(f"{path}: instance: nodes is empty, must have one at least")
    if twice := [i for i, count in Counter(node["id"] for node in nodes).items() if count > 1]:
        raise PlanError(f"{path}: several nodes have the id {twice[0]}: each needs one of its own")
    _check_costs(path, edges)
    _check_sums(path, nodes, edges)
    limits = int(get("maxFPGAs", int)), int(get("maxCPUs", int)), float(get("maxSizePerFPGA", float))
    return _joined(path, nodes, edges, *limits)


def _reader(path: str, data: Any, what: str) -> Callable[[str, type], Any]:
    if not isinstance(data, Mapping):
        raise PlanError(f"{path}: {what} must be an object, is {type(data).__name__}")

    def get(name: str, kind: type) -> Any:
        value: Any = data.get(name)
        figure: Any = value  # as mypy cannot know that it is a number below
        accepted = (int, float) if kind is float else (int, bool) if kind is bool else kind
        if name not in data or not isinstance(value, accepted) or (kind is int and isinstance(value, bool)):
            found = f"is {value!r}" if name in data else "is not there"
            raise PlanError(f"{path}: {what}: {name} must be given as {kind.__name__}, {found}")
        if kind in (int, float) and name not in ("id", "sourceId", "destId") and not 0 <= figure < math.inf:
            raise PlanError(f"{path}: {what}: {name} is {value!r}, must be a finite number, not negative")
        return value

    return get


def _node(path: str, data: Any) -> dict[str, Any]:
    get = _reader(path, data, f"node {data.get('id') if isinstance(data, Mapping) else data!r}")
    node = {name: get(name, float) for name in ("cpuLatency", "fpgaLatency")}
    node |= {
        "id": get("id", int),
        "size": float(get("size", float)) if "size" in data else 0.0,
        "backward": bool(get("isBackwardNode", bool)),
    }
    color = get("colorClass", int) if data.get("colorClass") is not None else None
    return node | {"supported": bool(get("supportedOnFpga", bool)), "color": color}


def _edge(path: str, data: Any, known: set[int]) -> tuple[int, int, float]:
    ends = [data.get(end) for end in ("sourceId", "destId")] if isinstance(data, Mapping) else [data]
    get = _reader(path, data, f"edge {' - '.join(map(str, ends))}")
    source, target = get("sourceId", int), get("destId", int)
    for end in (source, target):
        if end not in known:
            raise PlanError(f"{path}: edge {source} - {target}: there is no node {end}")
    return source, target, float(get("cost", float))


def _check_costs(path: str, edges: list[tuple[int, int, float]]) -> None:
    """All readers of an op read the same output."""
    cost: dict[int, float] = {}
    for a, b, each in edges:
        if not math.isclose(cost.setdefault(a, each), each, rel_tol=1e-6, abs_tol=1e-6):
            raise PlanError(
                f"{path}: edge {a} - {b} costs {each}, another one of node {a} {cost[a]}: it has one output"
            )


def _check_sums(path: str, nodes: list[dict[str, Any]], edges: list[tuple[int, int, float]]) -> None:
    """Times and sizes can be added up."""
    sums = {name: sum(node[name] for node in nodes) for name in ("cpuLatency", "fpgaLatency", "size")}
    sums["cost"] = sum(cost for _, _, cost in edges)
    for name, total in sums.items():
        if not total < 1e300:
            raise PlanError(f"{path}: all {name} together are {total:g}, more than can be computed with")


def _check_acyclic(path: str, edges: list[tuple[int, int, float]]) -> None:
    """No op needs itself."""
    import networkx as nx

    graph: nx.DiGraph[int] = nx.DiGraph((a, b) for a, b, _ in edges)
    if not nx.is_directed_acyclic_graph(graph):
        circle = [a for a, _ in nx.find_cycle(graph)]
        shown = " - ".join(map(str, [*circle[:8], *(["..."] if len(circle) > 8 else []), circle[0]]))
        raise PlanError(f"{path}: edges go round in a circle: {shown}")


def _joined(
    path: str, nodes: list[dict[str, Any]], edges: list[tuple[int, int, float]], most: int, cpus: int, room: float
) -> Instance:
    """Join ops of one colour, then pieces that need each other, and put them in order."""
    import networkx as nx  # slow to import, and of use to this format only

    _check_acyclic(path, edges)
    color = {n["id"]: ("color", n["color"]) if n["color"] is not None else ("id", n["id"]) for n in nodes}
    forward = {color[n["id"]] for n in nodes if not n["backward"]}
    backward = {n["id"] for n in nodes if n["backward"]}
    view: nx.DiGraph[Any] = nx.DiGraph()
    view.add_nodes_from(dict.fromkeys(color.values()))
    for a, b, _ in edges:
        if a not in backward and b not in backward:
            view.add_edge(color[a], color[b])
        elif a in backward and b in backward and not {color[a], color[b]} <= forward:
            view.add_edge(color[b], color[a])
    view.remove_edges_from(list(nx.selfloop_edges(view)))
    parts = nx.condensation(view)
    order = list(nx.lexicographical_topological_sort(parts))
    place = {c: i for i, part in enumerate(order) for c in parts.nodes[part]["members"]}
    return _instance(nodes, edges, {i: place[c] for i, c in color.items()}, view, place, (most, cpus, room))


def _instance(
    nodes: list[dict[str, Any]],
    edges: list[tuple[int, int, float]],
    piece: dict[int, int],
    view: nx.DiGraph[Any],
    place: dict[Any, int],
    limits: tuple[int, int, float],
) -> Instance:
    count = max(piece.values()) + 1
    sums = {name: np.zeros(count) for name in ("cpuLatency", "fpgaLatency", "size")}
    supported, ids = np.ones(count, np.bool_), [[] for _ in range(count)]  # type: ignore[var-annotated]
    for node in nodes:
        at = piece[node["id"]]
        ids[at].append(node["id"])
        supported[at] &= node["supported"]
        for name, total in sums.items():
            total[at] += node[name]
    readers: dict[int, tuple[set[int], float]] = {}
    for a, b, cost in edges:
        seen, most = readers.setdefault(a, (set(), cost))
        seen.add(piece[b])
        readers[a] = (seen, max(most, cost))
    tensors = [OpTensor(piece[a], tuple(sorted(to)), cost) for a, (to, cost) in readers.items() if to != {piece[a]}]
    between = {(place[a], place[b]) for a, b in view.edges if place[a] != place[b]}
    return Instance(
        tuple(map(tuple, ids)), frozenset(between), sums["cpuLatency"], sums["fpgaLatency"], sums["size"], supported,
        tuple(tensors), *limits,
    )  # fmt: skip
