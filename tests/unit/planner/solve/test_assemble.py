"""From a placement to a Plan: what is written agrees with what the search has counted."""

import math
from dataclasses import replace

import pytest

from graphs.ctrdnn import ctrdnn
from graphs.wide_deep import wide_deep
from heterps.hardware import Device, Hardware, Pool
from heterps.planner import FixedRate, MaxThroughput, MinCost, Request, plan
from heterps.planner.solve.assemble import _worker_bytes, batches_held, in_flight
from heterps.planner.solve.choose import choose
from heterps.planner.solve.effort import NEVER


@pytest.fixture(scope="module")
def draft(rented):
    """A plan of two stages."""
    found = choose(Request(ctrdnn(), rented, MinCost(1e6), (4096,)), NEVER).draft
    assert len(found.found.placement.segments) == 2
    return found


@pytest.mark.parametrize("held", [1, 5])
def test_memory_is_that_of_the_search(draft, held):
    problem = draft.problem
    for segment in draft.found.placement.segments:
        i, j, t = segment.start, segment.stop, segment.type
        once, each = problem.memory[:, j, t] - problem.memory[:, i, t]
        each += problem.beside_memory[i] + problem.beside_memory[j]
        assert _worker_bytes(draft, segment, held) == pytest.approx(once + held * each)


@pytest.mark.parametrize("depth", [2, 7, 8, 9])
def test_later_workers_hold_their_part_of_all_batches_and_one_more(draft, depth):
    deeper = replace(draft, depths=(depth,))
    first, later = draft.found.placement.segments
    assert in_flight(deeper) == first.units * depth
    part = math.ceil(first.units * depth / later.units) + 1
    assert batches_held(deeper) == [(depth,), (min(first.units * depth, part),)]


def test_head_room_is_left_on_shard_hosts(rented):
    """Whoever keeps a fifth free may have four fifths of everything busy."""
    made = plan(wide_deep(), rented.with_caps(cpu=12), goal=MaxThroughput(), batch_size=8192, head_room=0.2)
    assert made.forecast.shard_busy == pytest.approx(0.8, rel=1e-3)
    assert all(stage.busy <= 0.8 * (1 + 1e-9) for stage in made.forecast.stages)


def test_packs_cost_what_the_certificate_says():
    core = Device("core", "cpu", {"float32": 1e11}, 8e9, 2e10, 1e10, price_per_hour=1.5, sold_in=8)
    made = plan(wide_deep(), Hardware((Pool("cpu", core, cap=800),)), goal=FixedRate(3e5), batch_size=4096)
    assert made.forecast.price_per_hour == pytest.approx(made.certificate.value)
    assert sum(made.forecast.price_parts.values()) == pytest.approx(made.certificate.value)
    (bought,) = made.purchases
    assert bought.count * 8 >= made.units["cpu"] + made.shard_hosts > (bought.count - 1) * 8
