"""A genetic search: tournaments, one-point crossing, mutation, the best two kept."""

from __future__ import annotations

import numpy as np

from benchmarks.rivals.trials import Trials

__all__ = ["genetic"]

POPULATION, KEPT, ROUND = 40, 2, 3


def genetic(trials: Trials, rng: np.random.Generator) -> None:
    """Spend the evaluations on generations."""
    people = [trials.drawn(rng) for _ in range(POPULATION)]
    prices = np.array([trials.price(p) for p in people])
    while True:
        kept = list(np.argsort(prices)[:KEPT])
        born = [_child(trials, people, prices, rng) for _ in range(POPULATION - KEPT)]
        born_prices = [trials.price(child) for child in born]
        people, prices = [people[i] for i in kept] + born, np.array([*prices[kept], *born_prices])


def _child(trials: Trials, people: list[np.ndarray], prices: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    one, two = (people[_winner(prices, rng)] for _ in range(2))
    cut = rng.integers(1, trials.layers) if trials.layers > 1 else 0
    child = np.concatenate([one[:cut], two[cut:]])
    for layer in np.flatnonzero(rng.random(trials.layers) < 1.5 / trials.layers):
        child[layer] = rng.choice(trials.choices[layer])
    return child


def _winner(prices: np.ndarray, rng: np.random.Generator) -> int:
    drawn = rng.integers(0, len(prices), ROUND)
    return int(drawn[np.argmin(prices[drawn])])
