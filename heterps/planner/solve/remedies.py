"""Why no plan meets the goal, and what would help, with figures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from heterps.planner.costs.planning_model import build_problem, server_pools
from heterps.planner.goals import FixedRate, MaxThroughput
from heterps.planner.solve.assemble import Draft
from heterps.planner.solve.large import with_cuts
from heterps.planner.solve.problem import Problem, Segment
from heterps.planner.solve.search import SearchResult, best_throughput
from heterps.planner.solve.solvers import solver

if TYPE_CHECKING:
    from heterps.planner.planner import Request

__all__ = ["infeasible"]


def infeasible(request: Request) -> str:
    """Return the message: what was asked, what stands in the way, numbered remedies that were each tried."""
    costs = request.costs(request.batch_sizes[-1])
    server = server_pools(costs)[0]
    problem, _ = with_cuts(build_problem(costs, server, request.pins), most=1_000)
    target = request.goal.target
    lines = [f"no feasible plan: {request.goal.text}"]
    lines.append(_obstacle(request, problem, target))
    remedies = list(_remedies(request, problem, target))
    lines += [f"  {i}. {text}" for i, text in enumerate(remedies, 1)]
    return "\n".join(lines)


def _obstacle(request: Request, problem: Problem, target: float | None) -> str:
    layers = request.costs(request.batch_sizes[-1]).layers.layers
    if target is not None:
        for v, layer in enumerate(layers):
            speed, pool = _alone(request, problem, v)
            if speed < target:
                return f"layer {layer.name!r} alone reaches at most {speed:,.0f} rows/s, on all of pool {pool!r}"
    for v, layer in enumerate(layers):
        need = problem.layer_memory[v]
        if not (problem.allowed[v] & (need <= problem.memory_cap)).any():
            return (
                f"layer {layer.name!r} needs {need.min() / 1e9:,.1f} GB, more than a worker of any pool it may run on"
            )
    if target is None:
        return "one worker for every stage and one shard host cost more than that, or are more than the pools have"
    return "every layer alone is fast enough, but all together need more units than the pools have"


def _alone(request: Request, problem: Problem, v: int) -> tuple[float, str]:
    """Highest throughput of one Layer with all units of its best pool."""
    single = replace(problem, members=np.array([[False] * problem.layers, [u == v for u in range(problem.layers)]]))
    units = np.minimum(problem.cap, 1e9)
    speeds = {
        pool.name: single.speed(Segment(0, 1, t, int(units[t]))) if problem.allowed[v, t] and units[t] else 0.0
        for t, pool in enumerate(request.hardware.pools)
    }
    best = max(speeds, key=lambda name: speeds[name])
    return speeds[best], best


def _remedies(request: Request, problem: Problem, target: float | None) -> Iterator[str]:
    solve = solver(request.solver).solve
    if target is not None:
        if np.isfinite(problem.cap).all() or (problem.layer_serial > 0).any():
            most = best_throughput(problem, solve)
            if most is not None and most.rows_per_second < target:
                yield f"ask for at most {most.rows_per_second:,.0f} rows/s: all there is gives no more"
        yield from _more_units(request, problem, target)
    if request.pins and (draft := _try(replace(request, pins={}))) is not None:
        yield f"drop the pins ({', '.join(f'{k}={v}' for k, v in request.pins.items())}): {_gain(draft)}"
    larger = tuple(4 * b for b in request.batch_sizes[-1:])
    if (draft := _try(replace(request, batch_sizes=larger))) is not None:
        yield f"use batches of {larger[0]:,} rows: {_gain(draft)}"
    if isinstance(request.goal, MaxThroughput) and np.isfinite(request.goal.price_per_hour):
        cheapest = _try(replace(request, goal=FixedRate(1.0)))
        if cheapest is not None:
            yield f"raise the budget: the least that runs at all costs {cheapest.found.placement.price:,.2f} an hour"


def _more_units(request: Request, problem: Problem, target: float) -> Iterator[str]:
    """For each capped pool: how many units of it would do, all else as it is."""
    for t, pool in enumerate(request.hardware.pools):
        if pool.cap is None:
            continue
        cap = problem.cap.copy()
        cap[t] = np.inf
        found = solver(request.solver).solve(replace(problem, cap=cap), target)
        if found is not None:
            units = int(problem.bought(found.segments, found.hosts)[t])
            yield f"raise the cap of pool {pool.name!r} from {pool.cap} to {units}: {found.price:,.2f} an hour"


def _try(request: Request) -> Draft | None:
    return request.best()


def _gain(draft: Draft) -> str:
    found: SearchResult = draft.found
    return f"{found.rows_per_second:,.0f} rows/s for {found.placement.price:,.2f} an hour"
