"""What every solver must do."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings, strategies as st

from heterps.planner.solve.making import make_problem
from heterps.planner.solve.placement import Flow, Placement, Shards
from heterps.planner.solve.problem import Problem
from heterps.planner.solve.solvers import Solver, brute_force

__all__ = ["RATES", "SolverContract", "chains", "random_chain"]

EXAMPLES = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.differing_executors])


def random_chain(
    seed: int,
    layers: int,
    types: int,
    *,
    cap: float = np.inf,
    sold_in: int = 1,
    serial: bool = True,
    shared: bool = False,
    hosts: bool = False,
    mixes: Sequence[tuple[int, int]] = (),
) -> Problem:
    """Return a chain of Layers with random times, prices and flows."""
    rng = np.random.default_rng(seed)
    figures: dict[str, Any] = {}
    if shared:
        figures = {"usage": rng.uniform(0.1, 1, (1, layers, types)), "byte_usage": 0.1, "capacity": (20.0,)}
    return make_problem(
        rng.uniform(0.1, 1, (2, layers, types)),
        rng.uniform(0.85, 1, (2, layers, types)) if serial else 1.0,
        rng.uniform(1, 10, types),
        cap=cap,
        sold_in=sold_in,
        flows=[Flow(i, i + 1, str(i), float(rng.uniform(0.1, 1))) for i in range(layers - 1)],
        receive_s=(wire := rng.uniform(0.05, 0.2, types)),
        send_s=wire,
        shards=Shards(0.3, 1, 2.0) if hosts else None,
        kinds=("cpu", "gpu", "gpu")[:types],
        mixes=mixes,
        **figures,
    )


#: Chains small enough to be listed.
chains = st.builds(
    random_chain,
    seed=st.integers(0, 2**31),
    layers=st.integers(1, 5),
    types=st.integers(1, 3),
    cap=st.sampled_from([np.inf, 2, 6, 15]),
    sold_in=st.sampled_from([1, 1, 4]),
    serial=st.booleans(),
    shared=st.booleans(),
    hosts=st.booleans(),
)
#: Rows a second that such chains can, or just cannot, carry.
RATES = st.floats(0.05, 8.0)


class SolverContract:
    """Derive, and give the solver.

    Attributes
    ----------
    solver
        What is tested; problems that it does not apply to are left out.
    proved
        Whether it claims to find the cheapest placement, and None only where there is none.
    """

    solver: ClassVar[Solver]
    proved: ClassVar[bool] = False

    @given(problem=chains, x=RATES)
    @EXAMPLES
    def test_a_placement_is_whole_allowed_and_fast_enough(self, problem: Problem, x: float) -> None:
        found = self._solve(problem, x)
        if found is None:
            return
        assert _states(found) == [(0, problem.states - 1)]
        for segment in found.segments:
            assert segment.units > 0
            assert problem.allowed[problem.stage_layers(segment), segment.type].all()
        assert (problem.bought(found.segments, found.hosts) <= problem.cap).all()
        assert problem.sustained(found) >= x * (1 - 1e-6)

    @given(problem=chains, x=RATES)
    @EXAMPLES
    def test_its_price_is_that_of_what_is_bought_and_its_bound_no_higher(self, problem: Problem, x: float) -> None:
        found = self._solve(problem, x)
        if found is not None:
            assert found.price == pytest.approx(problem.price_of(found.segments, found.hosts))
            assert found.bound <= found.price * (1 + 1e-9)

    @given(problem=chains, x=RATES)
    @EXAMPLES
    def test_nothing_is_cheaper_than_the_cheapest(self, problem: Problem, x: float) -> None:
        found, cheapest = self._solve(problem, x), brute_force(problem, x)
        if found is not None:
            assert cheapest is not None
            assert found.price >= cheapest.price * (1 - 1e-9)
        if self.proved:
            assert (found and found.price) == (cheapest and pytest.approx(cheapest.price))

    def _solve(self, problem: Problem, x: float) -> Placement | None:
        assume(not self.solver.applies(problem))
        return self.solver.solve(problem, x)


def _states(placement: Placement) -> list[tuple[int, int]]:
    """Join stages that follow each other; one pair of states remains of a placement without gaps."""
    joined = [(segment.start, segment.stop) for segment in placement.segments]
    for before, after in itertools.pairwise(joined):
        if before[1] != after[0]:
            return joined
    return [(joined[0][0], joined[-1][1])]
