"""The depth of a plan that was chosen: more batches in flight where it is played slower than it was forecast.

A batch that is alone on its way tells how many are at work at once. Where several parts of a pipeline are busy nearly
all the time, batches also wait for one another, at each of them: then more must be under way; how many, playing says.
"""

from __future__ import annotations

from dataclasses import replace

from heterps.planner.costs.planning_model import at_depth
from heterps.planner.costs.playing import deeper
from heterps.planner.plan import Plan
from heterps.planner.solve.assemble import Draft, assemble, batches_held, check_plan, played_beside
from heterps.planner.solve.problem import Problem, Segment
from heterps.protocol.words.modes import Mode

__all__ = ["finished", "without_room"]

_REACHED = 0.9  # of its forecast, at which a plan is deep enough
_GAIN = 1.02  # what more batches in flight must bring, at the least
_TURNS = 4


def finished(draft: Draft, rows_per_second: float | None, mode: Mode | None) -> tuple[Draft, Plan]:
    """Return the draft with as many batches in flight as let it reach its forecast, or help, and fit; and its plan.

    Raises
    ------
    PlanError
        If the plan contradicts itself.
    """
    made = assemble(draft, rows_per_second, mode)
    played = played_beside(made, draft.costs)
    for _ in range(_TURNS):
        if played is None or played.part >= _REACHED:
            break
        more = replace(draft, depth=deeper(draft.depth))
        if more.depth == draft.depth or without_room(more):
            break
        tried = assemble(more, rows_per_second, mode)
        again = played_beside(tried, draft.costs)
        if again is None or again.part < _GAIN * played.part:
            break
        draft, made, played = more, tried, again
    return draft, check_plan(made, played)


def without_room(draft: Draft) -> list[int]:
    """Batches that workers of a stage hold, for the stages whose workers have no room for them."""
    segments = draft.found.placement.segments
    return [
        held
        for segment, held in zip(segments, batches_held(segments, draft.depth), strict=True)
        if not _fits(at_depth(draft.problem, draft.costs, held), segment)
    ]


def _fits(problem: Problem, segment: Segment) -> bool:
    start, stop = segment.start, segment.stop
    beside = problem.beside_memory[start] + problem.beside_memory[stop]
    used = problem.memory[stop] - problem.memory[start] + beside <= problem.memory_cap
    return all(used[t] for t in (segment.type, segment.other) if t >= 0)
