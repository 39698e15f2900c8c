"""The ways to run a stage at one throughput, on one type or divided between two; and what each has in flight.

Of a stage on two types batches take one way or the other: what it adds is no less than the less of the two, whatever
each carries. Where it reads, workers of each type have as many in flight as they need, so both together have room for
what each has room for; later ones get their part of all batches whatever their type, so that all of them have room for
as many as those with the least.
"""

from __future__ import annotations

import numpy as np

from heterps.compiled import njit
from heterps.planner.solve.chain import INNER, room_for, units_needed, work_needed
from heterps.planner.solve.placement import TOLERANCE

__all__ = ["list_choices"]


@njit(**INNER)
def _added(i, j, t, ways):  # type: ignore[no-untyped-def]
    """What the stage from state i to j adds to batches in flight on a type."""
    return ways[0, j, t] - ways[1, i, t]


@njit(**INNER)
def _others_with_room(i, k, room, room_other):  # type: ignore[no-untyped-def]
    """Units of the other type, in fractions, that have room for what k of the first have not."""
    if i > 0:
        return max(room, room_other) - k
    return room_other * (1 - k / room) if room > k else 0.0


@njit(**INNER)
def _last_for_room(i, enough, room, room_other, only_other):  # type: ignore[no-untyped-def]
    """Up to how many units of the first type may be of use for their room where the other could carry all.

    ``enough`` of the other do, and ``only_other`` have the room too where no batch takes the first, perhaps shorter,
    way: if these are no more, there is no such number. Of a later stage one is of use for that way alone.
    """
    if i > 0:
        return max(np.ceil(max(room, room_other)) - enough, 1.0 if only_other > enough else 0.0)
    return 0.0 if only_other <= enough else np.inf


@njit(nogil=True, cache=True, error_model="numpy")
def list_choices(x, i, j, most, mixes, prices, alone, ways, choices, figures):  # type: ignore[no-untyped-def]
    """List the ways to run the stage from state i to j: (type, units, other type, other units), share, price, way.

    ``alone``: which of two types carries how much of a stage makes no difference but for their units. Then pairs of
    types, which have a third column, are looked at in one order: in the other, the same numbers of both are enough, but
    for those with which the second type alone would carry all, and either is there for its room. ``ways`` are
    what stages add to batches in flight, if there is a limit: then two types may keep it where one alone does not.
    """
    choice, part, cost, added = choices
    found, counts = 0, len(ways) > 0
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
        room, room_other = room_for(flight, i, j, t, figures, True), room_for(flight, i, j, other, figures, True)
        if not whole + whole_other + room + room_other < 2**31:
            continue
        end = np.ceil(whole)
        if alone and not counts and mixes[n, 2]:
            only_other = units_needed(x, i, j, other, figures, True)
            end = min(end, _last_for_room(i, np.ceil(whole_other), room, room_other, only_other) + 1)
        last, less = np.inf, min(_added(i, j, t, ways), _added(i, j, other, ways)) if counts else 0.0
        for k in range(1, int(min(end, most[t] + 1))):
            rest = max(whole_other * (1 - k / whole), _others_with_room(i, k, room, room_other))
            m = max(1.0, np.ceil(rest * (1 - TOLERANCE)))
            if m == last and alone:
                continue  # with a unit less it was as good
            last = m
            choice[found, 0], choice[found, 1], choice[found, 2], choice[found, 3] = t, k, other, int(m)
            part[found], cost[found], added[found] = k / whole, prices[t] * k + prices[other] * m, less
            found += 1
    return found
