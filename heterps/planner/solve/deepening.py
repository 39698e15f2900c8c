"""The depth of a plan that was chosen: more batches in flight where it is played slower than it was forecast.

A batch that is alone on its way tells how many are at work at once. Where several parts of a pipeline are busy nearly
all the time, batches also wait for one another, at each of them: then more must be under way; how many, playing says.

A plan that has no room for as many as it needs has it at fewer rows a second: lanes have whole batches, so a little
slower can be a whole batch less in each of them.
"""

from __future__ import annotations

import math
from dataclasses import replace

from heterps.planner.costs.forecast import FULFILLED
from heterps.planner.costs.on_the_way import depths_of
from heterps.planner.costs.playing import most_at_depth
from heterps.planner.goals import Goal
from heterps.planner.plan import Plan
from heterps.planner.solve.assemble import Draft, assemble, at_depth, at_rate, batches_held, in_flight
from heterps.planner.solve.checks import PlayedBeside, check_plan, played_beside, with_played
from heterps.planner.solve.placement import Segment
from heterps.planner.solve.problem import Problem
from heterps.protocol.words.modes import Mode

__all__ = ["finished", "slowed", "without_room"]

_GAIN = 1.02  # what more batches in flight must bring, at the least
_TURNS = 4


def finished(draft: Draft, rows_per_second: float | None, mode: Mode | None) -> tuple[Draft, Plan]:
    """Return the draft with as many batches in flight as let it reach its forecast, or help, and fit; and its plan.

    That is asked of it where no lane waits for another. In another mode the plan says what comes of it there.

    Raises
    ------
    PlanError
        If the plan contradicts itself.
    """
    draft, made, played = _deep_enough(draft, rows_per_second)
    made = with_played(check_plan(made, played), played)
    if mode is None or mode == made.mode:
        return draft, made
    draft = _with_lanes(draft, rows_per_second, mode) if mode.ordered else draft
    return draft, assemble(draft, rows_per_second, mode)


def _deep_enough(draft: Draft, rows_per_second: float | None) -> tuple[Draft, Plan, PlayedBeside | None]:
    """The draft with as many batches in flight as let it reach its forecast, or help, and fit; its plan as played."""
    made = assemble(draft, rows_per_second)
    played = played_beside(made, draft.costs)
    for _ in range(_TURNS):
        if played is None or played.part >= FULFILLED:
            break
        more = _deeper(draft)
        if more.depths == draft.depths or without_room(more):
            break
        tried = assemble(more, rows_per_second)
        again = played_beside(tried, draft.costs)
        if again is None or again.part < _GAIN * played.part:
            break
        draft, made, played = more, tried, again
    return draft, made, played


def _deeper(draft: Draft) -> Draft:
    """The next depths to be tried."""
    _, most = depths_of(draft.costs)
    return replace(draft, depths=tuple(min(most, math.ceil(1.5 * depth)) for depth in draft.depths))


def _with_lanes(draft: Draft, rows_per_second: float | None, mode: Mode) -> Draft:
    """A draft with a lane for each worker that reads where that is enough: a step adds up all lanes; else with more."""
    single = replace(draft, depths=(1,) * len(draft.depths))
    played = played_beside(assemble(single, rows_per_second, mode), draft.costs)
    return single if played is not None and played.part >= FULFILLED else _even(draft)


def _even(draft: Draft) -> Draft:
    """A draft with as many batches in flight on every worker that reads: a run spreads its lanes evenly over these."""
    each = math.ceil(in_flight(draft) / sum(draft.found.placement.segments[0].counts))
    even = replace(draft, depths=(each,) * len(draft.depths))
    return replace(draft, depths=(min(draft.depths),) * len(draft.depths)) if without_room(even) else even


def slowed(draft: Draft, goal: Goal) -> Draft | None:
    """Return a draft that does not fit at as many rows a second as it has room for; None if these are too few."""
    for rate in _slower_rates(draft):
        fitting = at_rate(draft, rate)
        if without_room(fitting):
            continue
        found = goal.slower(draft.found, rate)
        if found is None:
            return None
        slower = replace(fitting, found=found, fits=True, slowed=True)
        if draft.problem.mixes.size:
            slower = at_depth(slower)  # pools that share a stage carry other parts then
        if not without_room(slower):
            return slower
    return None


def _slower_rates(draft: Draft) -> list[float]:
    """Rows a second at which a lane of one pool or the other needs a batch less, the most first."""
    least, _ = depths_of(draft.costs)
    pairs = ((each, d) for each, depth in zip(draft.at_work, draft.depths, strict=True) for d in range(least, depth))
    rates = {min(most_at_depth(each, depth), draft.found.rows_per_second) for each, depth in pairs if each > 0}
    return sorted(rates, reverse=True)


def without_room(draft: Draft) -> bool:
    """Whether workers of some stage hold more batches than they have room for, or than may be in flight."""
    segments = draft.found.placement.segments
    return not all(_fits(draft.problem, *each) for each in zip(segments, batches_held(draft), strict=True))


def _fits(problem: Problem, segment: Segment, held: tuple[int, ...]) -> bool:
    each = zip(segment.types, held, strict=True)
    return all(problem.holds(segment.start, segment.stop, t) >= batches for t, batches in each)
