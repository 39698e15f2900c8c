"""What labels cost at least: never more than a plan, and close enough that machines rented whole need few labels."""

import itertools
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from graphs.ctrdnn import ctrdnn
from heterps.hardware import Hardware
from heterps.planner import FixedRate, MaxThroughput, MinCost
from heterps.planner.planner import Request
from heterps.planner.solve import pareto, small, solvers
from heterps.planner.solve.chain import relaxed_price
from heterps.planner.solve.dag import over_downsets
from heterps.planner.solve.effort import UndecidedError
from heterps.planner.solve.fair_prices import fairly_priced
from heterps.planner.solve.label_floors import floors_of, least_in_all
from heterps.planner.solve.large import planned
from heterps.planner.solve.making import make_problem
from heterps.planner.solve.solvers import exact
from tests.unit.planner.instances import goal_of, instance, problem_of
from tests.unit.planner.test_against_brute_force import best_by_brute_force

PAGE = Path(__file__).parents[4] / "docs" / "planner.md"


def page_hardware():
    (text,) = re.findall(r'```toml title="everything.toml"\n(.*?)```', PAGE.read_text(), re.S)
    return Hardware.from_toml(text)


def floors_along(problem, segments, hosts, floors):
    """The floor of a plan after each of its stages, and before the first."""
    dim = np.arange(problem.types)
    whole = problem.shards.type >= 0 and problem.packed[problem.shards.type]
    price, use = np.zeros(1), problem.hosts_by_type(hosts)[None].astype(float)
    price[0] = 0.0 if whole else problem.host_price * hosts
    yield least_in_all(0, 0, price, use, dim, floors)
    for segment in segments:
        use[0, segment.type] += segment.units
        price[0] += 0.0 if problem.packed[segment.type] else problem.price[segment.type] * segment.units
        yield least_in_all(0, segment.stop, price, use, dim, floors)


def test_what_all_of_a_scarce_type_gets_dearer_by_comes_off_the_floor(monkeypatch):
    """Two of four units are had for a third of the price: raised to that of the others they cost four more."""
    monkeypatch.setattr(small, "_FEW", 0)
    problem = make_problem([[0.25, 0.25]] * 4, price=[1.0, 3.0], cap=[2, np.inf], sold_in=[1, 2])
    floors, placed = floors_of(problem, 4.0), exact(problem, 4.0)
    assert floors.less[0] == pytest.approx(4.0)
    assert [*floors_along(problem, placed.segments, 0, floors)] == pytest.approx([8.0, 8.0, 8.0])


@pytest.mark.parametrize("few", [0, 1024], ids=["large", "small"])
def test_a_floor_is_never_above_a_plan_and_rises_along_it(few, monkeypatch):
    monkeypatch.setattr(small, "_FEW", few)
    looked = 0
    for seed in range(90):
        made = instance(seed, most_layers=3)
        if "product" not in made and seed % 4:
            continue
        problem, x = fairly_priced(over_downsets(problem_of(made))[0], 1.0), 0.7
        sequences = solvers._sequences(solvers._stages(problem, x), 0, problem.states - 1)
        hosts, known = problem.shards.hosts(x), floors_of(problem, x)
        for segments in itertools.islice(sequences, 40):
            price = problem.price_of(segments, hosts)
            if (problem.bought(segments, hosts) > problem.cap).any():
                continue  # what there are not so many of may be counted as dear as one likes
            floors = [*floors_along(problem, segments, hosts, known)]
            assert all(a <= b * (1 + 1e-9) for a, b in itertools.pairwise(floors)), seed
            assert floors[-1] == pytest.approx(price), seed
            looked += 1
    assert looked > 100


@pytest.mark.parametrize("goal", [MinCost(5e6), FixedRate(2e6), MaxThroughput(40.0)], ids=["cost", "rate", "budget"])
def test_machines_rented_whole_need_few_labels(goal, monkeypatch):
    """A chain of 20 Layers on six pools, four of them parts of machines: exact, and no integer program is asked."""
    monkeypatch.setattr(pareto, "_LABELS", (64, 1_000))
    monkeypatch.setattr(solvers, "milp_placement", None)
    request = Request(ctrdnn(hidden=(256,) * 16), page_hardware(), goal, (4096,), seconds=600)
    choice = request.best()
    assert choice.draft.problem.layers == 20
    assert choice.draft.found.value == pytest.approx(choice.bound, rel=1.1e-3)


def test_without_room_for_labels_what_was_ruled_out_is_still_a_bound(monkeypatch):
    problems = [over_downsets(problem_of(instance(seed, most_layers=4)))[0] for seed in range(80)]
    best = [exact(problem, 0.7) for problem in problems]
    monkeypatch.setattr(pareto, "_LABELS", (2,))
    pairs = [(ruled_out(problem, 0.7), found.price) for problem, found in zip(problems, best, strict=True) if found]
    assert all(bound <= price * (1 + 1e-9) for bound, price in pairs)
    assert sum(bound > 0 for bound, _ in pairs) > 20


def ruled_out(problem, x):
    """What every placement costs at least, as far as there was room to look; nothing if there was room for all."""
    try:
        pareto.label_placement(problem, x)
    except pareto.TooManyLabelsError as error:
        return error.bound
    return 0.0


def test_beyond_a_budget_nothing_is_looked_for():
    for seed in range(40):
        problem = over_downsets(problem_of(instance(seed, most_layers=3)))[0]
        found = pareto.label_placement(problem, 0.7)
        if found is not None and found.price > 0:  # less than nothing is no budget
            enough, short = (replace(problem, budget=part * found.price) for part in (1.0, 0.999))
            assert pareto.label_placement(enough, 0.7) == found, seed
            assert pareto.label_placement(short, 0.7) is None, seed


def test_a_search_says_whether_a_value_can_be_beaten():
    answers = {True: 0, False: 0}
    for seed in range(100):
        made = instance(seed, most_layers=4)
        problem, goal = problem_of(made), goal_of(made)
        best = best_by_brute_force(problem, goal)
        for part in (0.99, 1.01) if best else ():  # a part of nothing is nothing
            outcome = planned(problem, goal, exact, beat=part * best)
            can = part < 1 if goal.rises else part > 1
            assert outcome.beaten != can, seed
            assert not can or outcome.found.value == pytest.approx(best, rel=1.1e-3), seed
            answers[can] += 1
    assert min(answers.values()) > 40


@pytest.mark.parametrize("goal", [MinCost(1.0), MaxThroughput(9.0)], ids=["cost", "most"])
def test_what_cannot_be_decided_is_not_called_beaten(goal):
    def lost(problem, x):
        raise UndecidedError("no answer")

    problem, easy = problem_of(instance(0)), 1e-9 if goal.rises else 1e9
    with pytest.raises(UndecidedError) as error:
        planned(problem, goal, lost, beat=easy)
    assert goal.rises or error.value.bound == pytest.approx(relaxed_price(problem, 1.0))
