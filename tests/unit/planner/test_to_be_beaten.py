"""What is proved not to be better than a value is not: whoever is told of a plan must not leave a better one out.

Mistakes of a few per cent were planted wherever a search is given a value to beat (:mod:`heterps.planner.goals`, and
``search``, ``large``, ``choose`` in :mod:`heterps.planner.solve`). Fractions of units come close to whole ones here, as
many are needed, so that no rounding hides them.
"""

from dataclasses import replace

import numpy as np
import pytest

from graphs.wide_deep import wide_deep
from heterps.planner import FixedRate, MaxThroughput, MinCost, plan
from heterps.planner.solve import large
from heterps.planner.solve.dag import over_downsets
from heterps.planner.solve.effort import NEVER, UndecidedError
from heterps.planner.solve.large import planned
from heterps.planner.solve.making import make_problem, prefixes
from heterps.planner.solve.placement import Flow
from heterps.planner.solve.small import is_small
from heterps.planner.solve.solvers import exact
from heterps.planner.solve.type_program import TypeProgram
from tests.unit.planner.solve.test_dag import random_dag

A_LITTLE = 5e-3  # more than what searches leave open
GOALS = [
    FixedRate(60.0),
    MinCost(60.0),
    MinCost(60.0, up_to=200.0, price_per_hour=600.0),
    MaxThroughput(),
    MaxThroughput(600.0),
]
NAMES = ["rate", "row", "row within a price", "most", "most within a price"]


def drawn(seed, goal):
    """A graph whose best plan costs about what fractions of units would."""
    return random_dag(seed, 4, 2, data=False, cap=150.0 if goal == MaxThroughput() else np.inf)


def side_by_side(seed, cap=np.inf):
    """Two chains of four Layers, with 25 legal cuts."""
    rng = np.random.default_rng(seed)
    flows = [Flow(v, v + 1, str(v), float(rng.uniform(0.1, 1)), 0.1) for v in (0, 1, 2, 4, 5, 6)]
    wire = {"receive_s": 0.05, "send_s": 0.05}
    return make_problem(rng.uniform(0.1, 1, (8, 2)), 1.0, rng.uniform(1, 5, 2), cap=cap, flows=flows, **wire)


def a_little_worse(value, goal):
    return value * (1 - A_LITTLE if goal.rises else 1 + A_LITTLE)


@pytest.mark.parametrize("goal", GOALS, ids=NAMES)
def test_what_is_better_than_a_value_is_never_ruled_out(goal, monkeypatch):
    monkeypatch.setattr(large, "_MANY_LAYERS", 1)
    for seed in range(6):
        problem = drawn(seed, goal)
        every = over_downsets(problem)[0]
        best = goal.search(every, exact).value
        beat = a_little_worse(best, goal)
        assert goal.search(every, exact, beat=beat).value == pytest.approx(best, rel=A_LITTLE), seed
        assert goal.can_beat(every, exact, beat), seed
        assert not goal.rules_out(TypeProgram(problem), beat, NEVER), seed
        assert planned(problem, goal, exact, beat=beat).found is not None, seed
        monkeypatch.setattr(large, "FEW_STATES", 1)
        assert planned(problem, goal, exact, beat=beat).found is not None, seed
        monkeypatch.undo()
        monkeypatch.setattr(large, "_MANY_LAYERS", 1)


@pytest.mark.parametrize("goal", GOALS, ids=NAMES)
def test_what_cannot_be_decided_is_not_ruled_out(goal):
    def never(problem, x):
        raise UndecidedError("nothing is decided")

    every = over_downsets(drawn(1, goal))[0]
    beat = a_little_worse(goal.search(every, exact).value, goal)
    assert goal.can_beat(every, never, beat)
    with pytest.raises(UndecidedError):
        goal.search(every, never, beat=beat)


