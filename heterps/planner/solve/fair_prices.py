"""What a unit is worth that is sold only as part of a product, or of which there are few: the prices that bound best.

However the price of a product is divided among its units, what the units of a plan cost by it is no more than the
products that have them; and where a product is made dearer by m, a plan costs no more than m times its cap above what
it did. So every division, and every m >= 0, makes the price with fractional units, less m times the cap, a lower bound
for all plans, those with mixed stages too, and the best is the one for which that bound is highest: units that no plan
lacks are worth nothing, those that are short are worth more than they cost. The bound is a minimum over paths of sums
that are linear in the prices, hence concave; cutting planes find where it is highest. It is what the best mixture of
plans costs, of which each may be taken in part.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from heterps.planner.solve.chain import relaxed_stages
from heterps.planner.solve.placement import Floats
from heterps.planner.solve.problem import Problem

__all__ = ["Worth", "fairly_priced", "most_by_parts", "worth_of"]

_ROUNDS = 12
_CLOSE = 1e-4  # relative distance of the bound from what any prices could give
_DEAREST = 100.0  # times the price of the dearest product, by which one is made dearer at most
_TURNS, _NEAR = 24, 5e-3  # throughputs that are tried, and the relative distance that they are brought to


@dataclass(frozen=True)
class Worth:
    """Prices of units by type, what they make all there is dearer by, and what every placement costs at least."""

    price: Floats
    less: float
    least: float


def fairly_priced(problem: Problem, x: float | None) -> Problem:
    """Return the problem with the prices of products divided as is best at x rows a second, or without x at very few.

    Where all work scales the best division is the same at all throughputs.
    """
    if (np.bincount(problem.product) == 1).all():
        return problem
    x = problem.slowest if x is None else x
    if not problem.shards.carry(x):
        return problem
    found = _Planes(problem, np.full(len(problem.product_price), np.inf)).highest(x, problem.shards.each(x) * x)
    return problem if math.isinf(found.least) else replace(problem, price=found.price)


def worth_of(problem: Problem, x: float) -> Worth:
    """Return the prices that bound placements at x rows a second best; ``least`` is inf where there are none."""
    return _Planes(problem, problem.product_cap).highest(x, problem.shards.hosts(x))


def most_by_parts(problem: Problem, budget: float, low: float, high: float) -> float:
    """Upper bound on the rows per second within caps and a price per hour, given a higher one; no need for one below.

    What is not within the budget at some throughput is not at any above.
    """
    planes, part = _Planes(problem, problem.product_cap), _NEAR
    x = low if low > 0 else high * (1 - part)
    for _ in range(_TURNS if math.isfinite(high) else 0):
        most = min(budget, _all_there_is(problem, x)) * (1 + 1e-9)
        if not problem.shards.carry(x) or planes.highest(x, problem.shards.hosts(x), most).least > most:
            high, part = x, min(4 * part, 0.75)
        else:
            low = x
        if high <= low * (1 + _NEAR):
            break
        x = math.sqrt(low * high) if low > 0 else high * (1 - part)
    return high


def _all_there_is(problem: Problem, x: float) -> float:
    """Price of all products, and of shard hosts that are apart; inf where there is no end of one."""
    apart = problem.shards.price * problem.shards.hosts(x) if problem.shards.type < 0 else 0.0
    whole = float(problem.product_price @ problem.product_cap) if np.isfinite(problem.product_cap).all() else math.inf
    return whole + apart


class _Planes:
    """Stages in parts, each found as the cheapest at some prices: what they cost at others bounds the least price."""

    def __init__(self, problem: Problem, cap: Floats) -> None:
        self._problem, self._cap = problem, cap
        self._units: list[Floats] = []  # by type, for each row a second

    def highest(self, x: float, hosts: float, enough: float = math.inf) -> Worth:
        """Raise what placements cost at least at x rows a second, up to what is enough."""
        p = self._problem
        if p.has_serial:
            self._units = []  # what is needed does not scale with the throughput
        carried = np.where(np.arange(p.types) == p.shards.type, hosts, 0.0)
        apart = p.shards.price * hosts if p.shards.type < 0 else 0.0
        best, price, less = Worth(p.price, 0.0, -np.inf), p.price, 0.0
        for _ in range(_ROUNDS):
            if self._units:
                most, price, less = self._prices(x, carried)
                if best.least > enough or most + apart <= best.least * (1 + _CLOSE):
                    break
            stages, units = relaxed_stages(p, x, price)
            if math.isinf(stages):
                return Worth(p.price, 0.0, np.inf)
            least = stages + float(carried @ price) + apart - less
            best = max(best, Worth(price, less, least), key=lambda worth: worth.least)
            self._units.append(units / x)
        return best

    def _prices(self, x: float, carried: Floats) -> tuple[float, Floats, float]:
        """The prices for which the least of all sums so far is highest, that sum, and what all there is gets dearer by.

        Columns are prices of units, raises by product, and the sum.
        """
        from scipy.optimize import linprog

        p, products = self._problem, len(self._cap)
        whole = (np.arange(products)[:, None] == p.product) * p.sold_in
        equal = np.hstack([whole, -np.eye(products), np.zeros((products, 1))])
        units = np.array(self._units) * x + carried
        below = np.hstack([-units, np.zeros((len(units), products)), np.ones((len(units), 1))])
        scarce, top = np.isfinite(self._cap), _DEAREST * float(p.product_price.max())
        cost = np.concatenate([np.zeros(p.types), np.where(scarce, self._cap, 0.0), [-1.0]])
        free = [*[(0, None)] * p.types, *((0, top if short else 0) for short in scarce), (None, None)]
        found = linprog(cost, below, np.zeros(len(units)), equal, p.product_price, free)
        if found.status != 0:
            return -np.inf, p.price, 0.0
        raised = np.where(scarce, np.maximum(found.x[p.types : -1], 0.0), 0.0)
        less = float(raised[scarce] @ self._cap[scarce])
        return -float(found.fun), _divided(p, found.x[: p.types], p.product_price + raised), less


def _divided(problem: Problem, prices: Floats, total: Floats) -> Floats:
    """Prices of units in these proportions that add up to the total of each product; none is nothing."""
    worth = np.maximum(prices * problem.sold_in, 1e-6 * total[problem.product])
    whole = np.maximum(np.bincount(problem.product, worth), 1e-300)
    return np.asarray(worth * (total / whole)[problem.product] / problem.sold_in)
