"""Plans get as many batches in flight as they need when they are played, within their memory."""

from dataclasses import replace

import pytest

from graphs.ctrdnn import ctrdnn
from graphs.wide_deep import wide_deep
from heterps.hardware import Device, Hardware, Pool
from heterps.planner import MaxThroughput, plan
from heterps.planner.costs.playing import at_work_for, depth_for
from heterps.planner.planner import Request
from heterps.planner.solve import deepening
from heterps.planner.solve.assemble import assemble
from heterps.planner.solve.checks import played_beside

TWO_GPUS = """
[[pool]]
name = "cpu"
device = "c6i-8xlarge"
cap = 20

[[pool]]
name = "gpu"
device = "l4"
cap = 1
serves = false

[[pool]]
name = "slow"
device = "t4"
cap = 2
serves = false
"""


@pytest.fixture(scope="module")
def draft():
    """Readers, a stage on two pools and shard hosts, all of them busy more than nine tenths of the time."""
    return Request(ctrdnn(), Hardware.from_toml(TWO_GPUS), MaxThroughput(), (2048,)).best().draft


def part(draft):
    return played_beside(assemble(draft), draft.costs).part


def test_a_plan_that_is_played_too_slow_gets_more_batches_in_flight(draft):
    assert any(stage.also for stage in assemble(draft).stages)
    assert part(draft) < 0.8
    deeper, made = deepening.finished(draft, None, None)
    assert (made.depth,) == deeper.depths == (made.mode.depth,) > draft.depths
    assert part(deeper) > 1.1 * part(draft)


def test_no_more_than_fit_into_memory(draft, monkeypatch):
    monkeypatch.setattr(deepening, "without_room", lambda more: True)
    assert deepening.finished(draft, None, None)[0] == draft


def test_a_worker_has_room_for_as_many_batches_as_it_holds_and_for_no_more():
    few = Device("few", "cpu", {"float32": 2e11}, 2e9, 2e10, 1e9, cores=4, price_per_hour=1.0)
    found = Request(wide_deep(), Hardware((Pool("cpu", few, cap=4),)), MaxThroughput(), (4096,)).best().draft
    (stage,) = found.found.placement.segments
    holds = int(found.problem.holds(stage.start, stage.stop, stage.type))
    assert not deepening.without_room(replace(found, depths=(holds,)))
    assert deepening.without_room(replace(found, depths=(holds + 1,)))


def test_more_batches_in_flight_that_bring_nothing_are_not_taken(draft, monkeypatch):
    always = played_beside(assemble(draft), draft.costs)
    monkeypatch.setattr(deepening, "played_beside", lambda made, costs: always)
    assert deepening.finished(draft, None, None)[0] == draft


def test_a_plan_without_room_is_slowed_no_more_than_it_must(draft):
    rates = deepening._slower_rates(replace(draft, depths=(6,)))
    assert len(rates) > 1
    assert rates == sorted(rates, reverse=True)


def test_a_batch_may_take_the_slower_way(draft):
    """The depth counts how long batches are on their way on average, over both pools of a stage."""
    made, rate = assemble(draft), draft.found.rows_per_second
    first, last = made.stages
    ways = [replace(last, pool=pool, units=3, also=()) for pool in last.workers]
    alone = sorted(depth_for(*at_work_for(replace(made, stages=(first, way)), draft.costs), 100 * rate) for way in ways)
    assert alone[0] < depth_for(*at_work_for(made, draft.costs), 100 * rate) < alone[1]


def test_what_has_no_room_for_more_batches_is_not_bound_by_what_was_asked_for():
    """Of workers with 20 MB each reads few batches: the plan is slower than its stages, whatever was asked for."""
    small = Device("small", "cpu", {"float32": 2e11}, 2e7, 2e10, 1e9, cores=4, price_per_hour=1.0)
    made = plan(wide_deep(), Hardware((Pool("cpu", small, cap=30),)), goal=MaxThroughput(), batch_size=256)
    assert made.forecast.bottleneck == "memory for batches in flight, then memory of stage io"