@pytest.mark.parametrize("seed", range(3))
def test_nothing_above_the_most_within_a_price_is_affordable(seed):
    """Of thousands of units, as a few whole ones hide a bound that is a hundredth too low."""
    problem, budget = over_downsets(random_dag(seed, 24, 2, data=False, pins=False))[0], 1e5
    assert not is_small(problem)
    found = MaxThroughput(budget).search(problem, exact)
    assert MaxThroughput(budget).search(problem, exact, beat=found.value * (1 - A_LITTLE)) is not None
    above = exact(problem, found.bound * (1 + 1e-6))
    assert above is None or above.price > budget


def test_of_batch_sizes_that_are_worth_the_same_the_smallest_is_taken(rented):
    assert plan(wide_deep(), rented, goal=FixedRate(1e3)).batch_size == 256


def thinned_out(monkeypatch):
    """Take small graphs for large ones: of their cuts, those of one order come first, and types prove nothing."""
    monkeypatch.setattr(large, "FEW_STATES", 1)
    monkeypatch.setattr(large, "good_cuts", lambda problem, most: replace(problem, members=prefixes(problem.layers)))
    monkeypatch.setattr(TypeProgram, "applies", property(lambda self: False))


@pytest.mark.parametrize("goal", GOALS, ids=NAMES)
def test_where_cuts_are_thinned_out_the_bound_is_for_all_of_them(goal, monkeypatch):
    """All of them are known, some are looked at first: what costs a little less over others is found, or said."""
    thinned_out(monkeypatch)
    for seed in range(8):
        few = replace(goal, price_per_hour=30.0) if goal == MaxThroughput(600.0) else slower(goal)
        problem = side_by_side(seed, cap=12.0)
        best = few.search(over_downsets(problem)[0], exact)
        outcome = planned(problem, few, exact)
        assert (outcome.found is None) == (best is None), seed
        if best is not None:
            low, high = (best.value, outcome.found.bound) if goal.rises else (outcome.found.bound, best.value)
            assert low <= high * (1 + 1e-6), seed


@pytest.mark.parametrize("enough", [1e-2, 0.5], ids=["a hundredth", "half"])
def test_how_much_may_stay_open_is_said(enough, monkeypatch):
    """Where that is more, all cuts are looked at; where it is not, the bound is not that of some."""
    thinned_out(monkeypatch)
    monkeypatch.setattr(large, "_ENOUGH", enough)
    for seed in range(8):
        problem, goal = side_by_side(seed, cap=12.0), FixedRate(2.0)
        best = goal.search(over_downsets(problem)[0], exact)
        if best is not None:
            found = planned(problem, goal, exact).found
            assert found.bound <= best.value * (1 + 1e-9), seed
            assert found.gap <= enough + 1e-9, seed


def test_where_good_cuts_have_no_plan_others_may(monkeypatch):
    thinned_out(monkeypatch)
    here, there = (True, False), (False, True)
    problem = make_problem([[0.1, 0.1]] * 4, cap=1, allowed=[here, there, here, there])
    assert planned(problem, FixedRate(1.0), exact).found.value == 2.0


@pytest.mark.parametrize("proved", [0.0, 0.9], ids=["undecided", "nine tenths"])
def test_what_is_open_over_all_cuts_stays_open(proved, monkeypatch):
    """Some cuts are searched to the end, all of them are not: fractions are the bound, or what was proved there."""
    thinned_out(monkeypatch)
    goal, looked = FixedRate(2.0), 0
    for seed in range(12):
        problem = side_by_side(seed)
        every = over_downsets(problem)[0]

        def solve(problem, x, most=every.states):
            if problem.states == most and not proved:
                raise UndecidedError("nothing is decided")
            found = exact(problem, x)
            return replace(found, bound=found.price * proved) if problem.states == most else found

        try:
            outcome = planned(problem, goal, solve)
        except UndecidedError:
            continue  # not even some
        known = max(goal.floor(every), proved * exact(every, 2.0).price)
        assert outcome.found.bound <= known * (1 + 1e-9), seed
        looked += 1
    assert looked > 3


def slower(goal):
    """The same of a handful of units, where each counts."""
    return goal if goal.target is None else replace(goal, rows_per_second=goal.target / 60.0)
