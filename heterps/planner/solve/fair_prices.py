"""What a unit is worth that is sold only as part of a product: the division of prices that gives the best bounds.

However the price of a product is divided among its units, what the units of a plan cost by it is no more than the
products that have them. So every division makes the price with fractional units a lower bound for all plans, and the
best is the one for which that bound is highest: units that no plan lacks are worth nothing. The bound is a minimum over
paths of sums that are linear in the prices, hence concave; cutting planes find where it is highest.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from heterps.planner.solve.chain import relaxed_units
from heterps.planner.solve.placement import Floats
from heterps.planner.solve.problem import Problem

__all__ = ["fairly_priced"]

_ROUNDS = 12
_CLOSE = 1e-4  # relative distance of the bound from what any division could give


def fairly_priced(problem: Problem, x: float | None) -> Problem:
    """Return the problem with the prices of products divided as is best at x rows a second, or without x at very few.

    Where all work scales the best division is the same at all throughputs.
    """
    if (np.bincount(problem.product) == 1).all():
        return problem
    x = problem.slowest if x is None else x
    price, best, cuts = problem.price, (-np.inf, problem.price), []
    for _ in range(_ROUNDS):
        least, units = relaxed_units(replace(problem, price=price), x)
        if np.isinf(least):
            return problem
        best = max(best, (least, price), key=lambda pair: pair[0])
        cuts.append((units, least - float(units @ price)))
        most, price = _highest(problem, cuts)
        if most <= best[0] * (1 + _CLOSE):
            break
    return replace(problem, price=best[1])


def _highest(problem: Problem, cuts: list[tuple[Floats, float]]) -> tuple[float, Floats]:
    """The division for which the least of all sums so far is highest, and that sum: columns are prices and the sum."""
    from scipy.optimize import linprog

    whole = np.arange(len(problem.product_price))[:, None] == problem.product
    equal = np.hstack([whole * problem.sold_in, np.zeros((len(whole), 1))])
    units, rest = (np.array(part) for part in zip(*cuts, strict=True))
    below = np.hstack([-units, np.ones((len(cuts), 1))])
    free = [*[(0, None)] * problem.types, (None, None)]
    found = linprog([*np.zeros(problem.types), -1.0], below, rest, equal, problem.product_price, free)
    return (-float(found.fun), _divided(problem, found.x[:-1])) if found.status == 0 else (-np.inf, problem.price)


def _divided(problem: Problem, prices: Floats) -> Floats:
    """Prices of units in these proportions that add up to those of the products; none is nothing."""
    worth = np.maximum(prices * problem.sold_in, 1e-6 * problem.product_price[problem.product])
    whole = np.maximum(np.bincount(problem.product, worth), 1e-300)
    return np.asarray(worth * (problem.product_price / whole)[problem.product] / problem.sold_in)
