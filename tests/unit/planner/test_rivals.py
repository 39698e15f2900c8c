"""The rivals of benchmarks/rivals: they search as they say, within their budget, and never beat what was proved."""

import numpy as np
import pytest

from benchmarks.rivals import RIVALS
from benchmarks.rivals.families import FAMILIES, hardware, problem_of
from benchmarks.rivals.policy import Lstm, Step
from benchmarks.rivals.trials import SpentError, Trials, searched
from heterps.planner import solver
from heterps.planner.solve.effort import UndecidedError
from heterps.planner.solve.making import make_problem
from heterps.planner.solve.problem import Problem


def _chain(seed: int, layers: int = 5, types: int = 3) -> Problem:
    rng = np.random.default_rng(seed)
    seconds = rng.uniform(0.001, 0.01, (2, layers, types))
    return make_problem(seconds, 1.0, rng.uniform(1, 10, types))


@pytest.mark.parametrize("name", RIVALS)
def test_a_rival_finds_the_best_of_a_small_chain_and_nothing_better(name: str) -> None:
    for seed in range(3):
        problem = _chain(seed)
        best = solver("brute").solve(problem, 100.0)
        found = searched(RIVALS[name][0], 600, seed)(problem, 100.0)
        assert best is not None
        assert found is not None
        assert best.price - 1e-9 <= found.price <= 1.1 * best.price


@pytest.mark.parametrize("name", RIVALS)
def test_no_more_is_evaluated_than_allowed(name: str) -> None:
    trials = Trials(_chain(0), 100.0, 77)
    with pytest.raises(SpentError):
        RIVALS[name][0](trials, np.random.default_rng(0))
    assert trials.left == 0


def test_a_search_that_finds_nothing_has_proved_nothing() -> None:
    problem = make_problem([[1.0], [1.0]], cap=1)
    with pytest.raises(UndecidedError, match="no feasible assignment among 50"):
        searched(RIVALS["climb"][0], 50, 0)(problem, 100.0)


def test_the_policy_rises_along_its_gradient() -> None:
    rng = np.random.default_rng(0)
    lstm, figures, may = Lstm(2, 3, rng, width=4), rng.normal(size=(4, 2)), np.ones((4, 3), bool)
    advantage = rng.normal(size=6)
    steps = lstm.draw(figures, may, 6, np.random.default_rng(1))
    gradient = lstm.gradient(steps, advantage)

    def value() -> float:
        chances = [(s.shares * s.chosen).sum(axis=1) for s in _again(lstm, figures, may, steps)]
        return float((advantage * np.log(chances).sum(axis=0)).mean())

    for name, weights in lstm.weights.items():
        for place in zip(*(rng.integers(0, n, 12) for n in weights.shape), strict=True):
            kept, ends = weights[place], []
            for sign in (1, -1):
                weights[place] = kept + sign * 1e-5
                ends.append(value())
            weights[place] = kept
            assert gradient[name][place] == pytest.approx((ends[0] - ends[1]) / 2e-5, abs=1e-7)


def _again(lstm: Lstm, figures: np.ndarray, may: np.ndarray, steps: list[Step]) -> list[Step]:
    """The same draws with the weights as they are now: the forward pass in its own words."""

    redrawn: list[Step] = []
    state, cell = np.zeros((6, 4)), np.zeros((6, 4))
    for row, step in zip(figures, steps, strict=True):
        before = redrawn[-1].chosen if redrawn else np.zeros((6, 3))
        read = np.hstack([np.tile(row, (6, 1)), before, state, np.ones((6, 1))])
        i, f, o, g = np.split(read @ lstm.weights["gates"], 4, axis=1)
        i, f, o, g = 1 / (1 + np.exp(-i)), 1 / (1 + np.exp(-f - 1)), 1 / (1 + np.exp(-o)), np.tanh(g)
        cell = f * cell + i * g
        state = o * np.tanh(cell)
        e = np.exp(np.hstack([state, np.ones((6, 1))]) @ lstm.weights["out"])
        redrawn.append(Step(read, (i, f, o, g), cell, cell, e / e.sum(axis=1, keepdims=True), step.chosen, state))
    return redrawn


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_of_the_paper_is_planned_among_many_types(name: str) -> None:
    problem = problem_of(name, 8, 100_000.0)
    exact = solver("exact").solve(problem, 100_000.0)
    found = searched(RIVALS["climb"][0], 300, 0)(problem, 100_000.0)
    assert exact is not None
    assert found is not None
    assert exact.price <= found.price * (1 + 1e-9)


def test_no_type_is_free() -> None:
    """The catalogue has parts of machines, whose price is that of the machine."""
    assert min(pool.device.price_per_hour for pool in hardware(64).pools) > 0
