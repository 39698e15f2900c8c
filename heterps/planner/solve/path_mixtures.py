"""Whether any plan of a core keeps within limits: on units of each type, on parts of them, on batches in flight.

A plan is a path through the states, and a case for each branch. For any prices of units, of parts and of the way, the
cheapest is found by dynamic programming; if even that costs more than the limits are worth at these prices, nothing
keeps within them, no mixture of plans either. That is the whole proof: where the prices come from does not matter. They
come from a linear program over what was found so far (cutting planes): those at which the least of it exceeds the
limits by most. Where even that is within the limits, a mixture of plans is, and plans are divided: by the type of the
heaviest Layer that is on several in the mixture; if there is none, by the share of the branches that are together with
their end, which decides what a stage takes beside it and what others do. Each part is looked at by itself. Where
nothing is left to divide by, there may be a plan, and nothing is said.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from heterps.planner.solve.chain import cheapest_stages
from heterps.planner.solve.core_problem import Core, Place
from heterps.planner.solve.effort import Deadline
from heterps.planner.solve.placement import TOLERANCE, Floats

__all__ = ["Limits", "Mixtures"]

Ints = npt.NDArray[np.int64]
_ROUNDS = 60
_NARROW = 0.06  # ends of a share, from one another, at which it is not divided
_SOME = 1e-6  # of a mixture: a part that is one
_CLEARLY = 1e-7  # of the limits, by which something exceeds them at some prices: more than rounding


@dataclass(frozen=True)
class Limits:
    """Units by type, shard hosts not counted, and batches in flight for each row a second; infinite: no limit."""

    units: Floats
    way: float


class Mixtures:
    """Plans of a core, and whether any is within limits."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self._proved: dict[int, Floats] = {}  # the last prices that proved something, by how many there are

    def units_within(self, core: Core, x: float, limits: Limits, deadline: Deadline, most: int) -> Floats | None:
        """Units by type with which x rows a second may be done within limits; None: it is proved that no plan does.

        Nor does any plan more. All are plans of ``core``, a part of all, and so many parts of it are looked at, at the
        ``most``.
        """
        open_, units = [core], np.zeros(core.bare.types)
        for _ in range(most):
            part = open_.pop()
            mixture = self._mixture(_Paths(part, x, limits), deadline)
            if mixture is not None:
                units = mixture[0].units
                parts = [*_divided(part, mixture)]
                open_ += parts
                if not parts or deadline.over:
                    return units
            if not open_:
                return None
        return units

    def _mixture(self, paths: _Paths, deadline: Deadline) -> list[_Path] | None:
        """Paths of which a mixture is within limits, or nothing is known of any; None if it is proved that none is."""
        found: list[_Path] = []
        prices = paths.first if paths.count not in self._proved else paths.counted(self._proved[paths.count])
        for _ in range(_ROUNDS):
            path = paths.cheapest(prices)
            if path is None or float(prices @ path.over) > _CLEARLY:
                self._proved[paths.count] = prices
                return None
            found.append(path)
            best, parts = _best_prices(np.array([each.over for each in found]))
            if best is None or deadline.over:
                return [each for each, part in zip(found, parts, strict=True) if part > _SOME] or found
            prices = best
        return found


@dataclass(frozen=True)
class _Path:
    """A plan: by how much it exceeds each limit, in parts of it; its units by type, and the type of each Layer."""

    over: Floats
    units: Floats
    types: Ints


def _best_prices(paths: Floats) -> tuple[Floats | None, Floats]:
    """Prices that add up to 1 at which the cheapest of some paths is dearest; None if that is within the limits.

    And the part that each path has in the mixture that comes nearest to the limits.
    """
    from scipy.optimize import linprog

    count, each = paths.shape
    cost, rows = np.append(np.zeros(each), -1.0), np.hstack([-paths, np.ones((count, 1))])
    total = np.append(np.ones(each), 0.0)[None]
    found = linprog(cost, rows, np.zeros(count), total, [1.0], [*[(0, 1)] * each, (None, None)])
    if found.status != 0:
        return None, np.ones(count)
    prices = np.maximum(found.x[:-1], 0.0)
    return None if -found.fun <= _CLEARLY else prices / prices.sum(), -found.ineqlin.marginals


