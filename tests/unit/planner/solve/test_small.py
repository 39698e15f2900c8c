"""Loops as they were written and compiled ones are one: so tests of small problems tell of large ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from heterps.planner.solve import small
from heterps.planner.solve.chain import chain_placement, cost_to_go, relaxed_price
from heterps.planner.solve.making import make_problem
from heterps.planner.solve.pareto import label_placement
from heterps.planner.solve.problem import Problem
from heterps.planner.solve.sizing import sized
from heterps.testing.solver_contract import RATES, chains


def answers(problem: Problem, x: float) -> list[object]:
    found = [solve(problem, x) for solve in (chain_placement, relaxed_price, label_placement)]
    return [*found, cost_to_go(problem, x).tolist(), sized(problem, [(0, problem.states - 1, 0)], x)]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(chains, RATES)
def test_both_forms_give_the_same_answers(monkeypatch: pytest.MonkeyPatch, problem: Problem, x: float) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(small, "_FEW", 10**9)
        written = answers(problem, x)
        patch.setattr(small, "_FEW", 0)
        assert answers(problem, x) == written


def test_large_problems_are_for_what_is_compiled() -> None:
    loop = small.suited
    assert small.suited(loop, make_problem([[1.0]])) is loop  # no loop at all: numba is switched off
    few, many = (make_problem(np.ones((n, 1)).tolist()) for n in (8, 64))
    compiled = chain_placement.__globals__["_forward"]
    assert small.suited(compiled, many) is compiled
    assert small.suited(compiled, few) is not compiled
