"""Dynamic programming over states at a fixed throughput: exact where stages do not compete for anything.

``F(j, t) = min over i, t' of F(i, t') + price_t * k(i, j, t; X)``; neighbours of one type may be separate stages.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.compiled import njit
from heterps.planner.solve.placement import TOLERANCE, Bools, Floats, Placement, Segment
from heterps.planner.solve.problem import Problem
from heterps.planner.solve.small import suited

__all__ = [
    "INNER",
    "chain_placement",
    "chain_price",
    "cheapest_stages",
    "cost_to_go",
    "pairs_inside",
    "relaxed_price",
    "relaxed_stages",
    "room_for",
    "units_needed",
    "work_needed",
]

#: Not called from Python: no wrapper has to be compiled.
INNER: dict[str, Any] = {"nogil": True, "cache": True, "no_cpython_wrapper": True, "error_model": "numpy"}


@njit(nogil=True, cache=True)
def is_inside(words: npt.NDArray[np.uint64], i: int, j: int) -> bool:
    """Whether state i is contained in state j."""
    for w in range(words.shape[1]):  # noqa: SIM110 (compiled: no generators)
        if words[i, w] & ~words[j, w]:
            return False
    return True


@njit(nogil=True, cache=True)
def pairs_inside(words: npt.NDArray[np.uint64]) -> int:
    """Count the pairs of states of which one is contained in the other."""
    count = 0
    for j in range(len(words)):
        for i in range(j):
            count += is_inside(words, i, j)
    return count


@njit(**INNER)
def _room_of(room, each, least, most, flight, later, whole):  # type: ignore[no-untyped-def]
    """Units that have room for what is in flight, and each for the least that it must hold; inf: no number.

    None holds more than ``most``. For fractions it is proportional to what is in flight, and no more than for whole
    ones, which are one at least.
    """
    room = room * (1 + TOLERANCE)
    holds = np.inf if each <= 0 else (np.floor(room / each) if whole else room / each)
    holds = min(holds, most)
    all_ = flight <= holds * (1 + TOLERANCE) and later and whole
    units = 0.0 if all_ or flight <= 0 else flight / (holds - (1.0 if later and whole else 0.0))
    return np.inf if room < 0 or each * least > room else units


@njit(**INNER)
def _lanes(units, least, most, held):  # type: ignore[no-untyped-def]
    """Units of a stage that reads, no fewer, which together have a number of whole batches in a range; inf: none.

    All of them have as many, and ``held`` at the least. Of units with as many batches the fewest have fewest in all:
    where these are too many, those are next that have one batch less each.
    """
    each = max(held, np.ceil(least / units * (1 - TOLERANCE)))
    while units * each > most * (1 + TOLERANCE) and units < np.inf:
        fewer = np.ceil(least / max(each - 1.0, 1.0) * (1 - 1.001 * TOLERANCE))
        units = max(units + 1.0, fewer) if units * held <= most else np.inf
        each = max(held, np.ceil(least / units * (1 - TOLERANCE)))
    return units


@njit(**INNER)
def _work_of(x, serial, parallel):  # type: ignore[no-untyped-def]
    """Fractions of units that carry work at x rows a second; inf if no number does.

    Where no part of it is divided, any number does up to the last row that its time is enough for.
    """
    left = 1.0 - serial * x
    if parallel <= 0:
        return np.inf if left < -TOLERANCE else 0.0
    return np.inf if left <= 1e-12 else parallel * x / left


@njit(nogil=True, cache=True, error_model="numpy")
def room_for(flight, i, j, t, figures, whole):  # type: ignore[no-untyped-def]
    """Units of type t that have room for so many batches in flight, in the stage from state i to j; inf: no number."""
    f = figures[t]
    return _room_of(f[2, i] - f[1, j], f[3, j] - f[4, i], f[7, j], f[8, i], flight, i > 0, whole)


@njit(nogil=True, cache=True, error_model="numpy")
def work_needed(x, i, j, t, figures):  # type: ignore[no-untyped-def]
    """Fractions of units of type t that carry the stage from state i to j at x rows a second; inf if no number does."""
    f, most = figures[t], 0.0
    for r in range(12, len(f), 3):
        most = max(most, _work_of(x, f[r, j] - f[r, i], f[r + 1, j] - f[r + 2, i]))
    return most if f[0, j] == f[0, i] else np.inf


@njit(nogil=True, cache=True, error_model="numpy")
def units_needed(x, i, j, t, figures, whole):  # type: ignore[no-untyped-def]
    """Units of type t that carry the stage from state i to j at x rows a second, and have room; inf: no number."""
    flight = max(figures[t, 5, j] - figures[t, 6, i], figures[t, 9, j]) * x
    flight = max(flight, figures[t, 10, j]) if whole else flight
    most = max(work_needed(x, i, j, t, figures), room_for(flight, i, j, t, figures, whole))
    if not whole:
        return most
    most = max(1.0, np.ceil(most * (1 - TOLERANCE)))
    return _lanes(most, flight, figures[t, 11, i], figures[t, 7, j]) if figures[t, 11, i] < np.inf else most


@njit(**INNER)
def _units_into(x, j, t, figures, whole, units):  # type: ignore[no-untyped-def]
    """Write the units that are needed to state j from every state before it: loops without branches, so fast ones."""
    f = figures[t]
    for i in range(j):
        flight = max(f[5, j] - f[6, i], f[9, j]) * x
        flight = max(flight, f[10, j]) if whole else flight
        units[i] = _room_of(f[2, i] - f[1, j], f[3, j] - f[4, i], f[7, j], f[8, i], flight, i > 0, whole)
    for r in range(12, len(f), 3):
        if f[r, j] == 0:  # all work scales: nothing to divide by
            for i in range(j):
                units[i] = max(units[i], (f[r + 1, j] - f[r + 2, i]) * x)
            continue
        for i in range(j):
            units[i] = max(units[i], _work_of(x, f[r, j] - f[r, i], f[r + 1, j] - f[r + 2, i]))
    for i in range(j):
        units[i] = units[i] if f[0, j] == f[0, i] else np.inf
        units[i] = max(1.0, np.ceil(units[i] * (1 - TOLERANCE))) if whole else units[i]
    if whole and f[11, 0] < np.inf:
        units[0] = units_needed(x, 0, j, t, figures, whole)


@njit(nogil=True, cache=True, error_model="numpy")
def _forward(x, words, figures, price, whole, beside, best, stage):  # type: ignore[no-untyped-def]
    """Write the least price of reaching every state, and the stage that reaches it: (state before, type, units).

    ``whole`` says of each type whether its units are, ``beside`` what a stage costs besides: the difference of [0] at
    the state where it ends and [1] where it begins, by type.
    """
    n, types, guess = len(words), len(price), 0
    units, total, reached = np.empty((types, n)), np.empty(n), np.empty((types, n))
    best[0], reached[:, 0] = 0.0, -beside[1, :, 0]
    for j in range(1, n):
        total[:j] = np.inf
        for t in range(types):
            _units_into(x, j, t, figures, whole[t], units[t])
            for i in range(j):
                cost = reached[t, i] + price[t] * units[t, i] + beside[0, t, j]
                total[i] = cost if cost < total[i] else total[i]
        # Where the state before was reached from is a good guess: what costs more need not be looked at.
        found, enough = np.inf, total[guess] if is_inside(words, guess, j) else np.inf
        for i in range(j):
            if total[i] < found and total[i] <= enough and is_inside(words, i, j):
                found, stage[j, 0] = total[i], i
        best[j], guess = found, int(stage[j, 0]) if found < np.inf else 0
        for t in range(types - 1, -1, -1):
            reached[t, j] = found - beside[1, t, j]
            if reached[t, guess] + price[t] * units[t, guess] + beside[0, t, j] == found:
                stage[j, 1], stage[j, 2] = t, units[t, guess]


@njit(nogil=True, cache=True, error_model="numpy")
def _backward(x, words, figures, price, whole):  # type: ignore[no-untyped-def]
    """Least price of what remains after every state."""
    n, types = len(words), len(price)
    best = np.full(n, np.inf)
    best[n - 1] = 0.0
    for i in range(n - 2, -1, -1):
        for j in range(i + 1, n):
            if best[j] >= best[i] or not is_inside(words, i, j):
                continue
            for t in range(types):
                k = max(1.0, units_needed(x, i, j, t, figures, whole))
                if k < np.inf:  # times a price of nothing it would be no number
                    best[i] = min(best[i], best[j] + price[t] * k)
    return best


def _reached(problem: Problem, x: float, whole: bool, price: Floats | None = None) -> tuple[float, Floats]:
    """Least price of all stages together, and the stage that reaches every state."""
    return _reached_anew(problem, x, whole, price) if price is not None else _reached_before(problem, x, whole)


@functools.lru_cache(maxsize=2)  # a search asks for the price of what it then asks for itself
def _reached_before(problem: Problem, x: float, whole: bool) -> tuple[float, Floats]:
    return _reached_anew(problem, x, whole, None)


def _reached_anew(problem: Problem, x: float, whole: bool, price: Floats | None) -> tuple[float, Floats]:
    each, nothing = np.full(problem.types, whole), np.zeros((2, problem.types, problem.states))
    return cheapest_stages(problem, x, problem.price if price is None else price, each, nothing)


def cheapest_stages(problem: Problem, x: float, price: Floats, whole: Bools, beside: Floats) -> tuple[float, Floats]:
    """Least price of all stages together, some types in ``whole`` units, and the stage that reaches every state.

    ``beside``, float[2, T, n]: what stages cost besides, as a difference: where they end, and where they begin.
    """
    best, stage = np.empty(problem.states), np.empty((problem.states, 3))
    figures = _figures(problem, bool(whole.all()))
    suited(_forward, problem)(x, problem.words, figures, price, whole, beside, best, stage)
    return float(best[-1]), stage


def _figures(problem: Problem, whole: bool) -> Floats:
    """What units follow from; fractions of them, where two types may share a stage, from its work alone.

    Two types together can have work and room for less than either: one the speed, the other the memory.
    """
    return problem.stage_figures if whole or not problem.mixes.size else problem.work_figures


def chain_placement(problem: Problem, x: float, price: Floats | None = None) -> Placement | None:
    """Cheapest placement at x rows a second if nothing is scarce; None if there is none.

    ``price`` stands in for the prices of the types.
    """
    least, stage = _reached(problem, x, True, price)
    if math.isinf(least):
        return None
    hosts, segments, j = problem.shards.hosts(x), [], problem.states - 1
    while j > 0:
        i, t, k = map(int, stage[j])
        segments.append(Segment(i, j, t, k))
        j = i
    each = problem.host_price if price is None or problem.shards.type < 0 else float(price[problem.shards.type])
    total = least + each * hosts
    return Placement(tuple(reversed(segments)), hosts, total, total)


def chain_price(problem: Problem, x: float) -> float:
    """Price of :func:`chain_placement` without building it; inf if there is none."""
    return _reached(problem, x, True)[0] + problem.host_price * problem.shards.hosts(x)


def cost_to_go(problem: Problem, x: float, price: Floats | None = None) -> Floats:
    """Least price of the stages after every state, scarcity left out: a lower bound for any search.

    Where types may be mixed, fractions of units give a bound, but of one unit at least: a mixed stage, in which each of
    two types has a unit or more, can undercut every pure one. ``price`` stands in for the prices of the types.
    """
    whole, price = not problem.mixes.size, problem.price if price is None else price
    result: Floats = suited(_backward, problem)(x, problem.words, _figures(problem, whole), price, whole)
    return result


def relaxed_price(problem: Problem, x: float) -> float:
    """Price per hour if units could be had in fractions: never more than any placement's; inf if x is out of reach."""
    if not problem.shards.carry(x):
        return math.inf
    problem = problem.calling(problem.shards.hosts(x))
    stages = _reached(problem, x, False)[0] if problem.has_serial else _stages_per_row(problem) * x
    return stages + problem.host_price * problem.shards.each(x) * x


@functools.lru_cache(maxsize=4)  # a search asks for one problem at many throughputs
def _stages_per_row(problem: Problem) -> float:
    """Price per hour of fractional units for each row a second, which is the same at all where everything scales."""
    return _reached(problem, 1.0, False)[0]


def relaxed_stages(problem: Problem, x: float, price: Floats) -> tuple[float, Floats]:
    """Price of all stages with fractions of units at prices of the types, and the fractions by type."""
    least, stage = _reached(problem, x, False, price)
    units, j = np.zeros(problem.types), problem.states - 1
    while j > 0 and math.isfinite(least):
        units[int(stage[j, 1])] += stage[j, 2]
        j = int(stage[j, 0])
    return least, units
