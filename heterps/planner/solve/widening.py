"""How far the search for the least price per row goes where the cheapest machines do far more than was asked for.

Plans are looked for from the rows per second that were asked for to twice as many, and one that does more is counted as
if it did not. Of a job that needs 12 rows a second on a machine that does 185,000 that would be wrong by four orders of
magnitude, in time and in price. So where plans are cut off there, they are looked for again, up to what the fastest of
those does that cost the same; and again, if what is found is faster still. This ends: whatever is taken then costs no
more an hour than what was found before, and does more.

Where rows are a job, one that may take longer must not cost more: few machines are used less well than many, so that
what is cheapest within a day may cost more than what was cheapest within an hour. So plans of many more rows a second
are looked at too, up to as many whatever the time that was given, and of those that save so much that it is worth the
larger number of machines the slowest is taken.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from heterps.planner.goals import MinCost
from heterps.planner.solve.choose import Choice, choose
from heterps.planner.solve.effort import Deadline, UndecidedError

if TYPE_CHECKING:
    from heterps.planner.planner import Request

__all__ = ["chosen"]

_FASTER = 1.2  # than what is looked at must a plan be: less is within what "up to twice as fast" says
_WORTH = 0.05  # of the price: what a plan of many more machines must save


def chosen(request: Request, deadline: Deadline) -> Choice | None:
    """Return the best draft with its proof, and the goal with the rows per second up to which it holds.

    Raises
    ------
    UndecidedError
        If nothing was found and nothing proved.
    """
    choice, goal = choose(request, deadline), request.goal
    if not isinstance(goal, MinCost) or goal.up_to is not None:
        return choice
    while choice is not None and not deadline.over and (most := _most(choice)) > goal.at_most * _FASTER:
        goal = replace(goal, up_to=most)
        try:
            choice = choose(replace(request, goal=goal), deadline) or choice
        except UndecidedError:
            break
    return _hurried(request, choice, goal, deadline)


def _hurried(request: Request, choice: Choice | None, goal: MinCost, deadline: Deadline) -> Choice | None:
    """The choice, or where one of many more rows a second costs much less for each, the slowest that costs as little.

    Nearly as little, that is, and of those up to twice as many rows, four times, and so on.
    """
    most, up_to = goal.hurry_to or 0.0, goal.at_most
    if choice is None or most <= up_to * _FASTER or deadline.over:
        return choice
    try:
        least = choose(replace(request, goal=replace(goal, up_to=most)), deadline)
        while least is not None and choice is not None and not deadline.over and _saves(least, choice):
            up_to *= 2
            choice = least if up_to >= most else choose(replace(request, goal=replace(goal, up_to=up_to)), deadline)
    except UndecidedError:
        pass
    return choice


def _saves(faster: Choice, choice: Choice) -> bool:
    return faster.draft.found.value < choice.draft.found.value * (1 - _WORTH)


def _most(choice: Choice) -> float:
    """Rows per second that the fastest of the plans sustains which are worth the same."""
    return max(draft.problem.sustained(draft.found.placement) for draft in choice.alike)
