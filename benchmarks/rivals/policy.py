"""The paper's way: an LSTM reads Layer after Layer, draws a type for each, and learns by REINFORCE.

Reward is minus the price over the mean of the batch, with a moving baseline; Adam. NumPy, gradients by hand.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from benchmarks.rivals.trials import Trials

__all__ = ["Lstm", "policy"]

WIDTH, DRAWS, RATE, FORGET = 32, 16, 0.02, 0.8


@dataclass
class Step:
    """What one step of the network leaves for its way back."""

    read: np.ndarray
    gates: tuple[np.ndarray, ...]
    cell: np.ndarray
    before: np.ndarray
    shares: np.ndarray
    chosen: np.ndarray
    state: np.ndarray


class Lstm:
    """One layer of LSTM cells and a softmax over types; all draws of a batch go through it at once."""

    def __init__(self, inputs: int, types: int, rng: np.random.Generator, width: int = WIDTH) -> None:
        self.width, self.types = width, types
        reads = inputs + types + width  # the Layer's figures, the type before, the state before
        self.weights = {
            "gates": rng.normal(0, 0.1, (reads + 1, 4 * width)),
            "out": rng.normal(0, 0.1, (width + 1, types)),
        }
        self._first = {name: np.zeros_like(w) for name, w in self.weights.items()}
        self._second = {name: np.zeros_like(w) for name, w in self.weights.items()}
        self._steps = 0

    def draw(self, figures: np.ndarray, may: np.ndarray, draws: int, rng: np.random.Generator) -> list[Step]:
        """Draw a type for each Layer, ``draws`` times at once."""
        state, cell = np.zeros((draws, self.width)), np.zeros((draws, self.width))
        chosen, steps = np.zeros((draws, self.types)), []
        for row, allowed in zip(figures, may, strict=True):
            read = np.hstack([np.tile(row, (draws, 1)), chosen, state, np.ones((draws, 1))])
            i, f, o, g = np.split(read @ self.weights["gates"], 4, axis=1)
            i, f, o, g = _sigmoid(i), _sigmoid(f + 1), _sigmoid(o), np.tanh(g)
            before, cell = cell, f * cell + i * g
            state = o * np.tanh(cell)
            shares = _softmax(np.where(allowed, np.hstack([state, np.ones((draws, 1))]) @ self.weights["out"], -1e9))
            picks = (shares.cumsum(axis=1) > rng.random((draws, 1))).argmax(axis=1)
            chosen = np.eye(self.types)[picks]
            steps.append(Step(read, (i, f, o, g), cell, before, shares, chosen, state))
        return steps

    def gradient(self, steps: list[Step], advantage: np.ndarray) -> dict[str, np.ndarray]:
        """Of the mean over draws of ``advantage * log p(types)``, by which it rises."""
        draws = len(advantage)
        found = {name: np.zeros_like(w) for name, w in self.weights.items()}
        d_state, d_cell = np.zeros((draws, self.width)), np.zeros((draws, self.width))
        for step in reversed(steps):
            d_logit = (step.chosen - step.shares) * advantage[:, None] / draws
            found["out"] += np.hstack([step.state, np.ones((draws, 1))]).T @ d_logit
            d_state = d_state + d_logit @ self.weights["out"][:-1].T
            i, f, o, g = step.gates
            bent = np.tanh(step.cell)
            d_cell = d_cell + d_state * o * (1 - bent**2)
            raw = [d_cell * g * i * (1 - i), d_cell * step.before * f * (1 - f), d_state * bent * o * (1 - o)]
            d_gates = np.hstack([*raw, d_cell * i * (1 - g**2)])
            found["gates"] += step.read.T @ d_gates
            d_state = (d_gates @ self.weights["gates"].T)[:, -self.width - 1 : -1]
            d_cell = d_cell * f
        return found

    def rise(self, gradient: dict[str, np.ndarray], rate: float = RATE) -> None:
        """One step of Adam uphill."""
        self._steps += 1
        for name, g in gradient.items():
            self._first[name] += 0.1 * (g - self._first[name])
            self._second[name] += 0.001 * (g * g - self._second[name])
            first = self._first[name] / (1 - 0.9**self._steps)
            second = self._second[name] / (1 - 0.999**self._steps)
            self.weights[name] += rate * first / (np.sqrt(second) + 1e-8)


def policy(trials: Trials, rng: np.random.Generator) -> None:
    """Spend the evaluations on batches of draws, learning from each."""
    figures = _figures(trials)
    lstm, baseline = Lstm(figures.shape[1], trials.problem.types, rng), None
    while True:
        steps = lstm.draw(figures, trials.may, DRAWS, rng)
        drawn = np.array([step.chosen.argmax(axis=1) for step in steps]).T
        prices = np.array([trials.price(types) for types in drawn])
        rewards = -np.log(np.where(np.isfinite(prices), prices, 2 * _worst(prices)))
        baseline = rewards.mean() if baseline is None else FORGET * baseline + (1 - FORGET) * rewards.mean()
        advantage = (rewards - baseline) / (rewards.std() + 1e-6)
        lstm.rise(lstm.gradient(steps, advantage))


def _worst(prices: np.ndarray) -> float:
    finite = prices[np.isfinite(prices)]
    return float(finite.max()) if finite.size else 1.0


def _figures(trials: Trials) -> np.ndarray:
    """What the network sees of a Layer: its place, and its time on each type, scaled."""
    order = trials.problem.order
    alone = [
        [float(sum(map(np.sum, trials.problem.times(i, j, t)))) for t in range(trials.problem.types)]
        for i, j in itertools.pairwise(order)
    ]
    times = np.log(np.maximum(np.array(alone), 1e-12))
    times = (times - times.mean()) / (times.std() + 1e-9)
    return np.hstack([np.linspace(0, 1, trials.layers)[:, None], times])


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def _softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)
