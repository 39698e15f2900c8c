"""The ways to run a stage at one throughput, on one type or divided between two; and what each has in flight.

Of a stage on two types batches take one way or the other: what it adds is no less than the less of the two, whatever
each carries. Where it reads, its lanes may be of unequal speed, so that f times as many are in flight
(:mod:`heterps.planner.solve.unequal_lanes`). A plan with more than a limit of them is left out: f times the sum over
its stages is within the limit if and only if the sum is, with ``limit * (1 - 1/f)`` added to it.
"""

from __future__ import annotations

import numpy as np

from heterps.compiled import njit
from heterps.planner.solve.chain import INNER, room_for, units_needed, work_needed
from heterps.planner.solve.placement import TOLERANCE
from heterps.planner.solve.unequal_lanes import lane_factor

__all__ = ["MOST_GROUPS", "list_choices"]

MOST_GROUPS = 48  # of numbers of workers that are taken together
_SINGLE = 8  # numbers that are not: above, as many as this is a part of


@njit(**INNER)
def _added(i, j, t, ways):  # type: ignore[no-untyped-def]
    """What the stage from state i to j adds to batches in flight on a type."""
    return ways[0, j, t] - ways[1, i, t]


@njit(**INNER)
def _added_by_lanes(j, t, other, k, m, whole, whole_other, limit, ways):  # type: ignore[no-untyped-def]
    """What the stage that reads adds on two types, for a limit of what all add."""
    one, two = _added(0, j, t, ways), _added(0, j, other, ways)
    factor = lane_factor(k, m, whole, whole_other)
    longer = (one if whole <= whole_other else two) + limit * (1 - 1 / max(1.0, factor))
    return max(min(one, two), longer if factor > 1 else 0.0)


@njit(nogil=True, cache=True, error_model="numpy")
def list_choices(x, i, j, most, mixes, prices, alone, lanes, choices, figures):  # type: ignore[no-untyped-def]
    """List the ways to run the stage from state i to j: (type, units, other type, other units), share, price, way.

    ``alone``: which of two types carries how much of a stage makes no difference but for their units. Then pairs of
    types, which have a third column, are looked at in one order: in the other, the same numbers of both are enough, but
    for those with which the first type alone would carry all, and the rest is there for its room. ``lanes`` are what
    stages add to batches in flight, if there is a limit, the limit, and whether all work scales.
    """
    choice, part, cost, added = choices
    ways, limit, scales = lanes
    found, counts, reads = 0, len(ways) > 0, len(ways) > 0 and i == 0 and scales
    for t in range(len(prices)):
        k = units_needed(x, i, j, t, figures, True)
        if k < 2**31:
            choice[found, 0], choice[found, 1], choice[found, 2], choice[found, 3] = t, int(k), -1, 0
            part[found], cost[found] = 1.0, prices[t] * k
            added[found] = _added(i, j, t, ways) if counts else 0.0
            found += 1
    for n in range(len(mixes)):
        t, other = mixes[n, 0], mixes[n, 1]
        whole, whole_other = work_needed(x, i, j, t, figures), work_needed(x, i, j, other, figures)
        flight = min(figures[t, 5, j] - figures[t, 6, i], figures[other, 5, j] - figures[other, 6, i])
        flight = max(max(flight, figures[t, 9, j]) * x, figures[t, 10, j])
        room = max(room_for(flight, i, j, t, figures, True), room_for(flight, i, j, other, figures, True))
        if not whole + whole_other + room < 2**31:
            continue
        end = np.ceil(whole)
        if alone and not reads and mixes[n, 2]:
            end = min(end, room - np.ceil(whole_other) + 1)
        last, less = np.inf, min(_added(i, j, t, ways), _added(i, j, other, ways)) if counts else 0.0
        for k in range(1, int(min(end, most[t] + 1))):
            m = max(1.0, np.ceil(max(whole_other * (1 - k / whole), room - k) * (1 - TOLERANCE)))
            if m == last and alone and not reads:
                continue  # with a unit less it was as good
            last = m
            for group in range(MOST_GROUPS if reads and whole > whole_other else 1):
                next_ = m + max(1.0, m // _SINGLE)
                choice[found, 0], choice[found, 1], choice[found, 2], choice[found, 3] = t, k, other, int(m)
                part[found], cost[found], added[found] = k / whole, prices[t] * k + prices[other] * m, less
                if reads and group < MOST_GROUPS - 1:
                    counted = m if whole <= whole_other else next_ - 1
                    added[found] = _added_by_lanes(j, t, other, k, counted, whole, whole_other, limit, ways)
                found += 1
                if added[found - 1] <= less:
                    break  # with more of them it would be no less
                m = next_
    return found
