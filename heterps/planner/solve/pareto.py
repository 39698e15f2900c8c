"""Pareto labels: exact where stages compete for capped units, units sold in products, shared hosts or links.

A label is a way of reaching a state: its price and what it has used of everything scarce. A label that is no better
in any of these than another at the same state (and, where links count, on the same type) cannot be part of a better
whole and is dropped. So is one whose floor (:mod:`heterps.planner.solve.label_floors`) is above what is looked for: at
first little more than what all plans cost at least, then more, until there is a plan. Until then the lowest floor of
those that were dropped is what every plan costs at least.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.compiled import njit
from heterps.planner.solve.chain import INNER, is_inside
from heterps.planner.solve.label_floors import floors_of, least_in_all
from heterps.planner.solve.placement import TOLERANCE, Floats, Placement, Segment
from heterps.planner.solve.problem import Problem
from heterps.planner.solve.small import suited
from heterps.planner.solve.stage_choices import list_choices

__all__ = ["TooManyLabelsError", "label_placement"]

_LABELS = (64, 2_000, 30_000)  # room that is taken at first, where loops may run as they were written, and at most
_MOST_CHOICES = 1 << 16
_WIDER = 0.02  # how much more than the least price is looked for at first


class TooManyLabelsError(Exception):
    """The search has outgrown its memory; another method must take over. No placement costs less than ``bound``."""

    def __init__(self, message: str, bound: float = 0.0) -> None:
        super().__init__(message)
        self.bound = bound


@njit(**INNER)
def _dominates(a, b, price, use):  # type: ignore[no-untyped-def]
    if price[a] > price[b] * (1 + 1e-12) + 1e-15:
        return False
    for d in range(use.shape[1]):  # noqa: SIM110 (compiled: no generators)
        if use[a, d] > use[b, d] * (1 + 1e-12) + 1e-15:
            return False
    return True


@njit(**INNER)
def _fits(label, use, limit):  # type: ignore[no-untyped-def]
    for d in range(use.shape[1]):  # noqa: SIM110 (compiled: no generators)
        if use[label, d] > limit[d] * (1 + TOLERANCE):
            return False
    return True


@njit(**INNER)
def _insert(new, slot, head, following, price, use):  # type: ignore[no-untyped-def]
    """Add a label to the list at ``slot`` unless it is dominated; unlink those that it dominates."""
    at, before = head[slot], -1
    while at >= 0:
        if _dominates(at, new, price, use):
            return False
        at = following[at]
    at = head[slot]
    while at >= 0:
        if not _dominates(new, at, price, use):
            before = at
        elif before < 0:
            head[slot] = following[at]
        else:
            following[before] = following[at]
        at = following[at]
    following[new] = head[slot]
    head[slot] = new
    return True


@njit(**INNER)
def _charge(use, x, i, j, t, units, share, dim, shared):  # type: ignore[no-untyped-def]
    """Add what ``units`` of a type take for their share of a stage."""
    if dim[t] >= 0:
        use[dim[t]] += units
    first, host_use, host_cut = shared
    for h in range(len(host_use)):
        taken = host_use[h, j, t] - host_use[h, i, t] + host_cut[0, h, i, t] + host_cut[1, h, j, t]
        use[first + h] += share * taken * x


@njit(nogil=True, cache=True)
def _search(x, words, figures, scarce, crossing, prices, most, mixes, floors, dearest, by_type, labels, choices):  # type: ignore[no-untyped-def]
    """Label all states, given one label at the first, and drop those that cost more than ``dearest`` in all.

    Returns the number of labels, -1 if there is no room for more; and the lowest floor of those that were dropped.
    """
    dim, limit, link_dim, shared, added_ways = scarce
    less, worth, to_go, lowest = floors[0][0], floors[1][0], floors[3], np.inf
    price, use, record, following, head, value = labels
    choice, part, cost, added = choices
    n, types, count, alone = len(words), len(prices), 1, not len(shared[1])
    for i in range(n - 1):
        for j in range(i + 1, n):
            if not np.isfinite(to_go[0, j]) or not is_inside(words, i, j):
                continue
            for c in range(list_choices(x, i, j, most, mixes, prices, alone, added_ways, choices, figures)):
                t, units, other, other_units = choice[c, 0], choice[c, 1], choice[c, 2], choice[c, 3]
                rest = to_go[0, j] + cost[c] + worth[t] * units - less
                rest += worth[other] * other_units if other >= 0 else 0.0
                for origin in range(i * types, i * types + (types if by_type else 1)):
                    at = head[origin]
                    while at >= 0:
                        if value[at] + rest > dearest:  # most end here: no more than this is worked out for them
                            lowest = min(lowest, value[at] + rest)
                            at = following[at]
                            continue
                        if count == len(price):
                            return -1, lowest
                        price[count] = price[at] + cost[c]
                        for d in range(len(limit)):
                            use[count, d] = use[at, d]
                        _charge(use[count], x, i, j, t, units, part[c], dim, shared)
                        if other >= 0:
                            _charge(use[count], x, i, j, other, other_units, 1 - part[c], dim, shared)
                        if len(added_ways):
                            use[count, -1] += added[c]
                        if i > 0 and link_dim[record[at, 2], t] >= 0:
                            use[count, link_dim[record[at, 2], t]] += crossing[0, i] * x
                        if i > 0 and link_dim[t, record[at, 2]] >= 0:
                            use[count, link_dim[t, record[at, 2]]] += crossing[1, i] * x
                        record[count, 0], record[count, 1], record[count, 2] = at, j, t
                        record[count, 3], record[count, 4], record[count, 5] = units, other, other_units
                        slot = j * types + (t if by_type else 0)
                        if _fits(count, use, limit):
                            least = least_in_all(count, j, price, use, dim, floors)
                            if least > dearest:
                                lowest = min(lowest, least)
                            elif _insert(count, slot, head, following, price, use):
                                value[count] = value[at] + cost[c] + worth[t] * units
                                value[count] += worth[other] * other_units if other >= 0 else 0.0
                                count += 1
                        at = following[at]
    return count, lowest


def label_placement(problem: Problem, x: float) -> Placement | None:
    """Cheapest placement at x rows a second that fits everything scarce; None if there is none within the budget.

    Units that are parts of products are counted as they are used and paid for at the end: what is paid for within one
    product makes no difference.
    """
    hosts = problem.shards.hosts(x)
    scarce, used = _scarce(problem, x, hosts)
    limit = scarce[1]
    if (used > limit * (1 + TOLERANCE)).any():
        return None
    hunt = _Labels(problem, x, scarce, _first_price(problem, hosts), used)
    lowest, wider, most = hunt.root, _WIDER, problem.budget * (1 + TOLERANCE)
    while lowest <= most and math.isfinite(lowest):
        labels, lowest = hunt.labelled(lowest, min(lowest * (1 + wider), most))
        wider *= 3
        ends = _listed(labels[4][-problem.types :], labels[3])
        if ends:
            best = ends[int(np.argmin(_packed(problem, labels[0][ends], labels[1][ends], scarce[0])))]
            path = _path(labels[2], best)
            return Placement(path, hosts, price := problem.price_of(path, hosts), price)
    return None


def _first_price(problem: Problem, hosts: int) -> float:
    """What is paid in any case: shard hosts, unless they are units of products, which are paid whole."""
    return 0.0 if problem.shards.type >= 0 and problem.packed[problem.shards.type] else problem.host_price * hosts


class _Labels:
    """The search at one throughput, for placements that cost so much at most."""

    def __init__(self, problem: Problem, x: float, scarce: tuple[Any, ...], price: float, used: Floats) -> None:
        self._problem, self._scarce, self._price, self._used = problem, scarce, price, used
        self._floors = floors = floors_of(problem, x)
        most = np.where(np.isfinite(problem.cap), problem.cap, _MOST_CHOICES)
        ways = problem.types + int(most[problem.mixes[:, 0]].sum())  # all there are: none may be left out
        if ways > _MOST_CHOICES:
            raise TooManyLabelsError(f"{ways:,} ways to divide a stage between two types", self.root)
        crossing = np.stack([problem.crossing[0], problem.crossing[1] + problem.passed_on])
        prices = np.where(problem.packed, 0.0, problem.price)
        pairs = [tuple(pair) for pair in problem.mixes.tolist()]
        again = [(b, a) in pairs[:n] for n, (a, b) in enumerate(pairs)]  # whether the other order comes before
        mixes = np.column_stack([problem.mixes, np.array(again, np.int64)])
        self._figures = x, problem.words, problem.stage_figures, scarce, crossing, prices, most, mixes, floors
        self._choices = np.empty((ways, 4), np.int64), np.empty(ways), np.empty(ways), np.empty(ways)

    @property
    def root(self) -> float:
        """What every placement costs at least."""
        first = self._first_label(1)
        return float(suited(least_in_all, self._problem)(0, 0, first[0], first[1], self._scarce[0], self._floors))

    def labelled(self, least: float, dearest: float) -> tuple[tuple[npt.NDArray[Any], ...], float]:
        """Label all states as (price, use, record, following, head, value) for placements from least to dearest.

        And return what all others cost at least.
        """
        by_type = self._problem.has_links
        for room in _LABELS:
            labels = self._first_label(room)
            search = suited(_search, self._problem) if room == _LABELS[0] else _search
            count, lowest = search(*self._figures, dearest, by_type, labels, self._choices)
            if count >= 0:
                return labels, lowest
        raise TooManyLabelsError(f"more than {_LABELS[-1]:,} labels", least)

    def _first_label(self, room: int) -> tuple[npt.NDArray[Any], ...]:
        """Room for labels (not touched until needed), with one that has done nothing: (parent, state, type, ...).

        ``value`` is the price with what is used, at the prices of the first floor.
        """
        problem, used, dim = self._problem, self._used, self._scarce[0]
        price, value, use = np.empty(room), np.empty(room), np.empty((room, len(used)))
        record, following = np.empty((room, 6), np.int64), np.empty(room, np.int64)
        head = np.full(problem.states * problem.types, -1, np.int64)
        price[0], use[0], record[0], following[0], head[0] = self._price, used, (-1, 0, 0, 0, -1, 0), -1, 0
        value[0] = self._price + float((self._floors.worth[0] * np.append(used, 0.0)[dim])[dim >= 0].sum())
        return price, use, record, following, head, value


def _packed(
    problem: Problem,
    price: npt.NDArray[np.float64],
    use: npt.NDArray[np.float64],
    dim: npt.NDArray[np.int64],
) -> npt.NDArray[np.float64]:
    """Price of labels with the products that they need."""
    needed = np.zeros((len(price), len(problem.product_price)))
    for t in np.flatnonzero(problem.packed):
        p = problem.product[t]
        needed[:, p] = np.maximum(needed[:, p], np.ceil(use[:, dim[t]] / problem.sold_in[t]))
    return np.asarray(price + needed @ problem.product_price)


def _scarce(problem: Problem, x: float, hosts: int) -> tuple[tuple[Any, ...], npt.NDArray[np.float64]]:
    """Number the scarce things (units of types, links, shared capacities, batches in flight): their limits.

    And return what is used of them up front.
    """
    scarce = np.isfinite(problem.cap) | problem.packed
    dim = np.where(scarce, np.cumsum(scarce) - 1, -1)
    limit = list((problem.product_cap[problem.product] * problem.sold_in)[scarce])
    used = [0.0] * len(limit)
    if problem.shards.type >= 0 and dim[problem.shards.type] >= 0:
        used[dim[problem.shards.type]] += hosts
    link_dim = np.where(problem.link >= 0, problem.link + len(limit), -1)
    shared = len(limit), problem.usage, problem.cut_usage
    used += list(problem.fixed_usage * x)
    limit += list(problem.capacity)
    ways, most_way = np.zeros((0, 0, 0)), problem.most_way(x)
    if np.isfinite(most_way):  # batches in flight for each row a second: the last of what is scarce
        used, limit, ways = [*used, problem.way], [*limit, most_way], problem.stage_way
    figures = dim.astype(np.int64), np.array(limit, float), link_dim, shared, ways
    return figures, np.array(used, float)


def _listed(heads: npt.NDArray[np.int64], following: npt.NDArray[np.int64]) -> list[int]:
    found = []
    for at in map(int, heads):
        while at >= 0:
            found.append(at)
            at = int(following[at])
    return found


def _path(record: npt.NDArray[np.int64], label: int) -> tuple[Segment, ...]:
    segments = []
    while record[label, 0] >= 0:
        parent, stop, t, units, other, other_units = map(int, record[label])
        segments.append(Segment(int(record[parent, 1]), stop, t, units, other, other_units))
        label = parent
    return tuple(reversed(segments))
