"""How far the search for the least price per row goes where the cheapest machines do far more than was asked for.

Plans are looked for from the rows per second that were asked for to twice as many, and one that does more is counted as
if it did not. Of a job that needs 12 rows a second on a machine that does 185,000 that would be wrong by four orders of
magnitude, in time and in price. So where plans are cut off there, they are looked for again, up to what the fastest of
those does that cost the same; and again, if what is found is faster still. This ends: whatever is taken then costs no
more an hour than what was found before, and does more.
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
    return choice


def _most(choice: Choice) -> float:
    """Rows per second that the fastest of the plans sustains which are worth the same."""
    return max(draft.problem.sustained(draft.found.placement) for draft in choice.alike)
