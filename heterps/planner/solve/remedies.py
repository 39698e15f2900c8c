"""Why no plan meets the goal, and what would help, with figures: those of the batch size that comes nearest.

Whatever is said to help was tried, with every pool that may carry the shard hosts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from heterps.graph import Graph
from heterps.hardware import Hardware, Pool
from heterps.planner.costs.layer_costs import Costs
from heterps.planner.costs.planning_model import build_problem, is_priced, paid_text, server_pools, shared_name
from heterps.planner.goals import MOST_ROWS, FixedRate, MaxThroughput, MinCost
from heterps.planner.solve.bounds import most_rows
from heterps.planner.solve.choose import Choice, Choosing, choose
from heterps.planner.solve.effort import Deadline, UndecidedError
from heterps.planner.solve.growths import MoreOf, growths, least_factor, with_servers
from heterps.planner.solve.large import listed
from heterps.planner.solve.placement import Floats
from heterps.planner.solve.problem import Problem
from heterps.planner.solve.search import best_throughput
from heterps.planner.solve.solvers import solver
from heterps.planner.tiers import with_storage

if TYPE_CHECKING:
    from heterps.planner.planner import Request

__all__ = ["infeasible"]

_NEXT_TO_NOTHING = 1.1e-9  # relative: what a budget may be short of a price
_MOST_OF_CALLS = 0.5  # of the rows a second at which all time of shard hosts goes into calls
_USUAL = 4096  # rows of a batch
_NOTHING_ALONE = "change several things: no more units, other batch sizes or fewer rows were found to help alone"
_SECONDS = 5.0  # for all remedies together; what was not tried by then is not printed


def infeasible(request: Request) -> str:
    """Return the message: what was asked, what stands in the way, numbered remedies that were each tried."""
    nearest, problem = _nearest(request)
    target, deadline = request.goal.target, Deadline(min(_SECONDS, request.seconds))
    lines = [f"no feasible plan: {request.goal_text}", _obstacle(request, nearest, problem, target)]
    remedies = [*_remedies(request, nearest, problem, target, deadline)] or [_NOTHING_ALONE]
    lines += [f"  {i}. {text}" for i, text in enumerate(remedies, 1)]
    return "\n".join(lines)


def _nearest(request: Request) -> tuple[int, Problem]:
    """The batch size, and the problem, at which most rows could pass with fractions of units, and through a Layer."""

    def reach(problem: Problem) -> tuple[float, float]:
        slowest = float(_alone(problem).max(axis=1).min())
        try:
            return min(most_rows(problem), slowest), slowest
        except UndecidedError:
            return slowest, slowest

    problems = []
    for batch_size in sorted(request.batch_sizes):
        costs = request.costs(batch_size)
        problems += [(batch_size, _calling_least(request, costs, server)) for server in server_pools(costs)]
    return max(problems, key=lambda pair: reach(pair[1]))


def _calling_least(request: Request, costs: Costs, server: Pool) -> Problem:
    """The problem of all plans, with the calls of those that call shard hosts least: what none can do."""
    return replace(build_problem(replace(costs, fused=True), server, request.pins), fused=costs.fused)


def _obstacle(request: Request, nearest: int, problem: Problem, target: float | None) -> str:
    layers, alone = request.costs(nearest).layers.layers, _alone(problem)
    at = f", with batches of {nearest:,}" if len(request.batch_sizes) > 1 else ""
    if request.fused and not problem.allowed.all(axis=0).any():
        return "workers that train on rows of their own run all layers, and no pool may"
    if target is not None:
        for v, layer in enumerate(layers):
            most, pools = _at_most(request, problem, alone[v])
            if most < target:
                return f"layer {layer.name!r} alone reaches at most {most:,.0f} rows/s, on all of {pools}{at}"
        for h, most in enumerate(_shared(problem)):
            if most < target:
                return f"{shared_name(problem, request.hardware, h)} is enough for at most {most:,.0f} rows/s{at}"
        if (short := _short_of_hosts(request, nearest, target)) is not None:
            return f"{short}{at}"
    elif (short := _short_of_hosts(request, nearest, 0.0)) is not None:
        return f"{short}{at}"
    for v, layer in enumerate(layers):
        need = problem.layer_memory[v] + problem.held * problem.layer_held[v]
        if not (problem.allowed[v] & (need <= problem.memory_cap)).any():
            figure = f"{need[problem.allowed[v]].min() / 1e9:,.3g} GB"
            return f"layer {layer.name!r} needs {figure}, more than a worker of any pool it may run on{at}"
    if target is None:
        hosts = problem.shards.minimum
        least = f"one worker for every stage and {'one shard host' if hosts == 1 else f'{hosts:,} shard hosts'}"
        return f"{least} {'cost more than that, or ' if _budget(request) < np.inf else ''}are more than the pools have"
    return f"every layer alone is fast enough, but all together need more units than the pools have{at}"


def _shared(problem: Problem) -> Floats:
    """float[H]: rows per second that each shared capacity lets through, every Layer being where it takes least."""
    least = np.where(problem.allowed, problem.layer_usage, np.inf).min(axis=2).sum(axis=1) + problem.fixed_usage
    with np.errstate(divide="ignore"):
        return np.asarray(problem.capacity / least)


def _alone(problem: Problem) -> Floats:
    """float[L, T]: rows per second of one Layer with all units of a type; 0 where it may not run."""
    with np.errstate(divide="ignore", invalid="ignore"):  # of pools of which there is none
        speed = 1 / (problem.layer_serial + problem.layer_parallel / problem.cap).max(axis=0)
    return np.where(problem.allowed & (problem.cap > 0), speed, 0.0)


def _at_most(request: Request, problem: Problem, alone: Floats) -> tuple[float, str]:
    """Rows per second of one Layer with all units of one type, or of two that may share a stage, and their names."""
    ways = [(t,) for t in range(problem.types)] + [(int(a), int(b)) for a, b in problem.mixes]
    best = max(ways, key=lambda way: sum(alone[t] for t in way))
    return sum(alone[t] for t in best), " and ".join(f"pool {request.hardware.pools[t].name!r}" for t in best)


def _short_of_hosts(request: Request, nearest: int, target: float) -> str | None:
    """Why there are not enough shard hosts on any pool, in words; None if there are on one."""
    costs, short = request.costs(nearest), []
    for server in server_pools(costs):
        shards = _calling_least(request, costs, server).shards
        if not shards.carry(target):
            most = f"{shards.most:,.0f} rows/s on pool {server.name!r}"
            short.append(f"more time than there is: every batch of {nearest:,} calls each of them, at most {most}")
            continue
        hosts = shards.hosts(target)
        if server.host is not None or server.cap is None or hosts <= server.cap:
            return None
        rows = " to hold all rows" if hosts == shards.minimum > request.replicas else ""
        short.append(f"{hosts:,} of pool {server.name!r}{rows}, which has {server.cap}")
    return f"shard hosts alone take {' or '.join(short)}"


def _remedies(
    request: Request, nearest: int, problem: Problem, target: float | None, deadline: Deadline
) -> Iterator[str]:
    some = replace(request, goal=FixedRate(target or 1.0), batch_sizes=(nearest,))
    if target is not None:
        yield from _less(request, problem, target, deadline)
    elif _budget(request) < np.inf and (cheapest := _try(replace(request, goal=some.goal), deadline)) is not None:
        yield f"raise the budget: the least that runs at all costs {_paid(cheapest)}"
        some = replace(some, goal=request.goal)  # with more money it runs as it is: all else must do without
    yield from (f"{text}{_cost(request, choice)}" for text, choice in _more_units(some, problem, deadline))
    yield from (f"{text}{_cost(request, choice)}" for text, choice in _more_of_else(some, deadline))
    if request.pins and (choice := _try(replace(request, pins={}), deadline)) is not None:
        yield f"drop the pins ({', '.join(f'{k}={v}' for k, v in request.pins.items())}): {_gain(choice)}"
    yield from _on_disk(request, deadline)
    for other in _other_sizes(request.batch_sizes):
        if (choice := _try(replace(request, batch_sizes=(other,)), deadline)) is not None:
            yield f"use batches of {other:,} rows: {_gain(choice)}"


def _on_disk(request: Request, deadline: Deadline) -> Iterator[str]:
    """Rows on disk, where those in memory are what shard hosts are needed for."""
    graph = with_storage(request.graph, dict.fromkeys(_in_memory(request.graph), "ssd"))
    if graph != request.graph and (choice := _try(replace(request, graph=graph), deadline)) is not None:
        yield f"keep rows on disk (--storage '*=ssd'), which no forecast counts: {_gain(choice)}"


def _in_memory(graph: Graph) -> list[str]:
    """Tables whose rows are in memory."""
    return [op.attrs["table"] for op in graph if op.kind == "lookup" and op.attrs["storage"] == "memory"]


def _other_sizes(sizes: tuple[int, ...]) -> list[int]:
    """Batch sizes that might help: much larger, much smaller, and usual ones where only others were allowed."""
    others = (4 * max(sizes), min(sizes) // 4, _USUAL)
    return list(dict.fromkeys(other for other in others if other and other not in sizes))


def _budget(request: Request) -> float:
    """What may be spent in an hour where as much as possible is wanted for it."""
    return request.goal.price_per_hour if isinstance(request.goal, MaxThroughput) else np.inf


def _cost(request: Request, choice: Choice) -> str:
    """What a remedy costs, and whether that takes more money too."""
    price = choice.draft.found.placement.price
    return f"{' and the budget' if price > _budget(request) else ''}: {_paid(choice)}"


def _less(request: Request, problem: Problem, target: float, deadline: Deadline) -> Iterator[str]:
    most, proved = (_most_of_all if np.isfinite(problem.cap).all() else _most_of_work)(request, problem, deadline)
    most = _rounded_down(most)
    if 0 < most < target:
        gives = "all there is gives no more" if proved else "that is what was found"
        is_job = isinstance(request.goal, MinCost) and request.goal.hurry_to is not None
        longer = f", or give it {math.ceil(100 * target / most) / 100:,.2f} times the time" if is_job else ""
        rate = f"{most:,.0f}" if most >= 100 else f"{most:g}"
        yield f"ask for at most {rate} rows/s{longer}: {gives}"


def _rounded_down(most: float) -> float:
    """Whole rows a second, of few of them three digits: no more than can be had."""
    unit = 1.0 if most >= 100 or most <= 0 else 10.0 ** (math.floor(math.log10(most)) - 2)
    return math.floor(most / unit) * unit


def _most_of_all(request: Request, problem: Problem, deadline: Deadline) -> tuple[float, bool]:
    """What all units give at any batch size, and whether that is proved."""
    choosing = _looked(replace(request, goal=MaxThroughput()), deadline)
    if choosing is None or (choice := choosing.choice) is None:
        return 0.0, False
    most = choice.draft.found.value
    return most, len(choosing.looked) == len(request.batch_sizes) and choice.bound <= most * (1 + 1e-9)


def _most_of_work(request: Request, problem: Problem, deadline: Deadline) -> tuple[float, bool]:
    """What any number of units gives, where work has serial parts; where only calls to shard hosts end it, a part."""
    if not (problem.layer_serial > 0).any():
        some = _MOST_OF_CALLS * problem.shards.most
        plan = _try(replace(request, goal=FixedRate(some)), deadline) if some < MOST_ROWS else None
        return (0.0 if plan is None else some), False
    try:
        found = best_throughput(listed(problem)[0], solver(request.solver).within(deadline), deadline=deadline)
    except UndecidedError:
        return 0.0, False
    return (0.0 if found is None else found.rows_per_second), False


def _more_units(request: Request, problem: Problem, deadline: Deadline) -> Iterator[tuple[str, Choice]]:
    """For each capped pool or product: how many of it would do, all else as it is."""
    for number in range(len(problem.product_price)):
        first = int(np.flatnonzero(problem.product == number)[0])
        what, name, most, size = _sold(request, problem, first)
        if most is None or (choice := _planned(request, _capped(request, name, None), deadline)) is None:
            continue
        needed = _taken(choice, first, size)
        if needed > most and (choice := _planned(request, _capped(request, name, needed), deadline)) is not None:
            yield f"raise the cap of {what} from {most} to {needed}", choice


def _capped(request: Request, name: str, cap: int | None) -> Hardware:
    return request.hardware.with_caps(**{name: cap})


def _taken(choice: Choice, t: int, size: int) -> int:
    """How many a plan takes of what a type's units are sold as; shard hosts on a Host take none, but its network."""
    draft, found = choice.draft, choice.draft.found.placement
    units = int(draft.problem.bought(found.segments, found.hosts)[t]) // size
    shares = draft.server.host is not None and draft.costs.hardware.pools.index(draft.server) == t
    return max(units, found.hosts) if shares else units