def _divided(core: Core, mixture: list[_Path]) -> Iterator[Core]:
    """Parts of the plans of a core: by the type of a Layer on which a mixture differs, else by the share of an end."""
    types, problem = np.array([path.types for path in mixture]), core.problem
    apart = np.flatnonzero((types != types[0]).any(axis=0))
    if len(apart):
        heavy = (problem.layer_held / problem.memory_cap).max(axis=1) + problem.layer_parallel[0].max(axis=1)
        v = int(apart[heavy[apart].argmax()])
        yield from _placed(core, v, int(types[0, v]))
        return
    ranges = {place: core.shares.get(place, (0.0, 1.0)) for place in _ends_that_count(core, types[0])}
    place = max(ranges, key=lambda each: ranges[each][1] - ranges[each][0], default=None)
    if place is not None and ranges[place][1] - ranges[place][0] > _NARROW:
        low, high = ranges[place]
        here, *there = _placed(core, *place)
        for share in ((low, (low + high) / 2), ((low + high) / 2, high)):
            yield replace(here, shares={**core.shares, place: share})
        yield from there


def _placed(core: Core, v: int, t: int) -> Iterator[Core]:
    """Plans with a Layer on a type, and without it there, if it may be elsewhere."""
    for on_it in (True, False):
        allowed = core.bare.allowed.copy()
        allowed[v] &= (np.arange(core.bare.types) == t) == on_it
        if allowed[v].any():
            yield replace(core, bare=replace(core.bare, allowed=allowed))


def _ends_that_count(core: Core, types: Ints) -> Iterator[Place]:
    """Ends of branches, where they are in a plan, that may be together with them or not, which makes a difference."""
    for (v, t), end in core.ends.items():
        if types[v] == t and np.isfinite(end.beside).all() and (end.beside[:, 0] < end.beside[:, 1]).any():
            yield v, t


