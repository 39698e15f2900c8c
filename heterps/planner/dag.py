"""States of a DAG: its downsets, after contraction of what can never be worth cutting.

A downset holds, with every Layer, all that it depends on: a legal cut. A plan is a chain of downsets, so dynamic
programming over them is exact; only their number limits it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from heterps.planner.problem import Bools

__all__ = ["contract", "cut_bytes", "downsets", "expand"]

MOST_STATES = 20_000


def downsets(size: int, edges: Iterable[tuple[int, int]], most: int = MOST_STATES) -> Bools | None:
    """All downsets of a DAG on ``size`` elements, smallest first; None if there are more than ``most``."""
    needs = [0] * size
    for source, target in edges:
        needs[target] |= 1 << source
    level, found = [0], [0]
    for _ in range(size):
        level = sorted({s | 1 << v for s in level for v in range(size) if not s >> v & 1 and needs[v] & ~s == 0})
        found += level
        if len(found) > most:
            return None
    return np.array([[bool(s >> v & 1) for v in range(size)] for s in found], np.bool_)


def contract(size: int, edges: Sequence[tuple[int, int]], same: npt.NDArray[np.bool_]) -> list[int]:
    """Join a Layer with its only successor, whose only predecessor it is, where ``same`` says that this loses nothing.

    Returns the block of each Layer, blocks numbered in order of their first Layer. ``same[u]`` is given for the edge from
    u to its only successor: for example both can run on one and the same type only and scale without a serial part, so
    that one stage never needs more units than two.
    """
    out = {u: [b for a, b in edges if a == u] for u in range(size)}
    into = {v: [a for a, b in edges if b == v] for v in range(size)}
    block = list(range(size))
    for u in range(size):
        if len(set(out[u])) == 1 and same[u] and len(set(into[out[u][0]])) == 1:
            block[out[u][0]] = block[u]
    numbers: dict[int, int] = {}
    return [numbers.setdefault(b, len(numbers)) for b in block]


def expand(states: Bools, block: Sequence[int]) -> Bools:
    """States of blocks as states of Layers."""
    return np.ascontiguousarray(states[:, np.asarray(block, np.int64)])


def cut_bytes(states: Bools, edges: Mapping[tuple[int, int], tuple[float, float]]) -> npt.NDArray[np.float64]:
    """Bytes (forward, backward) over the cut at every state; what several later Layers read crosses once."""
    total = np.zeros(len(states))
    for source in sorted({u for u, _ in edges}):
        forward, backward = np.zeros(len(states)), np.zeros(len(states))
        for (u, v), (f, b) in edges.items():
            if u == source:
                crosses = states[:, u] & ~states[:, v]
                forward, backward = np.maximum(forward, crosses * f), np.maximum(backward, crosses * b)
        total += forward + backward
    return total