def _more_of_else(request: Request, deadline: Deadline) -> Iterator[tuple[str, Choice]]:
    """More of what there is, or more pools for shard hosts, where that alone is enough."""
    for name, hardware in with_servers(request.hardware):
        if (choice := _planned(request, hardware, deadline)) is not None:
            yield f"let pool {name!r} carry shard hosts (serves = true)", choice
    for growth in growths(request.hardware):
        yield from _grown(request, growth, deadline)


def _grown(request: Request, growth: MoreOf, deadline: Deadline) -> Iterator[tuple[str, Choice]]:
    found: dict[float, Choice] = {}

    def works(factor: float) -> bool:
        if (choice := _planned(request, growth.hardware(factor), deadline)) is not None:
            found[factor] = choice
        return choice is not None

    factor = least_factor(works)
    if factor is not None:
        yield growth.text(factor), found[factor]


def _sold(request: Request, problem: Problem, t: int) -> tuple[str, str, int | None, int]:
    """What a type's units are sold as, in words and by name; how many of it can be had; and the units in one."""
    pool = request.hardware.pools[t]
    product = request.hardware.product_of(pool.name)
    if product is None:
        return f"pool {pool.name!r}", pool.name, pool.cap, 1
    return f"product {product.name!r}", product.name, product.cap, int(problem.sold_in[t])


def _planned(request: Request, hardware: Hardware, deadline: Deadline) -> Choice | None:
    """A plan on other hardware; None if none was found in time."""
    choosing = _looked(replace(request, hardware=hardware), deadline)
    return None if choosing is None else choosing.choice


def _looked(request: Request, deadline: Deadline) -> Choosing | None:
    """What was found in half of the time that is left, however far from the best that may be; None for nothing."""
    choosing = Choosing(request, Deadline(deadline.left / 2))
    try:
        if not deadline.over:
            choosing.look()
    except UndecidedError:
        return None
    return choosing


def _try(request: Request, deadline: Deadline) -> Choice | None:
    if deadline.over:
        return None
    try:
        return choose(request, Deadline(deadline.left / 2))
    except UndecidedError:
        return None


def _gain(choice: Choice) -> str:
    found = choice.draft.found
    return f"{found.rows_per_second:,.0f} rows/s for {_paid(choice)}"


def _paid(choice: Choice) -> str:
    """What a plan costs, rounded up: who has so much can have it."""
    cents = math.ceil(100 * choice.draft.found.placement.price * (1 - _NEXT_TO_NOTHING))
    return paid_text(cents / 100, is_priced(choice.draft.costs.hardware))
