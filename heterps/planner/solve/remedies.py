"""Why no plan meets the goal, and what would help, with figures: those of the batch size that comes nearest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from heterps.planner.costs.planning_model import build_problem, server_pools, shared_name
from heterps.planner.goals import FixedRate, MaxThroughput
from heterps.planner.solve.bounds import most_rows
from heterps.planner.solve.choose import Choice, choose
from heterps.planner.solve.effort import Deadline, UndecidedError
from heterps.planner.solve.large import listed
from heterps.planner.solve.placement import Floats
from heterps.planner.solve.problem import Problem
from heterps.planner.solve.search import best_throughput
from heterps.planner.solve.solvers import solver

if TYPE_CHECKING:
    from heterps.planner.planner import Request

__all__ = ["infeasible"]

_SECONDS = 10.0  # for all remedies together; what was not tried by then is not printed


def infeasible(request: Request) -> str:
    """Return the message: what was asked, what stands in the way, numbered remedies that were each tried."""
    nearest, problem = _nearest(request)
    target, deadline = request.goal.target, Deadline(min(_SECONDS, request.seconds))
    lines = [f"no feasible plan: {request.goal.text}", _obstacle(request, nearest, problem, target)]
    remedies = list(_remedies(request, nearest, listed(problem)[0], target, deadline))
    lines += [f"  {i}. {text}" for i, text in enumerate(remedies, 1)]
    return "\n".join(lines)


def _nearest(request: Request) -> tuple[int, Problem]:
    """The batch size at which most rows could pass with fractions of units, and the slowest Layer passes most."""

    def reach(problem: Problem) -> tuple[float, float]:
        slowest = float(_alone(problem).max(axis=1).min())
        try:
            return min(most_rows(problem), slowest), slowest
        except UndecidedError:
            return slowest, slowest

    problems = {}
    for batch_size in request.batch_sizes:
        costs = request.costs(batch_size)
        problems[batch_size] = build_problem(costs, server_pools(costs)[0], request.pins)
    nearest = max(problems, key=lambda batch_size: (reach(problems[batch_size]), -batch_size))
    return nearest, problems[nearest]


def _obstacle(request: Request, nearest: int, problem: Problem, target: float | None) -> str:
    layers, alone = request.costs(nearest).layers.layers, _alone(problem)
    at = f", with batches of {nearest:,}" if len(request.batch_sizes) > 1 else ""
    if target is not None:
        for v, layer in enumerate(layers):
            most, pool = alone[v].max(), request.hardware.pools[int(alone[v].argmax())].name
            if most < target:
                return f"layer {layer.name!r} alone reaches at most {most:,.0f} rows/s, on all of pool {pool!r}{at}"
        for h, most in enumerate(_shared(problem)):
            if most < target:
                return f"{shared_name(problem, request.hardware, h)} is enough for at most {most:,.4g} rows/s{at}"
    for v, layer in enumerate(layers):
        need = problem.layer_memory[v] + problem.held * problem.layer_held[v]
        if not (problem.allowed[v] & (need <= problem.memory_cap)).any():
            figure = f"{need.min() / 1e9:,.3g} GB"
            return f"layer {layer.name!r} needs {figure}, more than a worker of any pool it may run on{at}"
    if target is None:
        least = "one worker for every stage and one shard host"
        if isinstance(request.goal, MaxThroughput) and np.isfinite(request.goal.price_per_hour):
            return f"{least} cost more than that, or are more than the pools have"
        return f"{least} are more than the pools have"
    return f"every layer alone is fast enough, but all together need more units than the pools have{at}"


def _shared(problem: Problem) -> Floats:
    """float[H]: rows per second that each shared capacity lets through, every Layer being where it takes least."""
    least = np.where(problem.allowed, problem.layer_usage, np.inf).min(axis=2).sum(axis=1) + problem.fixed_usage
    with np.errstate(divide="ignore"):
        return np.asarray(problem.capacity / least)


def _alone(problem: Problem) -> Floats:
    """float[L, T]: rows per second of one Layer with all units of a type; 0 where it may not run."""
    units = np.minimum(problem.cap, 1e9)
    with np.errstate(divide="ignore"):
        speed = 1 / (problem.layer_serial + problem.layer_parallel / units).max(axis=0)
    return np.where(problem.allowed & (units > 0), speed, 0.0)


def _remedies(
    request: Request, nearest: int, problem: Problem, target: float | None, deadline: Deadline
) -> Iterator[str]:
    solve = solver(request.solver).within(deadline)
    if target is not None:
        if np.isfinite(problem.cap).all() or (problem.layer_serial > 0).any():
            try:
                most = best_throughput(problem, solve, deadline=deadline)
            except UndecidedError:
                most = None
            if most is not None and most.rows_per_second < target:
                gives = "all there is gives no more" if most.gap == 0 else "that is what was found"
                yield f"ask for at most {most.rows_per_second:,.0f} rows/s: {gives}"
        yield from _more_units(request, problem, target, deadline)
    if request.pins and (choice := _try(replace(request, pins={}), deadline)) is not None:
        yield f"drop the pins ({', '.join(f'{k}={v}' for k, v in request.pins.items())}): {_gain(choice)}"
    for other in (4 * max(request.batch_sizes), min(request.batch_sizes) // 4):
        if other and (choice := _try(replace(request, batch_sizes=(other,)), deadline)) is not None:
            yield f"use batches of {other:,} rows: {_gain(choice)}"
    if isinstance(request.goal, MaxThroughput) and np.isfinite(request.goal.price_per_hour):
        cheapest = _try(replace(request, goal=FixedRate(1.0)), deadline)
        if cheapest is not None:
            price = cheapest.draft.found.placement.price
            yield f"raise the budget: the least that runs at all costs {price:,.2f} an hour"


def _more_units(request: Request, problem: Problem, target: float, deadline: Deadline) -> Iterator[str]:
    """For each capped pool or product: how many of it would do, all else as it is."""
    for number in range(len(problem.product_price)):
        parts = np.flatnonzero(problem.product == number)
        what, most, size = _sold(request, problem, int(parts[0]))
        if most is None or deadline.over:
            continue
        cap = problem.cap.copy()
        cap[parts] = np.inf
        try:
            found = solver(request.solver).within(deadline)(replace(problem, cap=cap), target)
        except UndecidedError:
            continue
        if found is not None:
            needed = int(problem.bought(found.segments, found.hosts)[parts[0]]) // size
            if needed <= most:  # something else stands in the way
                continue
            yield f"raise the cap of {what} from {most} to {needed}: {found.price:,.2f} an hour"


def _sold(request: Request, problem: Problem, t: int) -> tuple[str, int | None, int]:
    """What a type's units are sold as, in words; how many of it can be had; and the units in one."""
    pool = request.hardware.pools[t]
    product = request.hardware.product_of(pool.name)
    if product is None:
        return f"pool {pool.name!r}", pool.cap, 1
    return f"product {product.name!r}", product.cap, int(problem.sold_in[t])


def _try(request: Request, deadline: Deadline) -> Choice | None:
    if deadline.over:
        return None
    try:
        return choose(request, Deadline(deadline.left / 2))
    except UndecidedError:
        return None


def _gain(choice: Choice) -> str:
    found = choice.draft.found
    return f"{found.rows_per_second:,.0f} rows/s for {found.placement.price:,.2f} an hour"
