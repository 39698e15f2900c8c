"""The core of a problem: Layers whose cuts can be listed, and what all other ones take of a plan at the least.

A model with a hundred tables has more cuts than can be listed, nearly all of them for the order in which rows are
pulled and pooled; where its plans differ is behind. So Layers are left out: branches that nothing but one Layer of the
core reads (:mod:`heterps.planner.solve.branch_ends`), and where that is not enough, those that take least. Every plan,
without them, is a plan of what is left: its stages have less work and need less room, less crosses the cuts between
them, and stages that had nothing else are gone. So whatever no plan of the core can do, no plan can. What is left out
is not forgotten: ends of branches take what these take beside them, all units of a type have the time and the room for
everything, and all is where it takes least of the way that a batch is on.

All Layers must come after the first, which is in the core: so the first stage of a plan is the first of its core.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from heterps.planner.solve.branch_ends import Branch, BranchEnd, branches_of, ends_of, work_of
from heterps.planner.solve.dag import all_after_first, edges_of, over_downsets
from heterps.planner.solve.making import prefixes
from heterps.planner.solve.placement import Bools, Floats, Flow
from heterps.planner.solve.problem import Problem

__all__ = ["Core", "Place", "core_of"]

_MOST_STATES = 3_000
_SMALLER = 0.9  # times as many Layers has a core that is tried next

Place = tuple[int, int]  # a Layer of the core, and its type


@dataclass(frozen=True, eq=False)
class Core:
    """The problem with the Layers of the core alone, over all their cuts; and what takes parts of units, by resource.

    Parts for each row a second, and of the last resource, room, for each batch in flight. ``bare`` is the problem
    without what branches take, ``work``, float[R + 1, L, T], what the core's Layers take themselves, ``alone``,
    float[Q, T, T * (R + 1)], what Layers do that are left out and no branches, by where they run (inf: where they must
    not), ``ends`` what branches take. ``shares`` are ranges of the branches that are together with their end.
    """

    bare: Problem
    work: Floats
    alone: Floats
    ends: Mapping[Place, BranchEnd]
    shares: Mapping[Place, tuple[float, float]]

    @property
    def problem(self) -> Problem:
        """The problem in which ends of branches take what these take beside them."""
        p = self.bare
        parallel, memory, held, way = (
            each.copy() for each in (p.layer_parallel, p.layer_memory, p.layer_held, p.layer_way)
        )
        for (v, t), end in self.ends.items():
            *seconds, once, each, longer = end.least_beside(*self.shares.get((v, t), (0.0, 1.0)))
            parallel[:, v, t] += seconds
            memory[v, t] += once
            held[v, t] += each
            way[v, t] += longer
        return replace(p, layer_parallel=parallel, layer_memory=memory, layer_held=held, layer_way=way)


def core_of(problem: Problem) -> Core | None:
    """Return the core of a problem; None if it has none whose cuts can be listed."""
    if problem.mixes.size or not all_after_first(problem):
        return None
    branches = branches_of(problem)
    kept = np.ones(problem.layers, np.bool_)
    kept[[v for branch in branches for v in branch.layers]] = False
    light, ends = _lightest(problem, kept), ends_of(problem, branches)
    marked = _marked(problem, ends)
    while light:
        every, complete = over_downsets(_without(marked, kept), _MOST_STATES)
        if complete:
            return _core(problem, every, branches, ends, kept)
        gone = len(light) - int(_SMALLER * len(light))
        kept[light[:gone]] = False
        light = light[gone:]
    return None


def _core(
    problem: Problem, every: Problem, branches: list[Branch], ends: Mapping[Place, BranchEnd], kept: Bools
) -> Core:
    place, alone = np.cumsum(kept) - 1, ~kept
    alone[[v for branch in branches if kept[branch.end] for v in branch.layers]] = False
    mine = {(int(place[v]), t): end for (v, t), end in ends.items() if kept[v]}
    work = work_of(problem)
    return Core(every, work[:, kept], _alone(work[:, alone], problem.allowed[alone]), mine, {})


def _lightest(problem: Problem, kept: Bools) -> list[int]:
    """Layers that might be left out, but the first, in order of what they take, of memory or of time, at the most."""
    held, seconds = problem.layer_held / problem.memory_cap, problem.layer_parallel[0]
    parts = (np.where(problem.allowed, each, 0.0) for each in (held, seconds))
    heavy = np.maximum(*((each / max(float(each.sum(axis=0).max()), 1e-300)).max(axis=1) for each in parts))
    return [int(v) for v in np.argsort(heavy, kind="stable") if v > 0 and kept[v]]


def _marked(problem: Problem, ends: Mapping[Place, BranchEnd]) -> Problem:
    """The problem in which Layers are alike only if their branches are, too.

    What is shared is not looked at in a core: in its place stands which ends have the same branches.
    """
    kind, kinds = np.zeros((1, problem.layers, problem.types)), dict[bytes, int]()
    for (v, t), end in ends.items():
        same = b"".join(each.tobytes() for each in (end.beside, end.cases, end.together, end.weight))
        kind[0, v, t] = kinds.setdefault(same, len(kinds) + 1)
    none = np.zeros((1, problem.types))
    return replace(
        problem,
        layer_usage=kind,
        byte_usage=none,
        turn_usage=none,
        fixed_usage=none[:, 0],
        capacity=np.full(1, np.inf),
        link=np.full_like(problem.link, -1),
    )


def _alone(work: Floats, allowed: Bools) -> Floats:
    """What single Layers take, by where they run."""
    resources, layers, types = work.shape
    taken = np.zeros((layers, types, types, resources))
    for t in range(types):
        taken[:, t, t] = work[:, :, t].T
        taken[~allowed[:, t], t] = np.inf
    return taken.reshape(layers, types, types * resources)


def _without(problem: Problem, kept: Bools) -> Problem:
    """The problem without Layers that are not kept; what came after another one through them still does."""
    place = np.cumsum(kept) - 1
    flows = [flow for flow in problem.flows if kept[flow.source] and kept[flow.target]]
    flows += [Flow(a, b, f"order {a}", 0.0) for a, b in _through(problem, kept)]
    return replace(
        problem,
        members=prefixes(int(kept.sum())),
        layer_serial=problem.layer_serial[:, kept],
        layer_parallel=problem.layer_parallel[:, kept],
        allowed=problem.allowed[kept],
        layer_memory=problem.layer_memory[kept],
        layer_held=problem.layer_held[kept],
        layer_way=problem.layer_way[kept],
        gradients=problem.gradients[kept],
        layer_usage=problem.layer_usage[:, kept],
        flows=tuple(replace(f, source=int(place[f.source]), target=int(place[f.target])) for f in flows),
        way=problem.way + float(problem.fastest_way[~kept].sum()),
    )


def _through(problem: Problem, kept: Bools) -> list[tuple[int, int]]:
    """Pairs of Layers that are kept, of which one comes after the other through some that are not."""
    found: set[tuple[int, int]] = set()
    sources: list[set[int]] = [set() for _ in range(problem.layers)]  # kept Layers from which one that is not comes
    for a, b in sorted(edges_of(problem), key=lambda edge: edge[1]):
        from_ = {a} if kept[a] else sources[a]
        if not kept[b]:
            sources[b] |= from_
        elif not kept[a]:
            found |= {(c, b) for c in from_}
    return sorted(found)
