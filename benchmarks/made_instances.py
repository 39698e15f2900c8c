"""Placement instances in the public JSON format, made up in the shape of models whose files cannot be shipped.

``inception``: blocks of parallel branches that end in an op without time, one behind the other; cuts multiply within a
block and add up over blocks. ``operators``: a transformer op by op, most of them constants that take no time.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

__all__ = ["MADE", "Made", "inception", "operators", "training"]

Made = dict[str, Any]
ROOM = 17e9
BRANCHES = (3, 9, 15, 4)


def inception(blocks: int = 9, branches: Sequence[int] = BRANCHES, seed: int = 0) -> Made:
    """Blocks of branches of so many ops; nine of the default have some 29,000 cuts."""
    graph = _Made(seed)
    last = graph.op(20.0, 5e8)
    for _ in range(blocks):
        ends = []
        for length in branches:
            end = last
            for _ in range(length):
                end = graph.op(graph.random.lognormvariate(-0.5, 0.6), 4e7, [end])
            ends.append(end)
        last = graph.op(0.0, 1e8, ends)
    return graph.instance(accelerators=6, cpus=1)


def operators(layers: int = 12, seed: int = 0) -> Made:
    """Layers of attention and two products, each op with constants of its own: 65 ops a layer."""
    graph = _Made(seed)
    last, mask = graph.op(1.0, 1e8), graph.op(0.0, 1e6)
    for _ in range(layers):
        heads = [graph.products(last, 2) for _ in range(3)]
        scores = graph.op(0.3, 2e7, [heads[0], heads[1], mask])
        mixed = graph.products(graph.op(0.3, 2e7, [scores, heads[2]]), 2)
        last = graph.op(0.1, 1e7, [last, mixed])
        last = graph.op(0.1, 1e7, [last, graph.products(last, 4)])
    return graph.instance(accelerators=3, cpus=1)


def training(made: Made) -> Made:
    """The same with a backward op for every forward op, in its colour, that reads what the op's readers pass back."""
    first = 1 + max(node["id"] for node in made["nodes"])
    back = {node["id"]: first + i for i, node in enumerate(made["nodes"])}
    nodes = [node | {"colorClass": node["id"]} for node in made["nodes"]]
    nodes += [
        node | {"id": back[node["colorClass"]], "isBackwardNode": 1, "fpgaLatency": 1.5 * node["fpgaLatency"]}
        for node in nodes
    ]
    cost = {edge["sourceId"]: edge["cost"] for edge in made["edges"]}
    edges = [
        {"sourceId": back[edge["destId"]], "destId": back[edge["sourceId"]], "cost": cost.get(edge["destId"], 0.0)}
        for edge in made["edges"]
    ]
    return made | {"nodes": nodes, "edges": made["edges"] + edges}


class _Made:
    """A graph that grows op by op."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(f"made {seed}")
        self._nodes: list[Made] = []
        self._edges: list[Made] = []
        self._cost: list[float] = []

    def op(self, seconds: float, size: float, reads: Sequence[int] = ()) -> int:
        """Add an op that reads others; return its id."""
        self._edges += [{"sourceId": v, "destId": len(self._nodes), "cost": self._cost[v]} for v in reads]
        self._cost.append(size / 2**31)
        times = {"cpuLatency": 10 * seconds, "fpgaLatency": seconds}
        self._nodes.append({"id": len(self._nodes), "supportedOnFpga": 1, "isBackwardNode": 0, "size": size, **times})
        return len(self._nodes) - 1

    def products(self, last: int, count: int) -> int:
        """Add so many ops one behind the other, each with constants: weight, bias, shapes, which nothing precedes."""
        for _ in range(count):
            constants = [self.op(0.0, size) for size in (4e6, 4e3, 16.0, 4.0)]
            last = self.op(self.random.uniform(0.2, 1.0), 1e7, [last, *constants])
        return last

    def instance(self, accelerators: int, cpus: int) -> Made:
        """All of it."""
        limits = {"maxSizePerFPGA": ROOM, "maxFPGAs": accelerators, "maxCPUs": cpus}
        return limits | {"nodes": self._nodes, "edges": self._edges}


MADE = {
    "inception": inception,
    "inception, training": lambda: training(inception()),
    "operators": operators,
    "operators, training": lambda: training(operators()),
}
