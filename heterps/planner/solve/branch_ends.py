"""What branches that are left out of a problem take of a plan, at the least, given the type of their end.

A *branch* is a chain of Layers behind the first one that nothing but its end reads. Where the end is in a stage on type
t, the last Layers of the branch may be in that stage, too: then branch and end are *together*. What the Layer before
these makes crosses the cut where the stage begins. So the stage takes the least, over how many of them are in it, of
what crosses and what is behind it: of time, of memory, of the way (:attr:`BranchEnd.beside`). Layers that must not be
on t are not behind; nor is the last one if they are not together.

The work of a branch that is in other stages, of whichever units, belongs to all units of a type together, which must
have the time for it, and the room: k units have room for N batches of a Layer only if k is at least ``N * each / (cap -
once)``, and for those of several the sum. So it is with what is sent and received between Layers on different types,
and to the end if that is not together with the last. Each *case*, a type for each Layer, together or not, is one that a
plan may choose (:attr:`BranchEnd.cases`).

Of many branches, those that are together with their end are a *share* of all, by the bytes of their last tensors. Where
this share is within a range, what the end's stage takes is at least the best choice of branches, parts of one allowed:
as many as the range asks for of those where it costs least.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from heterps.planner.solve.placement import Floats, Flow
from heterps.planner.solve.problem import Problem

__all__ = ["Branch", "BranchEnd", "branches_of", "ends_of", "work_of"]

_LONGEST = 2  # Layers of a branch: what pulls rows, and what pools them


@dataclass(frozen=True)
class Branch:
    """Layers, each read by the next one only, and the last by ``end``; with the tensors between them."""

    layers: tuple[int, ...]
    tensors: tuple[Flow, ...]
    end: int


@dataclass(frozen=True, eq=False)
class BranchEnd:
    """What ``B`` branches take that end in one Layer on one type.

    Parameters
    ----------
    beside
        float[B, 2, R + 3]: of the stage of the end, where they are not together with it, and where they are: seconds by
        resource, memory, memory for each batch, and the way. inf: that cannot be.
    cases, together
        float[B, C, T * (R + 1)], bool[B, C]: parts of units for each row a second by type and resource, and for each
        batch in flight; inf: that cannot be. Whether a case is together.
    weight
        float[B]: what part of the share a branch is.
    """

    beside: Floats
    cases: Floats
    together: Floats
    weight: Floats

    def least_beside(self, low: float, high: float) -> Floats:
        """float[R + 3]: what the stage of the end takes at the least where the share is within a range."""
        apart, joined = self.beside[:, 0], self.beside[:, 1]
        more = np.where(np.isfinite(joined), joined, np.inf) - apart
        filled = (_filled(each, self.weight, low, high) for each in more.T)
        return np.asarray(apart.sum(axis=0) + np.array([*filled]))


def _filled(more: Floats, weight: Floats, low: float, high: float) -> float:
    """The least sum of parts of ``more`` whose weights add up to something from low to high."""
    total, sum_ = 0.0, 0.0
    free = np.isfinite(more)
    each = more[free] / np.maximum(weight[free], 1e-300)
    for cost, size in sorted(zip(each, weight[free], strict=True)):
        room = (high if cost < 0 else low) - total
        part = min(float(size), max(0.0, room))
        total, sum_ = total + part, sum_ + part * float(cost)
    return sum_


def branches_of(problem: Problem) -> list[Branch]:
    """Return the chains that begin behind the first Layer."""
    after: list[dict[int, list[Flow]]] = [{} for _ in range(problem.layers)]
    before: list[set[int]] = [set() for _ in range(problem.layers)]
    for flow in problem.flows:
        after[flow.source].setdefault(flow.target, []).append(flow)
        before[flow.target].add(flow.source)
    found = []
    for v in range(1, problem.layers):
        layers, tensors = [v], []
        while before[v] == {0} and len(after[layers[-1]]) == 1:
            ((reader, flows),) = after[layers[-1]].items()
            tensors.append(_together(flows))
            if len(layers) == _LONGEST or not before[reader] <= {0, layers[-1]} or len(after[reader]) != 1:
                break
            layers.append(reader)
        if tensors:
            found.append(Branch(tuple(layers), tuple(tensors), tensors[-1].target))
    return found


def _together(flows: list[Flow]) -> Flow:
    """Tensors between two Layers as one."""
    return replace(flows[0], bytes=sum(flow.bytes for flow in flows), back=sum(flow.back for flow in flows))


def ends_of(problem: Problem, branches: Sequence[Branch]) -> dict[tuple[int, int], BranchEnd]:
    """Return what branches take by the Layer that they end in, and its type."""
    by_end: dict[int, list[Branch]] = {}
    for branch in branches:
        by_end.setdefault(branch.end, []).append(branch)
    figures = work_of(problem), *_moves(problem)
    return {
        (end, int(t)): _end(problem, mine, int(t), figures)
        for end, mine in by_end.items()
        for t in np.flatnonzero(problem.allowed[end])
    }


def _end(problem: Problem, branches: list[Branch], t: int, figures: tuple[Floats, ...]) -> BranchEnd:
    sizes = np.array([branch.tensors[-1].bytes + branch.tensors[-1].back for branch in branches])
    every = [[*_cases(problem, branch, t, figures)] for branch in branches]
    longest, each = max(map(len, every)), problem.types * len(figures[0])
    cases = np.full((len(branches), longest, each), np.inf)
    together = np.zeros((len(branches), longest))
    for b, mine in enumerate(every):
        for c, (joined, taken) in enumerate(mine):
            cases[b, c], together[b, c] = taken, joined
    weight = sizes / sizes.sum() if sizes.sum() > 0 else np.full(len(branches), 1 / len(branches))
    return BranchEnd(np.array([_beside(problem, branch, t) for branch in branches]), cases, together, weight)


def _beside(problem: Problem, branch: Branch, t: int) -> Floats:
    """float[2, R + 3]: what a branch takes of the stage of its end on t: not together with it, and together."""
    found = np.full((2, len(problem.layer_parallel) + 3), np.inf)
    for i in range(len(branch.layers), -1, -1):
        behind = list(branch.layers[i:])
        if not problem.allowed[behind, t].all():
            break
        joined = int(bool(behind))
        found[joined] = np.minimum(found[joined], _parted(problem, branch, i, t))
    return found


def _parted(problem: Problem, branch: Branch, i: int, t: int) -> Floats:
    """What crosses to a stage on t that has the i-th Layer of a branch and those behind it, and what these take.

    Of the way, what is more than where Layers take least of it.
    """
    p, behind = problem, list(branch.layers[i:])
    crosses = branch.tensors[i - 1] if i else replace(branch.tensors[0], bytes=0.0, back=0.0)
    size = crosses.bytes + crosses.back
    seconds = p.layer_parallel[:, behind, t].sum(axis=1)
    seconds = seconds + crosses.bytes * p.receive_s[:, t] + crosses.back * p.send_s[:, t]
    memory, held = (float(each[behind, t].sum()) for each in (p.layer_memory, p.layer_held))
    way = size * (p.cut_way[t] + p.own_way[0, t]) + (p.layer_way[behind, t] - p.fastest_way[behind]).sum()
    return np.array([*seconds, memory, held + size * p.cut_memory, way])


def work_of(problem: Problem) -> Floats:
    """float[R + 1, L, T]: parts of units that Layers take for each row a second, and, of room, for each batch."""
    room = np.maximum(problem.memory_cap - problem.layer_memory, 0.0)
    parts = np.divide(problem.layer_held, room, out=np.zeros_like(room), where=np.isfinite(room) & (room > 0))
    return np.concatenate([problem.layer_parallel, parts[None]])


def _moves(problem: Problem) -> tuple[Floats, Floats]:
    """float[R + 1, T]: parts of units that a byte takes which is received, or sent, over a cut."""
    cap = problem.memory_cap
    room = np.divide(problem.cut_memory, cap, out=np.zeros_like(cap), where=np.isfinite(cap) & (cap > 0))
    return np.vstack([problem.receive_s, room]), np.vstack([problem.send_s, room])


def _cases(problem: Problem, branch: Branch, t: int, figures: tuple[Floats, ...]) -> Iterator[tuple[bool, Floats]]:
    """Yield whether a branch is together with its end, on t, and what it takes, in each case."""
    for places in itertools.product(*(np.flatnonzero(problem.allowed[v]).tolist() for v in branch.layers)):
        for joined in (False, True) if places[-1] == t else (False,):
            yield joined, _taken(problem, branch, (*places, t), joined, figures)


def _taken(
    problem: Problem, branch: Branch, places: tuple[int, ...], joined: bool, figures: tuple[Floats, ...]
) -> Floats:
    work, receive, send = figures
    taken = np.zeros((problem.types, len(work)))
    for v, t in zip(branch.layers, places, strict=False):
        taken[t] += work[:, v, t]
    for n, (flow, (a, b)) in enumerate(zip(branch.tensors, itertools.pairwise(places), strict=True), 1):
        if a != b or (n == len(branch.layers) and not joined):
            taken[a] += flow.bytes * send[:, a] + flow.back * receive[:, a]
            taken[b] += flow.bytes * receive[:, b] + flow.back * send[:, b]
    return taken.ravel()
