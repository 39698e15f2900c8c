"""Bayesian optimisation: a Gaussian process over assignments (kernel by equal entries), expected improvement."""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.stats import norm
from threadpoolctl import threadpool_limits

from benchmarks.rivals.trials import Trials

__all__ = ["bayesian"]

FIRST, OFFERED, TAKEN, NOISE = 20, 200, 8, 1e-4
MEMORY = 200  # the best seen: it bounds the cubic cost of the process


def bayesian(trials: Trials, rng: np.random.Generator) -> None:
    """Spend the evaluations where the process expects to improve most."""
    with threadpool_limits(1):  # matrices of a few hundred rows: threads would only wait for each other
        _search(trials, rng)


def _search(trials: Trials, rng: np.random.Generator) -> None:
    seen = [trials.drawn(rng) for _ in range(FIRST)]
    prices = [trials.price(types) for types in seen]
    while True:
        kept = np.argsort(prices)[:MEMORY]
        offered = np.array([_offer(trials, rng) for _ in range(OFFERED)])
        gain = _improvement(np.array(seen)[kept], np.array(prices)[kept], offered, trials.problem.types)
        for chosen in offered[np.argsort(-gain)[:TAKEN]]:
            seen.append(chosen)
            prices.append(trials.price(chosen))


def _offer(trials: Trials, rng: np.random.Generator) -> np.ndarray:
    """A random assignment, or the best with one to three Layers changed."""
    if trials.best_types is None or rng.random() < 0.3:
        return trials.drawn(rng)
    types = trials.best_types.copy()
    for layer in rng.integers(0, trials.layers, rng.integers(1, 4)):
        types[layer] = rng.choice(trials.choices[layer])
    return types


def _improvement(seen: np.ndarray, prices: np.ndarray, offered: np.ndarray, types: int) -> np.ndarray:
    """Expected improvement of log price over the best seen; what cannot be carried counts as twice the worst."""
    finite = np.isfinite(prices)
    values = np.log(np.where(finite, prices, 2 * prices[finite].max(initial=1.0)))
    mean, spread = values.mean(), values.std() + 1e-9
    values = (values - mean) / spread
    gram = _alike(seen, seen, types) + NOISE * np.eye(len(seen))
    factor, cross = cho_factor(gram), _alike(offered, seen, types)
    expected = cross @ cho_solve(factor, values)
    deviation = np.sqrt(np.maximum(1 - np.einsum("ij,ji->i", cross, cho_solve(factor, cross.T)), 1e-9))
    gain = values.min() - expected
    return gain * norm.cdf(gain / deviation) + deviation * norm.pdf(gain / deviation)


def _alike(a: np.ndarray, b: np.ndarray, types: int) -> np.ndarray:
    """Kernel: falls with the share of Layers that have another type."""
    one, two = (np.eye(types)[each].reshape(len(each), -1) for each in (a, b))
    return np.exp(-3 * (1 - one @ two.T / a.shape[1]))
