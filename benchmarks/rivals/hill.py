"""Greedy and then uphill: change one Layer's type as long as it helps, then again from a random start."""

from __future__ import annotations

import numpy as np

from benchmarks.rivals.trials import Trials

__all__ = ["climb"]


def climb(trials: Trials, rng: np.random.Generator) -> None:
    """Spend the evaluations on climbs; the first starts with each Layer where it alone is cheapest."""
    start = _greedy(trials)
    while True:
        _climb_from(trials, start)
        start = trials.drawn(rng)


def _greedy(trials: Trials) -> np.ndarray:
    problem, steps = trials.problem, zip(trials.problem.order, trials.problem.order[1:], strict=False)
    alone = [[sum(map(np.sum, problem.times(i, j, t))) for t in range(problem.types)] for i, j in steps]
    return np.argmin(np.where(trials.may, np.array(alone) * problem.price, np.inf), axis=1)


def _climb_from(trials: Trials, types: np.ndarray) -> None:
    now, better = trials.price(types), True
    while better:
        better = False
        for layer, choices in enumerate(trials.choices):
            for t in choices[choices != types[layer]]:
                changed = types.copy()
                changed[layer] = t
                if (price := trials.price(changed)) < now:
                    types, now, better = changed, price, True
