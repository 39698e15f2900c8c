"""Caps by prices: where there are too many labels, scarce types are made dearer until what is left fits.

For prices raised by any m >= 0, the least price of stages that compete for nothing, less ``m @ cap``, is no more than
any placement within the caps costs: a bound from every round, and each round's stages are a placement if they fit.
Stages on two types can cost less than that: where there may be such, only the price with fractional units is a bound.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from heterps.planner.solve.chain import chain_placement, relaxed_price
from heterps.planner.solve.effort import NEVER, Deadline, UndecidedError
from heterps.planner.solve.placement import Placement
from heterps.planner.solve.problem import Problem
from heterps.planner.solve.sizing import fits, whole

__all__ = ["multiplier_placement"]

_ROUNDS = 40
_CLOSE = 1e-4  # relative distance of price and bound at which no more rounds are made


def multiplier_placement(problem: Problem, x: float, deadline: Deadline = NEVER) -> Placement | None:
    """A placement at x rows a second with a bound; None only where the bound shows that there is none.

    Raises
    ------
    UndecidedError
        If nothing that fits was found, and nothing shows that there is nothing.
    """
    raised, best, bound = np.zeros(problem.types), None, 0.0
    for turn in range(_ROUNDS):
        placed = chain_placement(problem, x, problem.price + raised)
        if placed is None:
            return None
        used = placed.used(problem.types) + problem.hosts_by_type(placed.hosts)
        bound = max(bound, placed.price - float(raised[raised > 0] @ problem.cap[raised > 0]))
        if bound > _dearest(problem, placed.hosts) and not problem.mixes.size:
            return None
        real = whole(problem, placed.segments, x)
        if fits(problem, real, x) and (best is None or real.price < best.price):
            best = real
        if deadline.over or (best is not None and best.price <= bound * (1 + _CLOSE)):
            break
        over = np.where(np.isfinite(problem.cap), used - problem.cap, 0.0) / np.maximum(problem.cap, 1)
        raised = np.maximum(0.0, raised + np.maximum(problem.price, 1e-9) * over / (1 + turn / 4))
    if best is None:
        raise UndecidedError(f"no placement found at {x:g} rows a second, nor the proof that there is none")
    bound = relaxed_price(problem, x) if problem.mixes.size else bound
    return replace(best, bound=min(bound, best.price))


def _dearest(problem: Problem, hosts: int) -> float:
    """What all there is costs; inf where something has no cap."""
    apart = problem.shards.price * hosts if problem.shards.type < 0 else 0.0
    return float(problem.price @ problem.cap) * (1 + 1e-9) + apart if np.isfinite(problem.cap).all() else np.inf
