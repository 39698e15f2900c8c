"""What no plan can beat, whatever its order of Layers and its cuts: linear programs over fractions of work.

Layer v sends z[v, t] of its rows to type t; units are divisible, what crosses between stages is free, serial parts are
left out. Of a product that has units of several types as much is bought of each. Every plan, one with mixed stages too,
gives a solution that costs no more than it does, with no more units than all its work takes on a type: what is bought
beyond that is bought for nothing. What a solver says of these programs is proved by prices of their rows
(:mod:`heterps.planner.solve.branching`).
"""

from __future__ import annotations

import itertools

import numpy as np

from heterps.planner.solve.branching import Branching
from heterps.planner.solve.effort import NEVER, UndecidedError
from heterps.planner.solve.mincut import cut_bound
from heterps.planner.solve.placement import Floats
from heterps.planner.solve.problem import Problem
from heterps.planner.solve.row_prices import LinearRows

__all__ = ["least_price", "most_rows"]

_ROUNDING = 1e-9  # relative: a limit is never less than what it is to hold


def least_price(problem: Problem, x: float, whole_hosts: bool = True) -> float:
    """Lower bound on the price per hour at x rows a second; inf if not even fractions of units reach it.

    With fractions of shard hosts too, the price per row never falls with x.
    """
    if not problem.shards.carry(x):
        return np.inf
    hosts = problem.shards.hosts(x) if whole_hosts else problem.shards.each(x) * x
    rows = _BoundRows(problem, hosts, x)
    found = rows.least(np.concatenate([np.zeros(rows.shares), problem.price, [0.0]]), 1.0, rows.enough)
    if found is None:
        return np.inf
    apart = problem.shards.price * hosts if problem.shards.type < 0 else 0.0
    return max(found + apart, cut_bound(problem) * x + problem.host_price * hosts)


def most_rows(problem: Problem, budget: float = np.inf) -> float:
    """Upper bound on the rows per second within caps and a price per hour."""
    units = np.minimum(problem.cap, problem.sold_in * _affordable(problem, budget)[problem.product])
    most = min(_most_alone(problem, units), problem.shards.most)
    if not 0 < most < np.inf:
        return most
    hosts = problem.shards.each(0.0) * most
    rows = _BoundRows(problem, hosts, most)
    if np.isfinite(budget):
        apart = problem.shards.price * hosts if problem.shards.type < 0 else 0.0
        rows.add(np.zeros((problem.layers, problem.types)), problem.price, apart, budget)
    found = rows.least(np.concatenate([np.zeros(rows.shares + problem.types), [-1.0]]), 0.0, units)
    return 0.0 if found is None else min(-found * most, most)


def _affordable(problem: Problem, budget: float) -> Floats:
    """How many of each product may be bought, if nothing else is."""
    price = problem.product_price
    within = np.divide(budget, price, out=np.full_like(price, np.inf), where=price > 0)
    return np.asarray(np.minimum(problem.product_cap, within * (1 + _ROUNDING)))


def _most_alone(problem: Problem, units: Floats) -> float:
    """Rows per second of the slowest Layer, if all units do nothing else; of what is shared, if nothing is wasted."""
    work = problem.layer_parallel.max(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        each = np.where(problem.allowed & (units > 0), np.where(work > 0, units / work, np.inf), 0.0)
        used = np.where(problem.allowed, problem.layer_usage, np.inf).min(axis=2).sum(axis=1) + problem.fixed_usage
        shared = np.where(used > 0, problem.capacity / used, np.inf)
    return float(min(each.sum(axis=1).min(), shared.min(initial=np.inf))) * (1 + _ROUNDING)


class _BoundRows:
    """The program: columns are shares z[g, t] of groups of equal Layers, units bought by type, rows per second.

    Rows per second are parts of ``most``, and ``hosts`` is the number of shard hosts there.
    """

    def __init__(self, problem: Problem, hosts: float, most: float) -> None:
        self._problem, self._hosts, self._most = problem, hosts, most
        figures = np.concatenate([problem.layer_parallel, problem.allowed[None], problem.layer_usage])
        alike = figures.transpose(1, 0, 2).reshape(problem.layers, -1)
        _, self._first, self._count = np.unique(alike, axis=0, return_index=True, return_counts=True)
        self._groups = len(self._first)
        self.shares = self._groups * problem.types
        self._upper: list[tuple[Floats, float]] = []
        none, units = np.zeros((problem.layers, problem.types)), np.eye(problem.types)
        for t in range(problem.types):
            mine = np.zeros(problem.types)
            mine[t] = 1.0
            for r in range(len(problem.layer_parallel)):
                self.add(problem.layer_parallel[r] * most * mine, -units[t], hosts * (problem.shards.type == t), 0.0)
            if np.isfinite(problem.cap[t]):
                self.add(none, units[t], 0.0, float(problem.cap[t]))
        for a, b in itertools.combinations(range(problem.types), 2):
            if problem.product[a] == problem.product[b]:
                alike = units[a] * problem.sold_in[b] - units[b] * problem.sold_in[a]
                self.add(none, alike, 0.0, 0.0)
                self.add(none, -alike, 0.0, 0.0)
        for h, capacity in enumerate(problem.capacity):
            used, fixed = problem.layer_usage[h] * most, float(problem.fixed_usage[h]) * most
            self.add(used, 0 * units[0], fixed, float(capacity))

    def add(self, shares: Floats, units: Floats, rate: float, limit: float) -> None:
        """Require that what shares (given by Layer), units and rows take together stays within a limit."""
        self._upper.append((np.concatenate([shares[self._first].ravel(), units, [rate]]), limit))

    @property
    def enough(self) -> Floats:
        """Units by type beyond which more are bought for nothing."""
        p = self._problem
        work = np.where(p.allowed, p.layer_parallel, 0.0).sum(axis=1).max(axis=0) * self._most
        work += np.where(np.arange(p.types) == p.shards.type, self._hosts, 0.0)
        whole = np.zeros(len(p.product_price))
        np.maximum.at(whole, p.product, work / p.sold_in)
        return np.minimum(p.cap, p.sold_in * whole[p.product] * (1 + _ROUNDING))

    def least(self, cost: Floats, rate: float, units: Floats) -> float | None:
        """What no solution undercuts with so many rows per second, or more, and so many units; None: there is none.

        Raises
        ------
        UndecidedError
            If neither is known.
        """
        from scipy.sparse import csr_matrix, hstack, vstack

        p = self._problem
        groups = np.repeat(np.arange(self._groups), p.types)
        shares = csr_matrix((np.ones(self.shares), (groups, np.arange(self.shares))), (self._groups, self.shares))
        every = hstack([shares, csr_matrix((self._groups, p.types)), csr_matrix(-self._count[:, None].astype(float))])
        table, limits = (np.array(part) for part in zip(*self._upper, strict=True))
        low = np.concatenate([np.full(len(table), -np.inf), np.zeros(self._groups)])
        rows = LinearRows(vstack([csr_matrix(table), every]).tocsr(), low, np.append(limits, np.zeros(self._groups)))
        most = np.where(p.allowed[self._first], self._count[:, None], 0.0).ravel()
        within = np.concatenate([np.zeros(len(cost) - 1), [rate]]), np.concatenate([most, units, [1.0]])
        found = Branching(cost, rows, np.zeros(len(cost), np.bool_)).least(within, NEVER)
        if found.bound == -np.inf:
            raise UndecidedError("the linear program ended without an answer")
        return None if found.bound == np.inf else found.bound
