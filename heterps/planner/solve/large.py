"""Search a problem over all its legal cuts where they can be listed, else over good ones; and what is proved then.

Over good cuts alone (:mod:`heterps.planner.solve.orders`, and those that the integer program over slots finds) planning
is exact, but that no other cut is better is not proved. So the bound is one that holds for every plan: the price with
fractional units over all cuts where these are listed; where they are not, the linear program of
:mod:`heterps.planner.solve.bounds`, and with whole units that of :mod:`heterps.planner.solve.type_program`. The gap
says what is open. That there is no plan is said only where such a bound says so.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from heterps.planner.goals import Goal
from heterps.planner.solve.dag import MOST_STATES, over_downsets
from heterps.planner.solve.effort import NEVER, Deadline, UndecidedError
from heterps.planner.solve.fair_prices import fairly_priced
from heterps.planner.solve.orders import along, good_cuts, with_states
from heterps.planner.solve.placement import Bools
from heterps.planner.solve.problem import Problem
from heterps.planner.solve.search import SearchResult, Solve
from heterps.planner.solve.slot_program import slot_placement
from heterps.planner.solve.type_program import TypeProgram

__all__ = ["FEW_STATES", "LargeOutcome", "closer_bound", "listed", "planned"]

FEW_STATES = 3_000  # cuts over which a search takes about a second
_MOST_CELLS = 1.5e7  # cuts x Layers beyond which listing them takes longer than anybody waits
_GOOD = 400  # cuts that are looked at first where there are more
_MANY_LAYERS = 50  # beyond which a bound over all cuts takes less time than listing them
_SLOT_COLUMNS = 160  # Layers x types beyond which nothing is found over slots in seconds
_SLOT_SECONDS = 3.0
_BOUND_SECONDS = 3.0
_ALL_CUTS = 0.3  # of the time that is left, to look at all cuts where they are many
_CLOSED = 1.01e-2  # a gap at which the integer program over slots is not asked
_ENOUGH = 1e-2  # a gap that is not worth looking at all cuts where they are many


@dataclass(frozen=True)
class LargeOutcome:
    """The problem with the cuts that were looked at, the best over them (None: there is none), and if they are all.

    ``beaten``: there is no plan that is better than the value that was to be beaten. ``loose``: the bound is one of
    fractions of units, and :func:`closer_bound` may have a better one.
    """

    problem: Problem
    found: SearchResult | None
    complete: bool
    beaten: bool = False
    loose: bool = False


def listed(problem: Problem, most: int = MOST_STATES) -> tuple[Problem, bool]:
    """The problem with all legal cuts as states, and True; with good ones, and False, if there are too many."""
    every, complete = over_downsets(problem, _listable(problem, most))
    return (every, True) if complete else (good_cuts(problem, _GOOD), False)


def _listable(problem: Problem, most: int) -> int:
    """How many cuts are listed at most: of a graph of many Layers fewer."""
    return min(most, int(_MOST_CELLS / max(problem.layers, 1)))


def planned(
    problem: Problem,
    goal: Goal,
    solve: Solve,
    deadline: Deadline = NEVER,
    *,
    beat: float | None = None,
    most: int = MOST_STATES,
    loose: bool = False,
) -> LargeOutcome:
    """Search within the deadline for a plan, for one that is better than ``beat`` where that is given.

    ``loose``: the bound of a large graph may wait until the best plan of all batch sizes is known. It takes seconds,
    which are lost on what that plan rules out at once.

    Raises
    ------
    UndecidedError
        If no plan was found, and it was not proved that there is none.
    """
    most = _listable(problem, most)
    if problem.layers >= _MANY_LAYERS and _is_out(problem, goal, beat):
        return LargeOutcome(problem, None, True, beaten=beat is not None)
    every, complete = over_downsets(problem, most)
    if complete and every.states <= FEW_STATES:
        every = fairly_priced(every, goal.target)
        found = goal.search(every, solve, deadline, beat)
        return LargeOutcome(every, found, True, beaten=found is None and beat is not None)
    program = TypeProgram(problem)
    soon = Deadline(min(_BOUND_SECONDS, deadline.left / 2))
    if beat is not None and program.applies and goal.rules_out(program, beat, soon):
        return LargeOutcome(problem, None, True, beaten=True)
    if not complete:
        few = fairly_priced(good_cuts(problem, _GOOD), goal.target)
        return _over_good_cuts(few, program, goal, solve, deadline, most, beat, loose)
    every = fairly_priced(every, goal.target)
    if beat is not None and not goal.can_beat(every, solve, beat):
        return LargeOutcome(every, None, True, beaten=True)
    return _thinned(every, program, goal, solve, deadline)


def _is_out(problem: Problem, goal: Goal, beat: float | None) -> bool:
    """Whether fractions of units prove that no plan, whatever its cuts, is better than a value; without one, is any."""
    try:
        bound = goal.bound(problem)
    except UndecidedError:
        return False
    return bound <= (beat or 0.0) if goal.rises else bound >= (np.inf if beat is None else beat)


def _thinned(every: Problem, program: TypeProgram, goal: Goal, solve: Solve, deadline: Deadline) -> LargeOutcome:
    """All cuts are known but many: good ones first, all of them where neither types nor fractions are proof enough."""
    few = good_cuts(every, _GOOD)
    found = _closer(few, goal, solve, deadline)
    if found is None:
        return LargeOutcome(every, goal.search(every, solve, deadline), True)
    bound = closer_bound(program, goal, found[1].value, goal.floor(every), deadline)
    result = _bounded(found[1], bound, goal, f"over {found[0].states:,} of {every.states:,} legal cuts")
    if result.gap <= _ENOUGH or deadline.over:
        return LargeOutcome(found[0], result, False)
    try:
        better = goal.search(every, solve, Deadline(_ALL_CUTS * deadline.left), found[1].value)
    except UndecidedError:
        return LargeOutcome(found[0], result, False)
    if better is None:
        return LargeOutcome(found[0], replace(result, bound=result.value), False)
    bound = (min if goal.rises else max)(bound, better.bound)
    return LargeOutcome(every, replace(better, bound=(max if goal.rises else min)(bound, better.value)), True)


def _over_good_cuts(
    few: Problem,
    program: TypeProgram,
    goal: Goal,
    solve: Solve,
    deadline: Deadline,
    most: int,
    beat: float | None,
    loose: bool,
) -> LargeOutcome:
    """Not all cuts are known: good ones, those near the best of them, those of the integer program over slots."""
    bound = goal.bound(few)
    if (bound == 0.0) if goal.rises else np.isinf(bound):
        return LargeOutcome(few, None, True)  # not even with fractions of units, whatever the cuts
    found = _closer(few, goal, solve, deadline, beat)
    value = found[1].value if found else beat
    slots = few.layers * few.types <= _SLOT_COLUMNS
    if value is not None and (slots or not loose):
        bound = closer_bound(program, goal, value, bound, deadline)
    if slots and (value is None or abs(value - bound) > _CLOSED * value):
        found = _slotted(found[0] if found else few, found and found[1], goal, solve, deadline) or found
    if found is None:
        better = "" if beat is None else " that is better than what was found before"
        raise UndecidedError(f"no plan{better} over {few.states:,} of more than {most:,} legal cuts", bound)
    over = f"over {found[0].states:,} of more than {most:,} legal cuts; the bound is for all"
    return LargeOutcome(found[0], _bounded(found[1], bound, goal, over), False, loose=loose and not slots)


def closer_bound(program: TypeProgram, goal: Goal, value: float, bound: float, deadline: Deadline) -> float:
    """A value that no plan beats, whatever its cuts, given one and the value of a plan, with whole units."""
    if not program.applies:
        return bound
    return goal.closer(program, value, bound, Deadline(min(_BOUND_SECONDS, deadline.left / 2)))


def _closer(
    few: Problem, goal: Goal, solve: Solve, deadline: Deadline, beat: float | None = None
) -> tuple[Problem, SearchResult] | None:
    """The best over some cuts, then over the cuts around its own as well; None if none of these is found to beat."""
    try:
        found = goal.search(few, solve, deadline, beat)
    except UndecidedError:
        return None
    if found is None:
        return None
    if deadline.over:
        return few, found
    nearer = with_states(few, _around(few, found))
    try:
        again = goal.search(nearer, solve, deadline, found.value) if nearer.states > few.states else None
    except UndecidedError:
        again = None
    return (few, found) if again is None else (nearer, again)


def _around(problem: Problem, found: SearchResult, each: int = 200) -> Bools:
    """States that move single Layers over the cuts of a plan, stage by stage in its own order."""
    order = [v for segment in found.placement.segments for v in problem.stage_layers(segment)]
    every = along(order)
    near = {0, len(order)}
    for segment in found.placement.segments:
        at = int(problem.members[segment.stop].sum())
        near |= set(range(max(0, at - each), min(len(order), at + each) + 1))
    return every[sorted(near)]


def _slotted(
    problem: Problem, found: SearchResult | None, goal: Goal, solve: Solve, deadline: Deadline
) -> tuple[Problem, SearchResult] | None:
    """The best with the cuts that the integer program over slots finds; None if it finds none that helps."""
    wanted = goal.target or (found and found.rows_per_second) or 1e-6
    try:
        placed = slot_placement(problem, wanted, seconds=min(_SLOT_SECONDS, deadline.left))
        if placed is None:
            return None
        more = with_states(problem, placed[0])
        better = goal.search(more, solve, deadline)
    except UndecidedError:
        return None
    return None if better is None or (found is not None and goal.better(found, better)) else (more, better)


def _bounded(found: SearchResult, bound: float, goal: Goal, over: str) -> SearchResult:
    bound = max(bound, found.value) if goal.rises else min(bound, found.value)
    return replace(found, bound=bound, proof=f"{found.proof}, {over}")
