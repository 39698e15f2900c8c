"""What no plan can beat, whatever its order of Layers and its cuts: linear programs over fractions of work.

Layer v sends z[v, t] of its rows to type t; units are divisible, what crosses between stages is free, serial parts are
left out. Of a product that has units of several types as much is bought of each. Every plan, one with mixed stages too,
gives a solution that costs no more than it does.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from heterps.planner.solve.effort import UndecidedError
from heterps.planner.solve.mincut import cut_bound
from heterps.planner.solve.placement import Floats
from heterps.planner.solve.problem import Problem

__all__ = ["least_price", "most_rows"]

_INFEASIBLE, _UNBOUNDED = 2, 3  # scipy.optimize.linprog


def least_price(problem: Problem, x: float, whole_hosts: bool = True) -> float:
    """Lower bound on the price per hour at x rows a second; inf if not even fractions of units reach it.

    With fractions of shard hosts too, the price per row never falls with x.
    """
    if not problem.shards.carry(x):
        return np.inf
    hosts = problem.shards.hosts(x) if whole_hosts else problem.shards.each(x) * x
    rows = _BoundRows(problem, hosts / x)
    found = rows.solve(np.concatenate([np.zeros(rows.shares), problem.price, [0.0]]), (x, x))
    if found is None:
        return np.inf
    apart = problem.shards.price * hosts if problem.shards.type < 0 else 0.0
    return max(found + apart, cut_bound(problem) * x + problem.host_price * hosts)


def most_rows(problem: Problem, budget: float = np.inf) -> float:
    """Upper bound on the rows per second within caps and a price per hour."""
    hosts = problem.shards.each(0.0)
    rows = _BoundRows(problem, hosts)
    if np.isfinite(budget):
        apart = problem.shards.price * hosts if problem.shards.type < 0 else 0.0
        rows.add(np.zeros((problem.layers, problem.types)), problem.price, apart, budget)
    found = rows.solve(np.concatenate([np.zeros(rows.shares + problem.types), [-1.0]]), (0, None))
    return 0.0 if found is None else min(-found, problem.shards.most)


class _BoundRows:
    """The program: columns are shares z[g, t] of groups of equal Layers, units bought by type, rows per second.

    ``hosts`` is the number of shard hosts for each row per second.
    """

    def __init__(self, problem: Problem, hosts: float) -> None:
        self._problem = problem
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
                self.add(problem.layer_parallel[r] * mine, -units[t], hosts * (problem.shards.type == t), 0.0)
            if np.isfinite(problem.cap[t]):
                self.add(none, units[t], 0.0, float(problem.cap[t]))
        for a, b in itertools.combinations(range(problem.types), 2):
            if problem.product[a] == problem.product[b]:
                alike = units[a] * problem.sold_in[b] - units[b] * problem.sold_in[a]
                self.add(none, alike, 0.0, 0.0)
                self.add(none, -alike, 0.0, 0.0)
        for h, capacity in enumerate(problem.capacity):
            self.add(problem.layer_usage[h], 0 * units[0], float(problem.fixed_usage[h]), float(capacity))

    def add(self, shares: Floats, units: Floats, rate: float, limit: float) -> None:
        """Require that what shares (given by Layer), units and rows take together stays within a limit."""
        self._upper.append((np.concatenate([shares[self._first].ravel(), units, [rate]]), limit))

    def solve(self, cost: Floats, rate: tuple[float, float | None]) -> float | None:
        """Return the least cost with the rows per second in a range; None if there is no solution.

        Raises
        ------
        UndecidedError
            If HiGHS ended without an answer.
        """
        from scipy.optimize import linprog
        from scipy.sparse import csr_matrix, hstack

        p = self._problem
        groups = np.repeat(np.arange(self._groups), p.types)
        shares = csr_matrix((np.ones(self.shares), (groups, np.arange(self.shares))), (self._groups, self.shares))
        every: Any = hstack(
            [shares, csr_matrix((self._groups, p.types)), csr_matrix(-self._count[:, None].astype(float))]
        )
        free = [(0, None if ok else 0) for ok in p.allowed[self._first].ravel()] + [(0, None)] * p.types
        table, limits = (np.array(part) for part in zip(*self._upper, strict=True))
        found = linprog(cost, csr_matrix(table), limits, every.tocsr(), np.zeros(self._groups), [*free, rate])
        if found.status == _UNBOUNDED:
            return -np.inf
        if found.status not in (0, _INFEASIBLE):
            raise UndecidedError(f"the linear program ended without an answer: {found.message}")
        return float(found.fun) if found.status == 0 else None
