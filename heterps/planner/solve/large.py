"""Graphs with more legal cuts than can be listed: good cuts to plan over, and what is proved then.

The cuts are those of the Layers' own order, those of the minimum cut where there are two types, and those that the
integer program over slots finds. Planning over them is exact; that no other cut is better is not proved, so the bound
is one that holds for every plan (:mod:`heterps.planner.solve.bounds`), and the gap says what is open.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from heterps.planner.goals import Goal
from heterps.planner.solve.dag import MOST_STATES, over_downsets
from heterps.planner.solve.mincut import min_cut
from heterps.planner.solve.problem import Bools, Problem
from heterps.planner.solve.search import SearchResult, Solve
from heterps.planner.solve.slot_program import slot_placement

__all__ = ["planned", "searched", "with_cuts"]

_SECONDS = 3.0  # for the integer program


def with_cuts(problem: Problem, most: int = MOST_STATES) -> tuple[Problem, bool]:
    """The problem with all legal cuts as states, and True; with good ones, and False, if there are too many."""
    listed, complete = over_downsets(problem, most)
    if complete or problem.types != 2:
        return listed, complete
    return _with_states(listed, _levels(problem, min_cut(problem)[0])), False


def planned(problem: Problem, goal: Goal, solve: Solve) -> tuple[Problem, SearchResult | None, bool]:
    """Search over all legal cuts, or over good ones; the problem with those, what was found, whether they are all."""
    listed, complete = with_cuts(problem)
    return listed, goal.search(listed, solve), complete


def searched(problem: Problem, goal: Goal, solve: Solve) -> tuple[Problem, SearchResult | None]:
    """Search over the cuts there are and those of the integer program; the bound is one for all cuts."""
    found = goal.search(problem, solve)
    if found is None:
        return problem, found
    wanted = goal.target or found.rows_per_second
    slotted = slot_placement(problem, wanted, seconds=_SECONDS)
    if slotted is not None:
        problem = _with_states(problem, slotted[0])
        found = goal.search(problem, solve) or found
    bound = goal.bound(problem)
    return problem, replace(
        found,
        bound=max(bound, found.value) if goal.rises else min(bound, found.value),
        proof=f"{found.proof}, over {problem.states:,} of more than {MOST_STATES:,} legal cuts; the bound is for all",
    )


def _with_states(problem: Problem, more: Bools) -> Problem:
    """Add states, each once, in order of size."""
    states = np.unique(np.concatenate([problem.members, more]), axis=0)
    return replace(problem, members=np.ascontiguousarray(states[np.argsort(states.sum(axis=1), kind="stable")]))


def _levels(problem: Problem, types: Sequence[int]) -> Bools:
    """States between the runs of one type, Layers being taken as early as their type allows."""
    depth = [0] * problem.layers
    for v in range(problem.layers):
        before = [depth[f.source] + (types[f.source] != types[v]) for f in problem.flows if f.target == v]
        depth[v] = max(before, default=int(types[v] != types[0]))
        depth[v] += (depth[v] % 2 == 0) != (types[v] == types[0])  # one type to a level
    return np.array([[d < level for d in depth] for level in range(max(depth) + 2)], np.bool_)
