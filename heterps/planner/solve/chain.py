"""Dynamic programming over states at a fixed throughput: exact where stages do not compete for anything.

``F(j, t) = min over i, t' of F(i, t') + price_t * k(i, j, t; X)``; neighbours of one type may be separate stages.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from heterps.planner.solve.problem import TOLERANCE, Floats, Placement, Problem, Segment

__all__ = ["chain_placement", "chain_price", "cost_to_go", "relaxed_price"]


@njit(nogil=True, cache=True)
def is_inside(small: npt.NDArray[np.uint64], large: npt.NDArray[np.uint64]) -> bool:
    """Whether one bit set is contained in another."""
    for w in range(len(small)):  # noqa: SIM110 (compiled: no generators)
        if small[w] & ~large[w]:
            return False
    return True


@njit(nogil=True, cache=True)
def units_needed(x, i, j, t, figures, whole):  # type: ignore[no-untyped-def]
    """Units of type t that carry the stage from state i to j at x rows a second; inf if no number does."""
    serial, parallel, forbidden, memory, memory_cap, beside, cut_s = figures
    if forbidden[j, t] != forbidden[i, t] or memory[j, t] - memory[i, t] + beside[i] + beside[j] > memory_cap[t]:
        return np.inf
    most = 0.0
    for r in range(2):
        left = 1.0 - (serial[r, j, t] - serial[r, i, t]) * x
        work = parallel[r, j, t] - parallel[r, i, t] + cut_s[r, i, t] + cut_s[r, j, t]
        if left <= 1e-12:
            return np.inf
        most = max(most, work * x / left)
    return max(1.0, np.ceil(most * (1 - TOLERANCE))) if whole else most


@njit(nogil=True, cache=True)
def _forward(x, words, figures, price, whole, best, stage):  # type: ignore[no-untyped-def]
    """Write the least price of reaching every state, and the stage that reaches it: (state before, type, units)."""
    n, types = len(words), len(price)
    best[0] = 0.0
    for j in range(1, n):
        best[j] = np.inf
        for i in range(j):
            if best[i] >= best[j] or not is_inside(words[i], words[j]):
                continue
            for t in range(types):
                k = units_needed(x, i, j, t, figures, whole)
                if best[i] + price[t] * k < best[j]:
                    best[j] = best[i] + price[t] * k
                    stage[j, 0], stage[j, 1], stage[j, 2] = i, t, k


@njit(nogil=True, cache=True)
def _backward(x, words, figures, price, whole):  # type: ignore[no-untyped-def]
    """Least price of what remains after every state."""
    n, types = len(words), len(price)
    best = np.full(n, np.inf)
    best[n - 1] = 0.0
    for i in range(n - 2, -1, -1):
        for j in range(i + 1, n):
            if best[j] >= best[i] or not is_inside(words[i], words[j]):
                continue
            for t in range(types):
                k = units_needed(x, i, j, t, figures, whole)
                best[i] = min(best[i], best[j] + price[t] * k)
    return best


def figures_of(problem: Problem) -> tuple[npt.NDArray[Any], ...]:
    """What :func:`units_needed` takes, in its order."""
    p = problem
    return p.serial, p.parallel, p.forbidden, p.memory, p.memory_cap, p.beside_memory, p.cut_s


def _reached(problem: Problem, x: float, whole: bool) -> tuple[float, Floats]:
    """Least price of all stages together, and the stage that reaches every state."""
    best, stage = np.empty(problem.states), np.empty((problem.states, 3))
    _forward(x, problem.words, figures_of(problem), problem.price, whole, best, stage)
    return float(best[-1]), stage


def chain_placement(problem: Problem, x: float) -> Placement | None:
    """Cheapest placement at x rows a second if nothing is scarce; None if there is none."""
    least, stage = _reached(problem, x, True)
    if math.isinf(least):
        return None
    hosts, segments, j = problem.shards.hosts(x), [], problem.states - 1
    while j > 0:
        i, t, k = map(int, stage[j])
        segments.append(Segment(i, j, t, k))
        j = i
    price = least + problem.host_price * hosts
    return Placement(tuple(reversed(segments)), hosts, price, price)


def chain_price(problem: Problem, x: float) -> float:
    """Price of :func:`chain_placement` without building it; inf if there is none."""
    return _reached(problem, x, True)[0] + problem.host_price * problem.shards.hosts(x)


def cost_to_go(problem: Problem, x: float) -> Floats:
    """Least price of the stages after every state, scarcity left out: a lower bound for any search.

    Where types may be mixed, only fractional units give a bound: a mixed stage can undercut every pure one.
    """
    result: Floats = _backward(x, problem.words, figures_of(problem), problem.price, not problem.mixes.size)
    return result


def relaxed_price(problem: Problem, x: float) -> float:
    """Price per hour if units could be had in fractions: never more than any placement's; inf if x is out of reach."""
    return _reached(problem, x, False)[0] + problem.host_price * problem.shards.seconds * x
