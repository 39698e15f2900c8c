"""States of a DAG: its downsets, after contraction of what can never be worth cutting.

A downset holds, with every Layer, all that it depends on: a legal cut. A plan is a chain of downsets, so dynamic
programming over them is exact; only their number limits it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from heterps.planner.solve.problem import Bools, Problem, prefixes

__all__ = ["MOST_STATES", "blocks", "downsets", "over_downsets"]

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
    return np.array([[bool(s >> v & 1) for v in range(size)] for s in found], np.bool_).reshape(len(found), size)


def blocks(problem: Problem) -> list[int]:
    """Join each Layer with its only successor, whose only predecessor it is, where no plan is lost by that.

    Nothing is lost where both may run on one and the same type only and neither has a serial part: then one stage needs
    no more units than two, and moves fewer bytes. Returns the block of each Layer, numbered in order.
    """
    edges = {(flow.source, flow.target) for flow in problem.flows}
    single = problem.allowed.sum(axis=1) == 1
    scales = (problem.layer_serial == 0).all(axis=(0, 2))
    block = list(range(problem.layers))
    for u in range(problem.layers):
        after = [b for a, b in edges if a == u]
        if len(after) != 1 or len([a for a, b in edges if b == after[0]]) != 1:
            continue
        pair = [u, after[0]]
        if single[pair].all() and scales[pair].all() and (problem.allowed[pair[0]] == problem.allowed[pair[1]]).all():
            block[after[0]] = block[u]
    numbers: dict[int, int] = {}
    return [numbers.setdefault(b, len(numbers)) for b in block]


def over_downsets(problem: Problem, most: int = MOST_STATES) -> tuple[Problem, bool]:
    """The problem with all legal cuts as states, and True; with those of the given order, and False, if too many."""
    block = blocks(problem)
    size = max(block, default=-1) + 1
    edges = {(block[f.source], block[f.target]) for f in problem.flows if block[f.source] != block[f.target]}
    states = downsets(size, edges, most)
    if states is None:
        return replace(problem, members=prefixes(problem.layers)), False
    return replace(problem, members=_expanded(states, block)), True


def _expanded(states: Bools, block: Sequence[int]) -> Bools:
    return np.ascontiguousarray(states[:, np.asarray(block, np.int64)])
