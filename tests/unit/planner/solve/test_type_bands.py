"""Boxes of plans over any cuts: together they hold every purchase, and what they prove closes large models."""

import itertools

import numpy as np
import pytest
from hypothesis import given, strategies as st

from benchmarks.other_models import layered_experts
from benchmarks.plan_scale import HARDWARE
from heterps.hardware import Hardware
from heterps.planner import FixedRate, MaxThroughput, MinCost, plan
from heterps.planner.solve.effort import NEVER
from heterps.planner.solve.making import make_problem
from heterps.planner.solve.solvers import exact
from heterps.planner.solve.type_bands import Box, TypeBands

PRICES = (1.0, 2.5, 0.0)


COST = MinCost(1.0)


def bands(goal=COST, best=9.0):
    problem = make_problem([[0.1, 0.1, 0.1], [0.1, 0.1, 0.1]], price=PRICES, cap=[20, 30, 40])
    return TypeBands(problem, goal, exact, lambda: best, lambda outcome: None, NEVER)


def purchases(box):
    return set(itertools.product(*(range(int(a), int(b) + 1) for a, b in zip(box.least, box.most, strict=True))))


@given(st.data())
def test_parts_hold_each_purchase_once(data):
    least = tuple(float(data.draw(st.integers(0, 6))) for _ in PRICES)
    most = tuple(a + data.draw(st.integers(0, 6)) for a in least)
    box = Box(1.0, 2.0, least, most)
    seen = data.draw(st.none() | st.sampled_from(sorted(purchases(box))).map(lambda each: np.array(each, float)))
    parts = bands()._parts(box, seen)
    if least[:2] == most[:2]:  # what costs nothing is not divided: one purchase, so batches in flight are
        assert [(part.low, part.high) for part in parts] == [(1.0, parts[0].high), (parts[0].high, 2.0)]
        return
    every = [purchases(part) for part in parts]
    assert set.union(*every) == purchases(box)
    assert sum(map(len, every)) == len(purchases(box))
    if seen is not None:
        alone = [part for part in parts if tuple(seen) in purchases(part)]
        assert [(part.least[:2], part.most[:2]) for part in alone] == [(tuple(seen[:2]), tuple(seen[:2]))]


@pytest.mark.parametrize(
    ("goal", "best", "most"),
    [
        (MinCost(1.0), 9.0, (18.0, 7.0, 40.0)),  # up to two rows a second
        (MinCost(1.0, up_to=4.0, price_per_hour=12.0), 9.0, (12.0, 4.0, 40.0)),
        (FixedRate(1.0), 8.0, (8.0, 3.0, 40.0)),
        (MaxThroughput(15.0), 1.0, (15.0, 6.0, 40.0)),
    ],
    ids=["twice", "price", "rate", "most"],
)
def test_no_more_is_bought_than_a_better_plan_can_cost(goal, best, most):
    assert bands(goal, best)._first() == (Box(0.0, np.inf, (0.0, 0.0, 0.0), most),)


def test_without_batches_in_flight_only_purchases_are_divided():
    problem = make_problem([[0.1], [0.1]], price=1.0, cap=3)
    alone = TypeBands(problem, FixedRate(9.0), exact, lambda: 2.0, lambda outcome: None, NEVER)
    assert alone._parts(Box(0.0, np.inf, (2.0,), (2.0,)), None) == ()
    assert alone.closer(1.0) == pytest.approx(2.0, rel=0.02)


def test_what_costs_too_much_is_out_without_a_program():
    limited = MinCost(1.0, up_to=4.0, price_per_hour=12.0)
    assert limited.of_price(12.1, 20.0, 9.0, 1.0) is None
    assert limited.of_price(11.0, 11.5, 2.0, 1.0) is None  # 5.5 rows a second, or more
    assert limited.of_price(10.0, 11.0, 4.0, 3.0) == MinCost(2.5, pytest.approx(11 / 3), 12.0)
    assert FixedRate(1.0).of_price(9.1, 10.0, 9.0, 1.0) is None
    assert MaxThroughput(15.0).of_price(15.1, 20.0, 9.0, 1.0) is None


@pytest.mark.full
def test_experts_over_many_tables_are_closed_within_two_per_cent():
    hardware = Hardware.from_toml(HARDWARE)
    assert plan(layered_experts(), hardware, goal=MinCost(3e5), seconds=300).certificate.gap <= 0.02
