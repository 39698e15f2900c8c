"""Units that are sold only as parts of machines: known answers, and plans that rent whole machines."""

import json
import math

import pytest

from graphs.ctrdnn import ctrdnn
from heterps.errors import PlanError
from heterps.hardware import Hardware
from heterps.planner import FixedRate, MaxThroughput, MinCost, Plan, plan
from heterps.planner.solve.bounds import least_price, most_rows
from heterps.planner.solve.chain import relaxed_price
from heterps.planner.solve.fair_prices import fairly_priced
from heterps.planner.solve.large import planned
from heterps.planner.solve.making import make_problem
from heterps.planner.solve.milp import milp_placement
from heterps.planner.solve.placement import Shards
from heterps.planner.solve.solvers import exact

MACHINES = """
[[pool]]
name = "cpu"
device = "c6i-8xlarge"
cap = 200

[[product]]
name = "g6-xlarge"
cap = 64
"""
# A table's layer runs on the machine's four cores or on boxes, the dense one on its GPU: one machine costs 0.8.
TYPES = {"product": [0, 0, 1], "sold_in": [1, 4, 1], "price": [0.4, 0.1, 0.05]}


def problem(table_s, dense_s=0.25, **rest):
    seconds = [[1.0, table_s, table_s], [dense_s, 1.0, 1.0]]
    return make_problem(seconds, allowed=[[False, True, True], [True, False, False]], **TYPES | rest)


@pytest.mark.parametrize(
    ("table_s", "price", "bought"),
    [(1.0, 0.8, [1, 4, 0]), (0.1, 0.8, [1, 4, 0]), (1.25, 1.05, [1, 4, 5]), (2.0, 1.2, [1, 4, 8])],
    ids=["all of it", "more than needed", "a core short", "twice as much"],
)
@pytest.mark.parametrize("solve", [exact, milp_placement], ids=["labels", "program"])
def test_known_answers(table_s, price, bought, solve):
    found = solve(problem(table_s), 4.0)
    assert found.price == pytest.approx(price)
    assert found.bound == pytest.approx(price)
    assert problem(table_s).bought(found.segments, found.hosts).tolist() == bought


def test_shard_hosts_sit_on_cores_that_are_paid_for():
    apart = exact(problem(0.25, shards=Shards(0.5, 1, type=2)), 4.0)
    beside = exact(problem(0.25, shards=Shards(0.5, 1, type=1)), 4.0)
    assert apart.price == pytest.approx(0.9)
    assert beside.price == pytest.approx(0.8)


def test_a_cap_is_that_of_the_whole():
    assert exact(problem(4.0, cap=[1, 4, 0]), 1.0).price == pytest.approx(0.8)
    assert exact(problem(4.0, cap=[1, 4, 0]), 1.1) is None
    assert exact(problem(4.0, cap=[9, 4, 0]), 1.1) is None  # a second machine has four cores as well
    assert math.isinf(least_price(problem(4.0, cap=[9, 4, 0]), 1.1))
    assert most_rows(problem(4.0, cap=[9, 4, 0])) == pytest.approx(1.0)


@pytest.mark.parametrize("table_s", [0.01, 0.3, 0.99, 2.0])
def test_prices_are_divided_so_that_the_bound_is_close(table_s):
    divided = fairly_priced(problem(table_s), 400.0)
    assert divided.product_price == pytest.approx(problem(table_s).product_price)
    linear = least_price(problem(table_s), 400.0)
    assert relaxed_price(divided, 400.0) == pytest.approx(linear, rel=1e-3)
    assert linear <= exact(divided, 400.0).price * (1 + 1e-9)
    assert relaxed_price(problem(table_s), 400.0) <= linear * (1 + 1e-9)


def test_without_a_good_division_the_bound_is_far():
    spare = problem(0.01)  # nobody wants the cores, yet half of the price was theirs
    assert relaxed_price(spare, 400.0) < 0.6 * least_price(spare, 400.0)


@pytest.mark.parametrize("goal", [MinCost(4.0), FixedRate(4.0), MaxThroughput(9.0)], ids=["cost", "rate", "most"])
def test_goals_are_proved(goal):
    found = planned(problem(1.25), goal, exact).found
    assert found.gap <= 1.1e-3


@pytest.fixture(scope="module")
def machines():
    return Hardware.from_toml(MACHINES)


@pytest.fixture(scope="module")
def made(machines):
    return plan(ctrdnn(), machines, goal=MinCost(2e6), batch_size=4096)


