"""Beside one plan: what other solvers come to, and the cheapest plans at other throughputs."""

from __future__ import annotations

from dataclasses import replace

from heterps.errors import PlanError
from heterps.planner.costs.planning_model import build_problem, server_pools
from heterps.planner.goals import Goal
from heterps.planner.plan import Plan
from heterps.planner.planner import Request, solve
from heterps.planner.solve.effort import Deadline, UndecidedError
from heterps.planner.solve.large import listed
from heterps.planner.solve.problem import Problem
from heterps.planner.solve.search import frontier as search_frontier
from heterps.planner.solve.solvers import solver, solvers

__all__ = ["compare", "frontier"]


def compare(request: Request) -> list[tuple[str, Plan | None, str]]:
    """One plan per solver that applies, over the same batch sizes, with the reason where there is none."""
    rows: list[tuple[str, Plan | None, str]] = []
    request = replace(request, goal=_same_goal(request))
    for each in solvers():
        asked = replace(request, solver=each.name, seconds=request.seconds / len(solvers()))
        reason = each.applies(_problem(asked, asked.batch_sizes[0]))
        if reason:
            rows.append((each.name, None, reason))
            continue
        try:
            rows.append((each.name, solve(asked), ""))
        except PlanError as error:
            rows.append((each.name, None, str(error).splitlines()[0]))
    return rows


def _same_goal(request: Request) -> Goal:
    """The goal with which solvers are compared: plans up to the rows per second that the exact one looks at."""
    try:
        choice = replace(request, solver="exact", seconds=request.seconds / len(solvers())).best()
    except UndecidedError:
        return request.goal
    return request.goal if choice is None else choice.goal


def _problem(request: Request, batch_size: int, server: str | None = None) -> Problem:
    """The problem at one batch size over its legal cuts, or good ones."""
    costs = request.costs(batch_size)
    pool = server_pools(costs)[0] if server is None else request.hardware.pool(server)
    return listed(build_problem(costs, pool, request.pins))[0]


def frontier(request: Request, made: Plan, points: int = 24) -> list[tuple[float, float]]:
    """Throughput and price per hour of the cheapest plans from a tenth of a plan's throughput to ten times it."""
    request = replace(request, fused=made.mode.adds)
    asked = [request, replace(request, fused=True)]  # plans of one stage call shard hosts less often
    problems, deadline = [_problem(each, made.batch_size, made.shard_pool) for each in asked], Deadline(request.seconds)
    assert made.forecast is not None, "the planner forecasts every plan it makes"
    middle = made.forecast.rows_per_second
    by = solver(request.solver).within(deadline)
    own = middle * (1 - 1e-6)  # a hair above what it sustains it would be another plan
    found = [
        (x, placement.price)
        for problem in problems
        for x, placement in search_frontier(problem, by, middle / 10, middle * 10, points, deadline, also=(own,))
    ]
    return sorted({point for point in found if not any(_beats(other, point) for other in found)})


def _beats(other: tuple[float, float], point: tuple[float, float]) -> bool:
    """Whether a throughput and its price are at least as good as another, and one of them better."""
    return other != point and other[0] >= point[0] and other[1] <= point[1]
