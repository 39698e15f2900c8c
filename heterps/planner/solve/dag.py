"""States of a DAG: its downsets, less those that no best plan needs.

A downset holds, with every Layer, all that it depends on: a legal cut. A plan is a chain of downsets, so dynamic
programming over them is exact; only their number limits it. Two theorems leave some out; nothing else may.

**Joining** (:func:`blocks`). Let u and v be neighbours that stand before or after every other Layer, both allowed on
type t only; let no Layer that is allowed on t have serial time there, let all of them together fit a worker, and let
nothing be known of batches in flight. Then
some best plan does not cut between u and v. For the only downset with u and without v is what lies before v, so a plan
that cuts there has two neighbouring stages on t. As one stage they need, by every resource, the sum of their work less
that of the cut between them (and less v's gradients, which the stage of u passed on), and ceil(a + b) <= ceil(a) +
ceil(b): no more units, no more of anything shared, no more bytes on links; the memory fits by assumption. (With a Layer
beside u and v, a stage can lie between theirs: not so.)

**Ordering** (:func:`alike_edges`). Let B1 .. Bm be chains of equal length that are components of the graph once the
Layers that stand before or after all others of their surroundings are taken away, the k-th Layers of all being equal in
figures, places and tensors to the outside. Then some best plan has at every cut, for every k, the k-th Layer of B(i+1)
done only where that of B(i) is. For a cut is, as far as the chains go, a list of how far each has come; sort every such
list. Rising lists, each sorted, rise still, so the cuts are a chain of downsets as before; and a stage holds as many
k-th Layers as before, the number of chains that have come so far being the same: the same work, memory, bytes, units.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from heterps.planner.solve.making import prefixes
from heterps.planner.solve.placement import Bools, Flow
from heterps.planner.solve.problem import Problem

__all__ = [
    "MOST_STATES",
    "alike_branches",
    "alike_edges",
    "all_after_first",
    "blocks",
    "downsets",
    "edges_of",
    "in_groups",
    "over_downsets",
]

MOST_STATES = 20_000
Edges = set[tuple[int, int]]


def downsets(size: int, edges: Iterable[tuple[int, int]], most: int = MOST_STATES) -> Bools | None:
    """All downsets of a DAG on ``size`` elements, smallest first; None if there are more than ``most``."""
    return _downsets(size, frozenset(edges), most)


@lru_cache(maxsize=8)  # a model has the same cuts at every batch size, nearly always
def _downsets(size: int, edges: frozenset[tuple[int, int]], most: int) -> Bools | None:
    needs, after = [0] * size, [0] * size
    for source, target in edges:
        needs[target] |= 1 << source
        after[source] |= 1 << target
    level = {0: sum(1 << v for v in range(size) if not needs[v])}  # what can come next, by state
    found = [0]
    for _ in range(size):
        following: dict[int, int] = {}
        for state, ready in level.items():
            for v in _bits(ready):
                bigger = state | 1 << v
                if bigger not in following:
                    freed = sum(1 << w for w in _bits(after[v]) if needs[w] & ~bigger == 0)
                    following[bigger] = ready & ~(1 << v) | freed
            if len(found) + len(following) > most:
                return None
        level = following
        found += sorted(following)
    return _unpacked(found, size)


def blocks(problem: Problem) -> list[int]:
    """The block of each Layer, numbered in order: Layers between which no plan need cut (the first theorem)."""
    before, after = _closure(range(problem.layers), edges_of(problem))
    line = sorted(_in_line(range(problem.layers), before, after), key=lambda v: before[v].bit_count())
    free, block = _joins_freely(problem), list(range(problem.layers))
    for u, v in itertools.pairwise(line):
        alike = problem.allowed[u].sum() == 1 and (problem.allowed[u] == problem.allowed[v]).all()
        if alike and before[v].bit_count() == before[u].bit_count() + 1 and (problem.allowed[u] & free).any():
            block[v] = block[u]
    numbers: dict[int, int] = {}
    return [numbers.setdefault(b, len(numbers)) for b in block]


def alike_edges(problem: Problem) -> Edges:
    """Edges that put interchangeable branches in an order (the second theorem)."""
    return {
        pair
        for branches in alike_branches(problem)
        for one, other in itertools.pairwise(branches)
        for pair in zip(one, other, strict=True)
    }


@lru_cache(maxsize=4)  # bounds and cuts ask for those of one problem
def alike_branches(problem: Problem) -> list[list[list[int]]]:
    """Lists of chains of Layers that are interchangeable."""
    found = []
    flows, touching = _by_tensor(problem)
    for chains in _siblings(problem):
        kinds: dict[object, list[list[int]]] = {}
        for chain in chains:
            tensors = {tensor: flows[tensor] for v in chain for tensor in touching[v]}
            kinds.setdefault(_signature(problem, chain, tensors), []).append(chain)
        found += [same for same in kinds.values() if len(same) > 1]
    return found


def in_groups(problem: Problem, groups: int) -> Bools | None:
    """States that take interchangeable branches in so many groups, not one by one; None if still more than can be had.

    Every one of them is a legal cut; that no other is needed does not follow.
    """
    block = list(range(problem.layers))
    order: Edges = set()
    for branches in alike_branches(problem):
        parts = [part.tolist() for part in np.array_split(np.arange(len(branches)), groups) if len(part)]
        for part in parts:
            for k, first in enumerate(branches[part[0]]):
                for i in part:
                    block[branches[i][k]] = first
        order |= {
            pair
            for one, other in itertools.pairwise(parts)
            for pair in zip(branches[one[0]], branches[other[0]], strict=True)
        }
    numbers: dict[int, int] = {}
    block = [numbers.setdefault(b, len(numbers)) for b in block]
    edges = {(block[a], block[b]) for a, b in edges_of(problem)} | {(numbers[a], numbers[b]) for a, b in order}
    states = downsets(len(numbers), edges, MOST_STATES // 10)
    return None if states is None else _expanded(states, block)


def over_downsets(problem: Problem, most: int = MOST_STATES) -> tuple[Problem, bool]:
    """The problem with the legal cuts as states, and True; with those of the given order, and False, if too many."""
    if problem.fused:
        return replace(problem, members=prefixes(problem.layers)[[0, -1]]), True
    block, edges = blocks(problem), edges_of(problem) | alike_edges(problem)
    between = {(block[a], block[b]) for a, b in edges if block[a] != block[b]}
    states = downsets(max(block, default=-1) + 1, between, most)
    if states is None:
        return replace(problem, members=prefixes(problem.layers)), False
    return replace(problem, members=_expanded(states, block)), True


def edges_of(problem: Problem) -> Edges:
    """Pairs of Layers of which the second needs the first."""
    return {(flow.source, flow.target) for flow in problem.flows}


def all_after_first(problem: Problem) -> bool:
    """Whether all Layers come after the first."""
    behind = {0}
    for a, b in sorted(edges_of(problem)):
        if a in behind:
            behind.add(b)
    return len(behind) == problem.layers


def _joins_freely(problem: Problem) -> Bools:
    """bool[T]: types on which nothing has a serial part and everything together fits a worker."""
    serial = (np.where(problem.allowed, problem.layer_serial, 0.0) == 0).all(axis=(0, 1))
    serial &= problem.calls is None or problem.calls.serial == 0
    crossing = 2 * problem.cut_memory * sum({flow.tensor: flow.bytes + flow.back for flow in problem.flows}.values())
    once, each = (
        np.where(problem.allowed, part, 0.0).sum(axis=0) for part in (problem.layer_memory, problem.layer_held)
    )
    fits = once + problem.held * (each + crossing) <= problem.memory_cap
    return np.asarray(serial & fits & (not problem.has_flight))


def _closure(among: Iterable[int], edges: Edges) -> tuple[dict[int, int], dict[int, int]]:
    """All that lies before, and after, each Layer, as bit sets; edges lead from smaller to larger numbers."""
    mine = sorted(among)
    before, after = dict.fromkeys(mine, 0), dict.fromkeys(mine, 0)
    inner = [(a, b) for a, b in edges if a in before and b in before]
    for a, b in sorted(inner, key=lambda edge: edge[1]):
        before[b] |= before[a] | 1 << a
    for a, b in sorted(inner, key=lambda edge: -edge[0]):
        after[a] |= after[b] | 1 << b
    return before, after


def _in_line(among: Iterable[int], before: dict[int, int], after: dict[int, int]) -> list[int]:
    """The Layers that stand before or after every other one."""
    mine = list(among)
    return [v for v in mine if before[v].bit_count() + after[v].bit_count() == len(mine) - 1]


def _siblings(problem: Problem) -> Iterator[list[list[int]]]:
    """Lists of chains that are components beside one another, at any depth."""
    edges, open_ = edges_of(problem), [list(range(problem.layers))]
    while open_:
        among = open_.pop()
        line = set(_in_line(among, *_closure(among, edges)))
        parts = _components([v for v in among if v not in line], edges)
        chains = [part for part in parts if len(_in_line(part, *_closure(part, edges))) == len(part)]
        if len(chains) > 1:
            yield chains
        branching = [part for part in parts if part not in chains]
        open_ += [part for part in branching if len(part) < len(among)]


def _components(among: list[int], edges: Edges) -> list[list[int]]:
    """Parts that no edge connects, each in order."""
    root = {v: v for v in among}

    def find(v: int) -> int:
        while root[v] != v:
            root[v] = v = root[root[v]]
        return v

    for a, b in edges:
        if a in root and b in root:
            root[find(b)] = find(a)
    parts: dict[int, list[int]] = {}
    for v in among:
        parts.setdefault(find(v), []).append(v)
    return list(parts.values())


def _by_tensor(problem: Problem) -> tuple[dict[str, list[Flow]], list[set[str]]]:
    """Flows by tensor, and the tensors that each Layer reads or makes."""
    flows: dict[str, list[Flow]] = {}
    touching: list[set[str]] = [set() for _ in range(problem.layers)]
    for flow in problem.flows:
        flows.setdefault(flow.tensor, []).append(flow)
        touching[flow.source].add(flow.tensor)
        touching[flow.target].add(flow.tensor)
    return flows, touching


def _signature(problem: Problem, chain: Sequence[int], tensors: dict[str, list[Flow]]) -> object:
    """All that a plan can see of a chain: figures and places of its Layers, tensors inside and to the outside.

    A tensor that only this chain reads or makes has no name of its own; one that others read too is that very one.
    """
    place = {v: i for i, v in enumerate(chain)}
    parts = (
        problem.layer_serial,
        problem.layer_parallel,
        problem.allowed,
        problem.layer_memory,
        problem.layer_held,
        problem.layer_way,
        problem.layer_usage,
        problem.gradients[:, None],
    )
    figures = tuple(part[..., v, :].tobytes() for v in chain for part in parts)
    return figures, tuple(sorted(_seen(flows, place) for flows in tensors.values()))


def _seen(flows: list[Flow], place: dict[int, int]) -> tuple[str, tuple[object, ...]]:
    """A tensor as a chain sees it: its Layers by their place in the chain, others by their number."""
    own = all(_touches(flow, place) for flow in flows)
    spots = sorted(
        (
            (f.source in place, place.get(f.source, f.source), f.target in place, place.get(f.target, f.target)),
            (f.bytes, f.back),
        )
        for f in flows
        if _touches(f, place)
    )
    return "" if own else flows[0].tensor, tuple(spots)


def _touches(flow: Flow, place: dict[int, int]) -> bool:
    return flow.source in place or flow.target in place


def _bits(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def _unpacked(states: list[int], size: int) -> Bools:
    """Bit sets as rows of booleans."""
    width = -(-size // 8) or 1
    packed = np.frombuffer(b"".join(s.to_bytes(width, "little") for s in states), np.uint8).reshape(len(states), width)
    return np.unpackbits(packed, axis=1, count=size, bitorder="little").astype(np.bool_)


def _expanded(states: Bools, block: Sequence[int]) -> Bools:
    return np.ascontiguousarray(states[:, np.asarray(block, np.int64)])
