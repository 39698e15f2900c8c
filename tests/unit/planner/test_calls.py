"""Every batch calls every shard host: plans count it where it is done, and are played as fast as they are forecast."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from graphs.wide_deep import wide_deep
from heterps.errors import PlanError
from heterps.hardware import Device, Hardware, Pool
from heterps.planner import FixedRate, MaxThroughput, Request, plan, play
from heterps.planner.costs.expectation import by_hand, forecast
from heterps.planner.costs.planning_model import build_problem
from heterps.planner.planner import solve
from heterps.planner.solve.placement import Shards
from heterps.protocol.words.modes import Async
from tests.unit.planner.called_plans import CalledPlans

CPU = '[[pool]]\nname = "cpu"\ndevice = "c6i-8xlarge"\n'
CORE = Device("core", "cpu", {"float32": 1e12}, 64e9, 2e11, 1e9, price_per_hour=1.0)


def part_played(made, hardware):
    """Rows a second of the whole plan, not of one with fewer hosts, over those of its forecast."""
    played = play(replace(made, mode=Async(made.depth)), hardware, splits=(4 * made.depth + 12,) * made.lanes)
    return played.rows_per_second / made.forecast.rows_per_second


def test_small_batches_are_as_fast_as_asked_for():
    """With 17 workers and 17 hosts, each of which was counted as called by a seventeenth of the batches: 0.63."""
    hardware = Hardware.from_toml(CPU)
    made = plan(wide_deep(), hardware, goal=FixedRate(3e6), batch_size=256)
    assert made.shard_hosts > 10
    assert part_played(made, hardware) > 0.9


def test_more_batches_than_a_host_can_answer_are_no_plan():
    with pytest.raises(PlanError, match="every batch of 256 calls each of them, at most 4,096,000 rows/s") as refused:
        plan(wide_deep(), Hardware.from_toml(CPU), goal=FixedRate(6e6), batch_size=256)
    assert "use batches of" in str(refused.value)


def test_slow_cores_with_many_hosts_contradict_nothing():
    """A plan with nine workers and nine hosts was forecast at five times what it was played at, and refused."""
    hardware = Hardware((Pool("cpu", CORE, cap=16),))
    made = plan(wide_deep(), hardware, goal=MaxThroughput(), batch_size=256)
    assert made.certificate.gap == 0
    assert part_played(made, hardware) > 0.8


@pytest.mark.parametrize("hosts", [1, 4, 12])
def test_whoever_reads_has_more_to_do_with_more_hosts(hosts):
    hardware = Hardware((Pool("cpu", CORE, cap=64),))
    made = forecast(by_hand(wide_deep(), hardware, [("cpu", ["*"], 2)], shard_hosts=hosts, batch_size=256), hardware)
    (stage,) = made.forecast.stages
    assert stage.rows_per_second == pytest.approx(2 * 256 / stage.cost.compute_s)
    assert part_played(replace(made, depth=6), hardware) == pytest.approx(1.0, abs=0.1)


SHARDS = st.builds(
    Shards, st.floats(1e-3, 1), st.integers(1, 3), calls=st.sampled_from([0.0, 0.01, 0.2]), network=st.floats(0, 1)
)


@given(SHARDS, st.floats(1e-3, 4.9), st.floats(1, 1.5))
def test_hosts_are_the_fewest_that_have_the_time(shards, x, more):
    hosts = shards.hosts(x)
    assert shards.speed(hosts) >= x * (1 - 1e-8)
    assert hosts == shards.minimum or shards.speed(hosts - 1) < x
    assert shards.hosts(more * x) >= hosts
    assert shards.each(more * x) >= shards.each(x) - 1e-12
    assert shards.each(x) * x <= hosts * (1 + 1e-8)


def test_no_number_of_hosts_is_enough_where_calls_take_all_their_time():
    shards = Shards(0.1, 1, calls=0.2)
    assert [shards.carry(x) for x in (4.9, 5.0, math.inf)] == [True, False, False]
    assert shards.most == 5.0


def test_later_stages_call_every_host_for_their_parameters(rented):
    """Hosts had a call for rows and one for gradients of each batch: played at 0.75 of the forecast."""
    made = plan(wide_deep(), rented, goal=MaxThroughput(20), batch_size=256, pins={"fc*": "gpu"})
    assert len(made.stages) == 2
    assert part_played(made, rented) > 0.9
    costs = Request(wide_deep(), rented, MaxThroughput(20), (256,)).costs(256)
    alone, server = replace(costs, fused=True), costs.hardware.pool("cpu")
    assert costs.shard_call_s(server) == pytest.approx(1.5 * alone.shard_call_s(server))


@pytest.mark.parametrize("rate", [3e4, 1e5, 4e5])
@pytest.mark.parametrize("caps", [{}, {"cpu": 9, "gpu": 2}], ids=["any", "few"])
def test_the_best_is_that_of_plans_of_one_stage_and_of_all(rate, caps):
    """The same by brute force: hosts of plans of one stage have a call less."""
    pools = (Pool("cpu", CORE), Pool("gpu", replace(CORE, name="card", kind="gpu", price_per_hour=3.0), serves=False))
    hardware = Hardware(pools).with_caps(**caps) if caps else Hardware(pools)
    asked = Request(wide_deep(2, 2, 4, (64,)), hardware, FixedRate(rate), (256,))
    costs = asked.costs(256)
    found = [_least(replace(costs, fused=fused), rate, fused) for fused in (False, True)]
    known = [each for each in found if each is not None]
    if not known:
        with pytest.raises(PlanError, match="no feasible plan"):
            solve(asked)
    else:
        made = solve(asked)
        assert made.certificate.value == pytest.approx(min(known), rel=1e-6)
        assert made.certificate.gap == 0


def _least(costs, rate, fused):
    """Least price of a plan, of one stage if it is said, by every number of hosts."""
    problem = build_problem(costs, costs.hardware.pool("cpu"))
    plans, prices = CalledPlans(problem), []
    for count in plans._counts(rate):
        by_count = plans._with(count)
        chosen = [each for each in by_count.sequences if not fused or len(each[0]) == 1]
        prices += [by_count.price(stages, ceiling, rate) for stages, ceiling in chosen]
    return min((price for price in prices if price is not None), default=None)