def test_a_plan_rents_whole_machines(made, machines):
    rented = {each.name: each for each in made.purchases}
    machine = rented["g6-xlarge"]
    assert machine.holds == {"l4": 1, "g6_xlarge": 1}
    assert made.workers["l4"] <= machine.count
    assert made.workers.get("g6_xlarge", 0) <= machine.count
    total = sum(each.count * each.price_per_hour for each in made.purchases)
    assert made.forecast.price_per_hour == pytest.approx(total)
    assert sum(made.forecast.price_parts.values()) == pytest.approx(total)
    assert made.certificate.value == pytest.approx(made.forecast.price_per_million_rows, rel=1e-6)
    assert made.certificate.gap <= 2e-3


def test_the_cores_of_gpu_machines_are_used(made, machines):
    """Where only machines with GPUs can be had, their cores read and carry the tables."""
    alone = plan(ctrdnn(), Hardware.from_toml('[[product]]\nname = "g6-xlarge"\ncap = 64\n'), goal=MinCost(1e5))
    assert alone.shard_pool == "g6_xlarge"
    assert alone.purchases[0].count >= alone.workers["g6_xlarge"]


def test_the_answer_is_in_the_report_and_survives_json(made):
    count = made.purchases[1].count
    text = " ".join(made.report().split())
    assert f"{count} g6-xlarge ({made.workers['l4']} of {count} l4, " in text
    assert "product g6-xlarge: price of 2024-06, 0.805 an hour, rented whole with 1 l4, 1 g6_xlarge" in text
    assert Plan.from_json(json.loads(json.dumps(made.to_json()))) == made


def test_packs_are_named_as_such():
    hardware = Hardware.from_toml(
        MACHINES.replace('[[product]]\nname = "g6-xlarge"', '[[pool]]\nname = "gpu"\ndevice = "a100-40gb"')
    )
    pinned = plan(ctrdnn(), hardware, goal=MinCost(2e6), batch_size=4096, pins={"fc*": "gpu"})
    pack = pinned.purchases[1]
    assert f"{8 * pack.count} gpu in 8s ({pinned.units['gpu']} of {8 * pack.count} gpu used)" in pinned.report()


def test_the_remedy_is_a_machine_more(machines):
    with pytest.raises(PlanError, match=r"raise the cap of product 'g6-xlarge' from 1 to \d+: "):
        plan(ctrdnn(), machines.with_caps(**{"g6-xlarge": 1}), goal=MinCost(2e6), batch_size=4096, pins={"fc*": "l4"})


def test_machines_without_prices_are_what_is_saved():
    text = MACHINES.replace('name = "g6-xlarge"', 'name = "g6-xlarge"\nprice_per_hour = 0.0')
    hardware = Hardware.from_toml(
        text.replace('device = "c6i-8xlarge"', 'device = "c6i-8xlarge"\nprice_per_hour = 0.0')
    )
    found = plan(ctrdnn(), hardware, goal=FixedRate(1e5), batch_size=4096)
    assert found.certificate.objective == "units"
    assert found.certificate.value == pytest.approx(sum(each.count for each in found.purchases), rel=1e-6)


OWN = """
[[pool]]
name = "mine"
device = "c6i-8xlarge"
price_per_hour = 0
cap = 2

[[pool]]
name = "cpu"
device = "c6i-8xlarge"
"""


def test_machines_that_cost_nothing_are_used_first():
    own = Hardware.from_toml(OWN)
    free = plan(ctrdnn(), own, goal=MinCost(10_000))
    assert (free.forecast.price_per_hour, free.certificate.gap, free.batch_size) == (0, 0, 256)
    for goal in (FixedRate(10_000), MinCost(10_000)):
        assert {stage.pool for stage in plan(ctrdnn(), own, goal=goal).stages} == {"mine"}
    assert plan(ctrdnn(), own, goal=MaxThroughput(3.0)).forecast.price_per_hour == pytest.approx(2 * 1.36)
    with pytest.raises(PlanError, match="unlimited"):
        plan(ctrdnn(), Hardware.from_toml(OWN.replace("cap = 2", "")), goal=MaxThroughput(3.0))


def test_a_budget_bounds_machines_without_a_cap():
    machines = Hardware.from_toml(MACHINES.replace("cap = 200", "").replace("cap = 64", ""))
    assert plan(ctrdnn(), machines, goal=MaxThroughput(10.0)).forecast.price_per_hour <= 10