class _Paths:
    """Plans of a core at one throughput: by how much of each limit they exceed it, in parts of it.

    Limits are those of units, by type; of parts of them, by type and resource; of shares, from below and from above; of
    the way.
    """

    def __init__(self, core: Core, x: float, limits: Limits) -> None:
        self._core, self._x, self._problem = core, x, core.problem
        self._inside = self._problem.members.astype(float)
        flight = max(self._problem.least_way, self._problem.way_from)
        each = [*[1.0] * (len(core.work) - 1), flight]  # room is for batches in flight, all else for rows a second
        self._each = np.tile(each, self._problem.types) * x * (1 - TOLERANCE)
        parts, way = np.repeat(limits.units, len(core.work)), (limits.way - self._problem.way) * x
        shares = [limit for low, high in core.shares.values() for limit in (-low, high)]
        have = np.concatenate([limits.units, parts, shares, [way]])
        self._ends = np.cumsum([self._problem.types, len(parts), len(shares)])
        self._counts = np.isfinite(have)
        self._limit = np.where(self._counts, have, 0.0)
        self._scale = np.maximum(np.abs(self._limit), 1.0)
        self._own = self._own_parts()
        self._ways = np.asarray(self._problem.stage_way.swapaxes(1, 2) * x)

        self.count = len(have)

    @property
    def first(self) -> Floats:
        """Prices to begin with."""
        return self.counted(np.ones(self.count))

    def counted(self, prices: Floats) -> Floats:
        """Prices in the same proportions that add up to 1, and are nothing of what has no limit."""
        prices = prices * self._counts
        return np.asarray(prices / prices.sum() if prices.any() else self._counts / max(int(self._counts.sum()), 1))

    def cheapest(self, prices: Floats) -> _Path | None:
        """The cheapest plan at some prices; None if there is no plan at all."""
        problem = self._problem
        units, parts, shares, way = np.split(prices * self._counts / self._scale, self._ends)
        taken = self._cheapest_cases(parts, shares)
        own = np.tensordot(parts, self._own, 1) + way[0] * self._ways
        beside = own + (self._inside @ (taken @ np.concatenate([parts, shares]))).T
        whole = np.ones(problem.types, np.bool_)
        least, stages = cheapest_stages(problem, self._x, units, whole, np.ascontiguousarray(beside))
        return None if math.isinf(least) else self._path(stages, taken, parts)

    def _own_parts(self) -> Floats:
        """float[T * R, 2, T, n]: what a stage takes itself, as a difference of two states, by its type."""
        problem, resources = self._problem, len(self._core.work)
        work, beside = self._inside @ self._core.work, problem.beside_memory
        figures = np.zeros((problem.types, resources, 2, problem.types, problem.states))
        for t in range(problem.types):
            room = beside / problem.memory_cap[t] if 0 < problem.memory_cap[t] < np.inf else 0 * beside
            figures[t, :, 0, t] = work[:, :, t] + np.vstack([problem.cut_after[:, :, t], room])
            figures[t, :, 1, t] = work[:, :, t] - np.vstack([problem.cut_before[:, :, t], room])
        return figures.reshape(-1, *figures.shape[2:]) * self._each[:, None, None, None]

    def _cheapest_cases(self, parts: Floats, shares: Floats) -> Floats:
        """float[L, T, T * R + shares]: parts, and shares, of branches in their cheapest cases, by end and its type."""
        found = np.zeros((self._problem.layers, self._problem.types, len(parts) + len(shares)))
        places = [*self._core.shares]
        for place, end in self._core.ends.items():
            at = 2 * places.index(place) if place in places else None
            price = 0.0 if at is None else shares[at + 1] - shares[at]
            chosen = _cheapest(end.cases, parts * self._each, price * end.weight[:, None] * end.together)
            found[place][: len(parts)] = end.cases[np.arange(len(chosen)), chosen].sum(axis=0) * self._each
            if at is not None:
                share = float(end.weight @ end.together[np.arange(len(chosen)), chosen])
                found[place][len(parts) + at : len(parts) + at + 2] = -share, share
        return found

    def _path(self, stages: Floats, taken: Floats, prices: Floats) -> _Path:
        """What a path takes, with its cases, of what is limited."""
        problem, j = self._problem, self._problem.states - 1
        units, parts, way = np.zeros(problem.types), np.zeros(taken.shape[2]), 0.0
        types = np.zeros(problem.layers, np.int64)
        while j > 0:
            i, t, k = int(stages[j, 0]), int(stages[j, 1]), float(stages[j, 2])
            mine = problem.members[j] & ~problem.members[i]
            units[t] += k
            types[mine] = t
            parts += taken[mine, t].sum(axis=0)
            parts[: len(self._own)] += self._own[:, 0, t, j] - self._own[:, 1, t, i]
            way += float(self._ways[0, t, j] - self._ways[1, t, i])
            j = i
        alone = self._core.alone
        chosen = _cheapest(alone, prices * self._each, np.zeros(alone.shape[:2]))
        parts[: len(self._own)] += alone[np.arange(len(chosen)), chosen].sum(axis=0) * self._each
        over = (np.concatenate([units, parts, [way]]) - self._limit) / self._scale
        return _Path(np.where(self._counts, over, 0.0), units, types)


def _cheapest(cases: Floats, prices: Floats, beside: Floats) -> Ints:
    """int[Q]: of cases, float[Q, cases, T * R], the cheapest each, at prices of parts, and what they cost besides."""
    possible = np.isfinite(cases[:, :, 0])
    cost = np.where(possible[:, :, None], cases, 0.0) @ prices + beside
    return np.asarray(np.where(possible, cost, np.inf).argmin(axis=1))
