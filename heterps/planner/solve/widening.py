"""How far the search for the least price per row goes beyond what was asked for.

Without a limit the answer to a small question would be a large cluster for a second: in large numbers no unit stands
idle. With one on rows per second, a job that needs 12 on a machine that does 185,000 would be planned wrong by four
orders of magnitude; and where 200,000 are asked for, three machines for 3.02 an hour that do 400,000 would win over
five for 5.25 that do 1.4 million. So the limit is on the price: plans are compared that cost at most twice as much an
hour as one that does what was asked for. None is lost that is up to twice as fast as that: it would cost more per row.

How fast plans within the limit can be follows from the price per row with fractional units, which never falls with the
throughput. Where that is nearly what the plan costs, dearer plans have little to gain, and where units cost nothing
there is no such limit: then plans up to twice as fast are looked for, and again up to what the fastest does of those
that are worth the same. This ends: whatever is taken then costs no more an hour than what was found before, and does
more. So it is for graphs of more than a thousand Layers, whose search takes all the time that somebody waits.

Where rows are a job, one that may take longer must not cost more, and with less to do in an hour the limit is lower. So
plans at any price are looked at too, up to as many rows a second whatever the time that was given: as many as plans
have that are looked at for the shortest job; where they save so much that it is worth the larger number of machines,
the limit is doubled until it allows for that.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from heterps.planner.goals import FixedRate, MinCost
from heterps.planner.solve.choose import Choice, Choosing, choose
from heterps.planner.solve.effort import Deadline, UndecidedError

if TYPE_CHECKING:
    from heterps.planner.planner import Request

__all__ = ["chosen"]

_FASTER = 1.2  # than what is looked at must a plan be to be looked for again
_DEARER = 2.0  # times the price per hour of a plan that does what was asked for
_FIRST = 0.2  # of the time, for that plan
_CLOSE = 1.3  # times what fractions of units cost must such a plan cost for dearer ones to be worth looking for
_MANY_LAYERS = 1_000
_WORTH = 0.05  # of the price: what a plan of many more machines must save


def chosen(request: Request, deadline: Deadline) -> Choice | None:
    """Return the best draft with its proof, and the goal with the limits within which it holds.

    Raises
    ------
    UndecidedError
        If nothing was found and nothing proved.
    """
    goal = request.goal
    if not isinstance(goal, MinCost) or goal.up_to is not None:
        return choose(request, deadline)
    choice = choose(replace(request, goal=_limited(request, goal, deadline)), deadline)
    while choice is not None and not deadline.over and (wider := _wider(choice)) is not None:
        choice = choose(replace(request, goal=wider), deadline, choice.alike)
    return choice if choice is None or goal.hurry_to is None else _hurried(request, goal.hurry_to, choice, deadline)


def _limited(request: Request, goal: MinCost, deadline: Deadline) -> MinCost:
    """The goal within twice the price of a plan for what was asked, at the largest batch size that has one."""
    for batch_size in sorted(request.batch_sizes, reverse=True):
        if len(request.costs(batch_size).layers.layers) > _MANY_LAYERS:
            break
        asked = replace(request, goal=FixedRate(goal.rows_per_second), batch_sizes=(batch_size,))
        choosing = Choosing(asked, Deadline(_FIRST * deadline.left))
        try:
            choosing.look()
        except UndecidedError:
            continue
        if (choice := choosing.choice) is not None:
            price, floor = choice.draft.found.placement.price, goal.floor(choice.draft.problem)
            if price <= _CLOSE * floor * goal.rows_per_second:
                break
            return replace(goal, price_per_hour=min(_DEARER * price, goal.price_per_hour))
    return goal


def _wider(choice: Choice) -> MinCost | None:
    """The goal with which plans are looked for again that were cut off; None if none was."""
    goal, most = choice.goal, max(d.problem.sustained(d.found.placement) for d in choice.alike)
    assert isinstance(goal, MinCost)
    return replace(goal, up_to=most) if most > goal.fastest(choice.bound) * _FASTER else None


def _hurried(request: Request, most: float, choice: Choice, deadline: Deadline) -> Choice:
    """The choice, or where plans of up to so many rows a second save much, one of nearly their price per row.

    Of those it is the first within twice the limit, four times, and so on.
    """
    goal, known = choice.goal, choice.alike
    assert isinstance(goal, MinCost)

    def within(price: float) -> Choice | None:
        return choose(replace(request, goal=replace(goal, up_to=most, price_per_hour=price)), deadline, known)

    price = choice.draft.found.placement.price
    limit = min(goal.price_per_hour, price)  # where there is none, plans that cost about as much gain little
    many = len(choice.draft.costs.layers.layers) > _MANY_LAYERS
    if goal.fastest(choice.bound) >= most or not price or many:
        return choice
    most = _limited(request, MinCost(most), deadline).fastest(choice.bound)  # as if that was asked for
    least = within(math.inf)
    while least is not None and not deadline.over and _saves(least, choice):
        limit *= _DEARER
        choice = (within(limit) if limit < least.draft.found.placement.price else least) or choice
    return choice


def _saves(dearer: Choice, choice: Choice) -> bool:
    return dearer.draft.found.value < choice.draft.found.value * (1 - _WORTH)
