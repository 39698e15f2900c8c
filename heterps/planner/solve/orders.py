"""Good cuts of a graph that has too many: those along a few orders of its Layers.

An order of the Layers in which each comes after all that it needs has its prefixes for cuts. The orders: the Layers'
own; Layers of one place as long together as can be, beginning with each place; by depth; one branch after the other.
Stages may begin at a cut of one order and end at one of another. Branches that are alike are also taken in groups.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np

from heterps.planner.solve.dag import edges_of, in_groups
from heterps.planner.solve.mincut import MOST_FOR_MIN_CUT, min_cut
from heterps.planner.solve.placement import Bools
from heterps.planner.solve.problem import Problem

__all__ = ["along", "good_cuts", "with_states"]


def good_cuts(problem: Problem, most: int) -> Problem:
    """The problem with the cuts of a few orders as states, at most about so many, those with few bytes first."""
    orders = _orders(problem)
    each = max(2, most // len(orders))
    states = [_fewest_bytes(problem, along(order), each) for order in orders]
    grouped = (in_groups(problem, groups) for groups in (32, 16, 8, 4, 2))
    states.append(next((found for found in grouped if found is not None), states[0]))
    if problem.types == 2 and problem.layers <= MOST_FOR_MIN_CUT and problem.allowed.any(axis=1).all():
        states.append(_levels(problem, min_cut(problem)[0]))
    return with_states(replace(problem, members=states[0]), np.concatenate(states))


def along(order: Sequence[int]) -> Bools:
    """The states that add one Layer at a time in an order."""
    place = np.empty(len(order), np.int64)
    place[list(order)] = np.arange(len(order))
    return np.asarray(place[None, :] < np.arange(len(order) + 1)[:, None])


def with_states(problem: Problem, more: Bools) -> Problem:
    """Add states, each once, in order of size."""
    states = np.concatenate([problem.members, more])
    each = {bits.tobytes(): i for i, bits in enumerate(np.packbits(states, axis=1))}
    sizes = states.sum(axis=1)
    kept = [i for _, _, i in sorted((int(sizes[i]), bits, i) for bits, i in each.items())]
    return replace(problem, members=np.ascontiguousarray(states[kept]))


def _orders(problem: Problem) -> list[tuple[int, ...]]:
    """The orders, each once."""
    before: list[list[int]] = [[] for _ in range(problem.layers)]
    for a, b in edges_of(problem):
        before[b].append(a)
    depth = [0] * problem.layers
    for v in range(problem.layers):
        depth[v] = max((depth[a] + 1 for a in before[v]), default=0)
    places = [tuple(row) for row in problem.allowed.tolist()]
    found = [tuple(range(problem.layers)), _taken(before, lambda v, last: (depth[v], v))]
    found.append(_taken(before, lambda v, last: (last not in before[v], -v)))
    for first in sorted(set(places)):
        found.append(_together(before, places, first))
    return list(dict.fromkeys(found))


def _taken(before: list[list[int]], rank: Callable[[int, int], tuple[float, ...]]) -> tuple[int, ...]:
    """An order that takes, of the Layers that can come next, that of the lowest rank when it became ready."""
    after, open_ = _waiting(before)
    ready = [(rank(v, -1), v) for v in range(len(before)) if not before[v]]
    heapq.heapify(ready)
    order = []
    while ready:
        _, u = heapq.heappop(ready)
        order.append(u)
        for v in after[u]:
            open_[v] -= 1
            if not open_[v]:
                heapq.heappush(ready, (rank(v, u), v))
    return tuple(order)


def _together(before: list[list[int]], places: Sequence[object], first: object) -> tuple[int, ...]:
    """An order that stays with one place as long as a Layer of it can come next."""
    after, open_ = _waiting(before)
    ready: dict[object, list[int]] = {first: []}
    for v in range(len(before)):
        if not before[v]:
            ready.setdefault(places[v], []).append(v)
    order, place = [], first
    while any(ready.values()):
        if not ready[place]:
            place = max(ready, key=lambda each: len(ready[each]))
        u = ready[place].pop()
        order.append(u)
        for v in after[u]:
            open_[v] -= 1
            if not open_[v]:
                ready.setdefault(places[v], []).append(v)
    return tuple(order)


def _waiting(before: list[list[int]]) -> tuple[list[list[int]], list[int]]:
    """What comes after each Layer, and how many Layers each waits for."""
    after: list[list[int]] = [[] for _ in before]
    for v, needs in enumerate(before):
        for u in needs:
            after[u].append(v)
    return after, [len(needs) for needs in before]


def _fewest_bytes(problem: Problem, states: Bools, most: int) -> Bools:
    """Of each run of neighbouring cuts the one with the fewest bytes, so that about ``most`` are left."""
    if len(states) <= most:
        return states
    crossing = replace(problem, members=states).cut_bytes
    inner = np.array_split(np.arange(1, len(states) - 1), most)
    kept = [0, *(int(run[np.argmin(crossing[run])]) for run in inner if len(run)), len(states) - 1]
    return states[kept]


def _levels(problem: Problem, types: Sequence[int]) -> Bools:
    """States between the runs of one type, Layers being taken as early as their type allows."""
    depth = [0] * problem.layers
    inputs: list[list[int]] = [[] for _ in range(problem.layers)]
    for a, b in edges_of(problem):
        inputs[b].append(a)
    for v in range(problem.layers):
        before: Iterable[int] = (depth[a] + (types[a] != types[v]) for a in inputs[v])
        depth[v] = max(before, default=int(types[v] != types[0]))
        depth[v] += (depth[v] % 2 == 0) != (types[v] == types[0])  # one type to a level
    return np.array([[d < level for d in depth] for level in range(max(depth) + 2)], np.bool_)
