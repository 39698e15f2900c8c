"""What other ways of planning come to beside a plan, and why they lose."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from heterps.planner.costs.forecast import Rival
from heterps.planner.costs.planning_model import is_priced, shared_name
from heterps.planner.goals import FixedRate, Goal, MaxThroughput, MinCost
from heterps.planner.solve.assemble import Draft
from heterps.planner.solve.choose import among_all
from heterps.planner.solve.effort import Deadline, UndecidedError
from heterps.planner.solve.placement import Placement
from heterps.planner.solve.problem import Problem
from heterps.planner.solve.search import SearchResult, Solve
from heterps.planner.solve.solvers import solver

if TYPE_CHECKING:
    from heterps.planner.planner import Request

__all__ = ["rivals"]

_MANY_STATES, _RIVAL_SECONDS = 400, 1.0  # cuts beyond which rivals of a plan are looked for only once, and so long


def rivals(
    request: Request, draft: Draft, names: Iterable[str] = ("cpu-only", "gpu-only", "greedy")
) -> Iterable[Rival]:
    """What other ways of planning come to, and why they lose."""
    draft = among_all(request, draft)
    problem = draft.problem
    large = problem.states > _MANY_STATES
    deadline = Deadline(min(_RIVAL_SECONDS, request.seconds / 10) if large else request.seconds / 10)
    enough = Deadline(0.0) if large else deadline  # the first that is found is taken
    for name in names:
        if deadline.over:  # of some it is not known then
            return
        try:
            other = _rival(request.goal, problem, solver(name).within(deadline), enough)
        except UndecidedError:
            continue
        if other is None:
            yield Rival(name, None, None, "no feasible plan of this kind")
        elif not _same(other.placement, draft.found.placement):
            price = problem.price_of(other.placement.segments, other.placement.hosts)
            rate = request.goal.rows_per_second if isinstance(request.goal, FixedRate) else other.rows_per_second
            per_million = price / 3600 * 1e6 / rate if is_priced(request.hardware) else None
            yield Rival(name, per_million, rate, _why(request, draft, other))


def _rival(goal: Goal, problem: Problem, by: Solve, deadline: Deadline) -> SearchResult | None:
    """The best that a way of planning finds; where all it has is dearer than what was compared, for what was asked."""
    found = goal.search(problem, by, deadline)
    if found is None and isinstance(goal, MinCost) and math.isfinite(goal.price_per_hour):
        goal = replace(goal, price_per_hour=math.inf, up_to=goal.rows_per_second)
        return goal.search(problem, by, deadline)
    return found


def _same(a: Placement, b: Placement) -> bool:
    return [(s.start, s.stop, s.type) for s in a.segments] == [(s.start, s.stop, s.type) for s in b.segments]


def _why(request: Request, draft: Draft, other: SearchResult) -> str:
    where = _where(draft, other.placement)
    if isinstance(request.goal, MaxThroughput):
        cheaper = other.placement.price / other.value < draft.found.placement.price / draft.found.value
        note = " (cheaper per row, which is not the goal)" if cheaper else ""
        return f"{other.value / draft.found.value:.2f} of the throughput{note}; bound by {where}"
    saved = "price" if is_priced(request.hardware) else "units"
    value = draft.found.value
    if not value:
        return f"the plan costs nothing; bound by {where}"
    times = f"{other.value / value:.2f}"
    return f"{'about the same' if times == '1.00' else f'{times} times the'} {saved}; bound by {where}"


def _where(draft: Draft, placement: Placement) -> str:
    """What a placement is bound by, in words."""
    limits = draft.problem.limits(placement)
    kind, _, number = min(limits, key=lambda name: limits[name]).partition(" ")
    if kind == "shared":
        return shared_name(draft.problem, draft.costs.hardware, int(number))
    if not number.isdecimal():
        return f"{kind} {number}"
    segment = placement.segments[int(number)]
    names = [draft.costs.layers.layers[v].name for v in draft.problem.stage_layers(segment)]
    stage = f"{names[0]} .. {names[-1]} on {segment.units} {draft.pool(segment.type).name}"
    return {"room": "memory of ", "depth": "batches in flight of "}.get(kind, "") + stage
