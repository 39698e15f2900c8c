"""Plans, certificates and claims that there is no plan, against every legal plan there is."""

import pytest

from heterps.planner.goals import FixedRate, MinCost
from heterps.planner.solve.effort import NEVER
from heterps.planner.solve.large import planned
from heterps.planner.solve.solvers import exact, solver
from tests.unit.planner.brute import BrutePlans
from tests.unit.planner.called_plans import CalledPlans, called
from tests.unit.planner.instances import goal_of, instance, problem_of, shrunk
from tests.unit.planner.odd_instances import drawn

CLOSE = 1e-6
TESTED, SOAKED = range(1_000), range(1_000, 101_000)


def difference(made):
    """What the planner says that is not so; nothing if all of it is."""
    return difference_of(problem_of(made), goal_of(made))


def difference_of(problem, goal, solve=exact, kind=BrutePlans):
    best = best_by_brute_force(problem, goal, kind)
    outcome = planned(problem, goal, solve)
    found = outcome.found
    if best is None or found is None:
        return "" if best is None and found is None else f"best plan {best}, found {found and found.value}"
    if not outcome.complete:
        return "small, and yet not all cuts were looked at"
    better = max if goal.rises else min
    if better(found.value, best) > best * (1 + CLOSE) or better(found.value, best) < best * (1 - CLOSE):
        return f"found {found.value}, better than the best plan, {best}"
    if better(found.bound, best) != pytest.approx(found.bound, rel=CLOSE):
        return f"bound {found.bound}, beaten by {best}"
    if abs(found.value - best) > best * (found.gap + CLOSE):
        return f"found {found.value}, gap {found.gap}, best {best}"
    if found.gap > 1.1e-3:
        return f"gap {found.gap} on a small instance"
    return ""


def best_by_brute_force(problem, goal, kind=BrutePlans):
    plans = kind(problem)
    if isinstance(goal, MinCost):
        return plans.least_per_row(goal.rows_per_second, 2 * goal.rows_per_second)
    if isinstance(goal, FixedRate):
        return plans.least_price(goal.rows_per_second)
    return plans.most_rows(goal.price_per_hour)


def check(seeds, **size):
    for seed in seeds:
        made = drawn(seed, **size)
        if what := difference(made):
            small = shrunk(made, lambda smaller: bool(difference(smaller)))
            pytest.fail(f"seed {seed}: {what}\nsmallest that differs: {difference(small)}\n{small}")


def test_random_instances():
    check(TESTED)


def check_called(seeds):
    """Every batch calls every shard host: readers, hosts and shared capacities have more to do with more hosts."""
    solve, seen, more = solver("exact").within(NEVER), 0, 0
    for seed in seeds:
        if (found := called(seed)) is None:
            continue
        problem, goal = found
        assert not (what := difference_of(problem, goal, solve, CalledPlans)), f"seed {seed}: {what}"
        least = best_by_brute_force(problem, goal, CalledPlans)
        seen, more = seen + 1, more + (least != best_by_brute_force(problem, goal))
    assert min(seen, more) > len(seeds) / 50  # the calls of further hosts decide


def test_random_instances_with_calls_to_every_shard_host():
    check_called(range(300))


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_many_random_instances_with_calls_to_every_shard_host():
    check_called(range(300, 30_000))


def check_within_a_price(seeds):
    """As the planner looks for the least price per row: many times what is asked for, at twice the price an hour."""
    seen = 0
    for seed in seeds:
        made = instance(seed, most_layers=4)
        problem, goal = problem_of(made), goal_of(made)
        if not isinstance(goal, MinCost):
            continue
        plans, x = BrutePlans(problem), goal.rows_per_second
        if (least := plans.least_price(x)) is None:
            continue
        best = plans.least_per_row(x, 6 * x, 2 * least)
        found = planned(problem, MinCost(x, 6 * x, 2 * least or 1.0), exact).found
        assert found.value == pytest.approx(best, rel=1.1e-3), seed
        assert found.bound <= best * (1 + CLOSE), seed
        seen += best < plans.least_per_row(x, 2 * x) * (1 - CLOSE)
    assert seen  # a wider limit matters


def test_random_instances_within_a_price_per_hour():
    check_within_a_price(range(150))


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_many_random_instances_within_a_price_per_hour():
    check_within_a_price(range(150, 10_000))


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("part", range(20))
def test_many_random_instances(part):
    """A sixth Layer makes the brute force take twenty times as long: it is there in one of twenty."""
    each = len(SOAKED) // 20
    seeds = SOAKED[part * each : (part + 1) * each]
    check((seed for seed in seeds if seed % 20), most_layers=5)
    check((seed for seed in seeds if not seed % 20), most_layers=6)
