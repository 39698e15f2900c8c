"""How far the search for the least price per row goes where the cheapest machines do far more than was asked for.

Plans are looked for from the rows per second that were asked for to twice as many, and one that does more is counted as
if it did not. Of a job that needs 12 rows a second on a machine that does 185,000 that would be wrong by four orders of
magnitude, in time and in price. So where the plan that was found is cut off there, the most that its price per hour
buys is looked for, over all batch sizes, and plans up to there are compared. None of them is cut off again: one that
does more than the most for its price costs more, and counted as that most it would be no better than what is known.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from heterps.errors import PlanError
from heterps.planner.costs.planning_model import build_problem
from heterps.planner.goals import MaxThroughput, MinCost
from heterps.planner.solve.choose import Choice, choose
from heterps.planner.solve.effort import Deadline, UndecidedError

if TYPE_CHECKING:
    from heterps.planner.planner import Request

__all__ = ["chosen"]

_FASTER = 1.1  # than what is looked at must the most be: less is within what "up to twice as fast" says


def chosen(request: Request, deadline: Deadline) -> Choice | None:
    """Return the best draft with its proof, and the goal with the rows per second up to which it holds.

    Raises
    ------
    UndecidedError
        If nothing was found and nothing proved.
    """
    choice, goal = choose(request, deadline), request.goal
    if choice is None or not isinstance(goal, MinCost) or goal.up_to is not None:
        return choice
    if choice.draft.found.rows_per_second < goal.at_most or deadline.over:
        return choice
    most = max(_reached(choice), _most_for(request, choice, deadline))
    if most <= goal.at_most * _FASTER:
        return choice
    try:
        return choose(replace(request, goal=replace(goal, up_to=most)), deadline) or choice
    except UndecidedError:
        return choice


def _reached(choice: Choice) -> float:
    """Rows per second that a plan sustains."""
    return choice.draft.problem.sustained(choice.draft.found.placement)


def _most_for(request: Request, choice: Choice, deadline: Deadline) -> float:
    """Rows per second that the price of a plan buys at most, as far as that was found; 0 if nothing is to be found."""
    goal = MaxThroughput(choice.draft.found.placement.price) if choice.draft.found.placement.price > 0 else None
    try:
        if goal is None or _at_best(request, choice, goal) <= choice.draft.found.rows_per_second * _FASTER:
            return 0.0
        fastest = choose(replace(request, goal=goal), deadline)
    except (UndecidedError, PlanError):  # time is over; or pools are free, and there is no most
        return 0.0
    return 0.0 if fastest is None else fastest.draft.found.rows_per_second


def _at_best(request: Request, choice: Choice, goal: MaxThroughput) -> float:
    """Rows per second that fractions of units would do for a price, at the plan's batch size and the largest."""
    draft = choice.draft
    largest = build_problem(request.costs(max(request.batch_sizes)), draft.server, request.pins)
    return max(goal.bound(draft.problem), goal.bound(largest))
