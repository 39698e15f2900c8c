"""From placements at one throughput to the best throughput: jumps, bisection, frontier, and what is proved.

R(X), the least price per hour that sustains X, never falls with X. So a placement found at X that really sustains X'
is also the best up to X', and nothing above X' can undercut an incumbent price per row c before X reaches R(X)/c: the
search jumps to the larger of the two. Breakpoints are never listed. Where units are free, and as many as wanted, every
further one would be a step at the same price: there the last X with this price is looked for first, by halving.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from heterps.planner.solve.chain import chain_placement, chain_price, relaxed_price
from heterps.planner.solve.effort import NEVER, Deadline, UndecidedError
from heterps.planner.solve.fair_prices import most_by_parts
from heterps.planner.solve.placement import Placement
from heterps.planner.solve.problem import Problem
from heterps.planner.solve.sizing import fits

__all__ = ["SearchResult", "Solve", "best_at", "best_price_per_row", "best_throughput", "frontier"]

Solve = Callable[[Problem, float], Placement | None]
_STEP = 1.05  # over throughputs at which nothing is decided
_SOME = 1.005  # within which no more is looked for where something near was not decided
_NEAR = 1.02  # of each other are two throughputs if a plan at the lower one may be the best there is
_MOST_SOLVES = 400
_FEW_STATES = 150
_BELOW = (0.99, 0.97, 0.93, 0.87, 0.8, 0.7, 0.4)  # parts of a bound at which a plan is looked for
_SAME = 1 + 1e-9  # times as much are two throughputs that are not told apart
_ABOVE = 1 + 1e-8  # "just above": clear of the tolerance within which unit counts are not raised


@dataclass(frozen=True)
class SearchResult:
    """A placement, the throughput it sustains, and what is proved about it.

    ``value`` and ``bound`` are what was asked for: price per hour, price per hour over rows per second, or rows per
    second. A ``gap`` of 0 is a proof.
    """

    placement: Placement
    rows_per_second: float
    value: float
    bound: float
    proof: str
    solves: int

    @property
    def gap(self) -> float:
        """Relative distance of value and bound."""
        return abs(self.value - self.bound) / self.value if self.value else 0.0


def best_at(problem: Problem, x: float, solve: Solve, *, beat: float = np.inf) -> SearchResult | None:
    """Least price per hour at a fixed arrival rate; None if there is none, or none below ``beat``."""
    placement = solve(problem, x) if np.isinf(beat) or relaxed_price(problem, x) < beat else None
    if placement is None or placement.bound >= beat:
        return None
    proof = "exact at this rate" if placement.bound >= placement.price else "the solver's bound at this rate"
    return SearchResult(placement, problem.sustained(placement), placement.price, placement.bound, proof, 1)


def best_price_per_row(
    problem: Problem,
    at_least: float,
    solve: Solve,
    *,
    at_most: float = np.inf,
    budget: float = np.inf,
    tolerance: float = 1e-3,
    skip: float = 0.0,
    most: int = 500,
    beat: float = np.inf,
    deadline: Deadline = NEVER,
) -> SearchResult | None:
    """Least price per row over all throughputs from ``at_least`` to ``at_most``; None if none is feasible.

    Plans that cost more than ``budget`` an hour are left out.
    Stops within a relative ``tolerance`` of the price that fractional units would have, after ``most`` solves, or, once
    there is a plan, at the deadline. Throughputs at which at most the part ``skip`` can be saved are not looked at.
    Where a price per row is to be ``beat``, None says that no plan costs less.

    Raises
    ------
    UndecidedError
        If no plan was found and it was not proved that there is none.
    """
    best = _first_guess(problem, solve, at_least, at_most, beat, budget)
    endless = bool((np.isinf(problem.cap) & (problem.product_price[problem.product] == 0)).any())
    x, solves, unknown = at_least, 0, np.inf  # the last: least price per row of what was looked at and not found
    while x <= at_most and solves < most and not ((best is not None or np.isfinite(beat)) and deadline.over):
        solves += 1
        floor = relaxed_price(problem, x) / x  # never falls with x, so nothing from here on costs less
        if best is not None and floor >= best.value * (1 - tolerance):
            return _closed(best, min(floor, unknown), "price with fractional units", solves)
        known = beat if best is None else best.value
        if best is None and floor >= beat:
            _check_decided(beat, unknown)
            return None
        if np.isfinite(known) and (lower := _free_price(problem, x)) > known * x * _ABOVE:
            x = lower / known * _ABOVE  # before that, not even without scarcity
            continue
        try:
            placement = solve(problem, x)
        except UndecidedError:
            unknown, x = min(unknown, floor), x * _STEP
            continue
        if (placement is None or placement.bound > budget * _SAME) and best is None:
            _check_decided(beat, unknown)
            return None
        if placement is None:
            return best and _closed(best, unknown, "all feasible throughputs", solves)
        if placement.bound > budget * _SAME:  # and so does whatever is faster
            what = f"all plans within the limit of {budget:,.2f}"
            return best and _closed(best, unknown, what, solves)
        sustained = passed = min(max(x, problem.sustained(placement)), at_most)  # the rate at which it will run
        if endless and placement.price > 0 and math.isfinite(at_most):
            placement, sustained, passed = _furthest(problem, solve, placement, sustained, at_most)
        unknown = min(unknown, placement.bound / passed)
        if placement.price <= budget * _SAME and placement.price / sustained < known:
            best = SearchResult(placement, sustained, placement.price / sustained, 0.0, "", solves)
        if best is None:
            x = max(passed, placement.bound / beat) * _ABOVE
            continue
        if best.value <= 0:
            return _closed(best, 0.0, "it costs nothing", solves)
        looked = max(passed, placement.bound / best.value)
        x = max(looked, placement.bound / (best.value * (1 - skip))) * _ABOVE
        if x > looked * _ABOVE:
            unknown = min(unknown, best.value * (1 - skip))
    if best is None:
        _check_decided(beat, unknown if x > at_most else min(unknown, relaxed_price(problem, x) / x))
        return None
    if x > at_most:
        return _closed(best, unknown, f"all throughputs up to {at_most:,.0f} rows/s", solves)
    why = "time limit" if deadline.over else "stopped"
    return _closed(best, min(unknown, relaxed_price(problem, x) / x), f"{why} after {solves} solves", solves)


def _furthest(
    problem: Problem, solve: Solve, placement: Placement, low: float, at_most: float
) -> tuple[Placement, float, float]:
    """The last placement of the same price, what it sustains, and up to where none of this price sustains more.

    That is a little more, so little that it is not looked at; the same, where it is not known.
    """
    high = x = at_most
    while high > low * _SAME:
        try:
            further = solve(problem, x)
        except UndecidedError:
            return placement, low, low
        if further is not None and further.price <= placement.price * (1 + 1e-12):
            placement, low = further, min(max(x, problem.sustained(further)), at_most)
        else:
            high = x
        x = math.sqrt(low * high)
    return placement, low, high


def _first_guess(
    problem: Problem, solve: Solve, at_least: float, at_most: float, beat: float, budget: float
) -> SearchResult | None:
    """The best of a few throughputs at which nothing is scarce, if it costs less per row than what is to be beaten.

    Any plan will do, as a price per row above which nothing needs to be looked at: many rows share what is paid once.
    Where there are few cuts, looking takes no longer.
    """
    best: SearchResult | None = None
    guessed = math.isfinite(at_most) and problem.states > _FEW_STATES
    for x in (at_most, math.sqrt(at_least * at_most)) if guessed else ():
        free = chain_placement(problem, x)
        if free is None or not fits(problem, free, x):
            continue
        try:
            placed = solve(problem, x)
        except UndecidedError:
            continue
        if placed is None or placed.price > budget * _SAME:
            continue
        if placed.price / x < (beat if best is None else best.value):
            best = SearchResult(placed, x, placed.price / x, 0.0, "", 0)
    return best


def _check_decided(beat: float, unknown: float) -> None:
    """Refuse to say that no plan costs less than ``beat`` where what was not decided might: it costs at least so much.

    Raises
    ------
    UndecidedError
        If that is less.
    """
    if unknown < beat:
        raise UndecidedError("nothing is decided for some numbers of rows a second", unknown)


def _closed(best: SearchResult, bound: float, proof: str, solves: int) -> SearchResult:
    return replace(best, bound=min(bound, best.value), proof=proof, solves=solves)


def _free_price(problem: Problem, x: float) -> float:
    """Least price if nothing were scarce; no bound where nothing is, or where mixed stages could undercut it."""
    if problem.mixes.size or not problem.is_coupled:
        return 0.0
    price = chain_price(problem, x)
    return 0.0 if math.isinf(price) else price  # infeasible: the solver will say so


def best_throughput(
    problem: Problem,
    solve: Solve,
    *,
    budget: float = np.inf,
    beat: float = 0.0,
    most: float = np.inf,
    deadline: Deadline = NEVER,
) -> SearchResult | None:
    """Most rows per second within caps and a price per hour; None if nothing at all is feasible, or more than ``beat``.

    Given that no plan has more than ``most``.

    Raises
    ------
    UndecidedError
        If no plan was found and it was not proved that there is none.
    """
    problem = problem if np.isinf(budget) else replace(problem, budget=budget)
    open_: list[float] = []  # throughputs of which it is not known whether they are feasible

    def fitting(x: float) -> Placement | None:
        try:
            placement = solve(problem, x)
        except UndecidedError:
            open_.append(x)
            return None
        if placement is not None and placement.bound <= budget * (1 + 1e-9) < placement.price:
            open_.append(x)
        return placement if placement is not None and placement.price <= budget * (1 + 1e-9) else None

    # No plan was found at high; there is none above refuted.
    high = refuted = most_by_parts(problem, budget, beat, most)
    low, placement = _start(problem, fitting, beat, high)
    if placement is None and open_:
        raise UndecidedError(f"more than {beat:g} rows a second are not decided", refuted)
    if placement is None:
        return None
    solves, most_apart = 1, math.inf if math.isinf(most) else _NEAR
    while not math.isinf(low) and solves < _MOST_SOLVES and not deadline.over:
        if high <= low * (_SOME if open_ else _ABOVE):
            break
        x = low * 2 if math.isinf(high) else math.sqrt(low * high)
        for at in (x, low * _ABOVE):  # just above what is reached: a failure there is the proof
            if at < x and high > low * most_apart:
                break  # where much is affordable all is slow, and a failure is not near
            solves += 1
            better = fitting(at)
            if better is not None:
                low, placement = max(at, problem.sustained(better)), better
                break
            high = min(high, at)
            refuted = refuted if at in open_ else min(refuted, at)
    if refuted <= low * _ABOVE:
        return SearchResult(placement, low, low, low, "nothing just above is feasible", solves)
    why = "time limit" if deadline.over else "stopped"
    return SearchResult(placement, low, low, refuted, f"{why} after {solves} solves", solves)


def _start(
    problem: Problem, fitting: Callable[[float], Placement | None], beat: float, high: float
) -> tuple[float, Placement | None]:
    """The first placement: above what is to be beaten, or a little below a bound, or where whatever is feasible is."""
    near = [high * part for part in _BELOW] if math.isfinite(high) else []
    for x in [beat * _ABOVE] if beat else [*near, problem.slowest]:
        placement = fitting(x) if x <= high else None
        if placement is not None:
            return max(x, problem.sustained(placement)), placement
    return 0.0, None


def frontier(
    problem: Problem,
    solve: Solve,
    low: float,
    high: float,
    points: int = 24,
    deadline: Deadline = NEVER,
    also: tuple[float, ...] = (),
) -> list[tuple[float, Placement]]:
    """Cheapest placements from low to high throughput, each with what it sustains, as far as they are feasible.

    At ``points`` of them, and at those that are named too.
    """
    found: list[tuple[float, Placement]] = []
    for x in sorted([*np.geomspace(low, high, points), *also]):
        if found and x <= found[-1][0]:
            continue  # the last placement carries this much too, at the least price for it
        try:
            placement = solve(problem, float(x))
        except UndecidedError:
            break
        if placement is None or deadline.over:
            break
        found.append((max(float(x), problem.sustained(placement)), placement))
    return found
