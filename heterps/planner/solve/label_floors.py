"""What a label costs at least once all is done: so that labels are dropped that cannot be part of a good whole.

What units of a plan cost, the price of each product being divided among its units, is no more than the products that
have them; and products that a label needs already will be paid whole. For each product one or the other may be counted:
with the whole price counted, its units are free for all that comes after. So for every set of products, the products
of the set that a label needs, what it has used of all others, and the least price of the stages after it in which units
of the set are free, make a bound. One more is made with the prices that bound all plans best, which are raised where
there are few of a product, less what that makes all there are dearer (:mod:`heterps.planner.solve.fair_prices`). The
highest of them is taken.
"""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from heterps.compiled import njit
from heterps.planner.solve.chain import cost_to_go
from heterps.planner.solve.fair_prices import worth_of
from heterps.planner.solve.placement import Floats
from heterps.planner.solve.problem import Problem
from heterps.planner.solve.small import is_small

__all__ = ["Floors", "floors_of", "least_in_all"]

_SETS = 8  # of products that are sold whole
_MANY_STATES = 300  # beyond, a pass over all stages takes long: only nothing, and everything, is counted whole


class Floors(NamedTuple):
    """For ``S`` sets of products: what a label's bound is made of. Of the first none is counted whole."""

    less: Floats  # [S]: what prices are raised by, for all that there is
    worth: Floats  # [S, T]: price of a unit that a label used; 0 where its product is in the set, or it is paid already
    counted: Floats  # [S, P]: price of a product of the set
    to_go: Floats  # [S, n]: least price of the stages after a state
    product: npt.NDArray[np.int64]  # [T]
    sold_in: npt.NDArray[np.int64]  # [T]


def floors_of(problem: Problem, x: float) -> Floors:
    """Return what bounds labels at x rows a second."""
    sets = [np.isin(problem.product, chosen) & problem.packed for chosen in _sets(problem)]
    products = np.arange(len(problem.product_price))
    worth = [np.where(problem.packed & ~free, problem.price, 0.0) for free in sets]
    counted = [np.where(np.isin(products, problem.product[free]), problem.product_price, 0.0) for free in sets]
    to_go = [cost_to_go(problem, x, np.where(free, 0.0, problem.price)) for free in sets]
    less = [0.0] * len(sets)
    bounded = len(sets) > 1 and not is_small(problem)
    if bounded and math.isfinite((best := worth_of(problem, x)).least):
        less.insert(0, best.less)
        worth.insert(0, best.price - np.where(problem.packed, 0.0, problem.price))
        counted.insert(0, 0 * problem.product_price)
        to_go.insert(0, cost_to_go(problem, x, best.price))
    return Floors(np.array(less), np.array(worth), np.array(counted), np.array(to_go), problem.product, problem.sold_in)


def _sets(problem: Problem) -> list[tuple[int, ...]]:
    """Sets of products that are sold whole, the empty one and that of all among them."""
    whole = [int(p) for p in np.unique(problem.product[problem.packed])]
    few = problem.states <= _MANY_STATES
    found = (chosen for size in range(len(whole)) for chosen in itertools.combinations(whole, size))
    return [*itertools.islice(found, _SETS - 1 if few else 1), tuple(whole)] if whole else [()]


@njit(nogil=True, cache=True, error_model="numpy")
def least_in_all(label: int, state: int, price: Any, use: Any, dim: Any, floors: Any) -> float:
    """What a label at a state costs at least when all is done."""
    less, worth, counted, to_go, product, sold_in = floors
    highest = 0.0
    for s in range(len(worth)):
        total = price[label] + to_go[s, state] - less[s]
        for p in range(counted.shape[1]):
            if counted[s, p] > 0:
                needed = 0.0
                for t in range(len(product)):
                    if product[t] == p:
                        needed = max(needed, np.ceil(use[label, dim[t]] / sold_in[t]))
                total += needed * counted[s, p]
        for t in range(len(product)):
            if worth[s, t] > 0 and dim[t] >= 0:
                total += worth[s, t] * use[label, dim[t]]
        highest = max(highest, total)
    return highest
